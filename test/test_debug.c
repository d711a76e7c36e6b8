/* Debug mode: who uses an old pointer dies of it, and is told; all else works as without. */
#include "fixture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 5000, MUCH = 3 << 20, PAGE = 4096 };

static bool insecure;
char *__real_secure_getenv(const char *name);
char *__wrap_secure_getenv(const char *name);
char *__wrap_secure_getenv(const char *name)
{
    return insecure ? NULL : __real_secure_getenv(name);
}

static bool cannot_protect;
static int cannot_open; /* so often */
int __real_mprotect(void *start, size_t bytes, int allowed);
int __wrap_mprotect(void *start, size_t bytes, int allowed);
int __wrap_mprotect(void *start, size_t bytes, int allowed)
{
    if (cannot_protect || (cannot_open > 0 && allowed == (PROT_READ | PROT_WRITE) && cannot_open--)) {
        errno = ENOMEM;
        return -1;
    }
    return __real_mprotect(start, bytes, allowed);
}

/* For what is larger than the first records of a kind. */
static bool no_memory;
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return no_memory && count * size > 20000 ? NULL : __real_calloc(count, size);
}

/* Instructions that no compiler leaves out. */
static void touch_to_read(const void *data)
{
    (void)*(const volatile unsigned char *)data;
}

static void touch_to_write(void *data)
{
    *(volatile unsigned char *)data = 1;
}

/* ---- Processes in debug mode ---- */

static char said[16384];

static int run(void (*act)(void), const char *mode)
{
    int ends[2];
    int status = 0;
    size_t used = 0;
    ssize_t got;
    ck_assert_int_eq(pipe(ends), 0);
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {.rlim_cur = 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)dup2(ends[1], STDERR_FILENO);
        (void)setenv("SYNCED_MEM_DEBUG", mode, 1);
        (void)gpu_start(fixture_schedule());
        act();
        OK(synced_mem_shutdown());
        exit(EXIT_SUCCESS);
    }
    (void)close(ends[1]);
    while ((got = read(ends[0], said + used, sizeof said - 1 - used)) > 0)
        used += (size_t)got;
    said[used] = 0;
    (void)close(ends[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return status;
}

#define SAID(words) ck_assert_msg(strstr(said, (words)) != NULL, "'%s' is not in:\n%s", (words), said)

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WITH_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WITH_SANITIZER
#endif

/* A sanitizer has a handler of its own, which ours passes on to, and ends the process otherwise. */
static void dies(void (*act)(void), const char *message)
{
    const int status = run(act, "1");
    ck_assert_msg(!WIFEXITED(status) || WEXITSTATUS(status) != 0, "it lives: %s", said);
#if !defined(WITH_SANITIZER)
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "status %#x: %s", (unsigned)status, said);
#endif
    SAID(message);
}

static void lives(void (*act)(void))
{
    const int status = run(act, "1");
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x: %s", (unsigned)status, said);
}

static synced_mem *make_named(const char *name, size_t size, int device)
{
    synced_mem_options options;
    synced_mem *mem = NULL;
    synced_mem_options_init(&options);
    options.name = name;
    options.device = device;
    OK(synced_mem_create(&mem, size, &options));
    return mem;
}

/* ---- Old pointers ---- */

/* Page-locked memory for objects that name their device, else pageable; small, and so large that it is staged. */
static const struct {
    size_t size;
    int device;
} kinds[] = {{SIZE, SYNCED_MEM_DEVICE_CURRENT}, {SIZE, 0}, {MUCH, SYNCED_MEM_DEVICE_CURRENT}, {MUCH, 0}};
enum { KINDS = 4 };
static int kind;

static synced_mem *make_weight(void)
{
    return make_named("conv1.weight", kinds[kind].size, kinds[kind].device);
}

static void read_stale(void)
{
    synced_mem *const mem = make_weight();
    const unsigned char *const data = synced_mem_cpu_data(mem);
    touch_to_read(data);
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(mem, NULL));
    touch_to_read(data + 8);
}

