/* Checks files at offsets: calls of the system that end early, are interrupted or fail, and descriptors of any kind. */
#include "system/file_at.h"

#include "system/file.h"
#include "system/pages.h"

#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Results of the next calls of the system: a number of bytes, or an error as a negative number; END: as they are. */
enum { END = 1 << 20 };
static const int *script;

static bool is_scripted(size_t bytes, ssize_t *result)
{
    if (!script || *script == END)
        return false;
    *result = *script < 0 ? -1 : (ssize_t)bytes < *script ? (ssize_t)bytes : *script;
    errno = *script < 0 ? -*script : 0;
    script++;
    return true;
}

static int file;

/* C libraries have the functions under one of two names. */
#define WRAP_READ(name)                                                                                                \
    ssize_t __real_##name(int fd, void *data, size_t bytes, off_t offset);                                             \
    ssize_t __wrap_##name(int fd, void *data, size_t bytes, off_t offset);                                             \
    ssize_t __wrap_##name(int fd, void *data, size_t bytes, off_t offset)                                              \
    {                                                                                                                  \
        ssize_t result;                                                                                                \
        if (fd != file || !is_scripted(bytes, &result))                                                                \
            return __real_##name(fd, data, bytes, offset);                                                             \
        return result > 0 ? __real_##name(fd, data, (size_t)result, offset) : result;                                  \
    }
WRAP_READ(pread)
WRAP_READ(pread64)

#define WRAP_WRITE(name)                                                                                               \
    ssize_t __real_##name(int fd, const void *data, size_t bytes, off_t offset);                                       \
    ssize_t __wrap_##name(int fd, const void *data, size_t bytes, off_t offset);                                       \
    ssize_t __wrap_##name(int fd, const void *data, size_t bytes, off_t offset)                                        \
    {                                                                                                                  \
        ssize_t result;                                                                                                \
        if (fd != file || !is_scripted(bytes, &result))                                                                \
            return __real_##name(fd, data, bytes, offset);                                                             \
        return result > 0 ? __real_##name(fd, data, (size_t)result, offset) : result;                                  \
    }
WRAP_WRITE(pwrite)
WRAP_WRITE(pwrite64)

#define WRAP_ALLOCATE(name)                                                                                            \
    int __real_##name(int fd, int mode, off_t offset, off_t bytes);                                                    \
    int __wrap_##name(int fd, int mode, off_t offset, off_t bytes);                                                    \
    int __wrap_##name(int fd, int mode, off_t offset, off_t bytes)                                                     \
    {                                                                                                                  \
        ssize_t result;                                                                                                \
        if (fd != file || !is_scripted((size_t)bytes, &result))                                                        \
            return __real_##name(fd, mode, offset, bytes);                                                             \
        return (int)result;                                                                                            \
    }
WRAP_ALLOCATE(fallocate)
WRAP_ALLOCATE(fallocate64)

static bool refuses_open;

#define WRAP_OPEN(name)                                                                                                \
    int __real_##name(const char *path, int flags, ...);                                                               \
    int __wrap_##name(const char *path, int flags, ...);                                                               \
    int __wrap_##name(const char *path, int flags, ...)                                                                \
    {                                                                                                                  \
        if (!refuses_open || strncmp(path, "/proc/self/fd/", 14) != 0)                                                 \
            return __real_##name(path, flags, 0600);                                                                   \
        errno = EACCES;                                                                                                \
        return -1;                                                                                                     \
    }
WRAP_OPEN(open)
WRAP_OPEN(open64)

#ifdef __GLIBC__ /* the same in a build with _FORTIFY_SOURCE */
#define WRAP_CHECKED_OPEN(name)                                                                                        \
    int __real_##name(const char *path, int flags);                                                                    \
    int __wrap_##name(const char *path, int flags);                                                                    \
    int __wrap_##name(const char *path, int flags)                                                                     \
    {                                                                                                                  \
        if (!refuses_open || strncmp(path, "/proc/self/fd/", 14) != 0)                                                 \
            return __real_##name(path, flags);                                                                         \
        errno = EACCES;                                                                                                \
        return -1;                                                                                                     \
    }
WRAP_CHECKED_OPEN(__open_2)
WRAP_CHECKED_OPEN(__open64_2)
#endif

/* The answer to a question for the alignment; 0: the system does not know it. */
static unsigned alignments[2];

