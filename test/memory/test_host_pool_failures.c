/* Checks the pool of page-locked memory where calls are refused. Also checks its choice of a memory node, and its calls
 * in a child. */
#include "host_pool_kit.h"

#include "memory/pinned/tlsf.h"

#include <string.h>

/* ---- Failures ---- */

static void check_refused(synced_mem_status expected, size_t size)
{
    struct sm_pinned memory;
    const synced_mem_host_pool_stats before = pool_now();
    ck_assert_int_eq(sm_host_pool_alloc(0, size, &memory), expected);
    ck_assert_uint_eq(pool_now().requested_bytes, before.requested_bytes);
    ck_assert_uint_le(pool_now().held_bytes, before.held_bytes);
}

START_TEST(the_system_has_nothing)
{
    static const int kinds[] = {MAPPING, RECORD_OF_SLAB, RECORDS};
    use_fake();
    lacks = kinds[_i];
    check_refused(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, 100);
    check_refused(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, 5 * MIB);
    lacks = NOTHING;
    const struct sm_pinned memory = alloc(5 * MIB);
    give(memory);
    lacks = kinds[_i];
    ck_assert_ptr_eq(alloc(5 * MIB).data, memory.data);
    lacks = NOTHING;
    give(memory);
    give(alloc(100));
    check_nothing_held();
}
END_TEST

/* Without memory for records, small requests get blocks of their own. A block whose rest cannot be recorded is given
 * out whole. */
START_TEST(no_records_for_runs)
{
    enum { MANY = 2000 };
    static struct sm_pinned pieces[MANY];
    int count = 0;
    use_fake();
    const struct sm_pinned first = alloc(20000);
    lacks = RECORDS;
    while (count < MANY && sm_host_pool_alloc(0, 5000, &pieces[count]) == SYNCED_MEM_OK) {
        pattern_write(pieces[count].data, 5000, (unsigned)count);
        count++;
    }
    ck_assert_int_gt(count, 0);
    ck_assert_int_lt(count, MANY);
    lacks = NOTHING;
    for (int i = 0; i < count; i++) {
        ck_assert(pattern_is(pieces[i].data, 5000, (unsigned)i));
        give(pieces[i]);
    }
    give(first);
    check_nothing_held();
}
END_TEST

START_TEST(registration_fails)
{
    use_fake();
    const struct sm_pinned small = alloc(100);
    fake.register_answers = SYNCED_MEM_ERR_CUDA;
    fake.register_fails_at = 1;
    check_refused(SYNCED_MEM_ERR_CUDA, 3 * MIB);
    fake.register_answers = SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    fake.register_fails_at = 1; /* less memory is enough */
    const struct sm_pinned more = alloc(MIB + MIB / 2);
    const struct sm_pinned exact = alloc(MIB);
    ck_assert_uint_eq(pool_now().held_bytes, 5 * MIB - 2 * MIB);
    give(more);
    give(exact);
    give(small);
    check_nothing_held();
}
END_TEST

/* The runtime refuses to unregister a segment. The segment stays, and is tried again. */
START_TEST(unregistration_fails)
{
    use_fake();
    const struct sm_pinned first = alloc(100);
    give(alloc(3 * MIB));
    give(first);
    fake.unregister_answers = SYNCED_MEM_ERR_CUDA;
    OK(synced_mem_host_pool_trim(0));
    ck_assert_uint_eq(pool_now().held_bytes, 5 * MIB);
    ck_assert(!sm_host_pool_reclaim());
    ck_assert_int_eq(sm_host_pool_shutdown(), SYNCED_MEM_ERR_CUDA);
    ck_assert_uint_eq(pool_now().held_bytes, 5 * MIB);
    ck_assert_uint_eq(pool_now().slabs, 2);
    give(alloc(3 * MIB));
    ck_assert_uint_eq(pool_now().held_bytes, 5 * MIB);
    fake.unregister_answers = SYNCED_MEM_OK;
    check_nothing_held();
}
END_TEST

/* The other segments leave all the same, also those that were used later. */
START_TEST(one_slab_is_stuck)
{
    use_fake();
    const struct sm_pinned small = alloc(100);
    const struct sm_pinned first = alloc(3 * MIB);
    const struct sm_pinned second = alloc(5 * MIB);
    fake.stuck = first.data;
    give(first);
    OK(synced_mem_host_pool_trim(10 * MIB)); /* takes it out of the cache */
    pass_some_time();
    give(second);
    OK(synced_mem_host_pool_trim(0));
    ck_assert_uint_eq(pool_now().held_bytes, 5 * MIB);
    ck_assert_uint_eq(pool_now().slabs, 2);
    ck_assert(!sm_host_pool_reclaim());
    give(alloc(3 * MIB));
    ck_assert_uint_eq(pool_now().held_bytes, 5 * MIB);
    give(small);
    ck_assert_int_eq(sm_host_pool_shutdown(), SYNCED_MEM_ERR_CUDA);
    ck_assert_uint_eq(pool_now().held_bytes, 3 * MIB);
    fake.stuck = NULL;
    check_nothing_held();
}
END_TEST