static void write_stale(void)
{
    synced_mem *const mem = make_weight();
    unsigned char *const data = synced_mem_mutable_cpu_data(mem);
    touch_to_write(data);
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data(mem));
    touch_to_write(data);
}

static void write_synced(void)
{
    synced_mem *const mem = make_weight();
    unsigned char *const data = synced_mem_mutable_cpu_data(mem);
    touch_to_write(data);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    touch_to_read(data);
    touch_to_write(data + kinds[kind].size - 1);
}

static void read_discarded(void)
{
    synced_mem *const mem = make(SIZE);
    unsigned char *const data = synced_mem_mutable_cpu_data(mem);
    touch_to_write(data);
    OK(synced_mem_resize_discard(mem, SIZE));
    touch_to_read(data);
}

START_TEST(old_pointers)
{
    if (!gpu_expected())
        return;
    kind = _i;
    dies(read_stale, " bytes): its host copy at 0x");
    SAID("synced_mem: 'conv1.weight' (");
    SAID(" is stale since synced_mem_mutable_gpu_data_on; the pointer used at 0x");
    SAID(" expired then\n");
    dies(write_stale, " is stale since synced_mem_overwrite_gpu_data; the pointer used at 0x");
    dies(write_synced, " is to be read only since synced_mem_gpu_data; the pointer used at 0x");
}
END_TEST

START_TEST(discarded)
{
    dies(read_discarded, "synced_mem: an object without a name (5000 bytes): its host copy at 0x");
    SAID("is stale since synced_mem_resize_discard;");
}
END_TEST

/* ---- What works ---- */

static void go_round(void)
{
    for (kind = 0; kind < (gpu_expected() ? KINDS : 1); kind++) {
        synced_mem *const mem = make_weight();
        const size_t size = kinds[kind].size;
        host_fill(synced_mem_overwrite_cpu_data(mem), size, 1);
        if (gpu_expected()) {
            void *const data = synced_mem_mutable_gpu_data(mem);
            gpu_fill(data, size, 2, NULL);
            ck_assert(host_is(synced_mem_cpu_data(mem), size, 2));
            host_fill(synced_mem_mutable_cpu_data(mem), size, 3);
            ck_assert(device_is(synced_mem_gpu_data(mem), size, 3));
            ck_assert(host_is(synced_mem_cpu_data(mem), size, 3));
            host_fill(synced_mem_overwrite_cpu_data(mem), size, 4);
            OK(synced_mem_async_gpu_push(mem, NULL));
            gpu_fill(synced_mem_mutable_gpu_data_on(mem, NULL), size, 5, NULL);
            OK(synced_mem_async_cpu_pull(mem, NULL));
            ck_assert(host_is(synced_mem_cpu_data(mem), size, 5));
            OK(synced_mem_resize(mem, size - 100));
            OK(synced_mem_resize(mem, size));
            OK(synced_mem_release_gpu_data(mem));
        }
        OK(synced_mem_resize_discard(mem, size));
        ck_assert(host_is(synced_mem_cpu_data(mem), size, 0));
        host_fill(synced_mem_mutable_cpu_data(mem), size, 6);
        OK(synced_mem_resize(mem, 2 * size));
        OK(synced_mem_release(mem));
    }
    ck_assert_uint_eq(stats_now().unprotected, 0);
}

START_TEST(all_accesses)
{
    lives(go_round);
    ck_assert_str_eq(said, "");
}
END_TEST

/* More objects than there is room for at first. */
static void hold_many(void)
{
    enum { MANY = 3000 };
    static synced_mem *mems[MANY];
    for (int i = 0; i < MANY; i++) {
        mems[i] = make_at_cpu(100, 1);
        if (i % 2)
            OK(synced_mem_resize_discard(mems[i], 100));
    }
    for (int i = 0; i < MANY; i++)
        OK(synced_mem_release(mems[i]));
    ck_assert_uint_eq(stats_now().unprotected, 0);
}

