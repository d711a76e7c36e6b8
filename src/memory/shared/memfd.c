/* Files in memory that processes share: the statuses of what the system refuses. */
#include "memory/shared/memfd.h"

#include "base/status.h"
#include "system/file.h"

#include <string.h>

synced_mem_status sm_fail_system(const char *what, int error)
{
    return sm_fail(sm_is_out_of_memory(error) ? SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY : SYNCED_MEM_ERR_FILE, "%s: %s", what,
                   strerror(error));
}

static synced_mem_status check_system(int error, const char *what)
{
    return error == 0 ? SYNCED_MEM_OK : sm_fail_system(what, error);
}

void sm_fd_close(int *fd)
{
    if (*fd >= 0)
        (void)sm_file_close(*fd);
    *fd = -1;
}

static const char NOT_DUPLICATED[] = "a descriptor can't be duplicated";

synced_mem_status sm_fd_copy_up(int fd, int *out)
{
    int above;
    SM_TRY(check_system(sm_file_copy_up(fd, &above), NOT_DUPLICATED));
    *out = above;
    return SYNCED_MEM_OK;
}

synced_mem_status sm_fd_move_up(int *fd)
{
    return check_system(sm_file_move_up(fd), NOT_DUPLICATED);
}

synced_mem_status sm_memfd_probe(void)
{
    return check_system(sm_sealed_probe(), "no objects that processes share, as the system has no sealed memory");
}

synced_mem_status sm_memfd_make(size_t bytes, int *fd)
{
    const int error = sm_sealed_make(bytes, fd);
    if (error == SM_SEALED_LIMIT)
        return sm_fail(SYNCED_MEM_ERR_FILE, "a file in memory of %zu bytes is over the process's limit (RLIMIT_FSIZE)",
                       bytes);
    return check_system(error, "no file in memory can be made");
}

synced_mem_status sm_memfd_check(int fd, size_t bytes)
{
    if (sm_sealed_check(fd, bytes))
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_PEER, "a descriptor from the other process is not of sealed memory of %zu bytes",
                   bytes);
}

synced_mem_status sm_memfd_map(int fd, size_t bytes, size_t alignment, void **out)
{
    return check_system(sm_sealed_map(fd, bytes, alignment, out), "shared memory can't be mapped");
}

synced_mem_status sm_memfd_reopen(int of, int *fd)
{
    const int error = sm_sealed_reopen(of, fd);
    if (error == SM_SEALED_BUSY)
        return sm_fail(SYNCED_MEM_ERR_PEER, "another process has a lease on the file of the control page");
    return check_system(error, "a file in memory can't be opened anew");
}
