/* Checks turns that are abandoned, with two objects of one process, which are two participants. */
#include "sharing_kit.h"

#include "dlpack_structs.h"
#include "synced_mem/dlpack.h"

#include <sys/wait.h>

static synced_mem *one;
static synced_mem *other;

static void open_two(void)
{
    one = make_shareable(BYTES);
    other = share_with_myself(one);
}

static void release_two(void)
{
    RELEASE_EACH(one, other);
    ck_assert_int_eq(count_shared_mappings(), 0);
}

static synced_mem *make_view(synced_mem *mem, size_t offset, size_t size)
{
    synced_mem *view = NULL;
    OK(synced_mem_view(&view, mem, offset, size, NULL));
    return view;
}

static uint64_t version_now(void)
{
    uint64_t version = 77;
    OK(synced_mem_contents_version(one, &version));
    return version;
}

static uint64_t slot_now(void)
{
    uint64_t version = 77;
    OK(synced_mem_slot_version(one, 0, &version));
    return version;
}

/* ---- Turns to read ---- */

/* The slot's next turn reads the same contents, on whichever side. */
START_TEST(a_reader_consumes_nothing)
{
    open_two();
    OK(synced_mem_take_slot(one, 0, NULL));
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    OK(synced_mem_end_turn(one));
    for (int i = 0; i < 3; i++) {
        synced_mem *const reader = i % 2 ? one : other;
        OK(synced_mem_begin_slot_turn(reader, CPU, 0, 0));
        ck_assert(host_is(synced_mem_cpu_data(reader), BYTES, 1));
        OK(synced_mem_abandon_turn(reader));
        HEAD_IS(reader, UNINITIALIZED);
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_cpu_data(reader));
        ck_assert_uint_eq(slot_now(), 0);
        FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_begin_consumed_turn(one, CPU, 0));
    }
    OK(synced_mem_begin_slot_turn(other, CPU, 0, 0));
    OK(synced_mem_end_turn(other));
    ck_assert_uint_eq(slot_now(), 1);
    ck_assert_uint_eq(version_now(), 1);
    release_two();
}
END_TEST

/* Nothing is lost by that, and other readers go on. */
START_TEST(an_ordinary_reader)
{
    open_two();
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(one, CPU, READ, 0));
    OK(synced_mem_begin_turn(other, CPU, READ, 0));
    OK(synced_mem_abandon_turn(other));
    ck_assert(host_is(synced_mem_cpu_data(one), BYTES, 1));
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_newer_turn(other, CPU, 0, 0));
    ck_assert(host_is(synced_mem_cpu_data(other), BYTES, 1));
    release_two();
}
END_TEST

/* The side that the turn has filled stays valid. */
START_TEST(what_a_reader_has_filled_stays)
{
    open_two();
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(other, GPU, READ, 0));
    OK(synced_mem_abandon_turn(other));
    OK(synced_mem_begin_turn(one, GPU, READ, 0));
    HEAD_IS(one, SYNCED);
    ck_assert(device_is(synced_mem_gpu_data(one), BYTES, 1));
    release_two();
}
END_TEST

/* ---- Turns to write ---- */

/* Each other process is told once. No wish is granted but that to write, which waits for no slot. */
START_TEST(a_writer_loses_the_contents)
{
    open_two();
    synced_mem *const third = share_with_myself(one);
    OK(synced_mem_take_slot(one, 0, NULL));
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(one, CPU, WRITE, 0));
    host_fill(synced_mem_mutable_cpu_data(one), BYTES / 2, 2);
    OK(synced_mem_abandon_turn(one));
    HEAD_IS(one, UNINITIALIZED);
    ck_assert_uint_eq(version_now(), 1);
    FAILS(SYNCED_MEM_ERR_OWNER_DIED, synced_mem_begin_slot_turn(other, CPU, 0, 0));
    SAYS("abandoned");
    FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_begin_slot_turn(other, CPU, 0, 0));
    FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_begin_newer_turn(one, CPU, 0, 0));
    OK(synced_mem_begin_turn(one, CPU, READ, 0)); /* this one is not told */
    ck_assert(host_is(synced_mem_cpu_data(one), BYTES, 0));
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_consumed_turn(one, CPU, 0));
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 2);
    OK(synced_mem_end_turn(one));
    ck_assert_uint_eq(version_now(), 2);
    FAILS(SYNCED_MEM_ERR_OWNER_DIED, synced_mem_begin_turn(third, CPU, WRITE, 0));
    OK(synced_mem_begin_slot_turn(other, CPU, 0, 0));
    ck_assert(host_is(synced_mem_cpu_data(other), BYTES, 2));
    OK(synced_mem_end_turn(other));
    OK(synced_mem_release(third));
    release_two();
}
END_TEST

/* The maker's turn too. Many turns are told as one. */
START_TEST(the_maker_abandons_its_turn)
{
    open_two();
    OK(synced_mem_abandon_turn(one));
    for (int i = 0; i < 10; i++) {
        OK(synced_mem_begin_turn(one, CPU, WRITE, 0));
        OK(synced_mem_abandon_turn(one));
    }
    ck_assert_uint_eq(version_now(), 0);
    FAILS(SYNCED_MEM_ERR_OWNER_DIED, synced_mem_begin_turn(other, CPU, READ, 0));
    OK(synced_mem_begin_turn(other, CPU, WRITE, 0));
    OK(synced_mem_end_turn(other));
    ck_assert_uint_eq(version_now(), 1);
    OK(synced_mem_begin_newer_turn(one, CPU, 0, 0));
    release_two();
}
END_TEST