START_TEST(many_objects)
{
    lives(hold_many);
}
END_TEST

/* ---- Memory of the caller's ---- */

static void borrow_and_return(void)
{
    unsigned char *const pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    synced_mem *const mem = make_named("borrowed", 3 * PAGE, SYNCED_MEM_DEVICE_CURRENT);
    memset(pages, 1, 4 * PAGE);
    OK(synced_mem_set_cpu_data(mem, pages + 100));
    OK(synced_mem_resize_discard(mem, 2 * PAGE));
    touch_to_write(pages);            /* shared with what is before */
    touch_to_write(pages + 3 * PAGE); /* and behind */
    OK(synced_mem_release_cpu_data(mem));
    touch_to_write(pages + PAGE);
    OK(synced_mem_set_cpu_data(mem, pages));
    OK(synced_mem_set_cpu_data(mem, pages));
    OK(synced_mem_resize_discard(mem, PAGE));
    OK(synced_mem_release(mem));
    memset(pages, 2, 4 * PAGE);
    ck_assert_uint_eq(stats_now().unprotected, 0);
    (void)munmap(pages, 4 * PAGE);
}

static void borrow_and_use(void)
{
    unsigned char *const pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    synced_mem *const mem = make_named("borrowed", 3 * PAGE, SYNCED_MEM_DEVICE_CURRENT);
    OK(synced_mem_set_cpu_data(mem, pages + 100));
    OK(synced_mem_resize_discard(mem, 3 * PAGE));
    touch_to_read(pages + PAGE);
}

START_TEST(borrowed)
{
    lives(borrow_and_return);
    dies(borrow_and_use, "synced_mem: 'borrowed' (12288 bytes)");
}
END_TEST

static void back(void *data, void *user, synced_mem_stream stream)
{
    (void)user, (void)stream;
    memset(data, 3, PAGE);
}

static void adopt(void)
{
    static _Alignas(PAGE) unsigned char memory[PAGE];
    synced_mem *const mem = make(PAGE);
    OK(synced_mem_adopt_cpu_data(mem, memory, back, NULL));
    OK(synced_mem_resize_discard(mem, PAGE));
    OK(synced_mem_release(mem));
    ck_assert_int_eq(memory[0], 3);
    ck_assert_uint_eq(stats_now().unprotected, 0);
}

START_TEST(adopted)
{
    lives(adopt);
}
END_TEST

/* ---- Memory that can't be protected ---- */

static void use_small_memory(void)
{
    static unsigned char memory[64];
    for (int i = 0; i < 2; i++) {
        synced_mem *const mem = make_named("tiny", sizeof memory, SYNCED_MEM_DEVICE_CURRENT);
        OK(synced_mem_set_cpu_data(mem, memory));
        OK(synced_mem_resize_discard(mem, sizeof memory));
        touch_to_write(memory);
        OK(synced_mem_release(mem));
    }
    ck_assert_uint_eq(stats_now().unprotected, 2);
    OK(synced_mem_print_stats(stderr));
}

START_TEST(less_than_a_page)
{
    lives(use_small_memory);
    const char *const told =
        "synced_mem: SYNCED_MEM_DEBUG: the host copy of 'tiny' (64 bytes) is not protected, as the "
        "caller's memory has no page of its own;";
    SAID(told);
    ck_assert_ptr_null(strstr(strstr(said, told) + 1, told));
    SAID("host copies that could not be protected                           2\n");
}
END_TEST

