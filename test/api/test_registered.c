/* Checks page-locked host memory of the caller's: locked by the caller or on request, in part, or no longer. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, SIZE = 5000, LOCK = SYNCED_MEM_MEMORY_PAGE_LOCK };

/* Returns whole pages that hold nothing else, so that the caller may page-lock any part. */
static char *host_memory(unsigned pattern)
{
    char *const data = aligned_alloc(PAGE, 4 * PAGE);
    ck_assert_ptr_nonnull(data);
    pattern_write(data, 4 * PAGE, pattern);
    return data;
}

/* Makes the process use a device through the library. */
static void use_a_device(void)
{
    synced_mem *const mem = make(64);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    OK(synced_mem_release(mem));
}

static void never(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
    ck_abort_msg("a callback for memory that was not adopted");
}

/* ---- Kinds of memory ---- */

START_TEST(a_device_is_not_the_host)
{
    char *const device = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_at_cpu(SIZE, 4);
    use_a_device();
    const struct facts before = facts_of(mem);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_cpu_data(mem, device));
    SAYS("not of the host");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .cpu_data = device, .callback = never));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .cpu_data = device, .flags = LOCK));
    SAYS("not of the host");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .cpu_data = device, .gpu_data = device + 8));
    SAYS("not of the host");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .cpu_data = device, .stream = LEGACY_HANDLE));
    SAYS("not of the host");
    check_unchanged(mem, &before);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 4));
    OK(synced_mem_release(mem));
    gpu_free(device);
}
END_TEST

/* The runtime is not queried before a device is in use. The first transfer detects memory of the wrong kind. */
START_TEST(nothing_is_started)
{
    synced_mem *const mem = make(SIZE);
    char *const host = host_memory(1);
    const unsigned calls = gpu_calls(NULL);
    OK(synced_mem_set_cpu_data(mem, host));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 0);
    ck_assert_uint_eq(gpu_calls(NULL), calls);
    if (gpu_expected()) {
        char *const device = gpu_alloc(0, SIZE);
        synced_mem *const wrong = make(SIZE);
        OK(synced_mem_set_cpu_data(wrong, device));
        ck_assert_int_eq(synced_mem_cpu_is_pinned(wrong), 0);
        const struct facts before = facts_of(wrong);
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_gpu_data(wrong));
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_async_gpu_push(wrong, NULL));
        SAYS("not of the host");
        check_unchanged(wrong, &before);
        OK(synced_mem_release(wrong));
        gpu_free(device);
    }
    OK(synced_mem_release(mem));
    free(host);
}
END_TEST

/* Managed memory serves either side. */
START_TEST(managed_memory_as_host_memory)
{
    void *const managed = gpu_managed_alloc(0, SIZE);
    synced_mem *const mem = make(SIZE);
    host_fill(managed, SIZE, 1);
    use_a_device();
    OK(synced_mem_set_cpu_data(mem, managed));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 0);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 2, NULL);
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), managed);
    ck_assert(host_is(managed, SIZE, 2));
    OK(synced_mem_release(mem));
    gpu_free(managed);
}
END_TEST

/* ---- Page-locked by the caller ---- */

/* Memory is page-locked from the first byte to the last, or it counts as pageable. */
START_TEST(page_locked_in_part)
{
    static const struct {
        size_t begin, end;
        int pinned;
    } parts[] = {{0, SIZE, 1}, {0, SIZE - 1, 0}, {1, SIZE, 0}, {0, 4 * PAGE, 1}, {SIZE, 2 * SIZE, 0}};
    char *const host = host_memory(1);
    synced_mem *const mem = make(SIZE);
    use_a_device();
    gpu_register(host + parts[_i].begin, parts[_i].end - parts[_i].begin);
    OK(synced_mem_set_cpu_data(mem, host));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), parts[_i].pinned);
    OK(synced_mem_release(mem));
    gpu_unregister(host + parts[_i].begin);
    free(host);
}
END_TEST
enum { PARTS = 5 };

