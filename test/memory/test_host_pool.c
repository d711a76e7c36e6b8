/* Checks the pool of page-locked memory: allocations by one thread and by many, and the memory held for them. */
#include "host_pool_kit.h"
#include "tensor_trace.h"

#include "memory/pinned/prefault.h"

#include <pthread.h>
#include <sys/mman.h>

/* ---- Traces ---- */

static size_t in_use;
static size_t most_in_use;

static void *alloc_for_trace(size_t size, void **owner)
{
    struct sm_pinned memory;
    if (sm_host_pool_alloc(0, size, &memory) != SYNCED_MEM_OK)
        ck_abort_msg("%zu bytes were refused", size);
    in_use += size;
    most_in_use = in_use > most_in_use ? in_use : most_in_use;
    *owner = memory.block;
    return memory.data;
}

static void free_for_trace(void *data, size_t size, void *owner)
{
    sm_host_pool_free(data, size, owner);
    in_use -= size;
}

/* Compares the memory held with the memory in use. The sizes are not powers of two, and lives end in any order. */
START_TEST(waste)
{
    static const struct trace_user user = {.alloc = alloc_for_trace, .free = free_for_trace};
    if (fixture_schedule() > 0)
        return;
    use_fake();
    trace_play(_i == 0 ? TRACE_TRAINING : TRACE_MIXED, 100000, &user);
    const synced_mem_host_pool_stats stats = pool_now();
    ck_assert_uint_eq(stats.peak_requested_bytes, most_in_use);
    ck_assert_uint_gt(most_in_use, (size_t)2 << 30);
    ck_assert_msg(stats.peak_held_bytes * 100 <= most_in_use * 112, "%.1f MB held for %.1f in use",
                  1e-6 * (double)stats.peak_held_bytes, 1e-6 * (double)most_in_use);
    ck_assert_uint_eq(stats.requested_bytes, 0);
    ck_assert_uint_eq(stats.free_bytes, stats.held_bytes);
    ck_assert_uint_le(stats.registrations, 120);
    ck_assert_uint_eq(stats.fresh_allocations, stats.registrations);
    check_nothing_held();
}
END_TEST

/* ---- One allocation ---- */

/* The next request of the same size gets the freed block. Little is lost by rounding. */
START_TEST(reuse)
{
    static const size_t sizes[] = {1, 255, 256, 257, 5000, 16384, 16385, 65536, 70000, 1 << 20, 3 << 20, 9 << 20};
    use_fake();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const struct sm_pinned first = alloc(sizes[i]);
        const synced_mem_host_pool_stats stats = pool_now();
        const size_t lost = stats.held_bytes - stats.free_bytes - sizes[i];
        ck_assert_uint_lt(lost, sizes[i] > 16384 ? 4096 : sizes[i] / 8 > 256 ? sizes[i] / 8 : 256);
        ck_assert_uint_eq(stats.requested_bytes, sizes[i]);
        if (sizes[i] > 16384)
            ck_assert_uint_eq((uintptr_t)first.data % 4096, 0);
        pattern_write(first.data, sizes[i], 1);
        give(first);
        const struct sm_pinned again = alloc(sizes[i]);
        ck_assert_ptr_eq(again.data, first.data);
        const struct sm_pinned other = alloc(sizes[i]);
        ck_assert_ptr_ne(other.data, first.data);
        give(again);
        give(other);
        ck_assert_uint_eq(pool_now().free_bytes, pool_now().held_bytes);
    }
    check_nothing_held();
}
END_TEST

/* For a small program the pool holds little. For a large request it holds as much as the request needs. */
START_TEST(slabs)
{
    use_fake();
    const struct sm_pinned small = alloc(100);
    ck_assert_uint_eq(pool_now().held_bytes, 2 * MIB);
    const struct sm_pinned large = alloc(5 * MIB + 1);
    ck_assert_uint_eq(pool_now().held_bytes, 7 * MIB + 4096);
    ck_assert_uint_eq((uintptr_t)large.data % (2 * MIB), 0);
    const struct sm_pinned huge = alloc(256 * MIB);
    ck_assert_uint_eq(pool_now().slabs, 3);
    const struct sm_pinned next = alloc(3 * MIB);
    ck_assert_uint_eq(pool_now().held_bytes, 295 * MIB + 4096); /* more by an eighth of the bytes held */
    ck_assert_uint_eq(pool_now().registrations, 4);
    ck_assert_uint_eq(pool_now().fresh_allocations, 4);
    ck_assert_uint_eq(pool_now().reused_allocations, 0);
    give(small);
    give(large);
    give(huge);
    give(next);
    check_nothing_held();
}
END_TEST