static void use_one_memory_twice(void)
{
    static _Alignas(PAGE) unsigned char memory[2 * PAGE];
    synced_mem *const first = make_named("first", 2 * PAGE, SYNCED_MEM_DEVICE_CURRENT);
    synced_mem *const second = make_named("second", PAGE, SYNCED_MEM_DEVICE_CURRENT);
    OK(synced_mem_set_cpu_data(first, memory));
    OK(synced_mem_resize_discard(first, PAGE));
    OK(synced_mem_set_cpu_data(second, memory + PAGE));
    touch_to_write(synced_mem_mutable_cpu_data(second));
    touch_to_write(memory);
    ck_assert_uint_eq(stats_now().unprotected, 2);
    synced_mem *const third = make_named("third", 2 * PAGE, SYNCED_MEM_DEVICE_CURRENT);
    OK(synced_mem_set_cpu_data(third, memory));
    ck_assert_uint_eq(stats_now().unprotected, 3);
    OK(synced_mem_release(third));
    OK(synced_mem_release(first));
    OK(synced_mem_release(second));
}

START_TEST(memory_of_two_objects)
{
    lives(use_one_memory_twice);
    SAID("'first' (4096 bytes) is not protected, as another object has the same memory;");
}
END_TEST

/* Each object's own bytes can be used, whoever came first and wherever the pages end. */
static const struct {
    size_t first, first_size, second, second_size, third, third_size;
} views[] = {{0, 2 * PAGE, 0, 100, 4 * PAGE, PAGE},
             {0, 2 * PAGE, PAGE + 100, 100, 4 * PAGE, PAGE},
             {0, 2 * PAGE, 8000, 2 * PAGE, 5 * PAGE, PAGE},
             {0, PAGE, PAGE, PAGE, 0, 2 * PAGE},
             {100, 10, 0, PAGE, 200, 10}};
enum { VIEWS = sizeof views / sizeof *views };

static synced_mem *view(unsigned char *memory, size_t size)
{
    synced_mem *const mem = make_named("view", size, SYNCED_MEM_DEVICE_CURRENT);
    OK(synced_mem_set_cpu_data(mem, memory));
    return mem;
}

static void use_views(void)
{
    static _Alignas(PAGE) unsigned char memory[6 * PAGE];
    unsigned char *const at[] = {memory + views[kind].first, memory + views[kind].second, memory + views[kind].third};
    const size_t sizes[] = {views[kind].first_size, views[kind].second_size, views[kind].third_size};
    synced_mem *mems[3];
    for (int i = 0; i < 3; i++)
        mems[i] = view(at[i], sizes[i]);
    for (int stale = 0; stale < 3; stale++) {
        OK(synced_mem_resize_discard(mems[stale], sizes[stale]));
        for (int i = 0; i < 3; i++) {
            if (i == stale)
                continue;
            unsigned char *const data = synced_mem_overwrite_cpu_data(mems[i]);
            touch_to_write(data);
            touch_to_write(data + sizes[i] - 1);
        }
    }
    for (int i = 0; i < 3; i++)
        OK(synced_mem_release(mems[i]));
}

START_TEST(views_of_one_memory)
{
    kind = _i;
    lives(use_views);
}
END_TEST

static void use_neighbours(void)
{
    synced_mem *const stale = make_named("stale", 64, 0);
    synced_mem *const used = make_named("used", 64, 0);
    touch_to_write(synced_mem_mutable_cpu_data(stale));
    unsigned char *const data = synced_mem_mutable_cpu_data(used);
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(stale));
    touch_to_write(data);
    ck_assert_uint_eq(stats_now().unprotected, 0);
    OK(synced_mem_release(stale));
    OK(synced_mem_release(used));
}

START_TEST(neighbours_in_the_pool)
{
    if (gpu_expected())
        lives(use_neighbours);
}
END_TEST

/* What is page-locked has to be open meanwhile. */
static void lock_what_is_lent(void)
{
    static _Alignas(PAGE) unsigned char memory[2 * PAGE];
    synced_mem *const mem = make_named("lent", 2 * PAGE, 0);
    OK(synced_mem_set_cpu_data(mem, memory));
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    OK(synced_mem_register_cpu_data(mem, memory));
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(mem));
    OK(synced_mem_register_cpu_data(mem, memory));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 1);
    ck_assert_uint_eq(stats_now().unprotected, 0);
    OK(synced_mem_release(mem));
}

