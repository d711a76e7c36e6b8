/* Versions and slots of shareable objects, with two objects of one process, which are two participants. */
#include "sharing_kit.h"

#include "dlpack_structs.h"
#include "synced_mem/dlpack.h"

#include "object/shareable.h"

#include <limits.h>
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

static uint64_t version_of(const synced_mem *mem)
{
    uint64_t version = 77;
    OK(synced_mem_contents_version(mem, &version));
    return version;
}

static uint64_t slot_of(const synced_mem *mem, int slot)
{
    uint64_t version = 77;
    OK(synced_mem_slot_version(mem, slot, &version));
    return version;
}

static void write_next(synced_mem *mem, unsigned pattern)
{
    OK(synced_mem_begin_consumed_turn(mem, CPU, 0));
    host_fill(synced_mem_overwrite_cpu_data(mem), BYTES, pattern);
    OK(synced_mem_end_turn(mem));
}

/* ---- Turns ---- */

START_TEST(versions_go_with_turns_to_write)
{
    open_two();
    ck_assert_uint_eq(version_of(one), 0);
    OK(synced_mem_take_slot(one, 0, NULL));
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_begin_newer_turn(other, CPU, 0, 0));
    OK(synced_mem_end_turn(one));
    for (unsigned i = 1; i < 9; i++) {
        ck_assert_uint_eq(version_of(other), i);
        ck_assert_uint_eq(slot_of(one, 0), i - 1);
        FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_begin_consumed_turn(one, CPU, i == 1 ? 20 : 0));
        SAYS("not every reader");
        FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_begin_newer_turn(one, CPU, i, 0));
        SAYS("newer");
        OK(synced_mem_begin_slot_turn(other, CPU, 0, 0));
        ck_assert_uint_eq(version_of(other), i);
        ck_assert(host_is(synced_mem_cpu_data(other), BYTES, i));
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_mutable_cpu_data(other)); /* a turn to read */
        OK(synced_mem_begin_newer_turn(one, CPU, i - 1, 0));
        OK(synced_mem_end_turn(one));
        ck_assert_uint_eq(slot_of(one, 0), i - 1); /* the turn consumes when it ends */
        OK(synced_mem_end_turn(other));
        ck_assert_uint_eq(slot_of(one, 0), i);
        FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_begin_slot_turn(other, CPU, 0, 0));
        write_next(one, i + 1);
    }
    release_two();
}
END_TEST

/* On the device too: the turn fills the side. */
START_TEST(contents_are_consumed_on_each_side)
{
    open_two();
    OK(synced_mem_take_slot(one, 3, NULL));
    OK(synced_mem_take_slot(one, 5, NULL));
    gpu_fill(synced_mem_overwrite_gpu_data(one), BYTES, 4, NULL);
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_slot_turn(other, CPU, 3, 0));
    ck_assert(host_is(synced_mem_cpu_data(other), BYTES, 4));
    OK(synced_mem_end_turn(other));
    OK(synced_mem_begin_slot_turn(one, GPU, 5, 0));
    ck_assert(device_is(synced_mem_gpu_data(one), BYTES, 4));
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_consumed_turn(one, GPU, 0));
    ck_assert(device_is(synced_mem_gpu_data(one), BYTES, 4));
    ck_assert_uint_eq(version_of(one), 1);
    OK(synced_mem_end_turn(one));
    ck_assert_uint_eq(version_of(one), 2);
    release_two();
}
END_TEST

START_TEST(an_ordinary_turn_looks_at_no_version)
{
    open_two();
    OK(synced_mem_take_slot(one, 0, NULL));
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(other, CPU, WRITE, 0));
    OK(synced_mem_end_turn(other));
    ck_assert_uint_eq(version_of(one), 2);
    OK(synced_mem_begin_turn(other, CPU, READ, 0));
    OK(synced_mem_end_turn(other));
    ck_assert_uint_eq(slot_of(one, 0), 0); /* and consumes none */
    release_two();
}
END_TEST

START_TEST(a_release_consumes)
{
    open_two();
    OK(synced_mem_take_slot(one, 0, NULL));
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_slot_turn(other, CPU, 0, 0));
    OK(synced_mem_release(other));
    ck_assert_uint_eq(slot_of(one, 0), 1);
    OK(synced_mem_begin_consumed_turn(one, CPU, 0));
    OK(synced_mem_release(one));
}
END_TEST