/* Kernels of this process have ended when another one writes; the emulated runtime would report a race. Nothing is
 * brought to one side, as nobody gets it. */
START_TEST(work_is_waited_for)
{
    open_two();
    synced_mem *const first = make_view(one, 0, BYTES / 2);
    synced_mem *const last = make_view(one, BYTES / 2, BYTES / 2);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    host_fill(synced_mem_overwrite_cpu_data(first), BYTES / 2, 1);
    gpu_fill(synced_mem_overwrite_gpu_data_on(last, stream), BYTES / 2, 2, stream);
    HEAD_IS(one, MIXED);
    const uint64_t before = stats_now().d2h_transfers;
    OK(synced_mem_abandon_turn(one));
    ck_assert_uint_eq(stats_now().d2h_transfers, before);
    HEAD_IS(last, UNINITIALIZED);
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_gpu_data_on(last, stream));
    FAILS(SYNCED_MEM_ERR_OWNER_DIED, synced_mem_begin_turn(other, GPU, WRITE, 0));
    OK(synced_mem_begin_turn(other, GPU, WRITE, 0));
    gpu_fill(synced_mem_overwrite_gpu_data(other), BYTES, 3, NULL);
    ck_assert(device_is(synced_mem_gpu_data(other), BYTES, 3));
    close_stream(stream);
    RELEASE_EACH(first, last);
    release_two();
}
END_TEST

/* ---- Refusals ---- */

static const int64_t shape = BYTES;

/* Contents written in a turn that was to be abandoned are never published. */
START_TEST(the_last_release_abandons_at_last)
{
    struct DLManagedTensorVersioned *tensor = NULL;
    const synced_mem_dlpack_options options = {.struct_size = sizeof options,
                                               .side = CPU,
                                               .mode = SYNCED_MEM_MUTABLE,
                                               .type_code = 1,
                                               .type_bits = 8,
                                               .ndim = 1,
                                               .shape = &shape};
    open_two();
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    OK(synced_mem_to_dlpack(&tensor, one, &options));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_abandon_turn(one));
    tensor->deleter(tensor);
    OK(synced_mem_release(one));
    FAILS(SYNCED_MEM_ERR_OWNER_DIED, synced_mem_begin_turn(other, CPU, READ, LONG_MS));
    OK(synced_mem_release(other));
    ck_assert_int_eq(count_shared_mappings(), 0);
}
END_TEST

/* The turn goes on, as it does after an end that fails. */
START_TEST(a_tensor_keeps_the_turn)
{
    struct DLManagedTensorVersioned *tensor = NULL;
    const synced_mem_dlpack_options options = {.struct_size = sizeof options,
                                               .side = CPU,
                                               .mode = SYNCED_MEM_MUTABLE,
                                               .type_code = 1,
                                               .type_bits = 8,
                                               .ndim = 1,
                                               .shape = &shape};
    open_two();
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    OK(synced_mem_to_dlpack(&tensor, one, &options));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_abandon_turn(one));
    SAYS("exported");
    ck_assert(host_is(synced_mem_cpu_data(one), BYTES, 1));
    FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_begin_turn(other, CPU, READ, 0));
    tensor->deleter(tensor);
    OK(synced_mem_end_turn(one));
    ck_assert_uint_eq(version_now(), 1);
    OK(synced_mem_begin_turn(other, CPU, READ, 0));
    ck_assert(host_is(synced_mem_cpu_data(other), BYTES, 1));
    release_two();
}
END_TEST

START_TEST(no_turn_to_abandon)
{
    synced_mem *const ordinary = make(BYTES);
    open_two();
    synced_mem *const view = make_view(one, 0, 100);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_abandon_turn(NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_abandon_turn(ordinary));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_abandon_turn(view));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_abandon_turn(other));
    OK(synced_mem_end_turn(one));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_abandon_turn(one));
    ck_assert_uint_eq(version_now(), 1);
    RELEASE_EACH(view, ordinary);
    release_two();
}
END_TEST

/* The turn is the parent's, and goes on there. */
START_TEST(a_forked_child_abandons_nothing)
{
    open_two();
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    const pid_t child = fork();
    if (child == 0) {
        (void)alarm(200);
        FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_abandon_turn(one));
        _exit(0);
    }
    int how;
    ck_assert_int_eq(waitpid(child, &how, 0), child);
    ck_assert_int_eq(how, 0);
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(other, CPU, READ, 0));
    ck_assert(host_is(synced_mem_cpu_data(other), BYTES, 1));
    release_two();
}
END_TEST

Suite *suite(void)
{
    Suite *const suite = suite_create("share_abandon");
    TCase *const cases = add_case(suite, "share_abandon");
    add_tests(cases, a_reader_consumes_nothing, an_ordinary_reader, a_writer_loses_the_contents,
              the_maker_abandons_its_turn, the_last_release_abandons_at_last, a_tensor_keeps_the_turn,
              no_turn_to_abandon, a_forked_child_abandons_nothing);
    add_gpu_tests(cases, what_a_reader_has_filled_stays, work_is_waited_for);
    return suite;
}
