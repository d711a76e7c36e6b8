/* Checks read-only memory of a device: no call writes it. */
#include "read_only_kit.h"

/* ---- Accesses, transfers and copies ---- */

enum { MUTABLE, OVERWRITE, MUTABLE_ON, OVERWRITE_ON, PUSH, PUSH_N, READ_BACK, READ_BACK_ON, ZERO, WAYS_UP };

/* Writes the device copy in one way. Returns its pointer; the contents are those of the pattern. */
static void *write_device_copy(synced_mem *mem, int way, synced_mem_stream stream, unsigned pattern)
{
    void *data = NULL;
    if (way >= PUSH && way < ZERO)
        host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, pattern);
    switch (way) {
    case MUTABLE:
        data = synced_mem_mutable_gpu_data(mem);
        ck_assert(device_is(data, SIZE, 1));
        break;
    case OVERWRITE:
        data = synced_mem_overwrite_gpu_data(mem);
        break;
    case MUTABLE_ON:
        data = synced_mem_mutable_gpu_data_on(mem, stream);
        gpu_stream_sync(stream);
        ck_assert(device_is(data, SIZE, 1));
        break;
    case OVERWRITE_ON:
        data = synced_mem_overwrite_gpu_data_on(mem, stream);
        break;
    case PUSH:
        OK(synced_mem_async_gpu_push(mem, stream));
        return (void *)synced_mem_gpu_data(mem);
    case PUSH_N:
        OK(synced_mem_async_gpu_push_n((synced_mem *[]){mem, mem}, 2, stream));
        return (void *)synced_mem_gpu_data(mem);
    case READ_BACK:
        return (void *)synced_mem_gpu_data(mem);
    case READ_BACK_ON:
        data = (void *)synced_mem_gpu_data_on(mem, stream);
        gpu_stream_sync(stream);
        return data;
    default:
        OK(synced_mem_clear(mem));
        data = (void *)synced_mem_gpu_data(mem);
        ck_assert(device_is(data, SIZE, 0));
        data = synced_mem_mutable_gpu_data(mem);
        break;
    }
    gpu_fill(data, SIZE, pattern, way == MUTABLE_ON || way == OVERWRITE_ON ? stream : NULL);
    return data;
}

START_TEST(writes_on_the_device_take_other_memory)
{
    const int way = _i / 2;
    const bool adopted = _i % 2;
    void *const data = read_only_device(SIZE, 1);
    synced_mem *const mem = make_of_device(data, SIZE, adopted);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *const now = write_device_copy(mem, way, stream, 2);
    ck_assert_ptr_nonnull(now);
    ck_assert_ptr_ne(now, data);
    ck_assert_int_eq(synced_mem_gpu_source(mem), SYNCED_MEM_SOURCE_DEVICE);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    ck_assert(device_is(data, SIZE, 1));
    OK(synced_mem_wait(mem));
    OK(synced_mem_reap());
    ck_assert_int_eq(handed_back, adopted);
    close_stream(stream);
    OK(synced_mem_release(mem));
    gpu_free(data);
}
END_TEST

START_TEST(a_copy_to_the_device_takes_other_memory)
{
    void *const data = read_only_device(SIZE, 1);
    synced_mem *const mem = make_of_device(data, SIZE, _i);
    synced_mem *const from = make_at_cpu(SIZE, 2);
    OK(synced_mem_async_gpu_copy(mem, from, NULL));
    ck_assert_ptr_ne(synced_mem_gpu_data(mem), data);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 2));
    ck_assert(device_is(data, SIZE, 1));
    OK(synced_mem_reap());
    ck_assert_int_eq(handed_back, _i);
    RELEASE_EACH(from, mem);
    gpu_free(data);
}
END_TEST

/* A kernel may still read the old memory, and another may still write it. */
START_TEST(kernels_go_on_with_the_old_memory)
{
    void *const data = gpu_alloc(0, SIZE);
    const synced_mem_stream fills = open_stream(NON_BLOCKING);
    const synced_mem_stream reads = open_stream(NON_BLOCKING);
    const synced_mem_stream writes = open_stream(NON_BLOCKING);
    unsigned char bytes[SIZE];
    pattern_write(bytes, SIZE, 1);
    synced_mem *const mem = make_on(SIZE, 0);
    handed_back = 0;
    gpu_delay(fills);
    gpu_fill(data, SIZE, 1, fills);
    OK(USE(mem, .gpu_data = data, .stream = fills, .flags = READ_ONLY, .callback = count_back));
    const void *const old = synced_mem_gpu_data_on(mem, reads);
    ck_assert_ptr_eq(old, data);
    gpu_delay(reads);
    gpu_expect(old, SIZE, bytes, reads);
    void *const now = synced_mem_mutable_gpu_data_on(mem, writes);
    ck_assert_ptr_ne(now, data);
    gpu_expect(now, SIZE, bytes, writes);
    gpu_fill(now, SIZE, 2, writes);
    gpu_expect(old, SIZE, bytes, reads);
    OK(synced_mem_end_use_on(mem, writes));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_forget_stream(reads));
    gpu_stream_sync(reads);
    OK(synced_mem_reap());
    ck_assert_int_eq(handed_back, 1);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    close_stream(fills);
    gpu_stream_destroy(reads);
    close_stream(writes);
    OK(synced_mem_release(mem));
    gpu_free(data);
}
END_TEST

