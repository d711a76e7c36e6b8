/* Checks memory of the caller's: borrowed, adopted, replaced, made ready by a stream, or refused. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

enum { SIZE = 5000 };

/* The arguments of the callbacks. */
static struct {
    int count;
    void *data[8];
    void *user[8];
    synced_mem_stream stream[8];
} let_go;

static void note(void *data, void *user, synced_mem_stream stream)
{
    ck_assert_int_lt(let_go.count, 8);
    let_go.data[let_go.count] = data;
    let_go.user[let_go.count] = user;
    let_go.stream[let_go.count] = stream;
    let_go.count++;
}

static void check_let_go(int which, void *data, void *user)
{
    ck_assert_int_gt(let_go.count, which);
    ck_assert_ptr_eq(let_go.data[which], data);
    ck_assert_ptr_eq(let_go.user[which], user);
    ck_assert_ptr_null(let_go.stream[which]);
}

static void *host_memory(unsigned pattern)
{
    void *const data = aligned_alloc(64, (SIZE + 63) / 64 * 64);
    ck_assert_ptr_nonnull(data);
    pattern_write(data, SIZE, pattern);
    return data;
}

/* ---- Borrowed ---- */

START_TEST(borrowed_host)
{
    void *const mine = host_memory(1);
    synced_mem *const mem = make(SIZE);
    OK(synced_mem_set_cpu_data(mem, mine));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_BORROWED);
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), mine);
    ck_assert_ptr_eq(synced_mem_mutable_cpu_data(mem), mine);
    ck_assert(host_is(mine, SIZE, 1));
    ck_assert_uint_eq(stats_now().host_allocations, 0);
    if (gpu_expected()) {
        ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
        gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 2, NULL);
        ck_assert_ptr_eq(synced_mem_cpu_data(mem), mine);
        ck_assert(host_is(mine, SIZE, 2));
    }
    OK(synced_mem_release(mem));
    pattern_write(mine, SIZE, 3);
    free(mine);
}
END_TEST

/* The previous host copy is released, from any source. */
START_TEST(replacing_host)
{
    void *const first = host_memory(1);
    void *const second = host_memory(2);
    int user = 0;
    synced_mem *const mem = make_at_cpu(SIZE, 5);
    OK(synced_mem_set_cpu_data(mem, first));
    ck_assert_uint_eq(stats_now().pageable_bytes + stats_now().pinned_bytes, 0);
    OK(synced_mem_set_cpu_data(mem, first));
    OK(USE(mem, .cpu_data = second, .callback = note, .user = &user));
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_ADOPTED);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    ck_assert_int_eq(let_go.count, 0);
    OK(synced_mem_set_cpu_data(mem, first));
    ck_assert_int_eq(let_go.count, 1);
    check_let_go(0, second, &user);
    OK(synced_mem_release(mem));
    ck_assert_int_eq(let_go.count, 1);
    free(first);
    free(second);
}
END_TEST

START_TEST(borrowed_device)
{
    void *const mine = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_at_cpu(SIZE, 4);
    gpu_fill(mine, SIZE, 1, NULL);
    OK(synced_mem_set_gpu_data(mem, mine));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    ck_assert_int_eq(synced_mem_device(mem), 0);
    ck_assert_int_eq(synced_mem_gpu_source(mem), SYNCED_MEM_SOURCE_BORROWED);
    ck_assert_ptr_eq(synced_mem_gpu_data(mem), mine);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    ck_assert_uint_eq(stats_now().gpu_allocations, 0);
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 2);
    ck_assert_ptr_eq(synced_mem_gpu_data(mem), mine);
    ck_assert(device_is(mine, SIZE, 2));
    OK(synced_mem_release(mem));
    gpu_free(mine);
}
END_TEST

START_TEST(managed_memory)
{
    void *const mine = gpu_managed_alloc(0, SIZE);
    synced_mem *const mem = make(SIZE);
    OK(synced_mem_set_gpu_data(mem, mine));
    gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 1, NULL);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    gpu_free(mine);
}
END_TEST

