/* Memory that processes share, by memfd, locks of open file descriptions and futexes. */
#include "system/sealed.h"

#include "system/file.h"
#include "system/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

enum {
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
    SEAL_EXEC = 0x20 /* a system with MFD_NOEXEC_SEAL adds it */
};

int sm_sealed_probe(void)
{
    return 0;
}

/* ---- Files ---- */

/* Systems before Linux 6.3 do not know MFD_NOEXEC_SEAL. */
static int create_file(void)
{
    const int fd = memfd_create("synced_mem", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    return fd >= 0 || errno != EINVAL ? fd : memfd_create("synced_mem", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

/* Beyond this limit the system sends SIGXFSZ, which ends the process. */
static bool is_over_limit(size_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur;
}

int sm_sealed_make(size_t bytes, int *fd)
{
    *fd = -1;
    if (is_over_limit(bytes))
        return SM_SEALED_LIMIT;
    *fd = create_file();
    if (*fd < 0)
        return errno;
    int error = sm_file_move_up(fd);
    if (error == 0 && (ftruncate(*fd, (off_t)bytes) != 0 || fcntl(*fd, F_ADD_SEALS, SEALS) != 0)) {
        error = errno;
        (void)close(*fd);
        *fd = -1;
    }
    return error;
}

/* Files in memory alone have seals. A query of another file may block: a process may serve its file system. */
static bool is_sealed(int fd)
{
    const int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & ~SEAL_EXEC) == SEALS;
}

/* Memory of huge pages is refused: where none is left, the first access to a page faults. */
static bool is_writable_memory(int fd, size_t bytes)
{
    struct statfs system;
    struct stat file;
    const int mode = fcntl(fd, F_GETFL);
    const bool writable = mode >= 0 && (mode & O_ACCMODE) == O_RDWR;
    const bool in_memory = fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
    return writable && in_memory && fstat(fd, &file) == 0 && (uint64_t)file.st_size == bytes;
}

bool sm_sealed_check(int fd, size_t bytes)
{
    return is_sealed(fd) && is_writable_memory(fd, bytes);
}

/* Another process may have a lease on the file. O_NONBLOCK: open() fails then, instead of a wait for its end. */
int sm_sealed_reopen(int of, int *fd)
{
    char path[48];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", of);
    *fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (*fd >= 0)
        return sm_file_move_up(fd);
    return errno == EAGAIN ? SM_SEALED_BUSY : errno;
}

int sm_sealed_map(int fd, size_t bytes, size_t alignment, void **out)
{
    const size_t page = sm_page_size();
    const size_t room = alignment > page ? bytes + alignment : bytes;
    char *const base = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return errno;
    const size_t before = room > bytes ? (0 - (uintptr_t)base) % alignment : 0;
    void *const data = mmap(base + before, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    if (data == MAP_FAILED) {
        const int error = errno;
        (void)munmap(base, room);
        return error;
    }
    if (before > 0)
        (void)munmap(base, before);
    const size_t used = before + (bytes + page - 1) / page * page;
    if (room > used)
        (void)munmap(base + used, room - used);
    *out = data;
    return 0;
}

void sm_sealed_unmap(void *data, size_t bytes)
{
    (void)munmap(data, bytes);
}

void sm_sealed_replace(void *data, size_t bytes)
{
    (void)mmap(data, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

void sm_sealed_make_private(void *data, size_t bytes, int fd)
{
    sm_sealed_replace(data, bytes); /* in case that the file can't be mapped */
    (void)mmap(data, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd, 0);
}

/* ---- Locks of bytes ---- */

static struct flock describe_byte(short type, unsigned byte)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};
}

int sm_sealed_lock(int fd, unsigned byte)
{
    struct flock lock = describe_byte(F_WRLCK, byte);
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
        return 0;
    return errno == EAGAIN || errno == EACCES ? SM_SEALED_BUSY : errno;
}

void sm_sealed_unlock(int fd, unsigned byte)
{
    struct flock lock = describe_byte(F_UNLCK, byte);
    (void)fcntl(fd, F_OFD_SETLK, &lock);
}

bool sm_sealed_is_unlocked(int fd, unsigned byte)
{
    struct flock lock = describe_byte(F_WRLCK, byte);
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

/* ---- Words ---- */

/* Another process may use the futex in a way that makes this call fail at once. Then the caller must not poll. */
void sm_sealed_wait(atomic_uint *word, unsigned seen, uint64_t nanoseconds)
{
    const struct timespec most = {.tv_nsec = (long)nanoseconds};
    if (syscall(SYS_futex, word, FUTEX_WAIT, seen, &most, NULL, 0) != 0 && errno != EAGAIN && errno != EINTR &&
        errno != ETIMEDOUT)
        (void)nanosleep(&most, NULL);
}

void sm_sealed_wake(atomic_uint *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
