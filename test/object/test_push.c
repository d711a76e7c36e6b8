/* Checks pushes and the hazards around them: work that is still in flight at the next call must arrive whole. */
#include "fixture.h"

#include <stdlib.h>

enum { SIZE = 70000 };

/* Destroys a stream that only pushes were on, which needs no synced_mem_forget_stream(). */
static void close_pushed(synced_mem_stream stream)
{
    gpu_stream_sync(stream);
    if (stream)
        gpu_stream_destroy(stream);
}

/* A caller that knows the device pointer checks the contents with a kernel behind the push. */
struct watched {
    synced_mem *mem;
    void *device;
    void *seen; /* memory that the kernel reads into */
    synced_mem_stream stream;
};

/* The host memory is borrowed if given. Otherwise it is the library's, and page-locked because a device is in use by
 * then. */
static struct watched watch(int kind, void *borrowed)
{
    struct watched it = {.mem = make_at_cpu(SIZE, 9), .seen = gpu_alloc(0, SIZE), .stream = open_stream(kind)};
    it.device = (void *)synced_mem_gpu_data(it.mem);
    ck_assert_ptr_nonnull(it.device);
    if (borrowed)
        OK(synced_mem_set_cpu_data(it.mem, borrowed));
    else
        OK(synced_mem_release_cpu_data(it.mem));
    host_fill(synced_mem_mutable_cpu_data(it.mem), SIZE, 1);
    return it;
}

static void push_and_look(const struct watched *it)
{
    OK(synced_mem_async_gpu_push(it->mem, it->stream));
    ck_assert_int_eq(synced_mem_head(it->mem), SYNCED_MEM_SYNCED);
    gpu_copy(it->seen, it->device, SIZE, it->stream);
}

static void check_arrived(const struct watched *it)
{
    gpu_stream_sync(it->stream);
    ck_assert(device_is(it->seen, SIZE, 1));
}

static void unwatch(const struct watched *it)
{
    close_pushed(it->stream);
    gpu_free(it->seen);
}

/* ---- Effects of a push ---- */

START_TEST(push_then_read)
{
    if (!gpu_expected())
        return;
    synced_mem_stream stream = open_stream(_i);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    gpu_delay(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    const synced_mem_stats pushed = stats_now();
    ck_assert_uint_eq(pushed.h2d_transfers, 1);
    ck_assert_uint_eq(pushed.h2d_bytes, SIZE);
    const void *const data = synced_mem_gpu_data(mem);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem_stream another = gpu_stream_create(0, false);
    gpu_copy(seen, data, SIZE, another);
    close_pushed(another);
    ck_assert(device_is(seen, SIZE, 1));
    ck_assert_uint_eq(stats_now().h2d_transfers, 1);
    gpu_free(seen);
    OK(synced_mem_release(mem));
    close_pushed(stream);
}
END_TEST

START_TEST(push_again)
{
    if (!gpu_expected())
        return;
    synced_mem_stream stream = open_stream(_i);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    for (int i = 0; i < 10; i++)
        OK(synced_mem_async_gpu_push(mem, stream));
    ck_assert_uint_eq(stats_now().h2d_transfers, 1);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    close_pushed(stream);
}
END_TEST

/* Work behind a push sees the contents, even if a push on another stream brings them. */
START_TEST(push_on_a_second_stream)
{
    if (!gpu_expected())
        return;
    struct watched it = watch(_i, NULL);
    synced_mem_stream second = gpu_stream_create(0, false);
    gpu_delay(it.stream);
    OK(synced_mem_async_gpu_push(it.mem, it.stream));
    OK(synced_mem_async_gpu_push(it.mem, second));
    gpu_copy(it.seen, it.device, SIZE, second);
    gpu_stream_sync(second);
    check_arrived(&it);
    gpu_stream_destroy(second);
    OK(synced_mem_release(it.mem));
    unwatch(&it);
}
END_TEST

START_TEST(push_from_wrong_heads)
{
    synced_mem *const nothing = make(SIZE);
    struct facts before = facts_of(nothing);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_push(nothing, NULL));
    SAYS("UNINITIALIZED");
    check_unchanged(nothing, &before);
    OK(synced_mem_release(nothing));
    if (!gpu_expected())
        return;
    synced_mem *const mem = make_at_gpu(SIZE, 1);
    before = facts_of(mem);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_push(mem, NULL));
    SAYS("AT_GPU");
    check_unchanged(mem, &before);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(push_without_gpu)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    FAILS_WITHOUT_GPU(synced_mem_async_gpu_push(mem, NULL));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- The source, while it may still be read ---- */