/* The slot stays when the objects of its reader are gone. */
START_TEST(a_slot_survives_its_reader)
{
    open_two();
    OK(synced_mem_take_slot(other, 9, NULL));
    OK(synced_mem_release(other));
    OK(synced_mem_end_turn(one));
    FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_begin_consumed_turn(one, CPU, 0));
    OK(synced_mem_begin_turn(one, CPU, WRITE, 0));
    other = share_with_myself(one);
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_slot_turn(other, CPU, 9, 0));
    OK(synced_mem_end_turn(other));
    ck_assert_uint_eq(slot_of(other, 9), 2);
    OK(synced_mem_begin_consumed_turn(one, CPU, 0));
    OK(synced_mem_end_turn(one));
    OK(synced_mem_end_slot(other, 9));
    OK(synced_mem_begin_consumed_turn(one, CPU, 0));
    release_two();
}
END_TEST

START_TEST(a_slot_ends_in_the_turn_of_its_reader)
{
    uint64_t version;
    open_two();
    OK(synced_mem_take_slot(one, 0, NULL));
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_slot_turn(other, CPU, 0, 0));
    OK(synced_mem_end_slot(other, 0));
    OK(synced_mem_end_turn(other));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_slot_version(one, 0, &version));
    release_two();
}
END_TEST

/* ---- Failures ---- */

/* The turn goes on, and has not consumed. */
START_TEST(an_end_that_fails_consumes_nothing)
{
    struct DLManagedTensorVersioned *tensor = NULL;
    const int64_t shape = BYTES;
    const synced_mem_dlpack_options options = {.struct_size = sizeof options,
                                               .side = CPU,
                                               .mode = SYNCED_MEM_READ,
                                               .type_code = 1,
                                               .type_bits = 8,
                                               .ndim = 1,
                                               .shape = &shape};
    open_two();
    OK(synced_mem_take_slot(one, 0, NULL));
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_slot_turn(other, CPU, 0, 0));
    OK(synced_mem_to_dlpack(&tensor, other, &options));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_end_turn(other));
    ck_assert_uint_eq(slot_of(one, 0), 0);
    tensor->deleter(tensor);
    OK(synced_mem_end_turn(other));
    ck_assert_uint_eq(slot_of(one, 0), 1);
    release_two();
}
END_TEST

/* The transfer to the side fails: there is no turn, and the contents are still to be consumed. */
START_TEST(a_begin_that_fails_consumes_nothing)
{
    open_two();
    OK(synced_mem_take_slot(one, 0, NULL));
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 6);
    OK(synced_mem_end_turn(one));
    if (gpu_fail(0, 1))
        FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_begin_slot_turn(other, GPU, 0, 0));
    gpu_fail_no_more();
    ck_assert_uint_eq(slot_of(one, 0), 0);
    FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_begin_consumed_turn(one, CPU, 0));
    OK(synced_mem_begin_slot_turn(other, GPU, 0, 0));
    ck_assert(device_is(synced_mem_gpu_data(other), BYTES, 6));
    release_two();
}
END_TEST

/* The turn to write fails after it came: the version stays. */
START_TEST(a_begin_that_fails_writes_nothing)
{
    one = make_shareable_of(BYTES, SYNCED_MEM_DEVICE_CURRENT, SYNCED_MEM_SHAREABLE_SAME_USER); /* without a device */
    struct sm_control_page *const page = sm_sharing_of(one)->memory->participant.page;
    OK(synced_mem_end_turn(one));
    sm_contents_store(page, (struct sm_contents){.head = SYNCED_MEM_SYNCED, .version = 5});
    FAILS(SYNCED_MEM_ERR_PEER, synced_mem_begin_consumed_turn(one, CPU, 0));
    ck_assert_uint_eq(version_of(one), 5);
    OK(synced_mem_begin_consumed_turn(one, CPU, 0));
    OK(synced_mem_end_turn(one));
    ck_assert_uint_eq(version_of(one), 6);
    OK(synced_mem_release(one));
}
END_TEST

/* ---- Refusals ---- */

static void all_calls_fail(synced_mem *mem, synced_mem_status status)
{
    uint64_t version = 77;
    int slot = 77;
    FAILS(status, synced_mem_contents_version(mem, &version));
    FAILS(status, synced_mem_take_slot(mem, SYNCED_MEM_ANY_SLOT, &slot));
    FAILS(status, synced_mem_slot_version(mem, 0, &version));
    FAILS(status, synced_mem_end_slot(mem, 0));
    FAILS(status, synced_mem_begin_newer_turn(mem, CPU, 0, -1));
    FAILS(status, synced_mem_begin_slot_turn(mem, CPU, 0, -1));
    FAILS(status, synced_mem_begin_consumed_turn(mem, CPU, -1));
    ck_assert_uint_eq(version, 77);
    ck_assert_int_eq(slot, 77);
}