START_TEST(is_pinned)
{
    synced_mem *const mem = make(SIZE);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(NULL), 0);
    ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 0);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 0);
    if (gpu_expected()) {
        void *const mine = gpu_pinned_alloc(SIZE);
        OK(synced_mem_release_data(mem));
        use_a_device();
        ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
        ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 1);
        OK(synced_mem_set_cpu_data(mem, mine));
        ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 1);
        OK(synced_mem_release_data(mem));
        ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 0);
        gpu_pinned_free(mine);
    }
    OK(synced_mem_release(mem));
}
END_TEST

/* The memory is handed in before a device is in use. */
START_TEST(is_pinned_later)
{
    void *const mine = gpu_pinned_alloc(SIZE);
    synced_mem *const mem = make(SIZE);
    OK(synced_mem_set_cpu_data(mem, mine));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 0);
    use_a_device();
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 1);
    OK(synced_mem_release(mem));
    gpu_pinned_free(mine);
}
END_TEST

/* One stream fills the memory and another reads it. The host waits for neither. */
START_TEST(the_host_does_not_wait)
{
    synced_mem_stream filling = open_stream(NON_BLOCKING);
    synced_mem_stream reader = open_stream(NON_BLOCKING);
    void *const host = _i % 2 ? (void *)host_memory(0) : gpu_pinned_alloc(SIZE);
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem *const mem = make(SIZE);
    if (_i % 2)
        gpu_register(host, SIZE);
    gpu_hold(filling);
    gpu_fill_host(host, SIZE, 1, filling);
    OK(USE(mem, .cpu_data = host, .stream = filling));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 1);
    if (_i / 2)
        OK(synced_mem_async_gpu_push(mem, reader));
    gpu_copy(seen, synced_mem_gpu_data_on(mem, reader), SIZE, reader);
    ck_assert(!gpu_stream_is_idle(filling));
    gpu_unhold();
    gpu_stream_sync(reader);
    ck_assert(device_is(seen, SIZE, 1));
    OK(synced_mem_release(mem));
    CLOSE_EACH(filling, reader);
    gpu_free(seen);
    if (_i % 2)
        gpu_unregister(host);
    if (_i % 2)
        free(host);
    else
        gpu_pinned_free(host);
}
END_TEST

/* The memory is page-locked when it is handed in, and is not later. */
START_TEST(no_longer_page_locked)
{
    synced_mem_stream filling = open_stream(NON_BLOCKING);
    char *const host = host_memory(0);
    synced_mem *const mem = make(SIZE);
    gpu_register(host, SIZE);
    gpu_fill_host(host, SIZE, 1, filling);
    OK(USE(mem, .cpu_data = host, .stream = filling));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 1);
    gpu_stream_sync(filling);
    gpu_unregister(host);
    const synced_mem_stats before = stats_now();
    ck_assert(device_is(synced_mem_gpu_data_on(mem, filling), SIZE, 1));
    ck_assert_uint_eq(stats_now().host_waits, before.host_waits + 1);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 0);
    gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 2, NULL);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    close_stream(filling);
    free(host);
}
END_TEST

/* Memory that was found pageable counts as pageable until it is handed in again. */
START_TEST(page_locked_too_late)
{
    char *const host = host_memory(1);
    synced_mem *const mem = make(SIZE);
    use_a_device();
    OK(synced_mem_set_cpu_data(mem, host));
    gpu_register(host, SIZE);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 0);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    OK(synced_mem_set_cpu_data(mem, host));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 1);
    OK(synced_mem_release(mem));
    gpu_unregister(host);
    free(host);
}
END_TEST