START_TEST(borrowed_both)
{
    void *const host = host_memory(1);
    void *const device = gpu_alloc(0, SIZE);
    synced_mem *const mem = make(SIZE);
    gpu_fill(device, SIZE, 1, NULL);
    OK(USE(mem, .cpu_data = host, .gpu_data = device));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    const synced_mem_stats before = stats_now();
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), host);
    ck_assert_ptr_eq(synced_mem_gpu_data(mem), device);
    const synced_mem_stats after = stats_now();
    ck_assert_int_eq(memcmp(&before, &after, sizeof after), 0);
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 2);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    gpu_free(device);
    free(host);
}
END_TEST

/* If one side's memory is set, the other side becomes stale and keeps its memory. */
START_TEST(other_side_stays)
{
    void *const device = gpu_alloc(0, SIZE);
    void *const host = host_memory(2);
    synced_mem *const mem = make_at_cpu(SIZE, 4);
    const void *const own = synced_mem_cpu_data(mem);
    gpu_fill(device, SIZE, 1, NULL);
    OK(synced_mem_set_gpu_data(mem, device));
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), own);
    ck_assert(host_is(own, SIZE, 1));
    OK(synced_mem_set_cpu_data(mem, host));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    ck_assert_ptr_eq(synced_mem_gpu_data(mem), device);
    ck_assert(device_is(device, SIZE, 2));
    OK(synced_mem_release(mem));
    gpu_free(device);
    free(host);
}
END_TEST

/* ---- Adopted ---- */

START_TEST(adopted_host)
{
    int user = 0;
    void *const data = host_memory(1);
    synced_mem *const mem = make(SIZE);
    OK(USE(mem, .cpu_data = data, .callback = note, .user = &user));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), data);
    OK(synced_mem_retain(mem));
    OK(synced_mem_release(mem));
    ck_assert_int_eq(let_go.count, 0);
    OK(synced_mem_release(mem));
    ck_assert_int_eq(let_go.count, 1);
    check_let_go(0, data, &user);
    free(data);
}
END_TEST

START_TEST(adopted_device)
{
    int user = 0;
    void *const data = gpu_alloc(0, SIZE);
    synced_mem *const mem = make(SIZE);
    gpu_fill(data, SIZE, 1, NULL);
    OK(USE(mem, .gpu_data = data, .callback = note, .user = &user));
    ck_assert_int_eq(synced_mem_gpu_source(mem), SYNCED_MEM_SOURCE_ADOPTED);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    OK(synced_mem_shutdown());
    ck_assert_int_eq(let_go.count, 1);
    check_let_go(0, data, &user);
    gpu_free(data);
}
END_TEST

/* The callback means that the memory can be freed: kernels on the legacy stream have ended by then. */
START_TEST(adopted_device_in_use)
{
    void *const data = gpu_alloc(0, SIZE);
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem *const mem = make(SIZE);
    OK(USE(mem, .gpu_data = data, .callback = note));
    gpu_delay(NULL);
    gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 1, NULL);
    gpu_copy(seen, data, SIZE, NULL);
    OK(synced_mem_release(mem));
    OK(synced_mem_shutdown());
    ck_assert_int_eq(let_go.count, 1);
    gpu_free(data);
    ck_assert(device_is(seen, SIZE, 1));
    gpu_free(seen);
}
END_TEST

/* More transfers are in flight than the library keeps records for, each on a stream of its own. All have ended at the
 * callback. */
enum { MANY = 9 };
static synced_mem_stream reading[MANY];

static void note_idle(void *data, void *user, synced_mem_stream stream)
{
    for (int i = 0; i < MANY; i++)
        ck_assert(gpu_stream_is_idle(reading[i]));
    note(data, user, stream);
}

