/*
 * The emulator's calls of a system of POSIX that is not Linux, beside those in system_none.c.
 */
#include "emu.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A file without a name, most of which has never been written. */
int emu_file_make(void)
{
    char path[1024];
    const char *folder = getenv("TMPDIR");
    (void)snprintf(path, sizeof path, "%s/cudart_emu_XXXXXX", folder == NULL ? "/tmp" : folder);
    const int file = mkstemp(path);
    if (file < 0)
        return -1;
    (void)unlink(path);
    (void)fcntl(file, F_SETFD, FD_CLOEXEC);
    return file;
}

uintptr_t emu_moved_by(const void *object)
{
    return (uintptr_t)object;
}
