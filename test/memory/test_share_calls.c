/* Calls of the system on the files of shareable objects. The linker replaces some calls with these (--wrap). */
#include "share_kit.h"

#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

enum { LARGE_PAGE = 65536 };

static struct {
    int watched;    /* the descriptor whose end is watched; -1: none */
    bool guarded;   /* its close() came in a section that no fork can enter */
    long page_size; /* that the system names; 0: the real one */
    void *unmapped; /* the latest address of an munmap() */
    int systems;    /* calls that query a file's system */
    int locking;    /* the errno of the next attempts to lock a byte; 0: they do not fail */
    unsigned slow;  /* microseconds that a call on a lock takes */
} calls = {.watched = -1};

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    if (fd == calls.watched)
        calls.guarded = sm_process_is_inside();
    return __real_close(fd);
}

int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *const argument = va_arg(arguments, void *);
    va_end(arguments);
    if (command == F_OFD_SETLK && calls.slow > 0)
        (void)usleep(calls.slow);
    errno = calls.locking;
    return calls.locking != 0 && command == F_OFD_SETLK ? -1 : __real_fcntl64(fd, command, argument);
}

int __wrap_fcntl(int fd, int command, ...) __attribute__((alias("__wrap_fcntl64")));

int __real_fstatfs(int fd, struct statfs *out);
int __wrap_fstatfs(int fd, struct statfs *out);
int __wrap_fstatfs(int fd, struct statfs *out)
{
    calls.systems++;
    return __real_fstatfs(fd, out);
}

int __wrap_fstatfs64(int fd, struct statfs *out) __attribute__((alias("__wrap_fstatfs")));

long __real_sysconf(int name);
long __wrap_sysconf(int name);
long __wrap_sysconf(int name)
{
    return name == _SC_PAGESIZE && calls.page_size > 0 ? calls.page_size : __real_sysconf(name);
}

int __real_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size)
{
    calls.unmapped = at;
    return __real_munmap(at, size);
}

/* ---- Files ---- */

/* Another process may serve such a file's system, and not answer. */
START_TEST(no_call_queries_a_file_without_seals)
{
    struct shared_page made = make_page();
    int fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
    ck_assert_int_eq(sm_memfd_check(made.fd, SM_MEMFD_PAGE), SYNCED_MEM_OK);
    ck_assert_int_eq(calls.systems, 1);
    ck_assert_int_eq(sm_memfd_check(fd, SM_MEMFD_PAGE), SYNCED_MEM_ERR_PEER);
    ck_assert_int_eq(calls.systems, 1);
    sm_fd_close(&fd);
    drop_page(&made);
}
END_TEST

/* The system would end the process by a signal. */
START_TEST(files_have_a_limit)
{
    struct rlimit before;
    int fd;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit little = {.rlim_cur = SM_MEMFD_PAGE, .rlim_max = before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &little), 0);
    const synced_mem_status large = sm_memfd_make(2 * SM_MEMFD_PAGE, &fd);
    ck_assert_int_eq(fd, -1);
    const synced_mem_status small = sm_memfd_make(SM_MEMFD_PAGE, &fd);
    sm_fd_close(&fd);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    ck_assert_int_eq(large, SYNCED_MEM_ERR_FILE);
    ck_assert_int_eq(small, SYNCED_MEM_OK);
}
END_TEST

/* Bytes of the file's last page are the mapping's, whatever the page size of the system. */
START_TEST(whole_pages_are_unmapped)
{
    const size_t alignment = 1 << 20;
    void *data;
    int fd;
    ck_assert_int_eq(sm_memfd_make(SM_MEMFD_PAGE, &fd), SYNCED_MEM_OK);
    calls.page_size = LARGE_PAGE;
    ck_assert_int_eq(sm_memfd_map(fd, SM_MEMFD_PAGE, alignment, &data), SYNCED_MEM_OK);
    calls.page_size = 0;
    ck_assert_uint_eq((uintptr_t)data % alignment, 0);
    const char *const end = calls.unmapped;
    ck_assert(end < (char *)data || end >= (char *)data + LARGE_PAGE);
    sm_memfd_unmap(data, SM_MEMFD_PAGE); /* the pages behind it may be others' */
    sm_fd_close(&fd);
}
END_TEST