START_TEST(adopted_host_in_use)
{
    const int pushes = _i == 0 ? 1 : MANY;
    void *const data = gpu_pinned_alloc(SIZE);
    for (int i = 0; i < MANY; i++)
        reading[i] = gpu_stream_create(0, false);
    synced_mem *const mem = make(SIZE);
    host_fill(data, SIZE, 1);
    OK(USE(mem, .cpu_data = data, .callback = note_idle));
    for (int i = 0; i < pushes; i++) {
        OK(synced_mem_release_gpu_data(mem));
        gpu_delay(reading[i]);
        OK(synced_mem_async_gpu_push(mem, reading[i]));
    }
    OK(synced_mem_release(mem));
    OK(synced_mem_shutdown());
    ck_assert_int_eq(let_go.count, 1);
    for (int i = 0; i < MANY; i++)
        gpu_stream_destroy(reading[i]);
    gpu_pinned_free(data);
}
END_TEST

START_TEST(adopted_both)
{
    int user = 0;
    void *const host = host_memory(1);
    void *const device = gpu_alloc(0, SIZE);
    synced_mem *const mem = make(SIZE);
    gpu_fill(device, SIZE, 1, NULL);
    OK(USE(mem, .cpu_data = host, .gpu_data = device, .callback = note, .user = &user));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    OK(synced_mem_release_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_UNINITIALIZED);
    OK(synced_mem_release(mem));
    OK(synced_mem_shutdown());
    ck_assert_int_eq(let_go.count, 2);
    const int first = let_go.data[0] == host ? 0 : 1;
    check_let_go(first, host, &user);
    check_let_go(1 - first, device, &user);
    gpu_free(device);
    free(host);
}
END_TEST

/* A callback is called without a lock. It may use the library, even the object whose memory was replaced. */
static void create_and_release(void *data, void *user, synced_mem_stream stream)
{
    synced_mem *const other = make_at_cpu(SIZE, 9);
    (void)stream;
    ck_assert_int_eq(synced_mem_head(user), SYNCED_MEM_AT_CPU);
    ck_assert(host_is(synced_mem_cpu_data(user), SIZE, 2));
    OK(synced_mem_release(other));
    free(data);
    let_go.count++;
}

START_TEST(callbacks_use_the_library)
{
    void *const second = host_memory(2);
    synced_mem *const mem = make(SIZE);
    OK(USE(mem, .cpu_data = host_memory(1), .callback = create_and_release, .user = mem));
    OK(synced_mem_set_cpu_data(mem, second));
    ck_assert_int_eq(let_go.count, 1);
    OK(synced_mem_release(mem));
    free(second);
}
END_TEST

/* ---- Memory that is ready in the order of a stream ---- */

/* One stream fills the caller's memory. Another stream, a transfer and the host use the contents. */
START_TEST(ready_in_order)
{
    synced_mem_stream filling = open_stream(NON_BLOCKING);
    synced_mem_stream reader = open_stream(_i % STREAM_KINDS);
    void *const host = gpu_pinned_alloc(SIZE);
    void *const device = gpu_alloc(0, SIZE);
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_at_cpu(SIZE, 4);
    const bool adopt = _i / STREAM_KINDS % 2;
    gpu_delay(filling);
    gpu_fill(device, SIZE, 1, filling);
    gpu_copy_to_host(host, device, SIZE, filling);
    switch (_i / STREAM_KINDS / 2) {
    case 0:
        OK(adopt ? USE(mem, .cpu_data = host, .callback = note, .stream = filling)
                 : USE(mem, .cpu_data = host, .stream = filling));
        break;
    case 1:
        OK(adopt ? USE(mem, .gpu_data = device, .callback = note, .stream = filling)
                 : USE(mem, .gpu_data = device, .stream = filling));
        break;
    case 2:
        OK(adopt ? USE(mem, .cpu_data = host, .gpu_data = device, .callback = note, .stream = filling)
                 : USE(mem, .cpu_data = host, .gpu_data = device, .stream = filling));
        break;
    }
    gpu_copy(seen, synced_mem_gpu_data_on(mem, reader), SIZE, reader);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    gpu_stream_sync(reader);
    ck_assert(device_is(seen, SIZE, 1));
    OK(synced_mem_release(mem));
    CLOSE_EACH(reader, filling);
    OK(synced_mem_shutdown());
    ck_assert_int_eq(let_go.count, !adopt ? 0 : _i / STREAM_KINDS / 2 == 2 ? 2 : 1);
    gpu_free(device);
    gpu_free(seen);
    gpu_pinned_free(host);
}
END_TEST