/* The runtime refuses memory of which a part is page-locked. */
START_TEST(page_locked_in_part_too_late)
{
    static const struct {
        size_t begin, size;
    } parts[] = {{0, SIZE / 2}, {SIZE / 2, SIZE / 2}, {100, 200}};
    char *const host = host_memory(1);
    synced_mem *const mem = make(SIZE);
    use_a_device();
    OK(synced_mem_set_cpu_data(mem, host));
    gpu_register(host + parts[_i].begin, parts[_i].size);
    for (unsigned pattern = 1; pattern < 4; pattern++) {
        pattern_write(synced_mem_mutable_cpu_data(mem), SIZE, pattern);
        ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, pattern));
        ck_assert_str_eq(synced_mem_last_error_message(), "");
    }
    OK(synced_mem_release(mem));
    gpu_unregister(host + parts[_i].begin);
    free(host);
}
END_TEST

/* ---- Page-locked on request ---- */

/* Checks that the page lock is undone: the caller can page-lock the memory. */
static void check_unregistered(void *data, size_t size)
{
    gpu_register(data, size);
    gpu_unregister(data);
}

START_TEST(on_request)
{
    char *const host = host_memory(1);
    synced_mem *const mem = make(SIZE);
    if (!gpu_expected()) {
        const struct facts before = facts_of(mem);
        FAILS(SYNCED_MEM_ERR_NO_GPU, USE(mem, .cpu_data = host, .flags = LOCK));
        check_unchanged(mem, &before);
    } else {
        OK(USE(mem, .cpu_data = host, .flags = LOCK));
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
        ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_BORROWED);
        ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 1);
        ck_assert_ptr_eq(synced_mem_cpu_data(mem), host);
        gpu_delay(NULL);
        OK(synced_mem_async_gpu_push(mem, NULL));
        gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 2, NULL);
        OK(synced_mem_async_cpu_pull(mem, NULL));
        OK(_i == 0   ? synced_mem_release_cpu_data(mem)
           : _i == 1 ? synced_mem_set_cpu_data(mem, host + 2 * PAGE)
                     : synced_mem_resize(mem, 2 * SIZE));
        pattern_write(host, SIZE, 3);
        check_unregistered(host, SIZE);
        ck_assert_uint_eq(stats_now().host_allocations, 0);
    }
    OK(synced_mem_release(mem));
    free(host);
}
END_TEST

START_TEST(within_its_size_it_stays)
{
    char *const host = host_memory(1);
    synced_mem *const mem = make(SIZE);
    OK(USE(mem, .cpu_data = host, .flags = LOCK));
    OK(synced_mem_resize(mem, 100));
    OK(synced_mem_resize(mem, SIZE));
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), host);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 1);
    ck_assert(device_is(synced_mem_gpu_data(mem), 100, 1));
    OK(synced_mem_resize(mem, 2 * SIZE));
    check_unregistered(host, SIZE);
    ck_assert(host_is(synced_mem_cpu_data(mem), 100, 1));
    OK(synced_mem_release(mem));
    free(host);
}
END_TEST

/* Two objects whose memory shares a page are page-locked and released independently. */
START_TEST(neighbours)
{
    char *const host = host_memory(1);
    synced_mem *const first = make(SIZE);
    synced_mem *const second = make(PAGE);
    OK(USE(first, .cpu_data = host + 100, .flags = LOCK));
    OK(USE(second, .cpu_data = host + 100 + SIZE, .flags = LOCK));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(first), 1);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(second), 1);
    OK(synced_mem_release(first));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(second), 1);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(second));
    OK(synced_mem_release(second));
    check_unregistered(host + 100, SIZE);
    free(host);
}
END_TEST

static int handed_back;

/* Checks that the memory is not page-locked, so that the caller can free it. */
static void check_it_is_mine(void *data, void *user, synced_mem_stream stream)
{
    ck_assert_ptr_null(stream);
    check_unregistered(data, *(const size_t *)user);
    handed_back++;
}

