/* Checks read-only memory: no call writes it. The host's is a mapped file, in which a write faults. */
#include "read_only_kit.h"

/* ---- Handing in ---- */

START_TEST(reading_keeps_the_memory)
{
    void *const file = map_file(SIZE, 1);
    synced_mem *const mem = make_of_file(file, SIZE, true);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), file);
    if (gpu_expected()) {
        ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    }
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), file);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_ADOPTED);
    ck_assert_int_eq(handed_back, 0);
    OK(synced_mem_release(mem));
    OK(synced_mem_reap());
    ck_assert_int_eq(handed_back, 1);
    unmap_file(file, SIZE, 1);
}
END_TEST

START_TEST(unknown_flags)
{
    char byte = 0;
    synced_mem *const mem = make(1);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .cpu_data = &byte, .flags = 4));
    SAYS("unknown flags 0x4");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .flags = READ_ONLY));
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Accesses of the host; _i: adopted ---- */

START_TEST(a_mutable_access_keeps_the_contents)
{
    void *const file = map_file(SIZE, 1);
    synced_mem *const mem = make_of_file(file, SIZE, _i);
    unsigned char *const data = synced_mem_mutable_cpu_data(mem);
    ck_assert_ptr_nonnull(data);
    ck_assert_ptr_ne(data, file);
    ck_assert(host_is(data, SIZE, 1));
    host_fill(data, SIZE, 2);
    check_renewed(mem, file, _i);
    ck_assert_ptr_eq(synced_mem_mutable_cpu_data(mem), data);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    unmap_file(file, SIZE, 1);
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(an_overwrite_takes_other_memory)
{
    void *const file = map_file(SIZE, 1);
    synced_mem *const mem = make_of_file(file, SIZE, _i);
    void *const data = synced_mem_overwrite_cpu_data(mem);
    ck_assert_ptr_nonnull(data);
    ck_assert_ptr_ne(data, file);
    host_fill(data, SIZE, 2);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    check_renewed(mem, file, _i);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    unmap_file(file, SIZE, 1);
    OK(synced_mem_release(mem));
}
END_TEST

/* The first read after a clear fills with zeros. */
START_TEST(zeros_take_other_memory)
{
    void *const file = map_file(SIZE, 1);
    synced_mem *const mem = make_of_file(file, SIZE, _i);
    OK(synced_mem_clear(mem));
    ck_assert_int_eq(synced_mem_cpu_source(mem), _i ? SYNCED_MEM_SOURCE_ADOPTED : SYNCED_MEM_SOURCE_BORROWED);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
    check_renewed(mem, file, _i);
    unmap_file(file, SIZE, 1);
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Transfers to the host ---- */

/* Makes the file stale: a kernel has written the device copy. */
static void write_on_device(synced_mem *mem, size_t size, unsigned pattern)
{
    gpu_fill(synced_mem_mutable_gpu_data(mem), size, pattern, NULL);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
}

enum { READ, PULL, PULL_N, RELEASE, LARGE_READ, LARGE_PULL, WAYS_DOWN };

START_TEST(a_transfer_takes_other_memory)
{
    const int way = _i / 2;
    const bool adopted = _i % 2;
    const size_t size = way == LARGE_READ || way == LARGE_PULL ? 3 << 20 : SIZE;
    if (!gpu_expected())
        return;
    void *const file = map_file(size, 1);
    synced_mem *const mem = make_of_file(file, size, adopted);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    write_on_device(mem, size, 2);
    switch (way) {
    case PULL:
    case LARGE_PULL:
        OK(synced_mem_async_cpu_pull(mem, stream));
        break;
    case PULL_N:
        OK(synced_mem_async_cpu_pull_n((synced_mem *[]){mem, mem}, 2, stream));
        break;
    case RELEASE:
        OK(synced_mem_release_gpu_data(mem));
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
        break;
    default:
        break;
    }
    ck_assert(host_is(synced_mem_cpu_data(mem), size, 2));
    check_renewed(mem, file, adopted);
    unmap_file(file, size, 1);
    close_stream(stream);
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Copies ---- */

START_TEST(a_copy_to_the_host_takes_other_memory)
{
    void *const file = map_file(SIZE, 1);
    synced_mem *const mem = make_of_file(file, SIZE, _i);
    synced_mem *const from = make_at_cpu(SIZE, 2);
    OK(synced_mem_cpu_copy(mem, from));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    check_renewed(mem, file, _i);
    unmap_file(file, SIZE, 1);
    OK(synced_mem_release(from));
    OK(synced_mem_release(mem));
}
END_TEST

/* The memory that the target gives up may be memory of the source. */
START_TEST(a_copy_between_two_objects_of_one_file)
{
    void *const file = map_file(SIZE, 1);
    synced_mem *const mem = make_of_file(file, SIZE, _i);
    synced_mem *const from = make_of_file(file, SIZE, false);
    handed_back = 0;
    OK(synced_mem_cpu_copy(mem, from));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    ck_assert_ptr_eq(synced_mem_cpu_data(from), file);
    check_renewed(mem, file, _i);
    OK(synced_mem_release(from));
    unmap_file(file, SIZE, 1);
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(a_copy_to_the_device_takes_other_memory)
{
    if (!gpu_expected())
        return;
    void *const data = read_only_device(SIZE, 1);
    synced_mem *const mem = make_of_device(data, SIZE, _i);
    synced_mem *const from = make_at_cpu(SIZE, 2);
    OK(synced_mem_async_gpu_copy(mem, from, NULL));
    ck_assert_ptr_ne(synced_mem_gpu_data(mem), data);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 2));
    ck_assert(device_is(data, SIZE, 1));
    OK(synced_mem_reap());
    ck_assert_int_eq(handed_back, _i);
    OK(synced_mem_release(from));
    OK(synced_mem_release(mem));
    gpu_free(data);
}
END_TEST

/* ---- Memory of a device ---- */

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
    if (!gpu_expected())
        return;
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

/* A kernel may still read the old memory, and another may still write it. */
START_TEST(kernels_go_on_with_the_old_memory)
{
    if (!gpu_expected())
        return;
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

/* A pointer that is published to write would bypass the replacement. */
START_TEST(no_pointer_to_write_is_published)
{
    if (!gpu_expected())
        return;
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

/* ---- Sizes ---- */

START_TEST(a_larger_size_takes_other_memory)
{
    void *const file = map_file(SIZE, 1);
    synced_mem *const mem = make_of_file(file, SIZE, _i);
    OK(synced_mem_resize(mem, 1000));
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), file);
    OK(synced_mem_resize(mem, 1000));
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), file);
    ck_assert_int_eq(handed_back, 0);
    OK(synced_mem_resize(mem, 2000)); /* it has room, but its new bytes would have to be zeros */
    check_renewed(mem, file, _i);
    ck_assert(host_is(synced_mem_cpu_data(mem), 1000, 1));
    ck_assert(host_is((const char *)synced_mem_cpu_data(mem) + 1000, 1000, 0));
    unmap_file(file, SIZE, 1);
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(a_larger_size_without_contents)
{
    void *const file = map_file(SIZE, 1);
    synced_mem *const mem = make_of_file(file, SIZE, _i);
    OK(synced_mem_resize_discard(mem, 1000));
    OK(synced_mem_resize_discard(mem, 2000));
    ck_assert(host_is(synced_mem_cpu_data(mem), 2000, 0));
    check_renewed(mem, file, _i);
    unmap_file(file, SIZE, 1);
    OK(synced_mem_release(mem));
}
END_TEST

/* The device has room for the new size, the file too. Its contents are on both sides. */
START_TEST(a_larger_size_keeps_the_side_with_room)
{
    if (!gpu_expected())
        return;
    void *const file = map_file(SIZE, 1);
    synced_mem *const mem = make_of_file(file, SIZE, _i);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    OK(synced_mem_resize(mem, 1000));
    const void *const data = synced_mem_gpu_data(mem);
    OK(synced_mem_resize(mem, 2000));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    ck_assert_ptr_eq(synced_mem_gpu_data(mem), data);
    ck_assert(host_is(synced_mem_cpu_data(mem), 1000, 1));
    check_renewed(mem, file, _i);
    unmap_file(file, SIZE, 1);
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Views ---- */

enum { PARTS = 5, PART = SIZE / PARTS };

static synced_mem *view_of(synced_mem *of, size_t offset, size_t size)
{
    synced_mem *view;
    OK(synced_mem_view(&view, of, offset, size, NULL));
    return view;
}

static void fill_part(void *bytes, size_t part, unsigned pattern)
{
    pattern_write((char *)bytes + part * PART, PART, pattern);
}

START_TEST(a_view_writes_other_memory)
{
    void *const file = map_file(SIZE, 1);
    synced_mem *const mem = make_of_file(file, SIZE, _i % 2);
    synced_mem *const view = view_of(mem, PART, PART);
    synced_mem *const other = view_of(mem, 3 * PART, PART);
    unsigned char expected[SIZE];
    pattern_write(expected, SIZE, 1);
    fill_part(expected, 1, 2);
    fill_part(expected, 3, 3);
    ck_assert_ptr_eq(synced_mem_cpu_data(other), (char *)file + 3 * PART);
    void *const data = _i / 2 ? synced_mem_overwrite_cpu_data(view) : synced_mem_mutable_cpu_data(view);
    if (_i / 2 == 0)
        ck_assert_mem_eq(data, (char *)file + PART, PART);
    host_fill(data, PART, 2);
    ck_assert_ptr_eq(synced_mem_cpu_data(other), (char *)data + 2 * PART);
    host_fill(synced_mem_mutable_cpu_data(other), PART, 3);
    check_renewed(mem, file, _i % 2);
    ck_assert_mem_eq(synced_mem_cpu_data(mem), expected, SIZE);
    unmap_file(file, SIZE, 1);
    OK(synced_mem_release(view));
    OK(synced_mem_release(other));
    OK(synced_mem_release(mem));
}
END_TEST

enum { VIEW_READ, VIEW_PULL, VIEW_COPY, VIEW_RELEASE, VIEW_WAYS };

/* A kernel has written one view, so the file is stale in part. */
START_TEST(a_transfer_of_a_view_takes_other_memory)
{
    const int way = _i / 2;
    if (!gpu_expected())
        return;
    void *const file = map_file(SIZE, 1);
    synced_mem *const mem = make_of_file(file, SIZE, _i % 2);
    synced_mem *const view = view_of(mem, PART, PART);
    unsigned char expected[SIZE];
    pattern_write(expected, SIZE, 1);
    fill_part(expected, 1, 2);
    write_on_device(view, PART, 2);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_MIXED);
    if (way == VIEW_READ)
        ck_assert_ptr_nonnull(synced_mem_cpu_data(view));
    if (way == VIEW_PULL)
        OK(synced_mem_async_cpu_pull(mem, NULL));
    if (way == VIEW_COPY) {
        synced_mem *const from = make_at_cpu(PART, 2);
        OK(synced_mem_cpu_copy(view, from));
        OK(synced_mem_release(from));
    }
    if (way == VIEW_RELEASE)
        OK(synced_mem_release_gpu_data(mem));
    ck_assert_int_ne(synced_mem_head(view), SYNCED_MEM_AT_GPU);
    ck_assert_mem_eq(synced_mem_cpu_data(mem), expected, SIZE);
    check_renewed(mem, file, _i % 2);
    unmap_file(file, SIZE, 1);
    OK(synced_mem_release(view));
    OK(synced_mem_release(mem));
}
END_TEST

/* The host has written one view of read-only device memory. */
START_TEST(a_view_writes_other_device_memory)
{
    const bool adopted = _i % 2;
    if (!gpu_expected())
        return;
    void *const data = read_only_device(SIZE, 1);
    synced_mem *const mem = make_of_device(data, SIZE, adopted);
    synced_mem *const view = view_of(mem, PART, PART);
    synced_mem *const other = view_of(mem, 3 * PART, PART);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    unsigned char expected[SIZE];
    pattern_write(expected, SIZE, 1);
    fill_part(expected, 1, 2);
    ck_assert_ptr_eq(synced_mem_gpu_data(other), (char *)data + 3 * PART);
    host_fill(synced_mem_overwrite_cpu_data(view), PART, 2);
    if (_i / 2 == 0)
        OK(synced_mem_async_gpu_push(view, stream));
    if (_i / 2 == 1)
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(view, stream));
    if (_i / 2 == 2)
        gpu_fill(synced_mem_overwrite_gpu_data_on(view, stream), PART, 2, stream);
    gpu_expect(synced_mem_gpu_data_on(other, stream), PART, expected + 3 * PART, stream);
    gpu_expect(synced_mem_gpu_data_on(mem, stream), SIZE, expected, stream);
    ck_assert_mem_eq(synced_mem_cpu_data(mem), expected, SIZE);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    ck_assert(device_is(data, SIZE, 1));
    OK(synced_mem_wait(mem));
    close_stream(stream);
    OK(synced_mem_reap());
    ck_assert_int_eq(handed_back, adopted);
    OK(synced_mem_release(view));
    OK(synced_mem_release(other));
    OK(synced_mem_release(mem));
    gpu_free(data);
}
END_TEST

