/* Checks a change of an object's size during another thread's call. */
#include "interleavings_kit.h"

static void grow(void)
{
    sound(synced_mem_resize_discard(mem, LARGER) == SYNCED_MEM_OK);
}

static void never(void *data, void *user, synced_mem_stream of)
{
    (void)data, (void)user, (void)of;
    atomic_fetch_add(&wrong, 1);
}

/* The object grows while memory is handed in. The memory is too small then, and is refused. */
START_TEST(memory_handed_in_meets_a_new_size)
{
    void *const host = gpu_pinned_alloc(SIZE);
    void *const device = gpu_alloc(0, SIZE);
    mem = make_on(SIZE, 0);
    stream = open_stream(NON_BLOCKING);
    synced_mem_status status = SYNCED_MEM_OK;
    run_second_at(AFTER_THE_RECORD, grow);
    switch (_i) {
    case 0:
        status = USE(mem, .cpu_data = host, .stream = stream);
        break;
    case 1:
        status = USE(mem, .gpu_data = device, .stream = stream);
        break;
    case 2:
        status = USE(mem, .cpu_data = host, .gpu_data = device, .stream = stream);
        break;
    case 3:
        status = USE(mem, .cpu_data = host, .callback = never, .stream = stream);
        break;
    case 4:
        status = USE(mem, .gpu_data = device, .callback = never, .stream = stream);
        break;
    case 5:
        status = USE(mem, .cpu_data = host, .gpu_data = device, .callback = never, .stream = stream);
        break;
    }
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, status);
    join_second();
    ck_assert_uint_eq(synced_mem_size(mem), LARGER);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_UNINITIALIZED);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_NONE);
    ck_assert_int_eq(synced_mem_gpu_source(mem), SYNCED_MEM_SOURCE_NONE);
    ck_assert(device_is(synced_mem_gpu_data(mem), LARGER, 0));
    ck_assert(host_is(synced_mem_cpu_data(mem), LARGER, 0));
    OK(synced_mem_release(mem));
    close_stream(stream);
    gpu_pinned_free(host);
    gpu_free(device);
    OK(synced_mem_shutdown());
    ck_assert_int_eq(atomic_load(&wrong), 0);
}
END_TEST

static void write_what_is_read(void)
{
    void *const data = synced_mem_overwrite_gpu_data_on(mem, next);
    sound(data && gpu_try_fill(data, SIZE, 7, next));
}

/* The same of an object that is divided, by a view that is made meanwhile. */
static void make_view_and_write(void)
{
    synced_mem *view = NULL;
    sound(synced_mem_view(&view, mem, SIZE / 4, SIZE / 2, NULL) == SYNCED_MEM_OK);
    write_what_is_read();
    sound(synced_mem_release(view) == SYNCED_MEM_OK);
}

/* Brings a half of an object that is AT_GPU to the host. So the object stays in parts. */
static void read_first_half(void)
{
    synced_mem *view;
    OK(synced_mem_view(&view, mem, 0, SIZE / 2, NULL));
    ck_assert(host_is(synced_mem_cpu_data(view), SIZE / 2, 1));
    OK(synced_mem_release(view));
    OK(synced_mem_wait(mem));
}

/* Borrowed memory is copied to larger memory, and is written again before it is handed back. _i: the object is in
 * parts before, or meanwhile. */
START_TEST(borrowed_memory_is_written_while_it_is_outgrown)
{
    void *const device = gpu_alloc(0, SIZE);
    next = open_stream(NON_BLOCKING);
    mem = make(SIZE);
    gpu_fill(device, SIZE, 1, next);
    OK(USE(mem, .gpu_data = device, .stream = next));
    if (_i & 1)
        read_first_half();
    run_second_at(AT_THE_WAIT, _i & 2 ? make_view_and_write : write_what_is_read);
    OK(synced_mem_resize(mem, LARGER));
    join_second();
    gpu_fill(device, SIZE, 2, next); /* the memory is the caller's again */
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 7));
    ck_assert(pattern_is((const char *)synced_mem_cpu_data(mem) + SIZE, LARGER - SIZE, 0));
    OK(synced_mem_release(mem));
    close_stream(next);
    gpu_free(device);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("interleavings_sizes");
    TCase *const tests = add_case(made, "interleavings_sizes");
    tcase_add_loop_test(tests, memory_handed_in_meets_a_new_size, 0, 6);
    tcase_add_loop_test(tests, borrowed_memory_is_written_while_it_is_outgrown, 0, 4);
    return made;
}