START_TEST(push_then_write)
{
    if (!gpu_expected())
        return;
    void *const pageable = _i >= STREAM_KINDS ? malloc(SIZE) : NULL;
    const struct watched it = watch(_i % STREAM_KINDS, pageable);
    gpu_delay(it.stream);
    push_and_look(&it);
    host_fill(synced_mem_mutable_cpu_data(it.mem), SIZE, 2);
    ck_assert_int_eq(synced_mem_head(it.mem), SYNCED_MEM_AT_CPU);
    check_arrived(&it);
    ck_assert(device_is(synced_mem_gpu_data(it.mem), SIZE, 2));
    OK(synced_mem_release(it.mem));
    unwatch(&it);
    free(pageable);
}
END_TEST

START_TEST(push_then_overwrite)
{
    if (!gpu_expected())
        return;
    const struct watched it = watch(_i, NULL);
    gpu_delay(it.stream);
    push_and_look(&it);
    host_fill(synced_mem_overwrite_cpu_data(it.mem), SIZE, 2);
    check_arrived(&it);
    OK(synced_mem_release(it.mem));
    unwatch(&it);
}
END_TEST

START_TEST(push_then_replace_host_memory)
{
    if (!gpu_expected())
        return;
    void *const other = malloc(SIZE);
    const struct watched it = watch(_i, NULL);
    pattern_write(other, SIZE, 3);
    gpu_delay(it.stream);
    push_and_look(&it);
    OK(synced_mem_set_cpu_data(it.mem, other));
    check_arrived(&it);
    ck_assert(device_is(synced_mem_gpu_data(it.mem), SIZE, 3));
    OK(synced_mem_release(it.mem));
    unwatch(&it);
    free(other);
}
END_TEST

/* Borrowed memory is the caller's again when the call that takes it from the object returns. The device memory is
 * adopted. So only the host memory is waited for, and the contents can be checked afterwards. */
static void forget(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
}

START_TEST(push_then_take_borrowed_back)
{
    if (!gpu_expected())
        return;
    void *const mine = gpu_pinned_alloc(SIZE);
    void *const other = malloc(SIZE);
    void *const device = gpu_alloc(0, SIZE);
    synced_mem_stream stream = open_stream(_i / 4);
    synced_mem *const mem = make(SIZE);
    OK(USE(mem, .gpu_data = device, .callback = forget));
    host_fill(mine, SIZE, 1);
    OK(synced_mem_set_cpu_data(mem, mine));
    gpu_delay(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    switch (_i % 4) {
    case 0:
        OK(synced_mem_set_cpu_data(mem, other));
        break;
    case 1:
        OK(synced_mem_release_cpu_data(mem));
        break;
    case 2:
        OK(synced_mem_release_data(mem));
        break;
    case 3:
        OK(synced_mem_retain(mem));
        OK(synced_mem_release(mem));
        OK(synced_mem_release(mem));
        break;
    }
    host_fill(mine, SIZE, 7);
    ck_assert(device_is(device, SIZE, 1));
    if (_i % 4 != 3)
        OK(synced_mem_release(mem));
    OK(synced_mem_shutdown());
    close_pushed(stream);
    gpu_pinned_free(mine);
    gpu_free(device);
    free(other);
}
END_TEST

START_TEST(push_then_destroy)
{
    if (!gpu_expected())
        return;
    synced_mem_stream stream = open_stream(_i);
    for (int i = 0; i < 5; i++) {
        synced_mem *const mem = make_at_cpu(SIZE, 1);
        gpu_delay(stream);
        OK(synced_mem_async_gpu_push(mem, stream));
        OK(synced_mem_release(mem));
    }
    close_pushed(stream);
}
END_TEST

/* The stream may be destroyed as soon as its work is done. The library makes no call with its handle after that. */
START_TEST(push_then_destroy_stream)
{
    if (!gpu_expected())
        return;
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    for (unsigned i = 0; i < 5; i++) {
        synced_mem_stream stream = gpu_stream_create(0, i % 2 == 0);
        host_fill(synced_mem_mutable_cpu_data(mem), SIZE, i + 1);
        OK(synced_mem_async_gpu_push(mem, stream));
        close_pushed(stream);
        synced_mem_stream next = gpu_stream_create(0, false);
        ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, i + 1));
        close_pushed(next);
    }
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- The target, while it may still be used ---- */

/* A kernel on the legacy or a blocking stream still reads the device copy when the next push overwrites it. */
START_TEST(push_over_a_reading_kernel)
{
    if (!gpu_expected())
        return;
    const int kernel_on = _i % 2 ? BLOCKING : LEGACY;
    struct watched it = watch(_i / 2, NULL);
    synced_mem_stream reader = open_stream(kernel_on);
    OK(synced_mem_async_gpu_push(it.mem, it.stream));
    ck_assert_ptr_eq(synced_mem_gpu_data(it.mem), it.device);
    gpu_delay(reader);
    gpu_copy(it.seen, it.device, SIZE, reader);
    host_fill(synced_mem_mutable_cpu_data(it.mem), SIZE, 2);
    OK(synced_mem_async_gpu_push(it.mem, it.stream));
    gpu_stream_sync(reader);
    check_arrived(&it);
    ck_assert(device_is(synced_mem_gpu_data(it.mem), SIZE, 2));
    OK(synced_mem_release(it.mem));
    close_pushed(reader);
    unwatch(&it);
}
END_TEST

