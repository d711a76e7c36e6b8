/*
 * Checks that the host copies and fills the bytes of a view without the lock of its root. A thread is stopped in the
 * middle of that. Calls on other bytes end meanwhile, and calls on the same bytes wait.
 */
#include "views_kit.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BUSY_BEGIN = 1001, BUSY = 8000, FREE_BEGIN = BUSY_BEGIN + BUSY, STEP_US = 1000, PATIENCE = 60000, A_WHILE = 20 };

/* ---- The gate ---- */

/* The first copy or fill of BUSY bytes is stopped. */
static struct {
    atomic_bool is_armed, is_reached, is_open;
} gate;

static bool await(atomic_bool *flag, int steps)
{
    for (int i = 0; i < steps && !atomic_load(flag); i++)
        (void)usleep(STEP_US);
    return atomic_load(flag);
}

static void pass_gate(size_t size)
{
    if (size != BUSY || !atomic_exchange(&gate.is_armed, false))
        return;
    atomic_store(&gate.is_reached, true);
    SOUND(await(&gate.is_open, 3 * PATIENCE));
}

/* The linker puts the wrappers in place of the functions (--wrap). */
void *__real_memcpy(void *to, const void *from, size_t size);
void *__wrap_memcpy(void *to, const void *from, size_t size);
void *__wrap_memcpy(void *to, const void *from, size_t size)
{
    pass_gate(size);
    return __real_memcpy(to, from, size);
}

void *__real_memset(void *to, int value, size_t size);
void *__wrap_memset(void *to, int value, size_t size);
void *__wrap_memset(void *to, int value, size_t size)
{
    pass_gate(size);
    return __real_memset(to, value, size);
}

/* ---- Calls in threads ---- */

struct call {
    void (*act)(void);
    atomic_bool is_done;
    pthread_t thread;
};

static void *make_call(void *argument)
{
    struct call *const call = argument;
    call->act();
    atomic_store(&call->is_done, true);
    return NULL;
}

static void start(struct call *call, void (*act)(void))
{
    call->act = act;
    atomic_store(&call->is_done, false);
    ck_assert_int_eq(pthread_create(&call->thread, NULL, make_call, call), 0);
}

static void join(struct call *call)
{
    ck_assert_int_eq(pthread_join(call->thread, NULL), 0);
}

/* ---- The call that is stopped ---- */

static struct {
    synced_mem *root, *busy, *free;
    synced_mem *out, *plain, *plain_out; /* undivided objects of BUSY bytes */
    synced_mem *pageable;                /* the same, in pageable memory */
} it;

static void copy_from(void)
{
    SOUND(synced_mem_cpu_copy(it.out, it.busy) == SYNCED_MEM_OK);
}

static void copy_to(void)
{
    SOUND(synced_mem_cpu_copy(it.busy, it.out) == SYNCED_MEM_OK);
}

/* The copy of undivided objects is stopped. */
static void copy_list(void)
{
    synced_mem *const to[] = {it.plain_out, it.out}, *const from[] = {it.plain, it.busy};
    SOUND(synced_mem_cpu_copy_n(to, from, 2) == SYNCED_MEM_OK);
}

static void copy_to_mapped(void)
{
    SOUND(synced_mem_async_gpu_copy(it.busy, it.out, NULL) == SYNCED_MEM_OK);
}

static void copy_from_pageable(void)
{
    SOUND(synced_mem_async_gpu_copy(it.busy, it.pageable, NULL) == SYNCED_MEM_OK);
}

static void push_with_pageable(void)
{
    synced_mem *const mems[] = {it.pageable, it.busy};
    SOUND(synced_mem_async_gpu_push_n(mems, 2, NULL) == SYNCED_MEM_OK);
}

static void read_busy(void)
{
    const void *const data = synced_mem_cpu_data(it.busy);
    SOUND(data && bytes_are_right(it.busy, data));
}

static void write_busy(void)
{
    void *const data = synced_mem_mutable_cpu_data(it.busy);
    SOUND(data && bytes_are_right(it.busy, data));
}

