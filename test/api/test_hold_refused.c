/* Tests what holds, budgets and held objects refuse. A refused call changes nothing. */
#include "files_kit.h"
#include "hold_tensor_kit.h"


static synced_mem *mem;
static synced_mem *other;
static synced_mem *fixed;
static synced_mem_stream stream;

static void make_objects(void)
{
    stream = open_stream(NON_BLOCKING);
    mem = make_evictable("layer", HOLD_BYTES);
    other = make_evictable("other", HOLD_BYTES);
    fixed = make_on(HOLD_BYTES, 0);
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), HOLD_BYTES, 1);
}

static void release_objects(void)
{
    RELEASE_EACH(mem, other, fixed);
    CLOSE_EACH(stream);
}

static synced_mem_status hold_both(synced_mem *first, synced_mem *second)
{
    synced_mem *const both[] = {first, second};
    return synced_mem_hold_n(both, 2, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, stream);
}

static synced_mem_status unhold_both(synced_mem *first, synced_mem *second)
{
    synced_mem *const both[] = {first, second};
    return synced_mem_unhold_n(both, 2, SYNCED_MEM_SIDE_GPU);
}

START_TEST(arguments)
{
    make_objects();
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, hold_both(mem, NULL));
    SAYS("mems[1] of 2 objects is NULL");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, unhold_both(NULL, mem));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_hold_n(NULL, 1, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, stream));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_unhold_n(NULL, 1, SYNCED_MEM_SIDE_GPU));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_hold(NULL, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, stream));
    SAYS("the object is NULL");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_unhold(NULL, SYNCED_MEM_SIDE_GPU));
    SAYS("the object is NULL");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, hold_both(mem, mem));
    SAYS("named more than once");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_unhold(mem, (synced_mem_side)3));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_hold(mem, (synced_mem_side)3, SYNCED_MEM_READ, stream));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_hold(mem, SYNCED_MEM_SIDE_GPU, (synced_mem_mode)3, stream));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, hold_one(mem, SYNCED_MEM_READ, SYNCED_MEM_NO_STREAM));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, hold_both(mem, fixed));
    SAYS("not evictable");
    OK(synced_mem_hold_n(NULL, 0, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, stream));
    OK(synced_mem_unhold_n(NULL, 0, SYNCED_MEM_SIDE_GPU));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, unhold_one(mem)); /* none of these has held it */
    SAYS("not held");
    release_objects();
}
END_TEST

START_TEST(objects_of_two_devices)
{
    if (devices() < 2)
        return;
    make_objects();
    synced_mem *elsewhere;
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.device = 1;
    options.evictable = 1;
    OK(synced_mem_create(&elsewhere, HOLD_BYTES, &options));
    synced_mem *const both[] = {mem, elsewhere};
    set_budget(HOLD_BYTES);
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, hold_both(mem, elsewhere));
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE,
          synced_mem_hold_n(both, 2, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_OVERWRITE, SYNCED_MEM_STREAM_LIBRARY));
    SAYS("on device 1, but others of the call are on device 0");
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    OK(synced_mem_hold_n(both, 2, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_READ, NULL));
    OK(synced_mem_unhold_n(both, 2, SYNCED_MEM_SIDE_CPU));

    /* a copy to both needs room on each for its own */
    synced_mem *const from[] = {fixed, fixed};
    host_fill(given(synced_mem_overwrite_cpu_data(fixed)), HOLD_BYTES, 3);
    OK(synced_mem_async_gpu_copy_n(both, from, 2, stream));
    for (int i = 0; i < 2; i++)
        ck_assert(host_is(given(synced_mem_cpu_data(both[i])), HOLD_BYTES, 3));
    RELEASE_EACH(elsewhere);
    release_objects();
}
END_TEST

START_TEST(unhold_without_hold)
{
    make_objects();
    OK(hold_one(mem, SYNCED_MEM_READ, stream));
    const void *const data = given(synced_mem_gpu_data_on(mem, stream));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, unhold_both(mem, other));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, unhold_both(mem, mem));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, unhold_both(fixed, mem));
    ck_assert_ptr_eq(given(synced_mem_gpu_data_on(mem, stream)), data);
    OK(unhold_one(mem));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, unhold_one(mem));
    release_objects();
}
END_TEST