/* A page lock goes with the context of the lost device, so the segment is freed. */
START_TEST(the_device_is_lost)
{
    use_fake();
    give(alloc(100));
    fake.unregister_answers = SYNCED_MEM_ERR_DEVICE_LOST;
    OK(synced_mem_host_pool_trim(0));
    ck_assert_uint_eq(pool_now().held_bytes, 0);
}
END_TEST

START_TEST(absurd_sizes)
{
    use_fake();
    check_refused(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, SIZE_MAX);
    check_refused(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, SIZE_MAX / 2);
    check_refused(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, SM_TLSF_LARGEST);
    check_refused(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, SM_TLSF_LARGEST + 1);
    check_nothing_held();
}
END_TEST

/* ---- Memory nodes ---- */

static const struct node_case {
    int nodes;
    const char *file;
    bool refused;
    unsigned place;
} node_cases[] = {
    {1, "1\n", false, 0}, {2, "1\n", false, 2}, {2, "0\n", false, 1},   {2, "-1\n", false, 0},
    {2, NULL, false, 0},  {2, "", false, 0},    {64, "40\n", false, 0}, {2, "1\n", true, 0},
};
enum { NODE_CASES = sizeof node_cases / sizeof node_cases[0] };

START_TEST(nodes)
{
    const struct node_case *const it = &node_cases[_i];
    use_fake();
    machine.nodes = it->nodes;
    machine.file = it->file;
    machine.refused = it->refused;
    ck_assert_uint_eq(sm_host_place_of(1), it->place);
    ck_assert_uint_eq(sm_host_place_of(1), it->place);
    ck_assert_uint_eq(machine.asked, it->nodes > 1);
    if (it->nodes > 1 && !it->refused)
        ck_assert_str_eq(machine.path, "/sys/bus/pci/devices/0000:ac:00.0/numa_node");
    struct sm_pinned memory;
    OK(sm_host_pool_alloc(1, 100, &memory));
    ck_assert_uint_eq(machine.preferred, it->place ? 2 * MIB : 0);
    ck_assert_int_eq(machine.preferred_node, it->place ? (int)it->place - 1 : 0);
    give(memory);
    check_nothing_held();
}
END_TEST

/* Memory near one device goes to another device only if no other memory can be had. */
START_TEST(two_nodes)
{
    struct sm_pinned memory;
    use_fake();
    machine.nodes = 2;
    machine.file = "0\n";
    const struct sm_pinned here = alloc(100);
    give(alloc(20000));
    machine.file = "1\n";
    OK(sm_host_pool_alloc(1, 20000, &memory));
    ck_assert_int_eq(machine.preferred_node, 1);
    ck_assert_uint_eq(pool_now().slabs, 2);
    give(memory);
    give(alloc(20000));
    OK(synced_mem_host_pool_trim(2 * MIB));
    OK(synced_mem_host_pool_set_limit(2 * MIB));
    OK(sm_host_pool_alloc(1, 20000, &memory));
    ck_assert_uint_eq(sm_arena_place_of(memory.block), 1);
    ck_assert_uint_eq(pool_now().slabs, 1);
    ck_assert_uint_eq(pool_now().fresh_allocations, pool_now().registrations);
    OK(synced_mem_host_pool_set_limit(0));
    give(memory);
    give(here);
    check_nothing_held();
}
END_TEST

/* Queries the real runtime and the real machine. */
START_TEST(nodes_of_this_machine)
{
    char id[SM_PCI_ID_BYTES] = "";
    ck_assert_int_ge(__real_sm_numa_nodes(), 1);
    if (!gpu_expected())
        return;
    OK(__real_sm_device_pci_id(0, id));
    ck_assert_uint_ge(strlen(id), 12);
    ck_assert_int_ne(__real_sm_device_pci_id(devices(), id), SYNCED_MEM_OK);
}
END_TEST

/* ---- Forks ---- */

static struct sm_pinned of_parent;

static void live_as_a_child(const void *unused)
{
    struct sm_pinned memory;
    (void)unused;
    ck_assert_int_eq(sm_host_pool_alloc(0, 100, &memory), SYNCED_MEM_ERR_FORKED);
    ck_assert(pattern_is(of_parent.data, of_parent.bytes, 3));
    give(of_parent);
    ck_assert(!sm_host_pool_reclaim());
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_host_pool_set_limit(1));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_host_pool_trim(0));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_host_pool_set_decay(1));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_host_pool_reserve(0, 1));
    (void)pool_now();
}

START_TEST(forked)
{
    int device;
    OK(sm_device_resolve(0, &device));
    of_parent = alloc(70000);
    pattern_write(of_parent.data, 70000, 3);
    ck_assert(in_a_child(live_as_a_child, NULL));
    ck_assert(pattern_is(of_parent.data, 70000, 3));
    give(of_parent);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("host_pool_failures");
    TCase *const failures = add_case(made, "failures");
    add_tests(failures, no_records_for_runs, registration_fails, unregistration_fails, one_slab_is_stuck,
              the_device_is_lost, absurd_sizes);
    tcase_add_loop_test(failures, the_system_has_nothing, 0, 3);
    TCase *const nearness = add_case(made, "nodes");
    if (WITH_LINUX) {
        add_tests(nearness, two_nodes, nodes_of_this_machine);
        tcase_add_loop_test(nearness, nodes, 0, NODE_CASES);
    }
    TCase *const children = add_case(made, "children");
    add_gpu_tests(children, forked);
    return made;
}
