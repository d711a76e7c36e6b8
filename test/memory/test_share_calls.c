/* Calls of the system on the files of shareable objects. The linker replaces some calls with these (--wrap). */
#include "share_kit.h"

#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

enum { LARGE_PAGE = 65536 };

static struct {
    int watched;     /* the descriptor whose end is watched; -1: none */
    int file;        /* the file of its lock */
    bool was_free;   /* nobody had the lock of byte 0 at its end */
    int locks;       /* attempts to lock a byte */
    bool no_threads; /* the system refuses them */
    bool no_memory;
    long page_size; /* that the system names; 0: the real one */
    void *unmapped; /* the latest address of an munmap() */
    int systems;    /* calls that query a file's system */
    int locking;    /* the errno of the next attempts to lock a byte; 0: they do not fail */
    unsigned slow;  /* microseconds that a call on a lock takes */
} calls = {.watched = -1};

int __real_fcntl(int fd, int command, ...);
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    if (fd == calls.watched)
        calls.was_free = __real_fcntl(calls.file, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
    return __real_close(fd);
}

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *const argument = va_arg(arguments, void *);
    va_end(arguments);
    const bool is_lock = command == F_OFD_SETLK || command == F_OFD_GETLK;
    if (is_lock && calls.slow > 0)
        (void)usleep(calls.slow);
    calls.locks += command == F_OFD_SETLK;
    errno = calls.locking;
    return calls.locking != 0 && command == F_OFD_SETLK ? -1 : __real_fcntl(fd, command, argument);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    return calls.no_threads ? EAGAIN : __real_pthread_create(thread, attributes, run, argument);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return calls.no_memory ? NULL : __real_calloc(count, size);
}

int __wrap_fcntl64(int fd, int command, ...) __attribute__((alias("__wrap_fcntl")));

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
    ck_assert_ptr_nonnull(strstr(sm_detail_get().text, "8192 bytes is over the process's limit (RLIMIT_FSIZE)"));
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
    sm_sealed_unmap(data, SM_MEMFD_PAGE); /* the pages behind it may be others' */
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
        ck_assert_int_eq(sm_participant_join(&one, made.page, made.fd, sm_deadline_after(100000)), cases[i].status);
        ck_assert_ptr_null(one.lock);
    }
    calls.locking = 0;
    drop_page(&made);
}
END_TEST

/* A child that is forked before the close() keeps the descriptor, and no lock. */
START_TEST(a_lock_ends_before_the_close)
{
    struct shared_page made = make_page();
    struct sm_participant *const one = join(&made);
    calls.file = made.fd;
    calls.watched = one->lock->fd;
    leave(one);
    ck_assert(calls.was_free);
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
    ck_assert_int_eq(sm_turn_wait(one, true, sm_deadline_after(100000), &head), SYNCED_MEM_OK);
    const pid_t child = start_without_handlers();
    leave(one);
    ck_assert_int_eq(sm_turn_wait(other, true, sm_deadline_after(100000), &head), SYNCED_MEM_ERR_OWNER_DIED);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    leave(other);
    drop_page(&made);
}
END_TEST

/* A process with a million locks on the page's file makes each call on a lock slow, and can pretend that all indices
 * wait in front. Each call ends in its time. */
enum { SLOW_MS = 200, BEYOND_MS = 100 };

static uint64_t shortest[3]; /* join, wait, leave */

static void note_time(int call, uint64_t begin)
{
    const uint64_t took = (sm_now() - begin) / MILLISECOND;
    shortest[call] = took < shortest[call] ? took : shortest[call];
}

static bool all_were_in_time(void)
{
    return shortest[0] <= BEYOND_MS && shortest[1] <= 10 + BEYOND_MS && shortest[2] <= BEYOND_MS;
}

static void await_errands(void)
{
    const uint64_t begin = sm_now();
    while (!sm_errand_none() && sm_now() < begin + 100000ull * MILLISECOND)
        (void)usleep(1000);
    ck_assert(sm_errand_none());
}

START_TEST(slow_locks_delay_nobody)
{
    struct shared_page made = make_page();
    struct sm_participant other;
    unsigned head;
    for (int call = 0; call < 3; call++)
        shortest[call] = UINT64_MAX;
    for (int tries = 0; tries < 50 && !all_were_in_time(); tries++) { /* the machine may be busy */
        struct sm_participant *const one = join(&made);
        for (unsigned i = 0; i < SM_PARTICIPANTS; i++)
            if (i != one->index)
                sm_line_store(made.page, i, (struct sm_line_word){.kind = SM_LINE_WRITE, .place = 1});
        calls.slow = SLOW_MS * 1000;
        uint64_t begin = sm_now();
        ck_assert_int_eq(sm_participant_join(&other, made.page, made.fd, 0), SYNCED_MEM_ERR_TIMEOUT);
        note_time(0, begin);
        begin = sm_now();
        ck_assert_int_eq(sm_turn_wait(one, true, sm_deadline_after(10), &head), SYNCED_MEM_ERR_TIMEOUT);
        note_time(1, begin);
        begin = sm_now();
        leave(one);
        note_time(2, begin);
        calls.slow = 0;
        await_errands();
        for (unsigned i = 0; i < SM_PARTICIPANTS; i++)
            sm_line_store(made.page, i, (struct sm_line_word){.kind = SM_LINE_OUT});
    }
    ck_assert(all_were_in_time());
    drop_page(&made);
}
END_TEST

