/* Checks the budget for host copies: which go, where their contents go, and what comes back. */
#include "host_budget_kit.h"

#include <string.h>
#include <time.h>

enum { MANY = 8 };

static synced_mem *mems[MANY];

static void end_many(synced_mem_file *scratch)
{
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    release_all(mems, MANY);
    if (scratch)
        end_scratch(scratch);
}

/* Those that the device has too go first, without a byte moved. */
START_TEST(copies_that_the_device_has_go_first)
{
    synced_mem_file *const scratch = make_scratch();
    uint64_t over = 1;
    make_many(mems, MANY, 0);
    for (unsigned i = 4; i < MANY; i++)
        OK(synced_mem_async_gpu_push(mems[i], NULL));
    OK(synced_mem_cpu_set_budget(4 * HOLD_BYTES, scratch, &over));
    ck_assert_uint_eq(over, 0);
    const synced_mem_stats stats = stats_now();
    ck_assert_uint_eq(stats.host_evictions, 4);
    ck_assert_uint_eq(stats.host_evicted_bytes, 4 * HOLD_BYTES);
    ck_assert_uint_eq(stats.spills, 0);
    ck_assert_uint_eq(stats.file_writes, 0);
    for (unsigned i = 0; i < MANY; i++) {
        ck_assert_int_eq(synced_mem_head(mems[i]), i < 4 ? SYNCED_MEM_AT_CPU : SYNCED_MEM_AT_GPU);
        ck_assert_int_eq(has_host_copy(mems[i]), i < 4);
    }
    for (unsigned i = 0; i < MANY; i++)
        ck_assert(host_has(mems[i], i));
    end_many(scratch);
}
END_TEST

/* Others go to the scratch file, and from there back, or straight to the device. */
START_TEST(others_go_to_the_scratch_file)
{
    synced_mem_file *const scratch = make_scratch();
    make_many(mems, MANY, 0);
    set_host_budget((uint64_t)(_i + 1) * HOLD_BYTES, scratch);
    ck_assert_uint_eq(count_host_copies(mems, MANY), (unsigned)_i + 1);
    ck_assert_uint_eq(stats_now().spills, MANY - (unsigned)_i - 1);
    for (unsigned i = 0; i < MANY; i++) {
        ck_assert_int_eq(synced_mem_head(mems[i]), has_host_copy(mems[i]) ? SYNCED_MEM_AT_CPU : 0);
        ck_assert_int_eq(synced_mem_in_file(mems[i]), !has_host_copy(mems[i]));
    }
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < MANY; i++) {
            ck_assert(host_has(mems[i], i));
            ck_assert_uint_le(count_host_copies(mems, MANY), (unsigned)_i + 1);
        }
    const uint64_t spills = stats_now().spills;
    ck_assert_uint_le(spills, MANY); /* what came back is still in the file */
    host_write(mems[2], 77);
    for (unsigned i = 0; i < MANY; i++)
        ck_assert(host_has(mems[i], i == 2 ? 77 : i));
    end_many(scratch);
}
END_TEST

START_TEST(a_device_reads_the_scratch_file)
{
    synced_mem_file *const scratch = make_scratch();
    make_many(mems, MANY, 0);
    set_host_budget(0, scratch);
    ck_assert_uint_eq(count_host_copies(mems, MANY), 0);
    for (unsigned i = 0; i < MANY; i++) {
        OK(hold_one(mems[i], SYNCED_MEM_READ, NULL));
        ck_assert(device_has(mems[i], i));
        OK(unhold_one(mems[i]));
    }
    ck_assert_uint_eq(count_host_copies(mems, MANY), 0);
    OK(hold_one(mems[1], SYNCED_MEM_MUTABLE, NULL));
    gpu_fill(given(synced_mem_mutable_gpu_data(mems[1])), HOLD_BYTES, 50, NULL);
    OK(unhold_one(mems[1]));
    ck_assert_int_eq(synced_mem_in_file(mems[1]), 0);
    set_host_budget(HOLD_BYTES, scratch);
    ck_assert(host_has(mems[1], 50));
    end_many(scratch);
}
END_TEST

