/*
 * Checks calls on objects in parts while each call of the runtime fails once: the heads of all parts are as before, no
 * contents are lost, and the same call succeeds when it is repeated. Checks a device that is lost.
 */
#include "break_device.h"
#include "calls.h"
#include "failing_calls.h"
#include "views_kit.h"

enum { PARTS = 6, PART = ROOT / PARTS };

static const synced_mem_head_kind of_parts[PARTS] = {SYNCED_MEM_AT_GPU, SYNCED_MEM_AT_CPU,        SYNCED_MEM_AT_GPU,
                                                     SYNCED_MEM_SYNCED, SYNCED_MEM_UNINITIALIZED, SYNCED_MEM_AT_CPU};

/* A root with parts of all heads, and a view over the halves of two of them. */
static struct {
    synced_mem *root, *parts[PARTS], *across;
    synced_mem_stream stream, other;
    synced_mem_head_kind before[PARTS + 2];
} it;

static synced_mem *object(int i)
{
    return i < PARTS ? it.parts[i] : i == PARTS ? it.across : it.root;
}

static void settle(void)
{
    gpu_sync_device(0);
    for (int i = 0; i < PARTS; i++)
        OK(synced_mem_wait(it.parts[i]));
}

static void begin(bool pageable, bool fresh)
{
    it.stream = open_stream(NON_BLOCKING);
    it.other = open_stream(NON_BLOCKING);
    it.root = make_root(pageable);
    it.across = view_of(it.root, PART / 2, PART);
    if (!fresh) { /* both copies are there */
        host_writes(it.root, 9);
        (void)given(synced_mem_gpu_data_on(it.root, it.other));
        OK(synced_mem_end_use_on(it.root, it.other));
        OK(synced_mem_clear(it.root));
        memset(expected, 0, sizeof expected);
        gpu_sync_device(0);
    }
    for (int i = 0; i < PARTS; i++) {
        it.parts[i] = view_of(it.root, (size_t)i * PART, PART);
        if (!fresh || !(of_parts[i] & SYNCED_MEM_AT_GPU))
            bring_to(it.parts[i], of_parts[i], 1 + (unsigned)i);
    }
    if (!fresh)
        settle();
    for (int i = 0; i < PARTS + 2; i++)
        it.before[i] = synced_mem_head(object(i));
}

static void finish(void)
{
    for (int i = PARTS + 1; i >= 0; i--)
        ck_assert(host_reads_right(object(i)));
    RELEASE_EACH(it.root, it.across);
    release_all(it.parts, PARTS);
    CLOSE_EACH(it.stream, it.other);
}

/* ---- The calls ---- */

enum { LIST = CALLS };
static const int calls[] = {CPU_READ, CPU_MUTABLE, GPU_READ, ON_READ, ON_MUTABLE, PUSH, PULL, FREE_CPU, FREE_GPU, LIST};
enum { COUNT = sizeof calls / sizeof calls[0] };

static synced_mem_status call_on(synced_mem *mem, int call)
{
    synced_mem *const list[] = {it.parts[1], it.parts[5], it.parts[1], it.parts[5]};
    if (call == LIST)
        return synced_mem_async_gpu_push_n(list, 4, it.other);
    return make_call(call == FREE_CPU || call == FREE_GPU ? it.root : mem, call, it.other);
}

static void fail_call(int call, bool whole, bool pageable, bool fresh, struct failing *failing)
{
    begin(pageable, fresh);
    synced_mem *const mem = whole ? it.root : it.across;
    begin_failing(failing);
    const synced_mem_status status = call_on(mem, call);
    const bool happened = end_failing(failing);
    if (status == SYNCED_MEM_OK && happened) /* a copy thread may have met it, and the first wait reports it */
        for (int i = 0; i < PARTS + 2; i++)
            (void)synced_mem_wait(object(i));
    if (status != SYNCED_MEM_OK) {
        /* Staged transfers of several objects arrive although one of them fails. */
        const bool several = call == LIST && pageable;
        ck_assert_msg(happened, "call %d fails with %s", call, synced_mem_last_error_message());
        for (int i = 0; i < PARTS + 2; i++)
            ck_assert_msg(synced_mem_head(object(i)) == it.before[i] || several,
                          "call %d, failure %u: object %d: head %d, not %d", call, failing->nth, i,
                          (int)synced_mem_head(object(i)), (int)it.before[i]);
        if (fixture_schedule() % 2) /* otherwise the contents are checked first */
            OK(call_on(mem, call));
    }
    finish();
}

START_TEST(each_call_fails)
{
    static const cudaError_t codes[] = {cudaErrorUnknown, cudaErrorMemoryAllocation};
    const int call = calls[_i % COUNT];
    const bool whole = _i / COUNT % 2, pageable = _i / COUNT / 2 % 2, fresh = _i / COUNT / 4;
    if (fresh && (call == CPU_READ || call == CPU_MUTABLE || call == PULL || call == FREE_GPU))
        return; /* nothing is on the device */
    for (int kind = 0; kind < 2; kind++) {
        struct failing failing = each_call("*", codes[kind]);
        while (next_failure(&failing))
            fail_call(call, whole, pageable, fresh, &failing);
        ck_assert_uint_gt(failing.nth, 1);
    }
}
END_TEST