static const struct act {
    void (*stopped)(void);
    void (*waits)(void); /* a call on the same bytes; NULL: none waits */
    bool gpu;            /* the root's placement is mapped */
    bool separate;       /* it is not */
    bool cleared, read_only;
} acts[] = {{.stopped = copy_from, .waits = write_busy},
            {.stopped = copy_to, .waits = read_busy},
            {.stopped = copy_list, .waits = NULL},
            {.stopped = read_busy, .waits = read_busy, .cleared = true},
            {.stopped = write_busy, .waits = NULL, .read_only = true},
            {.stopped = copy_to_mapped, .waits = read_busy, .gpu = true},
            {.stopped = copy_to, .waits = read_busy, .gpu = true},
            {.stopped = copy_from_pageable, .waits = NULL, .gpu = true, .separate = true},
            {.stopped = push_with_pageable, .waits = NULL, .gpu = true, .separate = true}};
enum { ACTS = sizeof acts / sizeof acts[0], TO_VIEW = 1, TO_MAPPED = 5, TO_VIEW_OF_MAPPED = 6 };

static synced_mem *make_plain(unsigned pattern)
{
    synced_mem *const mem = make_on(BUSY, gpu_expected() ? 0 : SYNCED_MEM_DEVICE_CURRENT);
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), BUSY, pattern);
    return mem;
}

static void note_hand_back(void *data, void *user, synced_mem_stream stream)
{
    (void)data;
    (void)user;
    SOUND(stream == NULL);
}

static synced_mem *make_busy_root(const struct act *act)
{
    static _Alignas(4096) unsigned char memory[6 * 4096];
    synced_mem_options options = default_options();
    synced_mem *root = NULL;
    options.device = gpu_expected() ? 0 : SYNCED_MEM_DEVICE_CURRENT;
    options.placement = act->gpu && !act->separate ? SYNCED_MEM_PLACEMENT_MAPPED : SYNCED_MEM_PLACEMENT_SEPARATE;
    OK(synced_mem_create(&root, ROOT, &options));
    if (act->read_only) {
        pattern_write(memory, ROOT, 1);
        OK(USE(root, .cpu_data = memory, .flags = SYNCED_MEM_MEMORY_READ_ONLY, .callback = note_hand_back));
        expect(root, 1);
    } else {
        host_writes(root, 1);
    }
    return root;
}

static unsigned char pageable_memory[BUSY];

static void begin(const struct act *act)
{
    it.root = make_busy_root(act);
    it.busy = view_of(it.root, BUSY_BEGIN, BUSY);
    it.free = view_of(it.root, FREE_BEGIN, BUSY);
    it.out = make_plain(7);
    it.plain = make_plain(8);
    it.plain_out = make_plain(9);
    it.pageable = make_on(BUSY, gpu_expected() ? 0 : SYNCED_MEM_DEVICE_CURRENT);
    pattern_write(pageable_memory, BUSY, 7);
    OK(synced_mem_set_cpu_data(it.pageable, pageable_memory));
    if (act->cleared) {
        OK(synced_mem_clear(it.busy));
        memset(expected + BUSY_BEGIN, 0, BUSY);
    }
    if (act->stopped == copy_to_mapped) {
        device_writes(it.busy, 3, NULL);
        gpu_stream_sync(NULL);
    }
    if (act->stopped == copy_to || act->stopped == copy_to_mapped || act->stopped == copy_from_pageable)
        expect(it.busy, 7);
    atomic_store(&gate.is_open, false);
    atomic_store(&gate.is_reached, false);
    atomic_store(&gate.is_armed, true);
}

static void finish(const struct act *act)
{
    ck_assert(host_reads_right(it.root));
    if (act->stopped == copy_from || act->stopped == copy_list)
        ck_assert(memcmp(given(synced_mem_cpu_data(it.out)), expected + BUSY_BEGIN, BUSY) == 0);
    ck_assert(host_is(synced_mem_cpu_data(it.plain_out), BUSY, act->stopped == copy_list ? 8 : 9));
    RELEASE_EACH(it.busy, it.free, it.root, it.out, it.plain, it.plain_out, it.pageable);
    ck_assert_int_eq(atomic_load(&unsound), 0);
}

/* ---- Calls on other bytes ---- */

