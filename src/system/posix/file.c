/* Files, by POSIX. */
#include "system/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int sm_file_copy_up(int file, int *out)
{
    *out = fcntl(file, F_DUPFD_CLOEXEC, SM_STDERR + 1);
    return *out < 0 ? errno : 0;
}

int sm_file_move_up(int *file)
{
    const int low = *file;
    if (low > SM_STDERR)
        return 0;
    const int error = sm_file_copy_up(low, file);
    (void)close(low);
    return error;
}

int sm_file_create(const char *path, int *file)
{
    *file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return *file < 0 ? errno : sm_file_move_up(file);
}

int sm_file_write(int file, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t wrote = write(file, (const char *)data + done, bytes - done);
        if (wrote >= 0)
            done += (size_t)wrote;
        else if (errno != EINTR)
            return errno;
    }
    return 0;
}

int sm_file_close(int file)
{
    return close(file) == 0 ? 0 : errno;
}

void sm_file_close_on_exec(int file)
{
    (void)fcntl(file, F_SETFD, FD_CLOEXEC);
}

bool sm_file_is_special(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && !S_ISREG(facts.st_mode);
}

const char *sm_file_name(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool sm_is_out_of_memory(int error)
{
    return error == ENOMEM || error == ENOSPC;
}