/* Only work that the stream had queued by then is waited for. */
START_TEST(ready_before_later_work)
{
    synced_mem_stream filling = open_stream(NON_BLOCKING);
    void *const host = gpu_pinned_alloc(SIZE);
    void *const device = gpu_alloc(0, SIZE);
    synced_mem *const mem = make(SIZE);
    gpu_fill(device, SIZE, 1, filling);
    gpu_copy_to_host(host, device, SIZE, filling);
    OK(_i ? USE(mem, .cpu_data = host, .gpu_data = device, .stream = filling)
          : USE(mem, .cpu_data = host, .stream = filling));
    gpu_hold(filling);
    ck_assert(host_is(synced_mem_mutable_cpu_data(mem), SIZE, 1));
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(mem));
    ck_assert(!gpu_stream_is_idle(filling));
    gpu_unhold();
    OK(synced_mem_release(mem));
    close_stream(filling);
    gpu_free(device);
    gpu_pinned_free(host);
}
END_TEST

/* ---- Refused ---- */

START_TEST(no_memory)
{
    synced_mem *const mem = make_at_cpu(SIZE, 4);
    const struct facts before = facts_of(mem);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_cpu_data(mem, NULL));
    SAYS("synced_mem_set_cpu_data");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_gpu_data(mem, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_use_memory(mem, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .user = &let_go));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .callback = note));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .stream = LEGACY_HANDLE));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .flags = SYNCED_MEM_MEMORY_PAGE_LOCK));
    SAYS("synced_mem_use_memory");
    check_unchanged(mem, &before);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 4));
    ck_assert_int_eq(let_go.count, 0);
    OK(synced_mem_release(mem));
}
END_TEST

/* A struct of unknown size, and unknown flags, are refused. */
START_TEST(unknown_members)
{
    static const size_t sizes[] = {0, sizeof(synced_mem_memory) - 8, sizeof(synced_mem_memory) + 8};
    void *const host = host_memory(1);
    synced_mem *const mem = make_at_cpu(SIZE, 4);
    const struct facts before = facts_of(mem);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const synced_mem_memory memory = {.struct_size = sizes[i], .cpu_data = host, .callback = note};
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_use_memory(mem, &memory));
        SAYS("struct_size");
    }
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .cpu_data = host, .callback = note, .flags = 4));
    SAYS("flags 0x4");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .cpu_data = host, .flags = ~0u));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .gpu_data = host, .flags = SYNCED_MEM_MEMORY_PAGE_LOCK));
    SAYS("page-lock");
    check_unchanged(mem, &before);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 4));
    ck_assert_int_eq(let_go.count, 0);
    OK(synced_mem_release(mem));
    free(host);
}
END_TEST

START_TEST(host_memory_as_device_memory)
{
    const synced_mem_status expected = gpu_expected() ? SYNCED_MEM_ERR_INVALID_ARGUMENT : SYNCED_MEM_ERR_NO_GPU;
    void *const host = host_memory(1);
    void *const other = host_memory(2);
    synced_mem *const mem = make_at_cpu(SIZE, 4);
    const struct facts before = facts_of(mem);
    FAILS(expected, synced_mem_set_gpu_data(mem, host));
    FAILS(expected, USE(mem, .gpu_data = host, .callback = note));
    FAILS(expected, USE(mem, .cpu_data = other, .gpu_data = host));
    FAILS(expected, USE(mem, .cpu_data = other, .gpu_data = host, .callback = note));
    if (gpu_expected()) {
        void *const pinned = gpu_pinned_alloc(SIZE);
        FAILS(expected, synced_mem_set_gpu_data(mem, pinned));
        gpu_pinned_free(pinned);
    }
    check_unchanged(mem, &before);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 4));
    ck_assert_int_eq(let_go.count, 0);
    OK(synced_mem_release(mem));
    free(host);
    free(other);
}
END_TEST