/* Half of the parts are on the host alone, the others have no contents. The fills fail after the transfers. */
START_TEST(the_heads_of_many_parts)
{
    enum { MANY = 300, BYTES = 64 };
    static synced_mem *views[MANY];
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    struct failing failing = each_call("*", cudaErrorUnknown);
    unsigned failed = 0;
    while (next_failure(&failing)) {
        synced_mem *const root = make((size_t)MANY * BYTES);
        for (int i = 0; i < MANY; i++)
            OK(synced_mem_view(&views[i], root, (size_t)i * BYTES, BYTES, NULL));
        (void)given(synced_mem_gpu_data_on(root, stream)); /* pointers to all parts were given out before */
        for (int i = 0; i < MANY; i++) {
            OK(synced_mem_clear(views[i]));
            if (i % 2)
                host_fill(given(synced_mem_overwrite_cpu_data(views[i])), BYTES, (unsigned)i);
        }
        begin_failing(&failing);
        const synced_mem_status status = status_of(synced_mem_gpu_data_on(root, stream));
        ck_assert(end_failing(&failing) || status == SYNCED_MEM_OK);
        failed += status != SYNCED_MEM_OK;
        for (int i = 0; i < MANY; i++) {
            const synced_mem_head_kind before = i % 2 ? SYNCED_MEM_AT_CPU : SYNCED_MEM_UNINITIALIZED;
            const synced_mem_head_kind after = i % 2 ? SYNCED_MEM_SYNCED : SYNCED_MEM_AT_GPU;
            ck_assert_int_eq(synced_mem_head(views[i]), status == SYNCED_MEM_OK ? after : before);
        }
        release_all(views, MANY);
        OK(synced_mem_release(root));
    }
    ck_assert_uint_gt(failed, 2);
    close_stream(stream);
}
END_TEST

/* The wait for one of several parts that arrive fails. */
START_TEST(a_part_does_not_arrive)
{
    begin(_i, false);
    device_writes(it.parts[0], 7, it.stream);
    device_writes(it.parts[5], 8, it.other);
    OK(synced_mem_async_cpu_pull(it.parts[0], it.stream));
    OK(synced_mem_async_cpu_pull(it.parts[5], it.other));
    emu_fail("cudaEventSynchronize", 1, cudaErrorUnknown, false);
    const void *const data = synced_mem_cpu_data(it.root);
    ck_assert(data || synced_mem_last_error() == SYNCED_MEM_ERR_CUDA);
    emu_fail_clear();
    ck_assert(synced_mem_head(it.parts[0]) & SYNCED_MEM_AT_GPU);
    ck_assert(synced_mem_head(it.parts[5]) & SYNCED_MEM_AT_GPU);
    HEAD(it.parts[1], AT_CPU);
    finish();
}
END_TEST

/* A staged transfer of a view fails after the view was cut: neither half has the contents on the host. */
START_TEST(a_cut_transfer_fails)
{
    set_staging(1 + (unsigned)_i % 2, 1);
    begin(true, false);
    device_writes(it.parts[2], 7, it.stream);
    gpu_hold(it.stream);
    emu_fail("cudaMemcpyAsync", 1, cudaErrorUnknown, false);
    OK(synced_mem_async_cpu_pull(it.parts[2], it.stream));
    synced_mem *const left = view_of(it.parts[2], 0, PART / 3), *const right = view_of(it.parts[2], PART / 3, PART / 3);
    if (_i / 2)
        OK(synced_mem_release(left));
    gpu_unhold();
    gpu_sync_device(0);
    (void)synced_mem_wait(right);
    emu_fail_clear();
    (void)synced_mem_wait(it.parts[2]);
    ck_assert_uint_eq(emu_failures(), 1);
    HEAD(it.parts[2], AT_GPU);
    HEAD(right, AT_GPU);
    ck_assert(host_reads_right(right));
    ck_assert(host_reads_right(it.parts[2]));
    OK(synced_mem_release(right));
    if (!(_i / 2))
        OK(synced_mem_release(left));
    finish();
}
END_TEST

/* ---- Untracked work ---- */

/* Makes a root with one view, and a transfer to the view's host memory that waits for gpu_unhold(). Nothing can record
 * an event behind the transfer. */
static void begin_with_untracked_part(void)
{
    it.stream = open_stream(NON_BLOCKING);
    it.root = make_root(false);
    it.across = view_of(it.root, PART, PART);
    host_writes(it.root, 1);
    device_writes(it.root, 2, it.stream);
    gpu_hold(it.stream);
    (void)given(synced_mem_mutable_gpu_data_on(it.across, it.stream));
    emu_fail("cudaEventRecord", 2, cudaErrorUnknown, false); /* the first one is behind the caller's kernels */
    emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_cpu_data(it.across));
    emu_fail_clear();
    HEAD(it.root, AT_GPU);
}

