/* Checks views in other places: of memory that both sides use, from the caller's allocators, on other devices. */
#include "calls.h"
#include "views_kit.h"

#include "heap.h"

enum { HALF = ROOT / 2, TRIES = 4 };

/* ---- Memory that both sides use ---- */

static const synced_mem_placement_kind kinds[] = {SYNCED_MEM_PLACEMENT_MAPPED, SYNCED_MEM_PLACEMENT_MANAGED};

/* Returns NULL if the machine does not have the placement. */
static synced_mem *try_placed(synced_mem_placement_kind placement)
{
    synced_mem *const probe = make_placed_on(ROOT, placement, SYNCED_MEM_DEVICE_CURRENT);
    const bool can = gpu_expected() && synced_mem_cpu_data(probe);
    OK(synced_mem_release(probe));
    return can ? make_placed_on(ROOT, placement, SYNCED_MEM_DEVICE_CURRENT) : NULL;
}

/* The host does not touch bytes of one view while a kernel works on another: this needs no wait. */
START_TEST(unified_side_by_side)
{
    synced_mem *const root = try_placed(kinds[_i]);
    if (!root)
        return;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const a = view_of(root, 0, HALF), *const b = view_of(root, HALF, HALF), *const mems[] = {a, b, root};
    host_writes(root, 1);
    device_writes(b, 2, stream);
    gpu_stream_sync(stream);
    given(synced_mem_mutable_gpu_data_on(b, stream));
    gpu_hold(stream);
    host_writes(a, 4);
    ck_assert(host_reads_right(a));
    ck_assert(!gpu_stream_is_idle(stream));
    gpu_unhold();
    device_writes(b, 3, stream);
    ck_assert(host_reads_right(b));
    ck_assert(host_reads_right(root));
    release_all(mems, 3);
    close_stream(stream);
}
END_TEST

/* ---- Allocators ---- */

/* The root's allocators are requested once a side, for all bytes, by whichever view comes first. */
START_TEST(allocators)
{
    synced_mem *const root = heaps_make(ROOT), *const a = view_of(root, 100, HALF), *const b = view_of(a, 10, 1000);
    synced_mem *const mems[] = {root, a, b};
    host_writes(b, 1);
    host_writes(a, 2);
    ck_assert_uint_eq(heaps.host.calls, 1);
    ck_assert_uint_eq(heaps.host.asked, ROOT);
    ck_assert_int_eq(synced_mem_cpu_source(b), SYNCED_MEM_SOURCE_ALLOCATOR);
    if (gpu_expected()) {
        device_writes(b, 3, NULL);
        ck_assert(device_reads_right(root));
        ck_assert_uint_eq(heaps.device.calls, 1);
        ck_assert_uint_eq(heaps.device.asked, ROOT);
        ck_assert_int_eq(synced_mem_gpu_source(a), SYNCED_MEM_SOURCE_ALLOCATOR);
    }
    for (int i = 0; i < 3; i++)
        ck_assert(host_reads_right(mems[i]));
    RELEASE_EACH(root, a);
    ck_assert_uint_eq(heap_live(&heaps.host), 1);
    ck_assert(host_reads_right(b));
    OK(synced_mem_release(b));
    ck_assert_uint_eq(heap_live(&heaps.host), 0);
    heaps_end();
}
END_TEST

/* The allocator has no memory. */
START_TEST(no_memory_from_the_allocator)
{
    const bool gpu = _i;
    if (gpu && !gpu_expected())
        return;
    synced_mem *const root = heaps_make(ROOT), *const a = view_of(root, 0, HALF), *const b = view_of(root, HALF, HALF);
    synced_mem *const mems[] = {root, a, b};
    if (gpu)
        host_writes(a, 1);
    struct heap *const heap = gpu ? &heaps.device : &heaps.host;
    heap->fault = HEAP_GIVES_NOTHING;
    heap->fails_at = 1;
    heap->more = TRIES - 1; /* a request is repeated after each step of reclaim */
    FAILS_NULL(gpu ? SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY : SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY,
               gpu ? synced_mem_gpu_data(a) : synced_mem_cpu_data(a));
    ck_assert_int_eq(synced_mem_head(a), gpu ? SYNCED_MEM_AT_CPU : SYNCED_MEM_UNINITIALIZED);
    HEAD(b, UNINITIALIZED);
    ck_assert(host_reads_right(root));
    if (gpu)
        ck_assert(device_reads_right(root));
    release_all(mems, 3);
    heaps_end();
}
END_TEST

