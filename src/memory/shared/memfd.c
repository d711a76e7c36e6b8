/* Files in memory that processes share. */
#include "memory/shared/memfd.h"

#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

enum {
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
    SEAL_EXEC = 0x20 /* a system with MFD_NOEXEC_SEAL adds it */
};

synced_mem_status sm_fail_system(const char *what, int error)
{
    const bool short_of_memory = error == ENOMEM || error == ENOSPC;
    return sm_fail(short_of_memory ? SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY : SYNCED_MEM_ERR_FILE, "%s: %s", what,
                   strerror(error));
}

void sm_fd_close(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

synced_mem_status sm_fd_copy_up(int fd, int *out)
{
    const int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (above < 0)
        return sm_fail_system("a descriptor can't be duplicated", errno);
    *out = above;
    return SYNCED_MEM_OK;
}

synced_mem_status sm_fd_move_up(int *fd)
{
    int above = -1;
    if (*fd > STDERR_FILENO)
        return SYNCED_MEM_OK;
    const synced_mem_status status = sm_fd_copy_up(*fd, &above);
    sm_fd_close(fd);
    *fd = above;
    return status;
}

/* Systems before Linux 6.3 do not know MFD_NOEXEC_SEAL. */
static int create_file(void)
{
    const int fd = memfd_create("synced_mem", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    return fd >= 0 || errno != EINVAL ? fd : memfd_create("synced_mem", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

/* Beyond this limit the system sends SIGXFSZ, which ends the process. */
static synced_mem_status check_file_limit(size_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_FILE, "a file in memory of %zu bytes is over the process's limit (RLIMIT_FSIZE)",
                   bytes);
}

synced_mem_status sm_memfd_make(size_t bytes, int *fd)
{
    *fd = -1;
    SM_TRY(check_file_limit(bytes));
    *fd = create_file();
    if (*fd < 0)
        return sm_fail_system("no file in memory can be made", errno);
    SM_TRY(sm_fd_move_up(fd));
    if (ftruncate(*fd, (off_t)bytes) == 0 && fcntl(*fd, F_ADD_SEALS, SEALS) == 0)
        return SYNCED_MEM_OK;
    const int error = errno;
    sm_fd_close(fd);
    return sm_fail_system("a file in memory can't be sized and sealed", error);
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

synced_mem_status sm_memfd_check(int fd, size_t bytes)
{
    if (is_sealed(fd) && is_writable_memory(fd, bytes))
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_PEER, "a descriptor from the other process is not of sealed memory of %zu bytes",
                   bytes);
}

synced_mem_status sm_memfd_map(int fd, size_t bytes, size_t alignment, void **out)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t room = alignment > SM_MEMFD_PAGE ? bytes + alignment : bytes;
    char *const base = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return sm_fail_system("no addresses for shared memory", errno);
    const size_t before = room > bytes ? (0 - (uintptr_t)base) % alignment : 0;
    void *const data = mmap(base + before, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    if (data == MAP_FAILED) {
        const int error = errno;
        (void)munmap(base, room);
        return sm_fail_system("shared memory can't be mapped", error);
    }
    if (before > 0)
        (void)munmap(base, before);
    const size_t used = before + (bytes + page - 1) / page * page;
    if (room > used)
        (void)munmap(base + used, room - used);
    *out = data;
    return SYNCED_MEM_OK;
}

void sm_memfd_unmap(void *data, size_t bytes)
{
    (void)munmap(data, bytes);
}

void sm_memfd_replace(void *data, size_t bytes)
{
    (void)mmap(data, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

void sm_memfd_make_private(void *data, size_t bytes, int fd)
{
    sm_memfd_replace(data, bytes); /* in case that the file can't be mapped */
    (void)mmap(data, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd, 0);
}

/* Another process may have a lease on the file. O_NONBLOCK: open() fails then, instead of a wait for its end. */
synced_mem_status sm_memfd_reopen(int of, int *fd)
{
    char path[48];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", of);
    *fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0 && errno == EAGAIN)
        return sm_fail(SYNCED_MEM_ERR_PEER, "another process has a lease on the file of the control page");
    if (*fd < 0)
        return sm_fail_system("a file in memory can't be opened through /proc/self/fd", errno);
    return sm_fd_move_up(fd);
}
