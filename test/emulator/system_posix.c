/*
 * The emulator's calls of a system of POSIX that is not Linux. Files have no seals, and keep all their bytes.
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

bool emu_file_release(int file, size_t offset, size_t size)
{
    (void)file, (void)offset, (void)size;
    return false;
}

void emu_file_seal(int file)
{
    (void)file;
}

bool emu_pages_release(void *start, size_t size)
{
    (void)start, (void)size;
    return false;
}

void emu_pages_leave_out_of_dumps(void *start, size_t size)
{
    (void)start, (void)size;
}

uintptr_t emu_moved_by(const void *object)
{
    return (uintptr_t)object;
}