static void read_free(void)
{
    const void *const data = synced_mem_cpu_data(it.free);
    SOUND(data && bytes_are_right(it.free, data));
}

static void write_free(void)
{
    void *const data = synced_mem_mutable_cpu_data(it.free);
    SOUND(data != NULL);
    host_fill(data, BUSY, 6);
    expect(it.free, 6);
    read_free();
}

static void clear_free(void)
{
    SOUND(synced_mem_clear(it.free) == SYNCED_MEM_OK);
    memset(expected + FREE_BEGIN, 0, BUSY);
    read_free();
}

static void copy_free(void)
{
    synced_mem *to = NULL;
    SOUND(synced_mem_create(&to, BUSY, NULL) == SYNCED_MEM_OK);
    SOUND(synced_mem_cpu_copy(to, it.free) == SYNCED_MEM_OK);
    const void *const data = synced_mem_cpu_data(to);
    SOUND(data && memcmp(data, expected + FREE_BEGIN, BUSY) == 0);
    SOUND(synced_mem_release(to) == SYNCED_MEM_OK);
}

/* Also cuts the bytes that are copied. */
static void make_views(void)
{
    synced_mem *inside = NULL, *across = NULL;
    SOUND(synced_mem_view(&inside, it.free, 10, 100, NULL) == SYNCED_MEM_OK);
    SOUND(synced_mem_view(&across, it.root, FREE_BEGIN - 10, 100, NULL) == SYNCED_MEM_OK);
    const void *const data = synced_mem_cpu_data(inside);
    SOUND(data && bytes_are_right(inside, data));
    SOUND(synced_mem_release(across) == SYNCED_MEM_OK);
    SOUND(synced_mem_release(inside) == SYNCED_MEM_OK);
}

static void push_free(void)
{
    if (!gpu_expected())
        return;
    SOUND(synced_mem_async_gpu_push(it.free, NULL) == SYNCED_MEM_OK);
    SOUND(synced_mem_gpu_data(it.free) != NULL);
    read_free();
}

static void (*const others[])(void) = {read_free, write_free, clear_free, copy_free, make_views, push_free};
enum { OTHERS = sizeof others / sizeof others[0] };

static bool can_run(const struct act *act)
{
    return gpu_expected() || !act->gpu;
}

START_TEST(other_bytes_do_not_wait)
{
    const struct act *const act = &acts[_i / OTHERS];
    struct call stopped, free;
    if (!can_run(act))
        return;
    begin(act);
    start(&stopped, act->stopped);
    ck_assert(await(&gate.is_reached, PATIENCE));
    start(&free, others[_i % OTHERS]);
    const bool ended = await(&free.is_done, PATIENCE);
    atomic_store(&gate.is_open, true);
    join(&stopped);
    join(&free);
    ck_assert(ended);
    finish(act);
}
END_TEST

/* ---- Calls on the same bytes ---- */

/* While one thread waits for the bytes, others still use the rest. */
START_TEST(same_bytes_wait)
{
    const struct act *const act = &acts[_i];
    struct call stopped, waiting, free;
    if (!can_run(act) || !act->waits)
        return;
    begin(act);
    start(&stopped, act->stopped);
    ck_assert(await(&gate.is_reached, PATIENCE));
    start(&waiting, act->waits);
    ck_assert(!await(&waiting.is_done, A_WHILE));
    start(&free, read_free);
    const bool ended = await(&free.is_done, PATIENCE);
    ck_assert(!atomic_load(&waiting.is_done));
    atomic_store(&gate.is_open, true);
    join(&stopped);
    join(&waiting);
    join(&free);
    ck_assert(ended);
    finish(act);
}
END_TEST

/* ---- Other objects of the call ---- */

static void copy_to_pageable(void)
{
    SOUND(synced_mem_cpu_copy(it.pageable, it.busy) == SYNCED_MEM_OK);
}

static synced_mem_stream held_stream;

static void pull_with_pageable(void)
{
    synced_mem *const mems[] = {it.pageable, it.busy};
    SOUND(synced_mem_async_cpu_pull_n(mems, 2, held_stream) == SYNCED_MEM_OK);
    SOUND(synced_mem_wait(it.pageable) == SYNCED_MEM_OK);
}