/* The object stays in parts, of which some are AT_GPU. */
START_TEST(a_resize_of_an_object_in_parts)
{
    if (!gpu_expected())
        return;
    void *const file = map_file(SIZE, 1);
    synced_mem *const mem = make_of_file(file, SIZE, _i);
    synced_mem *const view = view_of(mem, PART, PART);
    unsigned char expected[SIZE];
    pattern_write(expected, SIZE, 1);
    fill_part(expected, 1, 2);
    write_on_device(view, PART, 2);
    OK(synced_mem_release(view));
    OK(synced_mem_resize(mem, SIZE - 1));
    ck_assert_mem_eq(synced_mem_cpu_data(mem), expected, SIZE - 1);
    check_renewed(mem, file, _i);
    unmap_file(file, SIZE, 1);
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Page-locked memory ---- */

/* Borrowed memory is the caller's again when the call returns, also if a push still read it. */
START_TEST(borrowed_memory_has_been_read)
{
    if (!gpu_expected())
        return;
    void *const data = gpu_pinned_alloc(SIZE);
    pattern_write(data, SIZE, 1);
    synced_mem *const mem = make_on(SIZE, 0);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    OK(USE(mem, .cpu_data = data, .flags = READ_ONLY));
    gpu_delay(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    ck_assert_ptr_ne(synced_mem_mutable_cpu_data(mem), data);
    gpu_note_host_write(data, SIZE);
    pattern_write(data, SIZE, 9);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    close_stream(stream);
    OK(synced_mem_release(mem));
    gpu_pinned_free(data);
}
END_TEST

/* A stream still fills the memory. */
START_TEST(contents_that_are_arriving)
{
    if (!gpu_expected())
        return;
    void *const data = gpu_pinned_alloc(SIZE);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_on(SIZE, 0);
    gpu_delay(stream);
    gpu_fill_host(data, SIZE, 1, stream);
    OK(USE(mem, .cpu_data = data, .stream = stream, .flags = READ_ONLY));
    void *const now = synced_mem_mutable_cpu_data(mem);
    ck_assert_ptr_ne(now, data);
    ck_assert(host_is(now, SIZE, 1));
    close_stream(stream);
    OK(synced_mem_release(mem));
    gpu_pinned_free(data);
}
END_TEST

/* ---- User allocators ---- */

static int allocated;

static void *alloc_host(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)device;
    (void)stream;
    (void)user;
    allocated++;
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void free_host(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)size;
    (void)alignment;
    (void)device;
    (void)stream;
    (void)user;
    allocated--;
    free(data);
}

START_TEST(memory_from_an_allocator)
{
    const synced_mem_allocator allocator = {.struct_size = sizeof allocator, .alloc = alloc_host, .free = free_host};
    void *const file = map_file(SIZE, 1);
    synced_mem_options options;
    synced_mem *mem;
    synced_mem_options_init(&options);
    options.cpu_allocator = &allocator;
    allocated = 0;
    OK(synced_mem_create(&mem, SIZE, &options));
    OK(USE(mem, .cpu_data = file, .flags = READ_ONLY));
    if (_i == 0)
        ck_assert(host_is(synced_mem_mutable_cpu_data(mem), SIZE, 1));
    if (_i == 1)
        ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(mem));
    if (_i == 2) {
        synced_mem *const from = make_at_cpu(SIZE, 2);
        OK(synced_mem_cpu_copy(mem, from));
        OK(synced_mem_release(from));
    }
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_ALLOCATOR);
    ck_assert_int_eq(allocated, 1);
    unmap_file(file, SIZE, 1);
    OK(synced_mem_release(mem));
    OK(synced_mem_shutdown());
    ck_assert_int_eq(allocated, 0);
}
END_TEST

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
    synced_mem_options options;
    synced_mem *mem;
    if (!gpu_expected())
        return;
    void *const data = read_only_device(SIZE, 1);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem_options_init(&options);
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
    Suite *const all = suite_create("read-only memory");
    TCase *tcase = add_case(all, "handing in");
    tcase_add_test(tcase, reading_keeps_the_memory);
    tcase_add_test(tcase, unknown_flags);
    tcase = add_case(all, "the host");
    tcase_add_loop_test(tcase, a_mutable_access_keeps_the_contents, 0, 2);
    tcase_add_loop_test(tcase, an_overwrite_takes_other_memory, 0, 2);
    tcase_add_loop_test(tcase, zeros_take_other_memory, 0, 2);
    tcase_add_loop_test(tcase, a_transfer_takes_other_memory, 0, 2 * WAYS_DOWN);
    tcase_add_test(tcase, borrowed_memory_has_been_read);
    tcase_add_test(tcase, contents_that_are_arriving);
    tcase_add_loop_test(tcase, memory_from_an_allocator, 0, 3);
    tcase = add_case(all, "copies");
    tcase_add_loop_test(tcase, a_copy_to_the_host_takes_other_memory, 0, 2);
    tcase_add_loop_test(tcase, a_copy_between_two_objects_of_one_file, 0, 2);
    tcase_add_loop_test(tcase, a_copy_to_the_device_takes_other_memory, 0, 2);
    tcase = add_case(all, "the device");
    tcase_add_loop_test(tcase, writes_on_the_device_take_other_memory, 0, 2 * WAYS_UP);
    tcase_add_test(tcase, kernels_go_on_with_the_old_memory);
    tcase_add_test(tcase, no_pointer_to_write_is_published);
    tcase_add_loop_test(tcase, device_memory_from_an_allocator, 0, 3);
    tcase = add_case(all, "sizes");
    tcase_add_loop_test(tcase, a_larger_size_takes_other_memory, 0, 2);
    tcase_add_loop_test(tcase, a_larger_size_without_contents, 0, 2);
    tcase_add_loop_test(tcase, a_larger_size_keeps_the_side_with_room, 0, 2);
    tcase = add_case(all, "views");
    tcase_add_loop_test(tcase, a_view_writes_other_memory, 0, 4);
    tcase_add_loop_test(tcase, a_transfer_of_a_view_takes_other_memory, 0, 2 * VIEW_WAYS);
    tcase_add_loop_test(tcase, a_view_writes_other_device_memory, 0, 6);
    tcase_add_loop_test(tcase, a_resize_of_an_object_in_parts, 0, 2);
    return all;
}