#ifdef STATX_DIOALIGN /* else the library does not ask, and musl may not have the struct */
int __real_statx(int folder, const char *path, int flags, unsigned mask, struct statx *facts);
int __wrap_statx(int folder, const char *path, int flags, unsigned mask, struct statx *facts);
int __wrap_statx(int folder, const char *path, int flags, unsigned mask, struct statx *facts)
{
    const int result = __real_statx(folder, path, flags, mask, facts);
    facts->stx_mask |= STATX_DIOALIGN;
    facts->stx_dio_offset_align = alignments[0];
    facts->stx_dio_mem_align = alignments[1];
    return result;
}
#endif

static bool has_no_facts;

int __real_fstatfs(int fd, struct statfs *facts);
int __wrap_fstatfs(int fd, struct statfs *facts);
int __wrap_fstatfs(int fd, struct statfs *facts)
{
    errno = ENOSYS;
    return has_no_facts ? -1 : __real_fstatfs(fd, facts);
}

int __wrap_fstatfs64(int fd, struct statfs *facts) __attribute__((alias("__wrap_fstatfs")));

static int make_descriptor(int flags)
{
    char path[] = "file_at.XXXXXX";
    (void)close(mkstemp(path));
    const int made = open(path, flags);
    (void)unlink(path);
    return made;
}

START_TEST(reads)
{
    static const struct {
        int script[8];
        int error;
        size_t done;
    } cases[] = {{{END}, 0, 100},
                 {{40, 10, END}, 0, 100}, /* in pieces */
                 {{40, 0}, 0, 40},        /* up to the end of the file */
                 {{-EINTR, 30, -EINTR, END}, 0, 100},
                 {{50, -EINVAL}, 0, 50}, /* a direct read has ended within a block */
                 {{-EINVAL}, EINVAL, 0},
                 {{20, -EIO}, EIO, 20}};
    unsigned char bytes[100], got[100] = {0};
    size_t done = 1;
    file = make_descriptor(O_RDWR);
    pattern_write(bytes, 100, 1);
    ck_assert_int_eq(sm_file_write_at(file, bytes, 100, 7), 0);
    script = cases[_i].script;
    ck_assert_int_eq(sm_file_read_at(file, got, 100, 7, &done), cases[_i].error);
    ck_assert_uint_eq(done, cases[_i].done);
    ck_assert_int_eq(memcmp(got, bytes, done), 0);
    script = NULL;
    (void)close(file);
}
END_TEST

START_TEST(writes)
{
    static const struct {
        int script[8];
        int error;
    } cases[] = {{{END}, 0}, {{40, -EINTR, 10, END}, 0}, {{30, 0}, ENOSPC}, {{-EFBIG}, EFBIG}};
    unsigned char bytes[100], got[100] = {0};
    size_t done;
    file = make_descriptor(O_RDWR);
    pattern_write(bytes, 100, 1);
    script = cases[_i].script;
    ck_assert_int_eq(sm_file_write_at(file, bytes, 100, 7), cases[_i].error);
    script = NULL;
    ck_assert_int_eq(sm_file_read_at(file, got, 100, 7, &done), 0);
    ck_assert_int_eq(memcmp(got, bytes, done), 0);
    ck_assert(cases[_i].error != 0 || done == 100);
    (void)close(file);
}
END_TEST

START_TEST(sizes)
{
    uint64_t size = 0;
    const int made = make_descriptor(O_RDWR);
    ck_assert_int_eq(sm_file_write_at(made, "x", 1, ((uint64_t)5 << 32) - 1), 0); /* of any size */
    ck_assert_int_eq(sm_file_size(made, &size), 0);
    ck_assert_uint_eq(size, (uint64_t)5 << 32);
    (void)close(made);
    ck_assert_int_eq(sm_file_size(made, &size), EBADF);
}
END_TEST

/* A file system that keeps no room for files is no failure. */
START_TEST(allocations)
{
    static const struct {
        int script[3];
        int error;
        bool grows;
    } cases[] = {{{END}, 0, true},           {{-EINTR, -EINTR, END}, 0, true}, {{-EOPNOTSUPP, END}, 0, false},
                 {{-ENOSYS, END}, 0, false}, {{-ENODEV, END}, 0, false},       {{-ENOSPC, END}, ENOSPC, false}};
    uint64_t size;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        file = make_descriptor(O_RDWR);
        script = cases[i].script;
        ck_assert_int_eq(sm_file_allocate(file, 8192, 4096), cases[i].error);
        ck_assert_int_eq(*script, END);
        script = NULL;
        ck_assert_int_eq(sm_file_size(file, &size), 0);
        ck_assert(!cases[i].grows || size == 12288 || size == 0); /* some file systems can't */
        ck_assert(cases[i].grows || size == 0);
        (void)close(file);
    }
}
END_TEST