static void *use_and_give(void *data)
{
    const struct sm_pinned memory = alloc(32 * MIB);
    *(void **)data = memory.data;
    give(memory);
    return NULL;
}

/* Memory in one thread's cache goes to another thread before more is page-locked. Cached memory of other sizes
 * stays. */
START_TEST(of_another_thread)
{
    pthread_t thread;
    void *data;
    use_fake();
    const struct sm_pinned small = alloc(100);
    give(small);
    ck_assert_int_eq(pthread_create(&thread, NULL, use_and_give, &data), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    const uint64_t registrations = pool_now().registrations;
    const struct sm_pinned memory = alloc(32 * MIB);
    ck_assert_ptr_eq(memory.data, data);
    ck_assert_uint_eq(pool_now().registrations, registrations);
    ck_assert_uint_eq(pool_now().requested_bytes, 32 * MIB);
    const struct sm_pinned more = alloc(32 * MIB);
    ck_assert_uint_eq(pool_now().registrations, registrations + 1);
    give(memory);
    give(more);
    check_nothing_held();
}
END_TEST

static struct sm_pinned given_meanwhile;

static void give_meanwhile(void)
{
    give(given_meanwhile);
    ck_assert(!sm_host_pool_reclaim());
}

/* Memory comes back while a segment is registered. The segment is then not needed, and leaves as others do. */
START_TEST(a_slab_for_nothing)
{
    use_fake();
    const struct sm_pinned small = alloc(100);
    given_meanwhile = alloc(MIB + MIB / 2);
    fake.meanwhile = give_meanwhile;
    const struct sm_pinned memory = alloc(MIB);
    fake.meanwhile = NULL;
    ck_assert_ptr_eq(memory.data, given_meanwhile.data);
    ck_assert_uint_eq(pool_now().held_bytes, 4 * MIB);
    OK(synced_mem_host_pool_trim(0));
    ck_assert_uint_eq(pool_now().held_bytes, 2 * MIB);
    give(memory);
    give(small);
    check_nothing_held();
}
END_TEST

/* ---- Random allocations by several threads: each piece has one owner ---- */

enum { WORKERS = 20, SLOTS = 40, ROUNDS = 1500 };

static struct sm_pinned given_away[WORKERS]; /* another thread gives them back */
static pthread_mutex_t handing = PTHREAD_MUTEX_INITIALIZER;
static atomic_int wrong;

static size_t size_for(unsigned random)
{
    static const size_t most[] = {300, 5000, 20000, 200000};
    return 1 + random / 4 % most[random % 4];
}

static void mark(const struct sm_pinned *memory, unsigned char by)
{
    unsigned char *const bytes = memory->data;
    bytes[0] = bytes[memory->bytes / 2] = bytes[memory->bytes - 1] = by;
}

static void check_mark(const struct sm_pinned *memory, unsigned char by)
{
    const unsigned char *const bytes = memory->data;
    if (bytes[0] != by || bytes[memory->bytes / 2] != by || bytes[memory->bytes - 1] != by)
        atomic_fetch_add(&wrong, 1);
}

/* Leaves a piece for another thread, and gives back the piece that was left there. */
static void hand_over(unsigned at, const struct sm_pinned *mine)
{
    pthread_mutex_lock(&handing);
    const struct sm_pinned theirs = given_away[at];
    given_away[at] = *mine;
    pthread_mutex_unlock(&handing);
    if (theirs.data)
        give(theirs);
}

static void *work(void *argument)
{
    const unsigned char me = (unsigned char)(uintptr_t)argument;
    struct sm_pinned slots[SLOTS] = {{.data = NULL}};
    uint64_t random = me;
    for (int i = 0; i < ROUNDS; i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        struct sm_pinned *const slot = &slots[(random >> 33) % SLOTS];
        if (slot->data) {
            check_mark(slot, me);
            if ((random >> 50) % 8 == 0)
                hand_over((random >> 54) % WORKERS, slot);
            else
                give(*slot);
            slot->data = NULL;
        } else if (sm_host_pool_alloc(0, size_for((unsigned)(random >> 40)), slot) == SYNCED_MEM_OK) {
            mark(slot, me);
        } else {
            atomic_fetch_add(&wrong, 1);
        }
        if (i % 500 == 499)
            (void)sm_host_pool_reclaim();
        if (i % 700 == 699)
            sm_host_pool_trim(4 * MIB);
    }
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].data)
            give(slots[i]);
    return NULL;
}