/* A wait that ends before all dead ones are found lets the next one find the others. */
START_TEST(slow_cleanings_go_on)
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
    for (; waits < 10000 && status == SYNCED_MEM_ERR_TIMEOUT; waits++)
        status = sm_turn_wait(one, true, sm_deadline_after(10), &head);
    calls.slow = 0;
    ck_assert_int_eq(status, SYNCED_MEM_OK);
    ck_assert_int_gt(waits, 1);
    sm_turn_end_write(one, 0);
    leave(one);
    await_errands();
    drop_page(&made);
}
END_TEST

/* The index of the dead one is another's before the cleaning stores its word: the newer participant stays in line. */
static struct shared_page of_index;
static struct sm_participant *newer;

static bool join_meanwhile(int fd, unsigned index)
{
    (void)fd;
    newer = join(&of_index);
    ck_assert_uint_eq(newer->index, index);
    sm_participant_store(newer, SM_LINE_WRITE, 1);
    return true;
}

START_TEST(a_cleaning_that_comes_late)
{
    struct sm_line_word word;
    of_index = make_page();
    struct sm_participant *const one = join(&of_index);
    sm_participant_store(one, SM_LINE_WRITE, 1);
    leave(one); /* in line, as if it had died */
    ck_assert(!sm_line_take_out(of_index.page, 0, join_meanwhile, of_index.fd));
    ck_assert_int_eq(sm_line_read(of_index.page, 0, &word), SYNCED_MEM_OK);
    ck_assert_int_eq(word.kind, SM_LINE_WRITE);
    ck_assert_uint_eq(word.place, 1);
    sm_participant_store(newer, SM_LINE_OUT, 0);
    leave(newer);
    drop_page(&of_index);
}
END_TEST

/* A process that is stopped while it cleans up has no lock: an index that nobody has can be taken. */
START_TEST(a_cleaning_takes_no_lock)
{
    struct shared_page made = make_page();
    struct sm_participant *const one = join(&made), *const other = join(&made);
    unsigned head;
    sm_participant_store(other, SM_LINE_WRITE, 1);
    leave(other);
    calls.locks = 0;
    ck_assert_int_eq(sm_turn_wait(one, true, sm_deadline_after(100000), &head), SYNCED_MEM_OK);
    ck_assert_int_eq(calls.locks, 0);
    sm_turn_end_write(one, 0);
    leave(one);
    drop_page(&made);
}
END_TEST

/* Without a thread the caller does it. */
START_TEST(errands_without_threads)
{
    struct shared_page made = make_page();
    unsigned head;
    await_errands();
    calls.no_threads = true;
    struct sm_participant *const one = join(&made), *const other = join(&made);
    ck_assert_uint_eq(other->index, 1);
    sm_participant_store(other, SM_LINE_WRITE, 1);
    leave(other);
    ck_assert_int_eq(sm_turn_wait(one, true, sm_deadline_after(100000), &head), SYNCED_MEM_OK);
    sm_turn_end_write(one, 0);
    leave(one);
    calls.no_threads = false;
    drop_page(&made);
}
END_TEST

/* Without a descriptor for a cleaning the dead one is found later. */
START_TEST(without_memory_or_descriptors)
{
    struct shared_page made = make_page();
    struct sm_participant *const one = join(&made), *const other = join(&made);
    struct rlimit before;
    unsigned head;
    sm_participant_store(other, SM_LINE_WRITE, 1);
    leave(other);
    calls.no_memory = true;
    ck_assert_int_eq(sm_participant_join(&(struct sm_participant){.index = 0}, made.page, made.fd, 0),
                     SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
    calls.no_memory = false;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    ck_assert_int_eq(sm_turn_wait(one, true, sm_deadline_after(0), &head), SYNCED_MEM_ERR_TIMEOUT);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(sm_turn_wait(one, true, sm_deadline_after(100000), &head), SYNCED_MEM_OK);
    sm_turn_end_write(one, 0);
    leave(one);
    drop_page(&made);
}
END_TEST

Suite *suite(void)
{
    Suite *const suite = suite_create("share_calls");
    TCase *const cases = add_case(suite, "share_calls");
    add_tests(cases, no_call_queries_a_file_without_seals, slow_locks_delay_nobody, slow_cleanings_go_on,
              a_cleaning_that_comes_late, a_cleaning_takes_no_lock, errands_without_threads,
              without_memory_or_descriptors, files_have_a_limit, whole_pages_are_unmapped, locks_fail,
              a_lock_ends_before_the_close, a_lock_ends_before_its_last_descriptor);
    return suite;
}
