/* Open files, as Linux knows them. */
#include "system/file_at.h"

#include "system/file.h"
#include "system/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* By the numbers that the kernel's interface gives these file systems. */
static bool is_in_memory(int file)
{
    struct statfs facts;
    if (fstatfs(file, &facts) != 0)
        return false;
    const uint32_t type = (uint32_t)facts.f_type;
    return type == 0x01021994 /* tmpfs */ || type == 0x858458f6 /* ramfs */ || type == 0x958458f6 /* hugetlbfs */;
}

/* Returns what the system asks for, or a page if that is larger: while a cached write changes a part of a page, the
 * system's cache loses direct writes to other parts. */
static size_t find_alignment(int file)
{
    size_t alignment = sm_page_size(); /* serves every file system where the kernel does not know the alignment */
#ifdef STATX_DIOALIGN
    struct statx facts;
    const bool is_known =
        statx(file, "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) == 0 && (facts.stx_mask & STATX_DIOALIGN) != 0;
    if (is_known && facts.stx_dio_offset_align > alignment)
        alignment = facts.stx_dio_offset_align;
    if (is_known && facts.stx_dio_mem_align > alignment)
        alignment = facts.stx_dio_mem_align;
#else
    (void)file;
#endif
    return alignment;
}

int sm_file_examine(int file, struct sm_file_facts *facts)
{
    struct stat status;
    const int flags = fcntl(file, F_GETFL);
    if (flags < 0 || fstat(file, &status) != 0)
        return errno;
    const int access = flags & O_ACCMODE;
    *facts = (struct sm_file_facts){.is_file = S_ISREG(status.st_mode) || S_ISBLK(status.st_mode),
                                    .reads = (access == O_RDONLY || access == O_RDWR) && !(flags & O_PATH),
                                    .writes = (access == O_WRONLY || access == O_RDWR) && !(flags & O_PATH),
                                    .appends = (flags & O_APPEND) != 0,
                                    .direct = (flags & O_DIRECT) != 0,
                                    .has_end = S_ISREG(status.st_mode),
                                    .in_memory = is_in_memory(file)};
    facts->alignment = facts->direct ? find_alignment(file) : 1;
    return 0;
}

int sm_file_reopen(int file, const struct sm_file_facts *facts, bool cached, int *out)
{
    char path[64];
    const int access = facts->reads && facts->writes ? O_RDWR : facts->writes ? O_WRONLY : O_RDONLY;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    *out = open(path, access | O_CLOEXEC | (facts->direct && !cached ? O_DIRECT : 0));
    if (*out >= 0)
        return sm_file_move_up(out);
    return cached ? errno : sm_file_copy_up(file, out);
}

/* Beyond the process's limit the system would send a signal that ends it. */
static bool is_beyond_limit(uint64_t end)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur;
}

int sm_file_allocate(int file, uint64_t offset, uint64_t bytes)
{
    if (is_beyond_limit(offset + bytes))
        return EFBIG;
    while (fallocate(file, 0, (off_t)offset, (off_t)bytes) != 0)
        if (errno != EINTR)
            return errno == EOPNOTSUPP || errno == ENOSYS || errno == ENODEV ? 0 : errno;
    return 0;
}