/* A transfer to pageable memory may block in the runtime. It comes after a kernel that does not end. */
START_TEST(pageable_memory_of_another_object)
{
    struct call waiting, free;
    begin(&acts[0]);
    atomic_store(&gate.is_armed, false);
    const synced_mem_stats before = stats_now();
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    held_stream = stream;
    gpu_hold(stream);
    device_writes(it.busy, 1, stream);
    if (_i)
        gpu_fill(given(synced_mem_overwrite_gpu_data_on(it.pageable, stream)), BUSY, 2, stream);
    start(&waiting, _i ? pull_with_pageable : copy_to_pageable);
    ck_assert(!await(&waiting.is_done, A_WHILE));
    start(&free, read_free);
    const bool ended = await(&free.is_done, PATIENCE);
    gpu_unhold();
    join(&waiting);
    join(&free);
    ck_assert(ended);
    ck_assert_uint_eq(stats_now().staged_transfers, before.staged_transfers + 1);
    const void *const pulled = given(synced_mem_cpu_data(it.pageable));
    ck_assert(_i ? pattern_is(pulled, BUSY, 2) : memcmp(pulled, expected + BUSY_BEGIN, BUSY) == 0);
    finish(&(const struct act){.stopped = NULL});
    close_stream(stream);
}
END_TEST

/* ---- Transfers of the same bytes ---- */

static void push_busy(void)
{
    SOUND(synced_mem_async_gpu_push(it.busy, NULL) == SYNCED_MEM_OK);
}

static void push_list(void)
{
    synced_mem *const mems[] = {it.busy, it.plain};
    SOUND(synced_mem_async_gpu_push_n(mems, 2, NULL) == SYNCED_MEM_OK);
}

static void pull_busy(void)
{
    SOUND(synced_mem_async_cpu_pull(it.busy, NULL) == SYNCED_MEM_OK);
}

static void read_on_device(void)
{
    SOUND(synced_mem_gpu_data_on(it.busy, NULL) != NULL);
}

static void read_without_a_stream(void)
{
    SOUND(synced_mem_gpu_data(it.busy) != NULL);
}

static const struct transfer {
    int act;
    void (*transfer)(void);
} transfers[] = {{TO_VIEW, push_busy},
                 {TO_VIEW, push_list},
                 {TO_VIEW, read_on_device},
                 {TO_VIEW, read_without_a_stream},
                 {TO_VIEW_OF_MAPPED, push_busy},
                 {TO_VIEW_OF_MAPPED, push_list},
                 {TO_VIEW_OF_MAPPED, read_on_device},
                 {TO_VIEW_OF_MAPPED, read_without_a_stream},
                 {TO_MAPPED, pull_busy},
                 {TO_MAPPED, read_on_device},
                 {TO_MAPPED, read_without_a_stream}};
enum { TRANSFERS = sizeof transfers / sizeof transfers[0] };

/* A transfer of bytes that the host still copies waits for them without the lock. */
START_TEST(transfers_of_the_copy_wait)
{
    const struct act *const act = &acts[transfers[_i].act];
    struct call stopped, waiting, free;
    begin(act);
    start(&stopped, act->stopped);
    ck_assert(await(&gate.is_reached, PATIENCE));
    start(&waiting, transfers[_i].transfer);
    ck_assert(!await(&waiting.is_done, A_WHILE));
    start(&free, read_free);
    const bool ended = await(&free.is_done, PATIENCE);
    atomic_store(&gate.is_open, true);
    join(&stopped);
    join(&waiting);
    join(&free);
    ck_assert(ended);
    ck_assert(device_reads_right(it.busy));
    finish(act);
}
END_TEST

/* ---- No memory ---- */

static _Thread_local bool is_pulling;
static atomic_bool is_refused;

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return is_pulling && atomic_load(&is_refused) ? NULL : __real_calloc(count, size);
}

static synced_mem_stream pull_stream;