START_TEST(other_objects_have_no_version)
{
    synced_mem *const ordinary = make(BYTES);
    synced_mem *view;
    one = make_shareable(BYTES);
    OK(synced_mem_view(&view, one, 0, 100, NULL));
    all_calls_fail(NULL, SYNCED_MEM_ERR_INVALID_ARGUMENT);
    all_calls_fail(ordinary, SYNCED_MEM_ERR_INVALID_STATE);
    all_calls_fail(view, SYNCED_MEM_ERR_INVALID_STATE);
    RELEASE_EACH(view, one, ordinary);
}
END_TEST

START_TEST(numbers_out_of_range)
{
    const int bad[] = {-2, SYNCED_MEM_SLOTS, INT_MAX, INT_MIN};
    uint64_t version;
    open_two();
    OK(synced_mem_end_turn(one));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_take_slot(one, bad[i], NULL));
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_end_slot(one, bad[i]));
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_slot_version(one, bad[i], &version));
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_begin_slot_turn(one, CPU, bad[i], 0));
    }
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_end_slot(one, SYNCED_MEM_ANY_SLOT));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_begin_slot_turn(one, CPU, SYNCED_MEM_ANY_SLOT, 0));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_begin_newer_turn(one, (synced_mem_side)0, 0, 0));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_begin_consumed_turn(one, (synced_mem_side)3, 0));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_contents_version(one, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_slot_version(one, 0, NULL));
    release_two();
}
END_TEST

START_TEST(slots_that_are_taken_or_not)
{
    uint64_t version;
    int slot = 77;
    open_two();
    OK(synced_mem_end_turn(one));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_begin_slot_turn(one, CPU, 0, -1));
    SAYS("not taken");
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_end_slot(one, 0));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_slot_version(one, 0, &version));
    for (int i = 0; i < SYNCED_MEM_SLOTS; i++) {
        OK(synced_mem_take_slot(i % 2 ? one : other, SYNCED_MEM_ANY_SLOT, &slot));
        ck_assert_int_eq(slot, i);
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_take_slot(i % 3 ? one : other, i, &slot));
    }
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_take_slot(one, SYNCED_MEM_ANY_SLOT, &slot));
    SAYS("all 64 slots");
    ck_assert_int_eq(slot, SYNCED_MEM_SLOTS - 1);
    OK(synced_mem_end_slot(one, 40));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_end_slot(other, 40));
    OK(synced_mem_take_slot(one, 40, NULL));
    release_two();
}
END_TEST

/* A turn is one, by whatever call. */
START_TEST(a_process_has_one_turn)
{
    open_two();
    OK(synced_mem_take_slot(one, 0, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_begin_consumed_turn(one, CPU, -1));
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_slot_turn(one, CPU, 0, -1));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_begin_newer_turn(one, CPU, 0, -1));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_begin_slot_turn(one, CPU, 0, -1));
    OK(synced_mem_end_turn(one));
    release_two();
}
END_TEST

/* The versions and slots are the parent's. */
START_TEST(a_forked_child_has_none)
{
    open_two();
    OK(synced_mem_take_slot(one, 0, NULL));
    OK(synced_mem_end_turn(one));
    const pid_t child = fork();
    if (child == 0) {
        (void)alarm(200);
        all_calls_fail(one, SYNCED_MEM_ERR_FORKED);
        _exit(0);
    }
    int how;
    ck_assert_int_eq(waitpid(child, &how, 0), child);
    ck_assert_int_eq(how, 0);
    ck_assert_uint_eq(slot_of(one, 0), 0);
    release_two();
}
END_TEST

Suite *suite(void)
{
    Suite *const suite = suite_create("share_versions");
    TCase *const cases = add_case(suite, "share_versions");
    add_tests(cases, versions_go_with_turns_to_write, an_ordinary_turn_looks_at_no_version, a_release_consumes,
              a_slot_survives_its_reader, a_slot_ends_in_the_turn_of_its_reader, an_end_that_fails_consumes_nothing,
              a_begin_that_fails_writes_nothing, other_objects_have_no_version, numbers_out_of_range,
              slots_that_are_taken_or_not, a_process_has_one_turn, a_forked_child_has_none);
    add_gpu_tests(cases, contents_are_consumed_on_each_side, a_begin_that_fails_consumes_nothing);
    return suite;
}