/* Two reads do not conflict. A pointer for reading stays valid after a read by the host, until the host writes. */
START_TEST(push_over_a_late_reader)
{
    if (!gpu_expected())
        return;
    synced_mem_stream reader = open_stream(_i);
    synced_mem_stream stream = gpu_stream_create(0, false);
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_at_cpu(SIZE, 9);
    gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 1, reader);
    const void *const data = synced_mem_gpu_data(mem);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    gpu_delay(reader);
    gpu_copy(seen, data, SIZE, reader);
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 2);
    OK(synced_mem_async_gpu_push(mem, stream));
    gpu_stream_sync(stream);
    gpu_stream_sync(reader);
    ck_assert(device_is(seen, SIZE, 1));
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    close_pushed(reader);
    close_pushed(stream);
    gpu_free(seen);
}
END_TEST

/* A kernel that writes the device copy comes before all later reads of the copy. */
START_TEST(read_behind_a_writing_kernel)
{
    if (!gpu_expected())
        return;
    synced_mem_stream stream = open_stream(_i % 2 ? BLOCKING : LEGACY);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    gpu_delay(stream);
    gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 2, stream);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    gpu_delay(stream);
    gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 3, stream);
    ck_assert(host_is(synced_mem_mutable_cpu_data(mem), SIZE, 3));
    OK(synced_mem_release(mem));
    close_pushed(stream);
}
END_TEST

/* Once the object is released another object may get its device memory, while a kernel still uses it. */
START_TEST(memory_used_again_too_early)
{
    if (!gpu_expected())
        return;
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    const void *const data = synced_mem_gpu_data(mem);
    gpu_delay(NULL);
    gpu_copy(seen, data, SIZE, NULL);
    OK(synced_mem_release(mem));
    synced_mem *const next = make_at_cpu(SIZE, 2);
    synced_mem_stream stream = gpu_stream_create(0, false);
    OK(synced_mem_async_gpu_push(next, stream));
    ck_assert(device_is(seen, SIZE, 1));
    ck_assert(device_is(synced_mem_gpu_data(next), SIZE, 2));
    OK(synced_mem_release(next));
    close_pushed(stream);
    gpu_free(seen);
}
END_TEST

/* The object is released while more pushes are in flight than it keeps records for. Each push has its own stream. */
START_TEST(many_readers)
{
    enum { MANY = 9 };
    synced_mem_stream streams[MANY];
    if (!gpu_expected())
        return;
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    for (int i = 0; i < MANY; i++) {
        streams[i] = gpu_stream_create(0, false);
        OK(synced_mem_release_gpu_data(mem));
        gpu_delay(streams[i]);
        OK(synced_mem_async_gpu_push(mem, streams[i]));
    }
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 2);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    for (int i = 0; i < MANY; i++)
        close_pushed(streams[i]);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("push");
    TCase *const pushing = add_case(made, "push");
    tcase_add_loop_test(pushing, push_then_read, 0, STREAM_KINDS);
    tcase_add_loop_test(pushing, push_again, 0, STREAM_KINDS);
    tcase_add_loop_test(pushing, push_on_a_second_stream, 0, STREAM_KINDS);
    tcase_add_test(pushing, push_from_wrong_heads);
    tcase_add_test(pushing, push_without_gpu);
    TCase *const source = add_case(made, "source");
    tcase_add_loop_test(source, push_then_write, 0, 2 * STREAM_KINDS);
    tcase_add_loop_test(source, push_then_overwrite, 0, STREAM_KINDS);
    tcase_add_loop_test(source, push_then_replace_host_memory, 0, STREAM_KINDS);
    tcase_add_loop_test(source, push_then_take_borrowed_back, 0, 4 * STREAM_KINDS);
    tcase_add_loop_test(source, push_then_destroy, 0, STREAM_KINDS);
    tcase_add_test(source, push_then_destroy_stream);
    TCase *const target = add_case(made, "target");
    tcase_add_loop_test(target, push_over_a_reading_kernel, 0, 2 * STREAM_KINDS);
    tcase_add_loop_test(target, push_over_a_late_reader, 0, 2);
    tcase_add_loop_test(target, read_behind_a_writing_kernel, 0, 2);
    tcase_add_test(target, memory_used_again_too_early);
    tcase_add_test(target, many_readers);
    return made;
}