static void pull_without_memory(void)
{
    synced_mem *const mems[] = {it.plain, it.root};
    is_pulling = true;
    SOUND(synced_mem_async_cpu_pull_n(mems, 2, pull_stream) == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
}

/* A pull waits for the host, which still reads the bytes to pull into. Meanwhile the root gets more parts than the call
 * has room for, and no memory is left. A stream that may write another object of the call still may. */
START_TEST(writers_go_on_after_a_failed_pull)
{
    synced_mem *views[8];
    struct call stopped, pulling;
    begin(&acts[0]);
    pull_stream = open_stream(NON_BLOCKING);
    synced_mem_stream writer = open_stream(NON_BLOCKING);
    (void)given(synced_mem_gpu_data_on(it.root, pull_stream));
    gpu_stream_sync(pull_stream);
    start(&stopped, copy_from);
    ck_assert(await(&gate.is_reached, PATIENCE));
    device_writes(it.busy, 1, pull_stream);
    void *const data = given(synced_mem_overwrite_gpu_data_on(it.plain, writer));
    gpu_fill(data, BUSY, 2, writer);
    start(&pulling, pull_without_memory);
    ck_assert(!await(&pulling.is_done, A_WHILE));
    for (size_t i = 0; i < 8; i++)
        views[i] = view_of(it.busy, 100 * i + 50, 20);
    atomic_store(&is_refused, true);
    atomic_store(&gate.is_open, true);
    join(&stopped);
    join(&pulling);
    atomic_store(&is_refused, false);
    gpu_fill(data, BUSY, 3, writer);
    ck_assert(host_is(synced_mem_cpu_data(it.plain), BUSY, 3));
    release_all(views, 8);
    finish(&(const struct act){.stopped = NULL});
    CLOSE_EACH(pull_stream, writer);
}
END_TEST

/* ---- The memory, and forks ---- */

/* The memory that the host reads is given up. It stays until it was read. */
START_TEST(memory_goes_meanwhile)
{
    struct call stopped;
    begin(&acts[0]);
    start(&stopped, acts[0].stopped);
    ck_assert(await(&gate.is_reached, PATIENCE));
    OK(synced_mem_release_data(it.root));
    OK(synced_mem_reap());
    ck_assert_uint_eq(stats_now().retired, 1);
    ck_assert(host_is(synced_mem_cpu_data(it.free), BUSY, 0));
    atomic_store(&gate.is_open, true);
    join(&stopped);
    ck_assert(memcmp(given(synced_mem_cpu_data(it.out)), expected + BUSY_BEGIN, BUSY) == 0);
    memset(expected, 0, ROOT);
    OK(synced_mem_reap());
    ck_assert_uint_eq(stats_now().retired, 0);
    finish(&(const struct act){.stopped = NULL});
}
END_TEST

static pid_t child;

static void fork_and_read(void)
{
    child = fork();
    if (child == 0) {
        const void *const data = synced_mem_cpu_data(it.busy);
        _exit(data && bytes_are_right(it.busy, data) ? 0 : 1);
    }
}

/* Without a GPU a child can use all objects. So none may be half copied. */
START_TEST(fork_waits)
{
    struct call stopped, forking;
    int status = 1;
    if (gpu_expected())
        return;
    begin(&acts[_i]);
    start(&stopped, acts[_i].stopped);
    ck_assert(await(&gate.is_reached, PATIENCE));
    start(&forking, fork_and_read);
    ck_assert(!await(&forking.is_done, A_WHILE));
    atomic_store(&gate.is_open, true);
    join(&stopped);
    join(&forking);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    finish(&acts[_i]);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("host copies of views");
    TCase *const tests = add_case(made, "host copies");
    tcase_add_test(tests, memory_goes_meanwhile);
    add_gpu_tests(tests, writers_go_on_after_a_failed_pull);
    tcase_add_loop_test(tests, other_bytes_do_not_wait, 0, ACTS * OTHERS);
    tcase_add_loop_test(tests, same_bytes_wait, 0, ACTS);
    tcase_add_loop_test(tests, fork_waits, 0, TO_MAPPED);
    add_gpu_loop_test(tests, pageable_memory_of_another_object, 0, 2);
    add_gpu_loop_test(tests, transfers_of_the_copy_wait, 0, TRANSFERS);
    return made;
}