/* Contents that the device alone has are pulled before it goes, so something else goes to the file. */
START_TEST(evictions_of_the_device_evict_host_copies)
{
    synced_mem_file *const scratch = make_scratch();
    make_many(mems, MANY, 0);
    set_host_budget(2 * HOLD_BYTES, scratch);
    set_budget(2 * HOLD_BYTES);
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < MANY; i++) {
            OK(hold_one(mems[i], SYNCED_MEM_MUTABLE, NULL));
            gpu_fill(given(synced_mem_mutable_gpu_data(mems[i])), HOLD_BYTES, 20 + i, NULL);
            OK(unhold_one(mems[i]));
            ck_assert_uint_le(count_host_copies(mems, MANY), 2);
        }
    ck_assert_uint_ge(stats_now().dirty_evictions, MANY);
    ck_assert_uint_ge(stats_now().spills, MANY);
    for (unsigned i = 0; i < MANY; i++)
        ck_assert(host_has(mems[i], 20 + i));
    end_many(scratch);
}
END_TEST

/* A host copy that has gone while the device still reads it is no room yet. The eviction that needs it waits. */
START_TEST(evictions_of_the_device_wait_for_host_copies)
{
    synced_mem_file *const scratch = make_scratch();
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const large = make_evictable("large", 2 * HOLD_BYTES);
    make_many(mems, MANY, 0);
    set_host_budget(2 * HOLD_BYTES, scratch);
    set_budget(2 * HOLD_BYTES);
    OK(hold_one(mems[0], SYNCED_MEM_MUTABLE, NULL));
    gpu_fill(given(synced_mem_mutable_gpu_data(mems[0])), HOLD_BYTES, 20, NULL);
    OK(unhold_one(mems[0]));
    OK(hold_host(mems[1], SYNCED_MEM_READ));
    OK(hold_host(mems[2], SYNCED_MEM_READ));
    gpu_delay(stream);
    OK(synced_mem_hold(mems[2], SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, stream));
    OK(unhold_one(mems[2]));
    OK(unhold_host(mems[2]));
    OK(hold_one(large, SYNCED_MEM_OVERWRITE, NULL));
    OK(unhold_one(large));
    OK(unhold_host(mems[1]));
    ck_assert(host_has(mems[0], 20));
    ck_assert(host_has(mems[2], 2));
    OK(synced_mem_release(large));
    close_stream(stream);
    end_many(scratch);
}
END_TEST

/* Without a scratch file they stay, and the call that needs the memory says so. */
START_TEST(without_a_scratch_file_they_stay)
{
    uint64_t over = 0;
    make_many(mems, MANY, 0);
    OK(synced_mem_cpu_set_budget(2 * HOLD_BYTES, NULL, &over));
    ck_assert_uint_eq(over, (MANY - 2) * HOLD_BYTES);
    ck_assert_uint_eq(count_host_copies(mems, MANY), MANY);
    synced_mem *const other = make_evictable("other", HOLD_BYTES);
    FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, hold_host(other, SYNCED_MEM_OVERWRITE));
    SAYS("scratch file");
    synced_mem *const plain = make(HOLD_BYTES);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_cpu_data(plain));
    SAYS("scratch file");
    OK(synced_mem_async_gpu_push_n(mems, MANY, NULL)); /* now the device has them too */
    OK(hold_host(other, SYNCED_MEM_OVERWRITE));
    OK(unhold_host(other));
    ck_assert_uint_le(count_host_copies(mems, MANY), 1);
    for (unsigned i = 0; i < MANY; i++)
        ck_assert(host_has(mems[i], i));
    RELEASE_EACH(other, plain);
    end_many(NULL);
}
END_TEST

/* Nor do contents that nobody needs any more. */
START_TEST(cleared_contents_need_no_scratch_file)
{
    make_many(mems, MANY, 0);
    OK(synced_mem_cpu_set_budget(MANY * HOLD_BYTES, NULL, NULL));
    synced_mem *const other = make_evictable("other", HOLD_BYTES);
    FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, hold_host(other, SYNCED_MEM_OVERWRITE));
    OK(synced_mem_clear(mems[3]));
    OK(hold_host(other, SYNCED_MEM_OVERWRITE));
    OK(unhold_host(other));
    for (unsigned i = 0; i < MANY; i++)
        ck_assert(host_has(mems[i], i) == (i != 3));
    RELEASE_EACH(other);
    end_many(NULL);
}
END_TEST