/* ---- Participants ---- */

/* A byte that another one has locked is passed over. Any other failure ends the search. */
START_TEST(locks_fail)
{
    const struct {
        int error;
        synced_mem_status status;
    } cases[] = {{EAGAIN, SYNCED_MEM_ERR_INVALID_STATE},
                 {EACCES, SYNCED_MEM_ERR_INVALID_STATE},
                 {ENOLCK, SYNCED_MEM_ERR_FILE},
                 {ENOMEM, SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY}};
    struct shared_page made = make_page();
    struct sm_participant one;
    for (int i = 0; i < 4; i++) {
        calls.locking = cases[i].error;
        ck_assert_int_eq(sm_participant_join(&one, made.page, made.fd), cases[i].status);
        ck_assert_int_eq(one.lock, -1);
    }
    calls.locking = 0;
    drop_page(&made);
}
END_TEST

/* A fork comes before or after. Otherwise the child would have the descriptor, and not know of it. */
START_TEST(a_lock_is_closed_where_no_fork_comes)
{
    struct shared_page made = make_page();
    struct sm_participant *const one = join(&made);
    calls.watched = one->lock;
    leave(one);
    ck_assert(calls.guarded);
    drop_page(&made);
}
END_TEST

/* Starts a child as vfork() does: it does not run the handlers of forks, and keeps all descriptors. */
static pid_t start_without_handlers(void)
{
    const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
    if (child == 0)
        for (;;)
            (void)pause();
    ck_assert_int_gt(child, 0);
    return child;
}

START_TEST(a_lock_ends_before_its_last_descriptor)
{
    struct shared_page made = make_page();
    struct sm_participant *const one = join(&made);
    struct sm_participant *const other = join(&made);
    unsigned head;
    ck_assert_int_eq(sm_turn_wait(one, true, sm_deadline_after(0), &head), SYNCED_MEM_OK);
    const pid_t child = start_without_handlers();
    leave(one);
    ck_assert_int_eq(sm_turn_wait(other, true, sm_deadline_after(0), &head), SYNCED_MEM_ERR_OWNER_DIED);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    leave(other);
    drop_page(&made);
}
END_TEST

/* A process with a million locks on the page's file makes each call on a lock slow, and can pretend that all indices wait
 * in front. A wait looks at some of them, ends in its time, and the next one goes on with the others. */
START_TEST(slow_locks_delay_nobody)
{
    struct shared_page made = make_page();
    struct sm_participant *const one = join(&made);
    synced_mem_status status = SYNCED_MEM_ERR_TIMEOUT;
    unsigned head;
    int waits = 0;
    for (unsigned i = 0; i < SM_PARTICIPANTS; i++)
        if (i != one->index)
            sm_line_store(made.page, i, (struct sm_line_word){.kind = SM_LINE_WRITE, .place = 1});
    calls.slow = 5000;
    uint64_t shortest = UINT64_MAX;
    for (; waits < 200 && status == SYNCED_MEM_ERR_TIMEOUT; waits++) {
        const uint64_t begin = sm_now();
        status = sm_turn_wait(one, true, sm_deadline_after(10), &head);
        const uint64_t took = sm_now() - begin;
        shortest = took < shortest ? took : shortest;
    }
    calls.slow = 0;
    ck_assert_int_eq(status, SYNCED_MEM_OK);
    ck_assert_int_gt(waits, 1);
    ck_assert_uint_lt(shortest, 60 * MILLISECOND);
    leave(one);
    drop_page(&made);
}
END_TEST

Suite *suite(void)
{
    Suite *const suite = suite_create("share_calls");
    TCase *const cases = add_case(suite, "share_calls");
    tcase_add_test(cases, no_call_queries_a_file_without_seals);
    tcase_add_test(cases, slow_locks_delay_nobody);
    tcase_add_test(cases, files_have_a_limit);
    tcase_add_test(cases, whole_pages_are_unmapped);
    tcase_add_test(cases, locks_fail);
    tcase_add_test(cases, a_lock_is_closed_where_no_fork_comes);
    tcase_add_test(cases, a_lock_ends_before_its_last_descriptor);
    return suite;
}