static synced_mem *meanwhile_of;
static synced_mem *meanwhile[3];

/* Makes and releases views while the root's lock is released. */
static void divide_meanwhile(void)
{
    meanwhile[0] = view_of(meanwhile_of, 50, 5000);
    meanwhile[1] = view_of(meanwhile_of, 3000, 10000);
    meanwhile[2] = view_of(meanwhile_of, 0, ROOT);
    OK(synced_mem_release(meanwhile[0]));
    meanwhile[0] = view_of(meanwhile_of, 60, 5000);
}

/* An allocator is called with nothing locked, and the object is divided meanwhile. */
START_TEST(divided_meanwhile)
{
    const bool gpu = _i % 2, viewed = _i / 2;
    if (gpu && !gpu_expected())
        return;
    synced_mem *const root = heaps_make(ROOT), *const it = viewed ? view_of(root, 1000, 9000) : root;
    memset(expected, 0, sizeof expected);
    if (gpu)
        host_writes(root, 1);
    meanwhile_of = root;
    (gpu ? &heaps.device : &heaps.host)->during = divide_meanwhile;
    if (gpu)
        ck_assert(device_reads_right(it));
    else
        host_writes(it, 2);
    ck_assert_ptr_nonnull(meanwhile[2]);
    for (int i = 0; i < 3; i++)
        ck_assert(host_reads_right(meanwhile[i]));
    ck_assert(host_reads_right(root));
    release_all(meanwhile, 3);
    ck_assert(host_reads_right(it));
    if (viewed)
        OK(synced_mem_release(it));
    OK(synced_mem_release(root));
    heaps_end();
}
END_TEST

/* ---- Other devices ---- */

/* The first use of a view sets the root's device, and so that of all views. */
START_TEST(device_of_a_view)
{
    if (devices() < 2)
        return;
    synced_mem *const root = make(ROOT), *const a = view_of(root, 0, HALF), *const b = view_of(root, HALF, HALF);
    synced_mem *const none = view_of(root, 5, 0), *const mems[] = {a, b, none, root};
    synced_mem_stream there = gpu_stream_create(1, false), here = gpu_stream_create(0, false);
    memset(expected, 0, sizeof expected);
    host_writes(root, 1);
    gpu_make_current(1);
    device_writes(a, 2, there);
    gpu_make_current(0);
    ck_assert_int_eq(synced_mem_device(a), 1);
    ck_assert_int_eq(synced_mem_device(b), 1);
    ck_assert_int_eq(synced_mem_device(root), 1);
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_gpu_data_on(b, here));
    HEAD(b, AT_CPU);
    OK(synced_mem_async_gpu_push(b, there));
    ck_assert(host_reads_right(root));
    release_all(mems, 4);
    CLOSE_EACH(there, here);
}
END_TEST

/* A view of 0 bytes has its root's device, whichever of them is used first. */
START_TEST(device_of_no_bytes)
{
    const bool root_is_first = _i == 0;
    if (devices() < 2)
        return;
    synced_mem *const root = make(ROOT), *const none = view_of(root, 10, 0), *const part = view_of(root, 0, 100);
    synced_mem *const used = root_is_first ? root : none, *const mems[] = {part, none, root};
    synced_mem_stream there = gpu_stream_create(1, false);
    ck_assert_int_eq(synced_mem_device(none), SYNCED_MEM_DEVICE_CURRENT);
    gpu_make_current(1);
    (void)given(synced_mem_overwrite_gpu_data(used));
    gpu_make_current(0);
    ck_assert_int_eq(synced_mem_device(root), 1);
    ck_assert_int_eq(synced_mem_device(none), 1);
    (void)given(synced_mem_mutable_gpu_data(none));
    (void)given(synced_mem_mutable_gpu_data(root));
    ck_assert_int_eq(synced_mem_device(root), 1);
    ck_assert_int_eq(synced_mem_device(none), 1);
    (void)given(synced_mem_overwrite_cpu_data(none));
    (void)given(synced_mem_overwrite_cpu_data(part));
    OK(synced_mem_async_gpu_push_n(mems, 2, there));
    HEAD(none, SYNCED);
    HEAD(part, SYNCED);
    synced_mem *const other = view_of(root, 20, 0);
    OK(synced_mem_async_gpu_copy(other, none, there)); /* their locks are one */
    HEAD(other, AT_GPU);
    OK(synced_mem_release(other));
    release_all(mems, 3);
    close_stream(there);
}
END_TEST