/* Any object's access to the host makes room. */
START_TEST(an_object_that_is_not_evictable_makes_others_go)
{
    synced_mem_file *const scratch = make_scratch();
    make_many(mems, MANY, 0);
    set_host_budget(MANY * HOLD_BYTES, scratch);
    synced_mem *const plain = make(3 * HOLD_BYTES);
    host_fill(given(synced_mem_overwrite_cpu_data(plain)), 3 * HOLD_BYTES, 60);
    ck_assert_uint_eq(count_host_copies(mems, MANY), MANY - 3);
    ck_assert_uint_eq(stats_now().spills, 3);
    RELEASE_EACH(plain);
    end_many(scratch);
}
END_TEST

/* A pointer to the host is good while the object is held there. */
START_TEST(pointers_need_a_hold)
{
    synced_mem_file *const scratch = make_scratch();
    synced_mem *const mem = make_evictable("held", HOLD_BYTES);
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), HOLD_BYTES, 1);
    (void)given(synced_mem_cpu_data(mem));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, unhold_host(mem));
    SAYS("not held on the host");
    set_host_budget(4 * HOLD_BYTES, scratch);
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_cpu_data(mem));
    SAYS("host pointers are good only while it is held");
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_mutable_cpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_overwrite_cpu_data(mem));
    OK(hold_host(mem, SYNCED_MEM_MUTABLE));
    OK(hold_host(mem, SYNCED_MEM_READ));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_gpu_data(mem)); /* that is another side */
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_resize(mem, 5));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_release_cpu_data(mem));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_release(mem));
    void *const data = given(synced_mem_mutable_cpu_data(mem));
    OK(unhold_host(mem));
    set_host_budget(0, scratch); /* it is still held */
    ck_assert_ptr_eq(synced_mem_mutable_cpu_data(mem), data);
    host_fill(data, HOLD_BYTES, 2);
    OK(unhold_host(mem));
    ck_assert(!has_host_copy(mem));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_cpu_data(mem));
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    ck_assert(host_is(given(synced_mem_cpu_data(mem)), HOLD_BYTES, 2));
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
    RELEASE_EACH(mem);
    end_scratch(scratch);
}
END_TEST

START_TEST(a_set_larger_than_the_budget_evicts_nothing)
{
    synced_mem_file *const scratch = make_scratch();
    make_many(mems, MANY, 0);
    set_host_budget(4 * HOLD_BYTES, scratch);
    const uint64_t before = stats_now().spills;
    FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_hold_n(mems, 5, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_READ, NULL));
    SAYS("the budget for host copies is");
    OK(synced_mem_hold_n(mems, 2, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_READ, NULL));
    const uint64_t held = stats_now().spills;
    FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY,
          synced_mem_hold_n(mems + 2, 3, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_READ, NULL));
    SAYS("too much is held");
    ck_assert_uint_eq(stats_now().spills, held);
    OK(synced_mem_hold_n(mems + 2, 2, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_READ, NULL));
    OK(synced_mem_unhold_n(mems, 4, SYNCED_MEM_SIDE_CPU));
    ck_assert_uint_ge(held, before);
    end_many(scratch);
}
END_TEST