/* A signal would end the process. The limit has room for the counts of executed lines, which the end of a process
 * writes. */
START_TEST(allocations_beyond_the_limit)
{
    enum { LIMIT = 1000000 };
    const struct rlimit limit = {.rlim_cur = LIMIT, .rlim_max = LIMIT};
    file = make_descriptor(O_RDWR);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(sm_file_allocate(file, LIMIT - 4096, 8192), EFBIG);
    ck_assert_int_eq(sm_file_allocate(file, 0, 8192), 0);
    (void)close(file);
}
END_TEST

static bool is_direct(int fd)
{
    return (fcntl(fd, F_GETFL) & O_DIRECT) != 0;
}

/* The descriptor shares no setting with the first one, unless the system can't open the file once more. */
START_TEST(descriptors)
{
    struct sm_file_facts facts;
    int again = -1;
    const int made = make_descriptor(O_RDWR);
    ck_assert_int_eq(sm_file_examine(made, &facts), 0);
    ck_assert(facts.is_file && facts.reads && facts.writes && !facts.appends && !facts.direct && facts.has_end);
    ck_assert_uint_eq(facts.alignment, 1);
    refuses_open = _i == 1;
    ck_assert_int_eq(sm_file_reopen(made, &facts, false, &again), 0);
    ck_assert_int_ne(again, made);
    ck_assert_int_eq(fcntl(again, F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(fcntl(made, F_SETFL, O_APPEND), 0);
    ck_assert_int_eq((fcntl(again, F_GETFL) & O_APPEND) != 0, refuses_open);
    (void)close(again);
    if (refuses_open)
        ck_assert_int_eq(sm_file_reopen(made, &facts, true, &again), EACCES);
    ck_assert_int_eq(sm_file_examine(made, &facts), 0);
    ck_assert(facts.appends);
    (void)close(made);
    ck_assert_int_eq(sm_file_examine(made, &facts), EBADF);
}
END_TEST

START_TEST(direct_descriptors)
{
    struct sm_file_facts facts;
    int again = -1;
    const int made = make_descriptor(O_RDWR | O_DIRECT);
    if (made < 0) /* this file system has none */
        return;
    alignments[0] = alignments[1] = 0;
    ck_assert_int_eq(sm_file_examine(made, &facts), 0);
    ck_assert(facts.direct);
    ck_assert_uint_eq(facts.alignment, sm_page_size());
#ifdef STATX_DIOALIGN
    for (int i = 0; i < 2; i++) { /* no page has both direct and cached writes */
        alignments[i] = 512;
        ck_assert_int_eq(sm_file_examine(made, &facts), 0);
        ck_assert_uint_eq(facts.alignment, sm_page_size());
        alignments[i] = 2 * (unsigned)sm_page_size();
        ck_assert_int_eq(sm_file_examine(made, &facts), 0);
        ck_assert_uint_eq(facts.alignment, 2 * sm_page_size());
        alignments[i] = 4;
    }
#endif
    ck_assert_int_eq(sm_file_reopen(made, &facts, false, &again), 0);
    ck_assert(is_direct(again));
    (void)close(again);
    ck_assert_int_eq(sm_file_reopen(made, &facts, true, &again), 0);
    ck_assert(!is_direct(again));
    (void)close(again);
    (void)close(made);
}
END_TEST

/* A file system that says nothing about itself counts as one on a disk. */
START_TEST(files_in_memory)
{
    struct sm_file_facts facts;
    const int made = memfd_create("file_at", MFD_CLOEXEC);
    ck_assert_int_eq(sm_file_examine(made, &facts), 0);
    ck_assert(facts.in_memory);
    has_no_facts = true;
    ck_assert_int_eq(sm_file_examine(made, &facts), 0);
    ck_assert(!facts.in_memory);
    (void)close(made);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("file_at");
    TCase *const tests = add_case(made, "file_at");
    tcase_add_loop_test(tests, reads, 0, 7);
    tcase_add_loop_test(tests, writes, 0, 4);
    tcase_add_loop_test(tests, descriptors, 0, 2);
    add_tests(tests, sizes, allocations, allocations_beyond_the_limit, direct_descriptors, files_in_memory);
    return made;
}