START_TEST(while_held)
{
    static unsigned char memory[HOLD_BYTES];
    make_objects();
    OK(hold_one(mem, SYNCED_MEM_READ, stream));
    const struct facts before = facts_of(mem);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_resize(mem, 5));
    SAYS("held");
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_resize_discard(mem, 5));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_release_gpu_data(mem));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_release_cpu_data(mem));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_release_data(mem));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_set_cpu_data(mem, memory));
    synced_mem_file *const file = make_file(HOLD_BYTES, 3);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_use_file(mem, file, 0));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_release(mem));
    SAYS("held");
    check_unchanged(mem, &before);
    OK(unhold_one(mem));
    OK(synced_mem_use_file(mem, file, 0));
    end_file(file);
    release_objects();
}
END_TEST

START_TEST(what_evictable_objects_can_not_be)
{
    static unsigned char memory[HOLD_BYTES];
    synced_mem *view = NULL;
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.evictable = 2;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_create(&view, 1, &options));
    options.evictable = 1;
    options.placement = SYNCED_MEM_PLACEMENT_MAPPED;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_create(&view, 1, &options));
    options.placement = SYNCED_MEM_PLACEMENT_SEPARATE;
    options.shareable = SYNCED_MEM_SHAREABLE_SAME_USER;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_create(&view, 1, &options));
    options.shareable = 0;
    make_objects();
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_view(&view, mem, 0, 5, NULL));
    SAYS("evictable");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_view(&view, fixed, 0, 5, &options));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_set_cpu_data(mem, memory));
    const synced_mem_memory handed = {.struct_size = sizeof handed, .cpu_data = memory};
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_use_memory(mem, &handed));
    ck_assert(host_is(given(synced_mem_cpu_data(mem)), HOLD_BYTES, 1));
    release_objects();
}
END_TEST

START_TEST(a_tensor_needs_a_hold_and_keeps_the_memory)
{
    struct DLManagedTensorVersioned *tensor = NULL;
    make_objects();
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, give_out(mem, SYNCED_MEM_SIDE_GPU, &tensor));
    OK(hold_one(mem, SYNCED_MEM_READ, stream));
    OK(give_out(mem, SYNCED_MEM_SIDE_GPU, &tensor));
    OK(unhold_one(mem));
    uint64_t over;
    OK(synced_mem_gpu_set_budget(0, 0, &over));
    ck_assert_uint_eq(over, HOLD_BYTES);
    ck_assert(device_is(tensor->tensor.data, HOLD_BYTES, 1));
    tensor->deleter(tensor);
    OK(synced_mem_gpu_set_budget(0, 0, &over));
    ck_assert_uint_eq(over, 0);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    release_objects();
}
END_TEST

START_TEST(budgets)
{
    uint64_t over = 7;
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_gpu_set_budget(-1, 0, &over));
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_gpu_set_budget(devices(), 0, &over));
    ck_assert_uint_eq(over, 7);
}
END_TEST

START_TEST(without_a_gpu)
{
    if (gpu_expected())
        return;
    mem = make_evictable("layer", HOLD_BYTES);
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), HOLD_BYTES, 1);
    FAILS(SYNCED_MEM_ERR_NO_GPU, hold_one(mem, SYNCED_MEM_READ, NULL));
    FAILS(SYNCED_MEM_ERR_NO_GPU, synced_mem_gpu_set_budget(0, 1, NULL));
    FAILS(SYNCED_MEM_ERR_NO_GPU, synced_mem_async_gpu_push(mem, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, unhold_one(mem));
    ck_assert(host_is(given(synced_mem_cpu_data(mem)), HOLD_BYTES, 1));
    RELEASE_EACH(mem);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("hold_refused");
    TCase *const refused = add_case(made, "refused");
    add_gpu_tests(refused, arguments, objects_of_two_devices, unhold_without_hold, while_held,
                  what_evictable_objects_can_not_be, a_tensor_needs_a_hold_and_keeps_the_memory, budgets);
    add_tests(refused, without_a_gpu);
    return made;
}