/* A call on several objects needs no hold, and does not evict its own. */
START_TEST(pulls_and_copies_do_not_evict_their_own)
{
    synced_mem_file *const scratch = make_scratch();
    make_many(mems, MANY, 0);
    set_host_budget(4 * HOLD_BYTES, scratch);
    for (unsigned i = 0; i < 4; i++) {
        OK(hold_one(mems[i], SYNCED_MEM_MUTABLE, NULL));
        gpu_fill(given(synced_mem_mutable_gpu_data(mems[i])), HOLD_BYTES, 30 + i, NULL);
        OK(unhold_one(mems[i]));
    }
    OK(synced_mem_async_cpu_pull_n(mems, 4, NULL));
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(synced_mem_head(mems[i]), SYNCED_MEM_SYNCED);
    OK(synced_mem_cpu_copy_n(mems + 4, mems, 4));
    for (unsigned i = 4; i < MANY; i++)
        ck_assert_int_eq(synced_mem_head(mems[i]), SYNCED_MEM_AT_CPU);
    for (unsigned i = 0; i < MANY; i++)
        ck_assert(host_has(mems[i], 30 + i % 4));
    FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY,
          synced_mem_cpu_copy_n((synced_mem *[]){mems[0], mems[1], mems[2], mems[3], mems[4]},
                                (synced_mem *[]){mems[5], mems[5], mems[5], mems[6], mems[7]}, 5));
    for (unsigned i = 0; i < MANY; i++)
        ck_assert(host_has(mems[i], 30 + i % 4));
    end_many(scratch);
}
END_TEST

/* Ends the use of a range of the scratch file. */
static void leave_scratch(synced_mem *mem, unsigned how)
{
    switch (how) {
    case 0:
        OK(synced_mem_clear(mem));
        break;
    case 1:
        OK(synced_mem_resize(mem, 5000));
        break;
    case 2:
        OK(synced_mem_release_data(mem)); /* it stays in its file */
        break;
    case 3:
        host_write(mem, 9);
        break;
    default:
        break;
    }
}

/* Ranges of contents that are gone serve others. */
START_TEST(the_scratch_file_is_used_again)
{
    enum { SIZES = 6, ROUNDS = 20 };
    static const size_t sizes[SIZES] = {4097, 1, 4096, 70000, 31 * 4096, HOLD_BYTES};
    synced_mem_file *const scratch = make_scratch();
    uint64_t first = 0;
    set_host_budget(4 * HOLD_BYTES, scratch);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < SIZES; i++) {
            mems[i] = make_evictable("again", sizes[i]);
            host_write(mems[i], i);
        }
        set_host_budget(0, scratch);
        ck_assert_uint_eq(count_host_copies(mems, SIZES), 0);
        first = round == 0 ? scratch_size() : first;
        ck_assert_uint_eq(scratch_size(), first);
        set_host_budget(4 * HOLD_BYTES, scratch);
        for (unsigned i = 0; i < SIZES; i++)
            ck_assert(host_has(mems[i], i));
        leave_scratch(mems[0], round % 5);
        for (unsigned i = 0; i < SIZES; i++)
            OK(synced_mem_release(mems[i]));
    }
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    end_scratch(scratch);
}
END_TEST

/* Contents in an earlier scratch file stay there, and the file is not used twice at the same place. */
START_TEST(another_scratch_file)
{
    synced_mem_file *const first = make_scratch();
    const int behind_first = behind_scratch;
    synced_mem_file *const second = make_scratch();
    synced_mem_file *const files[] = {first, second, NULL, first};
    make_many(mems, MANY, 0);
    for (unsigned i = 0; i < 4; i++) {
        set_host_budget(0, files[i]);
        set_host_budget(MANY * HOLD_BYTES, files[i]);
        for (unsigned each = 2 * i; each < 2 * i + 2; each++)
            host_write(mems[each], 50 + each); /* the others stay where they are */
    }
    set_host_budget(0, second);
    ck_assert_uint_eq(count_host_copies(mems, MANY), 0);
    set_host_budget(MANY * HOLD_BYTES, second);
    for (unsigned i = 0; i < MANY; i++)
        ck_assert(host_has(mems[i], 50 + i));
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    release_all(mems, MANY);
    OK(synced_mem_file_release(first));
    (void)close(behind_first);
    end_scratch(second);
}
END_TEST

/* A file that is refused changes nothing. */
static void is_refused(int descriptor, const char *why)
{
    synced_mem_file *file = NULL;
    OK(synced_mem_file_open(&file, descriptor));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_cpu_set_budget(0, file, NULL));
    SAYS(why);
    OK(synced_mem_file_release(file));
    (void)close(descriptor);
}