START_TEST(many_threads)
{
    pthread_t threads[WORKERS];
    const struct sm_pinned nothing = {.data = NULL};
    if (fixture_schedule() > 1)
        return;
    use_fake();
    for (int i = 0; i < WORKERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1)), 0);
    for (int i = 0; i < WORKERS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    for (unsigned i = 0; i < WORKERS; i++)
        hand_over(i, &nothing);
    ck_assert_int_eq(atomic_load(&wrong), 0);
    ck_assert_uint_eq(pool_now().requested_bytes, 0);
    ck_assert_uint_eq(pool_now().free_bytes, pool_now().held_bytes);
    check_nothing_held();
}
END_TEST

/* Changes the settings and queries the statistics meanwhile. */
static atomic_bool settled;

static void *set_and_ask(void *unused)
{
    static const size_t limits[] = {0, 1, 5000000, 3 << 20, 64 << 20};
    for (unsigned i = 0; !atomic_load(&settled); i++) {
        const size_t limit = limits[i % 5];
        synced_mem_host_pool_stats before = {.struct_size = sizeof before};
        synced_mem_host_pool_stats after = before;
        (void)synced_mem_host_pool_set_limit(limit);
        (void)synced_mem_host_pool_get_stats(&before);
        (void)sm_host_pool_reserve(0, 1 + i % 7 * 100000);
        (void)synced_mem_host_pool_set_decay(i % 3);
        sm_host_pool_decay();
        (void)synced_mem_host_pool_get_stats(&after);
        if (limit > 0 && after.held_bytes > before.held_bytes && after.held_bytes > limit)
            atomic_fetch_add(&wrong, 1);
        (void)synced_mem_host_pool_reset_peaks();
        if (i % 4 == 0)
            (void)sm_host_pool_shutdown();
        if (i % 4 == 1)
            (void)synced_mem_host_pool_trim(i % 8 * MIB);
    }
    return unused;
}

static void *work_within_limits(void *argument)
{
    const unsigned char me = (unsigned char)(uintptr_t)argument;
    struct sm_pinned slots[SLOTS] = {{.data = NULL}};
    uint64_t random = me;
    for (int i = 0; i < ROUNDS; i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        struct sm_pinned *const slot = &slots[(random >> 33) % SLOTS];
        const size_t size = size_for((unsigned)(random >> 40)) * ((random >> 50) % 16 == 0 ? 10 : 1);
        if (slot->data) {
            check_mark(slot, me);
            give(*slot);
            slot->data = NULL;
        } else if (sm_host_pool_alloc(0, size, slot) == SYNCED_MEM_OK) {
            mark(slot, me);
        }
    }
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].data)
            give(slots[i]);
    return NULL;
}

/* One thread changes the limit and other settings all the time. No thread gets another's memory, and the pool takes no
 * more than the limit from the system. */
START_TEST(set_meanwhile)
{
    enum { FEW = 6 };
    pthread_t threads[FEW];
    pthread_t other;
    if (fixture_schedule() > 1)
        return;
    use_fake();
    ck_assert_int_eq(pthread_create(&other, NULL, set_and_ask, NULL), 0);
    for (int i = 0; i < FEW; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work_within_limits, (void *)(uintptr_t)(i + 1)), 0);
    for (int i = 0; i < FEW; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    atomic_store(&settled, true);
    ck_assert_int_eq(pthread_join(other, NULL), 0);
    ck_assert_int_eq(atomic_load(&wrong), 0);
    OK(synced_mem_host_pool_set_limit(0));
    ck_assert_uint_eq(pool_now().requested_bytes, 0);
    ck_assert_uint_eq(pool_now().free_bytes, pool_now().held_bytes);
    check_nothing_held();
}
END_TEST

/* ---- Fresh pages ---- */

/* The pages are prefaulted with as many threads as possible, or by one thread alone. */
START_TEST(touched)
{
    const size_t size = 24 * MIB + 5000;
    if (fixture_schedule() > 0)
        return;
    char *const pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(pages, MAP_FAILED);
    lacks = _i ? THREAD : NOTHING;
    sm_prefault(pages, size);
    lacks = NOTHING;
    unsigned char resident[24 * 256 + 2];
    ck_assert_int_eq(mincore(pages, size, resident), 0);
    for (size_t i = 0; i < sizeof resident; i++)
        ck_assert(resident[i] & 1);
    (void)munmap(pages, size);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("host_pool");
    TCase *const memory = add_case(made, "memory");
    add_tests(memory, reuse, of_another_thread, slabs, a_slab_for_nothing, many_threads, set_meanwhile);
    tcase_add_loop_test(memory, waste, 0, 2);
    tcase_add_loop_test(memory, touched, 0, 2);
    return made;
}