/* Adopted memory is page-locked until its last use has ended. The page lock is undone before the callback. */
START_TEST(adopted)
{
    size_t size = SIZE;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    char *const host = host_memory(1);
    synced_mem *const mem = make(SIZE);
    OK(USE(mem, .cpu_data = host, .callback = check_it_is_mine, .user = &size, .flags = LOCK));
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_ADOPTED);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 1);
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    OK(_i ? synced_mem_set_cpu_data(mem, host + 2 * PAGE) : synced_mem_release_data(mem));
    OK(synced_mem_reap());
    ck_assert_int_eq(handed_back, 0);
    gpu_unhold();
    gpu_stream_sync(stream);
    OK(synced_mem_reap());
    ck_assert_int_eq(handed_back, 1);
    OK(synced_mem_release(mem));
    close_stream(stream);
    free(host);
}
END_TEST

static void ignore(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
    handed_back++;
}

/* The page lock stays until the last of several objects releases the memory. It does not matter which object requested
 * the lock. One object's callback may come while the other goes on. */
START_TEST(adopted_by_two)
{
    char *const host = host_memory(1);
    synced_mem *const mems[] = {make(SIZE), make(SIZE)};
    OK(USE(mems[0], .cpu_data = host, .callback = ignore, .flags = LOCK));
    OK(USE(mems[1], .cpu_data = host, .callback = ignore));
    OK(synced_mem_release(mems[_i]));
    ck_assert_int_eq(handed_back, 1);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mems[1 - _i]), 1);
    OK(synced_mem_async_gpu_push(mems[1 - _i], NULL));
    ck_assert(device_is(synced_mem_gpu_data(mems[1 - _i]), SIZE, 1));
    OK(synced_mem_release(mems[1 - _i]));
    OK(synced_mem_reap());
    ck_assert_int_eq(handed_back, 2);
    check_unregistered(host, SIZE);
    free(host);
}
END_TEST

/* Memory of both sides is handed in, in the order of a stream. Neither the call nor a push waits for the stream. */
START_TEST(with_all_else)
{
    synced_mem_stream filling = open_stream(NON_BLOCKING);
    char *const host = host_memory(1);
    void *const device = gpu_alloc(0, SIZE);
    synced_mem *const mem = make(SIZE);
    gpu_hold(filling);
    gpu_fill(device, SIZE, 1, filling);
    OK(USE(mem, .cpu_data = host, .gpu_data = device, .callback = _i ? ignore : NULL, .stream = filling,
           .flags = LOCK));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 1);
    ck_assert(!gpu_stream_is_idle(filling));
    gpu_unhold();
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 2);
    gpu_hold(filling);
    OK(synced_mem_async_gpu_push(mem, filling));
    ck_assert(!gpu_stream_is_idle(filling));
    gpu_unhold();
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    close_stream(filling);
    OK(synced_mem_shutdown());
    ck_assert_int_eq(handed_back, _i ? 2 : 0);
    check_unregistered(host, SIZE);
    gpu_free(device);
    free(host);
}
END_TEST

/* A call that fails undoes its page lock. */
START_TEST(undone_by_a_failure)
{
    char *const host = host_memory(1);
    synced_mem *const mem = make_at_cpu(SIZE, 4);
    const struct facts before = facts_of(mem);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .cpu_data = host, .gpu_data = host + 2 * PAGE, .flags = LOCK));
    SAYS("not of a device");
    check_unregistered(host, SIZE);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT,
          USE(mem, .cpu_data = host, .gpu_data = host + 2 * PAGE, .callback = never, .flags = LOCK));
    check_unregistered(host, SIZE);
    check_unchanged(mem, &before);
    OK(synced_mem_release(mem));
    free(host);
}
END_TEST

/* The page lock stays until the last borrower releases the memory, whether that one requested it or not. */
START_TEST(shared)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    char *const host = host_memory(1);
    synced_mem *const first = make(SIZE);
    synced_mem *const second = make(1000);
    synced_mem *const elsewhere = make(100);
    OK(USE(first, .cpu_data = host, .flags = LOCK));
    OK(USE(elsewhere, .cpu_data = host + SIZE, .flags = LOCK));
    OK(_i ? synced_mem_set_cpu_data(second, host + 8) : USE(second, .cpu_data = host + 8, .flags = LOCK));
    gpu_delay(stream);
    OK(synced_mem_async_gpu_push(second, stream));
    OK(synced_mem_release(first));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(second), 1);
    OK(synced_mem_release(second));
    check_unregistered(host, SIZE);
    OK(synced_mem_release(elsewhere));
    close_stream(stream);
    free(host);
}
END_TEST