START_TEST(what_can_be_no_scratch_file)
{
    const int in_memory = open_nameless("/dev/shm");
    const int read_only = open("/proc/self/exe", O_RDONLY);
    if (in_memory >= 0)
        is_refused(in_memory, "in memory");
    ck_assert_int_ge(read_only, 0);
    is_refused(read_only, "does not allow writes");
    synced_mem *const mem = make_evictable("as before", 100);
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), 100, 1); /* there is no budget */
    RELEASE_EACH(mem);
}
END_TEST

/* The processor's time. Other processes affect it little, and hardly at each try. */
static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Returns the time of a hold that evicts, among so many objects. */
static double time_holds(unsigned count, synced_mem_file *scratch)
{
    enum { HOLDS = 300, EACH = 512 };
    synced_mem **const all = calloc(count, sizeof *all);
    for (unsigned i = 0; i < count; i++) {
        all[i] = make_evictable("", EACH);
        host_fill(given(synced_mem_overwrite_cpu_data(all[i])), EACH, i % 100);
    }
    set_host_budget((uint64_t)(count - HOLDS / 2) * EACH, scratch);
    const double begin = now();
    for (unsigned i = 0; i < HOLDS; i++)
        OK(hold_host(all[i % (HOLDS / 2)], SYNCED_MEM_READ) | unhold_host(all[i % (HOLDS / 2)]));
    const double time = now() - begin;
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    for (unsigned i = 0; i < count; i++)
        OK(synced_mem_release(all[i]));
    free(all);
    return time;
}

START_TEST(many_objects)
{
    synced_mem_file *const scratch = make_scratch();
    double few = 1e9;
    double many = 1e9;
    for (unsigned i = 0; i < 20 && many >= 5 * few; i++) {
        const double time_few = time_holds(400, scratch);
        const double time_many = time_holds(20000, scratch);
        few = time_few < few ? time_few : few;
        many = time_many < many ? time_many : many;
    }
    ck_assert_msg(many < 5 * few, "300 holds take %.6f s among 400 objects, %.6f s among 20,000", few, many);
    end_scratch(scratch);
}
END_TEST

/* Its memory goes: there is nothing to spill. */
START_TEST(an_object_without_bytes)
{
    synced_mem_file *const scratch = make_scratch();
    synced_mem *const mem = make_evictable("empty", HOLD_BYTES);
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), HOLD_BYTES, 1);
    OK(synced_mem_resize(mem, 0));
    ck_assert(has_host_copy(mem));
    set_host_budget(0, scratch);
    ck_assert(!has_host_copy(mem));
    ck_assert_uint_eq(stats_now().spills, 0);
    ck_assert_uint_eq(stats_now().host_evictions, 1);
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    RELEASE_EACH(mem);
    end_scratch(scratch);
}
END_TEST

/* It has a byte of memory, and can go without a scratch file. */
START_TEST(an_object_of_no_bytes_goes)
{
    uint64_t over;
    synced_mem *const none = make_evictable("none", 0);
    given(synced_mem_overwrite_cpu_data(none));
    OK(synced_mem_cpu_set_budget(0, NULL, &over));
    ck_assert_uint_eq(over, 0);
    ck_assert(!has_host_copy(none));
    OK(synced_mem_async_gpu_push(none, NULL));
    ck_assert(is_on_device(none));
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    RELEASE_EACH(none);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("host_budget");
    TCase *const tests = add_case(made, "host budget");
    add_gpu_tests(tests, copies_that_the_device_has_go_first, a_device_reads_the_scratch_file,
                  evictions_of_the_device_evict_host_copies, evictions_of_the_device_wait_for_host_copies,
                  without_a_scratch_file_they_stay, cleared_contents_need_no_scratch_file, an_object_of_no_bytes_goes,
                  pointers_need_a_hold, a_set_larger_than_the_budget_evicts_nothing,
                  pulls_and_copies_do_not_evict_their_own, the_scratch_file_is_used_again, what_can_be_no_scratch_file,
                  many_objects);
    add_gpu_tests(tests, an_object_that_is_not_evictable_makes_others_go, another_scratch_file,
                  an_object_without_bytes);
    add_gpu_loop_test(tests, others_go_to_the_scratch_file, 0, MANY);
    return made;
}