static void release_with_untracked_part(void)
{
    ck_assert(host_reads_right(it.across));
    ck_assert(host_reads_right(it.root));
    RELEASE_EACH(it.across, it.root);
    close_stream(it.stream);
}

/* The host memory is given up as a whole. It has other contents only after the transfer to the part, which a later view
 * may have cut. */
START_TEST(memory_with_an_untracked_part)
{
    begin_with_untracked_part();
    synced_mem *const inner = _i ? view_of(it.across, 5, 50) : NULL;
    OK(synced_mem_release_cpu_data(it.root));
    if (inner)
        OK(synced_mem_release(inner));
    synced_mem *const next = make_on(ROOT, 0);
    host_fill(given(synced_mem_overwrite_cpu_data(next)), ROOT, 3);
    gpu_unhold();
    emu_run_all();
    ck_assert(host_is(synced_mem_cpu_data(next), ROOT, 3));
    ck_assert_uint_eq(stats_now().quarantined, 0);
    OK(synced_mem_release(next));
    release_with_untracked_part();
}
END_TEST

/* No event can be recorded behind the transfer later either. The memory is not used again. */
START_TEST(memory_with_a_part_untracked_for_ever)
{
    begin_with_untracked_part();
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    OK(synced_mem_release_cpu_data(it.root));
    emu_fail_clear();
    gpu_unhold();
    ck_assert_uint_eq(stats_now().quarantined, 1);
    release_with_untracked_part();
    OK(synced_mem_shutdown());
    ck_assert_uint_eq(stats_now().quarantined, 1);
    emu_reset(0);
}
END_TEST

/* ---- A lost device ---- */

START_TEST(device_lost)
{
    const synced_mem_status lost = SYNCED_MEM_ERR_DEVICE_LOST;
    begin(_i, false);
    break_device();
    FAILS_NULL(lost, synced_mem_cpu_data(it.root));
    FAILS_NULL(lost, synced_mem_cpu_data(it.across));
    FAILS_NULL(lost, synced_mem_gpu_data(it.root));
    FAILS_NULL(lost, synced_mem_mutable_gpu_data_on(it.parts[1], NULL));
    FAILS(lost, synced_mem_async_gpu_push(it.root, NULL));
    FAILS(lost, synced_mem_release_cpu_data(it.root));
    FAILS(lost, synced_mem_release_gpu_data(it.root));
    for (int i = 0; i < PARTS + 2; i++)
        ck_assert_int_eq(synced_mem_head(object(i)), it.before[i]);
    for (int i = 0; i < PARTS; i++) {
        if (of_parts[i] == SYNCED_MEM_AT_GPU)
            FAILS_NULL(lost, synced_mem_cpu_data(it.parts[i]));
        else
            ck_assert(host_reads_right(it.parts[i]));
        synced_mem *const inner = view_of(it.parts[i], 5, 50);
        if (of_parts[i] == SYNCED_MEM_AT_GPU)
            FAILS_NULL(lost, synced_mem_mutable_cpu_data(inner));
        else
            ck_assert(host_reads_right(inner));
        OK(synced_mem_release(inner));
    }
    host_writes(it.parts[0], 1);
    ck_assert(host_reads_right(it.across));
    host_writes(it.root, 2);
    ck_assert(host_reads_right(it.root));
    HEAD(it.root, AT_CPU);
    RELEASE_EACH(it.root, it.across);
    release_all(it.parts, PARTS);
    end_without_device();
}
END_TEST

/* The device is lost while a push of one part is on its way. The other parts keep what they have. */
START_TEST(lost_on_the_way)
{
    begin(false, false);
    host_writes(it.parts[3], 5);
    emu_break_device(0, cudaErrorLaunchFailure);
    (void)synced_mem_async_gpu_push(it.parts[3], it.stream);
    (void)cudaStreamSynchronize(it.stream);
    (void)cudaGetLastError();
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_gpu_data_on(it.root, it.other));
    ck_assert(host_reads_right(it.parts[1]));
    ck_assert(host_reads_right(it.parts[3]));
    HEAD(it.parts[1], AT_CPU);
    HEAD(it.parts[0], AT_GPU);
    ck_assert(synced_mem_head(it.parts[3]) & SYNCED_MEM_AT_CPU);
    RELEASE_EACH(it.root, it.across);
    release_all(it.parts, PARTS);
    end_without_device();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("failures of views");
    TCase *const fails = add_case(made, "failures");
    add_tests(fails, the_heads_of_many_parts);
    tcase_add_loop_test(fails, memory_with_an_untracked_part, 0, 2);
    add_divided_test(fails, each_call_fails, 0, 8 * COUNT);
    tcase_add_loop_test(fails, a_part_does_not_arrive, 0, 2);
    tcase_add_loop_test(fails, a_cut_transfer_fails, 0, 4);
    TCase *const lost = add_case_without_end(made, "lost");
    add_tests(lost, memory_with_a_part_untracked_for_ever, lost_on_the_way);
    tcase_add_loop_test(lost, device_lost, 0, 2);
    return made;
}
