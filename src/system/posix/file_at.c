/* Files at offsets, by POSIX. */
#include "system/file_at.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

int sm_file_size(int file, uint64_t *size)
{
    struct stat facts;
    if (fstat(file, &facts) != 0)
        return errno;
    *size = (uint64_t)facts.st_size;
    return 0;
}

int sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done)
{
    *done = 0;
    while (*done < bytes) {
        const ssize_t got = pread(file, (char *)data + *done, bytes - *done, (off_t)(offset + *done));
        if (got == 0)
            return 0;
        if (got > 0)
            *done += (size_t)got;
        else if (errno == EINVAL && *done > 0) /* a direct read has ended within the last block */
            return 0;
        else if (errno != EINTR)
            return errno;
    }
    return 0;
}

int sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t wrote = pwrite(file, (const char *)data + done, bytes - done, (off_t)(offset + done));
        if (wrote == 0)
            return ENOSPC;
        if (wrote > 0)
            done += (size_t)wrote;
        else if (errno != EINTR)
            return errno;
    }
    return 0;
}
