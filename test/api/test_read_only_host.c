/* Checks read-only memory of the host: no call writes it. It is a mapped file, in which a write faults. */
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

/* A device that can't do it refuses. */
START_TEST(page_locked_file)
{
    void *const file = map_file(SIZE, 1);
    synced_mem *const mem = make(SIZE);
    const synced_mem_status status = USE(mem, .cpu_data = file, .flags = READ_ONLY | SYNCED_MEM_MEMORY_PAGE_LOCK);
    if (status == SYNCED_MEM_OK) {
        synced_mem *const reader = make(SIZE);
        OK(synced_mem_set_cpu_data(reader, file));
        ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
        ck_assert(device_is(synced_mem_gpu_data(reader), SIZE, 1));
        gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 2, NULL);
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
        OK(synced_mem_release(reader));
    } else if (gpu_expected()) {
        ck_assert_int_eq(status, SYNCED_MEM_ERR_CUDA);
        SAYS("the memory is read-only, and can't be page-locked for reading: ");
    } else {
        ck_assert_int_eq(status, SYNCED_MEM_ERR_NO_GPU);
    }
    OK(synced_mem_release(mem));
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

enum { READ, PULL, PULL_N, RELEASE, LARGE_READ, LARGE_PULL, WAYS_DOWN };

START_TEST(a_transfer_takes_other_memory)
{
    const int way = _i / 2;
    const bool adopted = _i % 2;
    const size_t size = way == LARGE_READ || way == LARGE_PULL ? 3 << 20 : SIZE;
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
    RELEASE_EACH(from, mem);
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

/* ---- Page-locked memory ---- */

/* Borrowed memory is the caller's again when the call returns, also if a push still read it. */
START_TEST(borrowed_memory_has_been_read)
{
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
    synced_mem_options options = default_options();
    synced_mem *mem;
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

Suite *suite(void)
{
    Suite *const all = suite_create("read-only memory of the host");
    TCase *tcase = add_case(all, "handing in");
    add_tests(tcase, reading_keeps_the_memory, unknown_flags, page_locked_file);
    tcase = add_case(all, "accesses");
    add_gpu_tests(tcase, borrowed_memory_has_been_read, contents_that_are_arriving);
    tcase_add_loop_test(tcase, a_mutable_access_keeps_the_contents, 0, 2);
    tcase_add_loop_test(tcase, an_overwrite_takes_other_memory, 0, 2);
    tcase_add_loop_test(tcase, zeros_take_other_memory, 0, 2);
    add_gpu_loop_test(tcase, a_transfer_takes_other_memory, 0, 2 * WAYS_DOWN);
    tcase_add_loop_test(tcase, memory_from_an_allocator, 0, 3);
    tcase = add_case(all, "copies");
    tcase_add_loop_test(tcase, a_copy_to_the_host_takes_other_memory, 0, 2);
    tcase_add_loop_test(tcase, a_copy_between_two_objects_of_one_file, 0, 2);
    tcase = add_case(all, "sizes");
    tcase_add_loop_test(tcase, a_larger_size_takes_other_memory, 0, 2);
    tcase_add_loop_test(tcase, a_larger_size_without_contents, 0, 2);
    add_gpu_loop_test(tcase, a_larger_size_keeps_the_side_with_room, 0, 2);
    return all;
}