/* The memory of an object in parts is replaced too, though work without a stream may write it. */
START_TEST(memory_in_parts_is_not_written)
{
    synced_mem *view;
    void *const data = read_only_device(SIZE, 1);
    synced_mem *const mem = make_of_device(data, SIZE, true);
    OK(synced_mem_view(&view, mem, 0, SIZE / 2, NULL));
    ck_assert_ptr_ne(_i ? synced_mem_overwrite_gpu_data(mem) : synced_mem_mutable_gpu_data(mem), data);
    RELEASE_EACH(view, mem);
    gpu_free(data);
}
END_TEST

/* A pointer that is published to write would bypass the replacement. */
START_TEST(no_pointer_to_write_is_published)
{
    void *const data = read_only_device(SIZE, 1);
    void *const file = map_file(SIZE, 1);
    synced_mem *const mem = make_of_device(data, SIZE, true);
    ck_assert_ptr_eq(synced_mem_gpu_data(mem), data);
    ck_assert_ptr_eq(synced_mem_gpu_data(mem), data);
    ck_assert_ptr_ne(synced_mem_mutable_gpu_data(mem), data);
    OK(USE(mem, .cpu_data = file, .gpu_data = data, .flags = READ_ONLY));
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), file);
    ck_assert_ptr_eq(synced_mem_gpu_data_on(mem, NULL), data);
    ck_assert_ptr_ne(synced_mem_overwrite_gpu_data_on(mem, NULL), data);
    ck_assert_ptr_ne(synced_mem_overwrite_cpu_data(mem), file);
    OK(synced_mem_release(mem));
    unmap_file(file, SIZE, 1);
    gpu_free(data);
}
END_TEST

/* ---- User allocators ---- */

static int allocated;

static void *alloc_device(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)alignment;
    (void)stream;
    (void)user;
    allocated++;
    return gpu_alloc(device, size);
}

/* The stream comes after all work on the memory. */
static void free_device(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)size;
    (void)alignment;
    (void)device;
    (void)user;
    allocated--;
    gpu_stream_sync(stream);
    gpu_free(data);
}

START_TEST(device_memory_from_an_allocator)
{
    const synced_mem_allocator allocator = {
        .struct_size = sizeof allocator, .alloc = alloc_device, .free = free_device};
    synced_mem_options options = default_options();
    synced_mem *mem;
    void *const data = read_only_device(SIZE, 1);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    options.device = 0;
    options.gpu_allocator = &allocator;
    allocated = 0;
    OK(synced_mem_create(&mem, SIZE, &options));
    OK(USE(mem, .gpu_data = data, .flags = READ_ONLY));
    if (_i == 0)
        ck_assert(device_is(synced_mem_mutable_gpu_data(mem), SIZE, 1));
    if (_i == 1)
        gpu_fill(synced_mem_overwrite_gpu_data(mem), SIZE, 1, NULL);
    if (_i == 2)
        gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, 1, stream);
    ck_assert_int_eq(synced_mem_gpu_source(mem), SYNCED_MEM_SOURCE_ALLOCATOR);
    ck_assert_int_eq(allocated, 1);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    ck_assert(device_is(data, SIZE, 1));
    close_stream(stream);
    OK(synced_mem_release(mem));
    OK(synced_mem_shutdown());
    ck_assert_int_eq(allocated, 0);
    gpu_free(data);
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("read-only memory of a device");
    TCase *const tcase = add_case(all, "writes");
    add_tests(tcase, kernels_go_on_with_the_old_memory, no_pointer_to_write_is_published);
    tcase_add_loop_test(tcase, writes_on_the_device_take_other_memory, 0, 2 * WAYS_UP);
    tcase_add_loop_test(tcase, a_copy_to_the_device_takes_other_memory, 0, 2);
    tcase_add_loop_test(tcase, device_memory_from_an_allocator, 0, 3);
    tcase_add_loop_test(tcase, memory_in_parts_is_not_written, 0, 2);
    return all;
}