/* One memory cannot be both copies. */
START_TEST(one_memory_twice)
{
    void *const host = host_memory(1);
    synced_mem *const mem = make_at_cpu(SIZE, 4);
    const struct facts before = facts_of(mem);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .cpu_data = host, .gpu_data = host));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .cpu_data = host, .gpu_data = host, .callback = note));
    if (gpu_expected()) {
        void *const managed = gpu_managed_alloc(0, SIZE);
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .cpu_data = managed, .gpu_data = managed));
        gpu_free(managed);
    }
    check_unchanged(mem, &before);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 4));
    ck_assert_int_eq(let_go.count, 0);
    OK(synced_mem_release(mem));
    free(host);
}
END_TEST

START_TEST(memory_of_another_device)
{
    if (devices() < 2)
        return;
    void *const host = host_memory(1);
    void *const theirs = gpu_alloc(1, SIZE);
    synced_mem *const mem = make_on(SIZE, 0);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 4);
    const struct facts before = facts_of(mem);
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_set_gpu_data(mem, theirs));
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, USE(mem, .gpu_data = theirs, .callback = note));
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, USE(mem, .cpu_data = host, .gpu_data = theirs));
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, USE(mem, .cpu_data = host, .gpu_data = theirs, .callback = note));
    check_unchanged(mem, &before);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 4));
    synced_mem *const free_to_choose = make(SIZE);
    OK(synced_mem_set_gpu_data(free_to_choose, theirs));
    ck_assert_int_eq(synced_mem_device(free_to_choose), 1);
    OK(synced_mem_release(free_to_choose));
    ck_assert_int_eq(let_go.count, 0);
    OK(synced_mem_release(mem));
    gpu_free(theirs);
    free(host);
}
END_TEST

START_TEST(alignment_that_was_asked_for)
{
    char *const host = host_memory(1);
    synced_mem *mem = NULL;
    synced_mem_options options = default_options();
    options.alignment = 64;
    OK(synced_mem_create(&mem, 100, &options));
    const struct facts before = facts_of(mem);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_cpu_data(mem, host + 8));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .cpu_data = host + 32, .callback = note));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_gpu_data(mem, host + 1));
    SAYS("aligned");
    check_unchanged(mem, &before);
    OK(synced_mem_set_cpu_data(mem, host + 64));
    OK(synced_mem_release(mem));
    synced_mem *const any = make(100);
    OK(synced_mem_set_cpu_data(any, host + 1));
    ck_assert_ptr_eq(synced_mem_cpu_data(any), host + 1);
    if (gpu_expected()) {
        char *const device = gpu_alloc(0, SIZE);
        gpu_fill(device + 3, 100, 3, NULL);
        OK(synced_mem_set_gpu_data(any, device + 3));
        ck_assert_ptr_eq(synced_mem_cpu_data(any), host + 1);
        ck_assert(host_is(host + 1, 100, 3));
        OK(synced_mem_release_gpu_data(any));
        gpu_free(device);
    }
    OK(synced_mem_release(any));
    free(host);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("user_memory");
    TCase *const borrowed = add_case(made, "borrowed");
    add_tests(borrowed, borrowed_host, replacing_host);
    add_gpu_tests(borrowed, borrowed_device, managed_memory, borrowed_both, other_side_stays);
    TCase *const adopted = add_case(made, "adopted");
    add_tests(adopted, adopted_host, callbacks_use_the_library);
    add_gpu_tests(adopted, adopted_device, adopted_device_in_use, adopted_both);
    add_gpu_loop_test(adopted, adopted_host_in_use, 0, 2);
    TCase *const ready = add_case(made, "ready");
    add_gpu_loop_test(ready, ready_in_order, 0, 6 * STREAM_KINDS);
    add_gpu_loop_test(ready, ready_before_later_work, 0, 2);
    TCase *const refused = add_case(made, "refused");
    add_tests(refused, no_memory, unknown_members, host_memory_as_device_memory, one_memory_twice,
              memory_of_another_device, alignment_that_was_asked_for);
    return made;
}
