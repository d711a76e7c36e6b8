/* No memory that processes share. */
#include "system/sealed.h"

#include <errno.h>

int sm_sealed_make(size_t bytes, int *fd)
{
    (void)bytes;
    *fd = -1;
    return ENOSYS;
}

bool sm_sealed_check(int fd, size_t bytes)
{
    (void)fd, (void)bytes;
    return false;
}

int sm_sealed_reopen(int of, int *fd)
{
    (void)of;
    *fd = -1;
    return ENOSYS;
}

int sm_sealed_map(int fd, size_t bytes, size_t alignment, void **out)
{
    (void)fd, (void)bytes, (void)alignment, (void)out;
    return ENOSYS;
}

void sm_sealed_unmap(void *data, size_t bytes)
{
    (void)data, (void)bytes;
}

void sm_sealed_replace(void *data, size_t bytes)
{
    (void)data, (void)bytes;
}

void sm_sealed_make_private(void *data, size_t bytes, int fd)
{
    (void)data, (void)bytes, (void)fd;
}

int sm_sealed_lock(int fd, unsigned byte)
{
    (void)fd, (void)byte;
    return ENOSYS;
}

void sm_sealed_unlock(int fd, unsigned byte)
{
    (void)fd, (void)byte;
}

bool sm_sealed_is_unlocked(int fd, unsigned byte)
{
    (void)fd, (void)byte;
    return false;
}

void sm_sealed_wait(atomic_uint *word, unsigned seen, uint64_t nanoseconds)
{
    (void)word, (void)seen, (void)nanoseconds;
}

void sm_sealed_wake(atomic_uint *word)
{
    (void)word;
}