/* The next calls' device is decided by another call, which comes while the caller's allocator is running. */
static synced_mem_stream stream_meanwhile;

static void use_on_another_device(void)
{
    const int mine = gpu_current_device();
    gpu_make_current(0);
    (void)given(synced_mem_gpu_data_on(meanwhile_of, stream_meanwhile));
    gpu_make_current(mine);
}

enum { PUSH_MANY = CALLS };
static const int late_calls[] = {ON_READ, ON_MUTABLE, ON_OVERWRITE, PUSH, PUSH_MANY};
enum { LATE_CALLS = sizeof late_calls / sizeof late_calls[0] };

static synced_mem_status call_late(int call, synced_mem *it, synced_mem *other, synced_mem_stream stream)
{
    synced_mem *const both[] = {other, it};
    return call == PUSH_MANY ? synced_mem_async_gpu_push_n(both, 2, stream) : make_call(it, call, stream);
}

/* A call on a stream never gets memory of another device, whoever put the object there. */
START_TEST(device_meanwhile)
{
    const int call = late_calls[_i % LATE_CALLS];
    const bool viewed = _i / LATE_CALLS;
    if (devices() < 2)
        return;
    synced_mem *const root = heaps_make(ROOT), *const it = viewed ? view_of(root, 1000, 9000) : root;
    synced_mem *const other = make(100);
    synced_mem_stream there = gpu_stream_create(1, false);
    stream_meanwhile = gpu_stream_create(0, false);
    memset(expected, 0, sizeof expected);
    host_writes(root, 1);
    (void)given(synced_mem_overwrite_cpu_data(other));
    meanwhile_of = root;
    heaps.device.during = use_on_another_device;
    gpu_make_current(1);
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, call_late(call, it, other, there));
    gpu_make_current(0);
    ck_assert_int_eq(synced_mem_device(it), 0);
    ck_assert_uint_eq(heap_live(&heaps.device), 1);
    ck_assert(host_reads_right(root));
    kernel_reads(it, stream_meanwhile);
    gpu_stream_sync(stream_meanwhile);
    if (viewed)
        OK(synced_mem_release(it));
    RELEASE_EACH(root, other);
    CLOSE_EACH(there, stream_meanwhile);
    heaps_end();
}
END_TEST

/* A copy's stream may be on the device of the source. So a target that another call has put elsewhere is written. */
START_TEST(copied_meanwhile)
{
    if (devices() < 2)
        return;
    synced_mem *const root = heaps_make(ROOT), *const it = _i ? view_of(root, 0, HALF) : root;
    synced_mem *const from = make(synced_mem_size(it));
    synced_mem_stream there = gpu_stream_create(1, false);
    stream_meanwhile = gpu_stream_create(0, false);
    memset(expected, 0, sizeof expected);
    host_writes(root, 1);
    gpu_make_current(1);
    device_writes(from, 2, there);
    gpu_make_current(0);
    expect(it, 2);
    meanwhile_of = root;
    heaps.device.during = use_on_another_device;
    OK(synced_mem_async_gpu_copy(it, from, there));
    ck_assert_int_eq(synced_mem_device(it), 0);
    ck_assert(host_reads_right(root));
    if (_i)
        OK(synced_mem_release(it));
    RELEASE_EACH(root, from);
    CLOSE_EACH(there, stream_meanwhile);
    heaps_end();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("places of views");
    TCase *const both = add_case(made, "unified");
    tcase_add_loop_test(both, unified_side_by_side, 0, 2);
    TCase *const callers = add_case(made, "allocators");
    tcase_add_test(callers, allocators);
    tcase_add_loop_test(callers, no_memory_from_the_allocator, 0, 2);
    tcase_add_loop_test(callers, divided_meanwhile, 0, 4);
    TCase *const others = add_case(made, "devices");
    tcase_add_test(others, device_of_a_view);
    tcase_add_loop_test(others, device_of_no_bytes, 0, 2);
    tcase_add_loop_test(others, device_meanwhile, 0, 2 * LATE_CALLS);
    tcase_add_loop_test(others, copied_meanwhile, 0, 2);
    return made;
}