START_TEST(page_locked_later)
{
    if (gpu_expected())
        lives(lock_what_is_lent);
}
END_TEST

/* ---- Threads ---- */

enum { ROUNDS = 2000 };
static atomic_int asked;
static atomic_int answered;

static void *release_device_copies(void *mem)
{
    for (int round = 1; round <= ROUNDS; round++) {
        while (atomic_load(&asked) < round)
            continue;
        OK(synced_mem_release_gpu_data(mem));
        atomic_store(&answered, round);
    }
    return NULL;
}

/* Neither call makes the other's pointer expire: the head becomes AT_CPU by either. */
static void write_while_another_releases(void)
{
    pthread_t other;
    synced_mem *const mem = make(SIZE);
    ck_assert_int_eq(pthread_create(&other, NULL, release_device_copies, mem), 0);
    for (int round = 1; round <= ROUNDS; round++) {
        ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
        ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
        atomic_store(&asked, round);
        for (volatile int i = 0; i < round % 400; i++)
            continue;
        touch_to_write(synced_mem_mutable_cpu_data(mem));
        while (atomic_load(&answered) < round)
            continue;
    }
    ck_assert_int_eq(pthread_join(other, NULL), 0);
    OK(synced_mem_release(mem));
}

START_TEST(opened_before_it_is_given)
{
    if (gpu_expected())
        lives(write_while_another_releases);
}
END_TEST

static void *borrow_little(void *unused)
{
    static unsigned char memory[64];
    OK(synced_mem_release(view(memory, sizeof memory)));
    return unused;
}

static void say_while_another_prints(void)
{
    pthread_t other;
    flockfile(stderr);
    ck_assert_int_eq(pthread_create(&other, NULL, borrow_little, NULL), 0);
    ck_assert_int_eq(pthread_join(other, NULL), 0);
    funlockfile(stderr);
}

START_TEST(said_with_nothing_locked)
{
    lives(say_while_another_prints);
    SAID("no page of its own");
}
END_TEST

/* ---- What the system refuses ---- */

static void fail_to_open(void)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    synced_mem *const other = make_at_cpu(SIZE, 1);
    OK(synced_mem_resize_discard(other, SIZE));
    OK(synced_mem_resize_discard(mem, SIZE));
    cannot_open = 1;
    touch_to_write(synced_mem_overwrite_cpu_data(mem));
    ck_assert_int_eq(cannot_open, 0);
    ck_assert_uint_eq(stats_now().unprotected, 1);
    touch_to_write(synced_mem_overwrite_cpu_data(other));
    OK(synced_mem_resize_discard(other, SIZE));
    synced_mem *const later = make_at_cpu(SIZE, 1);
    unsigned char *const data = synced_mem_mutable_cpu_data(later);
    OK(synced_mem_resize_discard(later, SIZE));
    touch_to_write(data); /* nothing is protected any more */
    OK(synced_mem_release(mem));
    OK(synced_mem_release(other));
    OK(synced_mem_release(later));
}

static void have_too_many(void)
{
    enum { MOST = 16384, MORE = 20 };
    static synced_mem *mems[MOST + MORE];
    for (int i = 0; i < MOST + MORE; i++) {
        mems[i] = make_at_cpu(1, 1);
        OK(synced_mem_resize_discard(mems[i], 1));
    }
    ck_assert_uint_eq(stats_now().unprotected, MORE);
    for (int i = 0; i < MOST + MORE; i++)
        touch_to_write(synced_mem_overwrite_cpu_data(mems[i]));
    for (int i = 0; i < MOST + MORE; i++)
        OK(synced_mem_release(mems[i]));
}

START_TEST(system_at_its_limits)
{
    lives(fail_to_open);
    SAID("as the system refuses to change what was protected;");
    lives(have_too_many);
    SAID("as there are too many;");
}
END_TEST