/* The object releases the memory that it borrows once more. */
START_TEST(once_more)
{
    char *const host = host_memory(1);
    synced_mem *const mem = make(SIZE);
    use_a_device();
    OK(_i ? USE(mem, .cpu_data = host, .flags = LOCK) : synced_mem_set_cpu_data(mem, host));
    OK(USE(mem, .cpu_data = host, .flags = LOCK));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 1);
    OK(synced_mem_set_cpu_data(mem, host));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 1);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    check_unregistered(host, SIZE);
    free(host);
}
END_TEST

/* Memory that the caller has page-locked stays page-locked. */
START_TEST(the_callers_own)
{
    char *const host = _i ? gpu_pinned_alloc(SIZE) : (void *)host_memory(1);
    synced_mem *const mem = make(SIZE);
    if (!_i)
        gpu_register(host, SIZE);
    OK(USE(mem, .cpu_data = host, .flags = LOCK));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 1);
    OK(synced_mem_release(mem));
    if (_i) {
        gpu_pinned_free(host);
    } else {
        gpu_unregister(host);
        free(host);
    }
}
END_TEST

START_TEST(refused)
{
    synced_mem *const mem = make_at_cpu(SIZE, 4);
    const struct facts before = facts_of(mem);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(NULL, .cpu_data = mem, .flags = LOCK));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .cpu_data = NULL, .flags = LOCK));
    if (gpu_expected()) {
        char *const host = host_memory(1);
        gpu_register(host + 100, 100);
        FAILS(SYNCED_MEM_ERR_CUDA, USE(mem, .cpu_data = host, .flags = LOCK));
        SAYS("cudaHostRegister");
        gpu_unregister(host + 100);
        OK(USE(mem, .cpu_data = host, .flags = LOCK));
        OK(synced_mem_release_data(mem));
        host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 4);
        free(host);
    } else {
        check_unchanged(mem, &before);
    }
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 4));
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(nothing_to_page_lock)
{
    char *const host = host_memory(1);
    synced_mem *const mem = make(0);
    FAILS_WITHOUT_GPU(USE(mem, .cpu_data = host, .flags = LOCK));
    OK(synced_mem_release(mem));
    free(host);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("registered");
    TCase *const apart = add_case(made, "told apart");
    tcase_add_test(apart, nothing_is_started);
    add_gpu_tests(apart, a_device_is_not_the_host, managed_memory_as_host_memory);
    TCase *const callers = add_case(made, "page-locked by the caller");
    tcase_add_test(callers, is_pinned);
    add_gpu_tests(callers, is_pinned_later, no_longer_page_locked, page_locked_too_late);
    add_gpu_loop_test(callers, page_locked_in_part, 0, PARTS);
    add_gpu_loop_test(callers, page_locked_in_part_too_late, 0, 3);
    add_gpu_loop_test(callers, the_host_does_not_wait, 0, 4);
    TCase *const requested = add_case(made, "page-locked on request");
    add_tests(requested, refused, nothing_to_page_lock);
    add_gpu_tests(requested, within_its_size_it_stays, neighbours, undone_by_a_failure);
    tcase_add_loop_test(requested, on_request, 0, 3);
    add_gpu_loop_test(requested, adopted, 0, 2);
    add_gpu_loop_test(requested, adopted_by_two, 0, 2);
    add_gpu_loop_test(requested, with_all_else, 0, 2);
    add_gpu_loop_test(requested, shared, 0, 2);
    add_gpu_loop_test(requested, once_more, 0, 2);
    add_gpu_loop_test(requested, the_callers_own, 0, 2);
    return made;
}