static void fail_to_protect(void)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    cannot_protect = true;
    OK(synced_mem_resize_discard(mem, SIZE));
    cannot_protect = false;
    touch_to_write(synced_mem_overwrite_cpu_data(mem));
    ck_assert_uint_eq(stats_now().unprotected, 1);
    OK(synced_mem_release(mem));
}

START_TEST(system_that_refuses)
{
    lives(fail_to_protect);
    SAID("the host copy of '' (5000 bytes) is not protected, as mprotect() failed;");
}
END_TEST

static void have_no_memory(void)
{
    static _Alignas(PAGE) unsigned char memory[2 * PAGE];
    synced_mem *const mem = make(SIZE);
    no_memory = true;
    OK(synced_mem_set_cpu_data(mem, memory));
    OK(synced_mem_resize_discard(mem, 8));
    touch_to_write(memory);
    no_memory = false;
    OK(synced_mem_release(mem));
}

START_TEST(no_memory_for_records)
{
    lives(have_no_memory);
}
END_TEST

static void share_memory(void)
{
    synced_mem_options options;
    synced_mem_options_init(&options);
    for (int i = 0; i < 2; i++) {
        synced_mem *mem = NULL;
        options.placement = i == 0 ? SYNCED_MEM_PLACEMENT_MAPPED : SYNCED_MEM_PLACEMENT_MANAGED;
        OK(synced_mem_create(&mem, SIZE, &options));
        unsigned char *const data = synced_mem_mutable_cpu_data(mem);
        if (data) {
            ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(mem));
            touch_to_read(data);
        }
        OK(synced_mem_release(mem));
    }
}

static void borrow_managed_memory(void)
{
    unsigned char *const data = gpu_managed_alloc(0, SIZE);
    synced_mem *const mem = make(SIZE);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    if (synced_mem_set_cpu_data(mem, data) == SYNCED_MEM_OK) {
        OK(synced_mem_resize_discard(mem, SIZE));
        touch_to_read(data);
    }
    OK(synced_mem_release(mem));
    gpu_free(data);
}

START_TEST(memory_of_both_sides)
{
    if (!gpu_expected())
        return;
    lives(share_memory);
    SAID("is not protected, as the device uses the same memory;");
    lives(borrow_managed_memory);
    SAID("is not protected, as the device uses the same memory;");
}
END_TEST

/* ---- When it is on ---- */

static void use_old_pointer(void)
{
    synced_mem *const mem = make(SIZE);
    unsigned char *const data = synced_mem_mutable_cpu_data(mem);
    OK(synced_mem_resize_discard(mem, SIZE));
    touch_to_write(data);
    OK(synced_mem_release(mem));
}

static void use_old_pointer_as_another_user(void)
{
    insecure = true;
    use_old_pointer();
}

START_TEST(off)
{
    ck_assert_int_eq(run(use_old_pointer, ""), 0);
    ck_assert_int_eq(run(use_old_pointer, "0"), 0);
    ck_assert_int_eq(run(use_old_pointer_as_another_user, "1"), 0);
    ck_assert_str_eq(said, "");
}
END_TEST

/* ---- The program's own handlers ---- */

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
    (void)number;
    exit(42); /* not meant for handlers, but this one interrupts no function that it could call again */
}

static void on_signal_with_facts(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    exit(43);
}

static void count_signal(int number)
{
    (void)number;
    caught++;
}

static void set_handler(void (*handler)(int))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    (void)sigaction(SIGSEGV, &action, NULL);
}

static void with_handler(void)
{
    set_handler(on_signal);
    use_old_pointer();
}

static void with_other_handler(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal_with_facts;
    action.sa_flags = SA_SIGINFO;
    (void)sigaction(SIGSEGV, &action, NULL);
    use_old_pointer();
}

/* As many crash handlers are: they print, return, and leave the end to the second fault. */
static void with_handler_for_once(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = count_signal;
    action.sa_flags = (int)SA_RESETHAND;
    (void)sigaction(SIGSEGV, &action, NULL);
    (void)alarm(20);
    use_old_pointer();
}

static void fault_at_no_copy(void)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    touch_to_read(mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    OK(synced_mem_release(mem));
}

static void fault_elsewhere(void)
{
    set_handler(SIG_DFL);
    fault_at_no_copy();
}

static void fault_elsewhere_with_handler(void)
{
    set_handler(on_signal);
    fault_at_no_copy();
}

static void be_sent_a_signal(void)
{
    set_handler(SIG_DFL);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    (void)raise(SIGSEGV);
    OK(synced_mem_release(mem));
}

static void ignore_a_signal(void)
{
    set_handler(SIG_IGN);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    (void)raise(SIGSEGV);
    OK(synced_mem_release(mem));
}

static void count_a_signal(void)
{
    set_handler(count_signal);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    (void)raise(SIGSEGV);
    ck_assert_int_eq(caught, 1);
    OK(synced_mem_release(mem));
}

static void count_a_signal_once(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = count_signal;
    action.sa_flags = (int)SA_RESETHAND;
    (void)sigaction(SIGSEGV, &action, NULL);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    (void)raise(SIGSEGV);
    ck_assert_int_eq(caught, 1);
    OK(synced_mem_release(mem));
}

/* The default action, but for its end. */
static void pass_on_to_default(void)
{
    struct sigaction ours;
    siginfo_t info = {.si_code = SI_USER};
    sigset_t signals;
    set_handler(SIG_DFL);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    (void)sigaction(SIGSEGV, NULL, &ours);
    sigemptyset(&signals);
    sigaddset(&signals, SIGSEGV);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    ours.sa_sigaction(SIGSEGV, &info, NULL);
    (void)sigpending(&signals);
    ck_assert_int_eq(sigismember(&signals, SIGSEGV), 1);
    (void)sigaction(SIGSEGV, NULL, &ours);
    ck_assert(ours.sa_handler == SIG_DFL);
    OK(synced_mem_release(mem));
}

START_TEST(handlers)
{
    int status = run(with_handler, "1");
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 42, "%#x %s", (unsigned)status, said);
    SAID("is stale since");
    status = run(with_other_handler, "1");
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 43, "%#x %s", (unsigned)status, said);
    SAID("is stale since");
    status = run(with_handler_for_once, "1");
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "%#x %s", (unsigned)status, said);
    status = run(fault_elsewhere, "1");
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    ck_assert_ptr_null(strstr(said, "synced_mem:"));
    status = run(fault_elsewhere_with_handler, "1");
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 42, "%#x %s", (unsigned)status, said);
    ck_assert_str_eq(said, "");
    status = run(be_sent_a_signal, "1");
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    lives(pass_on_to_default);
    lives(ignore_a_signal);
    lives(count_a_signal);
    lives(count_a_signal_once);
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("debug");
    TCase *const cases = add_case_in_children(all, "debug");
    tcase_add_loop_test(cases, old_pointers, 0, KINDS);
    tcase_add_test(cases, all_accesses);
    tcase_add_test(cases, memory_of_both_sides);
    tcase_add_test(cases, neighbours_in_the_pool);
    tcase_add_test(cases, page_locked_later);
    tcase_add_test(cases, opened_before_it_is_given);
    if (fixture_schedule() > 0)
        return all;
    TCase *const host = add_case_in_children(all, "on the host alone");
    tcase_add_test(host, discarded);
    tcase_add_test(host, many_objects);
    tcase_add_test(host, borrowed);
    tcase_add_test(host, adopted);
    tcase_add_test(host, less_than_a_page);
    tcase_add_test(host, memory_of_two_objects);
    tcase_add_loop_test(host, views_of_one_memory, 0, VIEWS);
    tcase_add_test(host, said_with_nothing_locked);
    tcase_add_test(host, system_that_refuses);
    tcase_add_test(host, system_at_its_limits);
    tcase_add_test(host, no_memory_for_records);
    tcase_add_test(host, off);
    tcase_add_test(host, handlers);
    return all;
}
