/*
 * The pool of page-locked memory. Most of it needs no GPU: what registers memory with the runtime is replaced (--wrap)
 * by functions of this file that only count, where a test says so; the others use the runtime's.
 */
#include "fixture.h"
#include "tensor_trace.h"

#include "device.h"
#include "host_node.h"
#include "host_pool.h"
#include "runs.h"
#include "space.h"
#include "status.h"
#include "touch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const size_t MIB = (size_t)1 << 20;

/* ---- In place of the runtime and of the system ---- */

static struct {
    bool on;        /* the runtime is not asked */
    bool untouched; /* nor does memory become the process's own */
    atomic_uint registered;
    atomic_uint unregistered;
    unsigned register_fails_at; /* the how manieth call from now on; 0: none */
    synced_mem_status register_answers;
    synced_mem_status unregister_answers; /* all calls */
    const void *stuck;                    /* this is never unregistered */
    void (*meanwhile)(void);              /* what another thread does while memory is registered */
} fake;

synced_mem_status __real_sm_device_host_register(int device, void *data, size_t size);
synced_mem_status __wrap_sm_device_host_register(int device, void *data, size_t size);
synced_mem_status __wrap_sm_device_host_register(int device, void *data, size_t size)
{
    if (!fake.on)
        return __real_sm_device_host_register(device, data, size);
    if (fake.register_fails_at > 0 && --fake.register_fails_at == 0)
        return fake.register_answers;
    atomic_fetch_add(&fake.registered, 1);
    if (fake.meanwhile)
        fake.meanwhile();
    return SYNCED_MEM_OK;
}

synced_mem_status __real_sm_device_host_unregister(int device, void *data);
synced_mem_status __wrap_sm_device_host_unregister(int device, void *data);
synced_mem_status __wrap_sm_device_host_unregister(int device, void *data)
{
    if (!fake.on)
        return __real_sm_device_host_unregister(device, data);
    if (fake.stuck && data == fake.stuck)
        return SYNCED_MEM_ERR_CUDA;
    if (fake.unregister_answers == SYNCED_MEM_OK)
        atomic_fetch_add(&fake.unregistered, 1);
    return fake.unregister_answers;
}

void __real_sm_touch(void *start, size_t bytes);
void __wrap_sm_touch(void *start, size_t bytes);
void __wrap_sm_touch(void *start, size_t bytes)
{
    if (!fake.untouched)
        __real_sm_touch(start, bytes);
}

static struct {
    int nodes;          /* 0: as many as there are */
    const char *file;   /* what the system says of each device's node; NULL: there is no such file */
    unsigned asked;     /* the runtime, for a device's place */
    bool refused;       /* that is */
    char path[128];     /* which file was opened */
    size_t preferred;   /* bytes of which */
    int preferred_node; /* was the last wish */
} machine;

int __real_sm_numa_nodes(void);
int __wrap_sm_numa_nodes(void);
int __wrap_sm_numa_nodes(void)
{
    return machine.nodes > 0 ? machine.nodes : __real_sm_numa_nodes();
}

/* Node 0 is everywhere. */
void __real_sm_numa_prefer(void *start, size_t bytes, int node);
void __wrap_sm_numa_prefer(void *start, size_t bytes, int node);
void __wrap_sm_numa_prefer(void *start, size_t bytes, int node)
{
    machine.preferred += bytes;
    machine.preferred_node = node;
    __real_sm_numa_prefer(start, bytes, 0);
}

synced_mem_status __real_sm_device_pci_id(int device, char id[SM_PCI_ID_BYTES]);
synced_mem_status __wrap_sm_device_pci_id(int device, char id[SM_PCI_ID_BYTES]);
synced_mem_status __wrap_sm_device_pci_id(int device, char id[SM_PCI_ID_BYTES])
{
    machine.asked++;
    if (!fake.on)
        return __real_sm_device_pci_id(device, id);
    (void)snprintf(id, SM_PCI_ID_BYTES, "0000:%02X:00.0", 0xAB + device);
    return machine.refused ? SYNCED_MEM_ERR_CUDA : SYNCED_MEM_OK;
}

static FILE *open_node_file(const char *path)
{
    (void)snprintf(machine.path, sizeof machine.path, "%s", path);
    if (!machine.file)
        return NULL;
    FILE *const file = tmpfile();
    ck_assert_ptr_nonnull(file);
    (void)fputs(machine.file, file);
    rewind(file);
    return file;
}

#define WRAP_FOPEN(name)                                                                                               \
    FILE *__real_##name(const char *path, const char *mode);                                                           \
    FILE *__wrap_##name(const char *path, const char *mode);                                                           \
    FILE *__wrap_##name(const char *path, const char *mode)                                                            \
    {                                                                                                                  \
        return strstr(path, "numa_node") ? open_node_file(path) : __real_##name(path, mode);                           \
    }
WRAP_FOPEN(fopen)
WRAP_FOPEN(fopen64)

/* One of the system's functions has nothing to give. */
static enum { NOTHING, MAPPING, RECORD_OF_SLAB, RECORDS, THREAD } lacks;

/* Records are mapped in powers of two up to a size; slabs in no such ones, as their beginning is aligned. */
static bool is_lacking(size_t size)
{
    const bool for_records = size <= 1048576 && (size & (size - 1)) == 0;
    return lacks == MAPPING || (lacks == RECORDS && for_records);
}

#define WRAP_MMAP(name)                                                                                                \
    void *__real_##name(void *address, size_t size, int protection, int flags, int file, off_t offset);                \
    void *__wrap_##name(void *address, size_t size, int protection, int flags, int file, off_t offset);                \
    void *__wrap_##name(void *address, size_t size, int protection, int flags, int file, off_t offset)                 \
    {                                                                                                                  \
        return is_lacking(size) ? MAP_FAILED : __real_##name(address, size, protection, flags, file, offset);          \
    }
WRAP_MMAP(mmap)
WRAP_MMAP(mmap64)

void *__real_calloc(size_t number, size_t size);
void *__wrap_calloc(size_t number, size_t size);
void *__wrap_calloc(size_t number, size_t size)
{
    return lacks == RECORD_OF_SLAB ? NULL : __real_calloc(number, size);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*body)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*body)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*body)(void *), void *argument)
{
    return lacks == THREAD ? -1 : __real_pthread_create(thread, how, body, argument);
}

/* ---- The pool ---- */

static synced_mem_host_pool_stats pool_now(void)
{
    synced_mem_host_pool_stats stats = {.struct_size = sizeof stats};
    OK(synced_mem_host_pool_get_stats(&stats));
    ck_assert_uint_eq(stats.held_bytes, stats_now().pinned_bytes);
    ck_assert_uint_ge(stats.held_bytes, stats.free_bytes + stats.requested_bytes);
    ck_assert_uint_ge(stats.peak_held_bytes, stats.held_bytes);
    ck_assert_uint_ge(stats.peak_requested_bytes, stats.requested_bytes);
    return stats;
}

static struct sm_pinned alloc(size_t size)
{
    struct sm_pinned memory = {.data = NULL};
    OK(sm_host_pool_alloc(0, size, &memory));
    ck_assert_uint_eq((uintptr_t)memory.data % SM_DEVICE_ALIGNMENT, 0);
    ck_assert_uint_eq(memory.bytes, size);
    return memory;
}

static void give(struct sm_pinned memory)
{
    sm_host_pool_free(memory.data, memory.bytes, memory.owner);
}

static void use_fake(void)
{
    fake.on = true;
    fake.untouched = true;
}

/* All is given back. */
static void check_nothing_held(void)
{
    OK(sm_host_pool_shutdown());
    const synced_mem_host_pool_stats stats = pool_now();
    ck_assert_uint_eq(stats.held_bytes, 0);
    ck_assert_uint_eq(stats.slabs, 0);
    ck_assert_uint_eq(stats.requested_bytes, 0);
    if (fake.on)
        ck_assert_uint_eq(atomic_load(&fake.registered), atomic_load(&fake.unregistered));
}

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
    *owner = memory.owner;
    return memory.data;
}

static void free_for_trace(void *data, size_t size, void *owner)
{
    sm_host_pool_free(data, size, owner);
    in_use -= size;
}

/* What is held beside what is in use: the sizes are no powers of two, and lives end in any order. */
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

/* What was given back is what the next one gets that asks for as much, and little is lost by rounding. */
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

/* A small program holds little; a large request as much as it needs. */
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
    ck_assert_uint_eq(pool_now().held_bytes, 295 * MIB + 4096); /* an eighth of what was held */
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

static struct sm_pinned given_meanwhile;

static void give_meanwhile(void)
{
    give(given_meanwhile);
    ck_assert(!sm_host_pool_relieve());
}

/* Then the slab is not needed any more, and goes as others do. */
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

/* ---- Random allocations, by several threads; each piece is one owner's alone ---- */

enum { WORKERS = 20, SLOTS = 40, ROUNDS = 1500 };

static struct sm_pinned given_away[WORKERS]; /* to be given back by another thread */
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

/* Takes what the last one left there, and leaves its own. */
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
            (void)sm_host_pool_relieve();
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

/* What is set and asked meanwhile. */
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

/* While one thread keeps on changing the limit, and all that, none gets another's memory, and more than the limit is
 * not taken from the system. */
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

/* With as many threads as there can be, or without any help. */
START_TEST(touched)
{
    const size_t size = 24 * MIB + 5000;
    if (fixture_schedule() > 0)
        return;
    char *const pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(pages, MAP_FAILED);
    lacks = _i ? THREAD : NOTHING;
    sm_touch(pages, size);
    lacks = NOTHING;
    unsigned char resident[24 * 256 + 2];
    ck_assert_int_eq(mincore(pages, size, resident), 0);
    for (size_t i = 0; i < sizeof resident; i++)
        ck_assert(resident[i] & 1);
    (void)munmap(pages, size);
}
END_TEST

/* ---- The limit ---- */

START_TEST(limit)
{
    struct sm_pinned memory;
    use_fake();
    const struct sm_pinned small = alloc(100);
    OK(synced_mem_host_pool_set_limit(3 * MIB + MIB / 2));
    const struct sm_pinned more = alloc(MIB + MIB / 2);
    const struct sm_pinned large = alloc(MIB);
    ck_assert_uint_eq(pool_now().held_bytes, 3 * MIB); /* not another slab of the usual size */
    const synced_mem_status status = sm_host_pool_alloc(0, 3 * MIB, &memory);
    (void)sm_report(status, "alloc", NULL);
    ck_assert_int_eq(status, SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
    SAYS("3145728");
    SAYS("3670016");
    ck_assert_uint_eq(pool_now().requested_bytes, 100 + 2 * MIB + MIB / 2);
    FAILS(gpu_expected() ? SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY : SYNCED_MEM_ERR_NO_GPU,
          synced_mem_host_pool_reserve(0, MIB));
    OK(synced_mem_host_pool_set_limit(1)); /* what is in use stays */
    ck_assert_uint_eq(pool_now().held_bytes, 3 * MIB);
    give(large);
    OK(synced_mem_host_pool_set_limit(2 * MIB));
    ck_assert_uint_eq(pool_now().held_bytes, 2 * MIB);
    give(more);
    OK(synced_mem_host_pool_set_limit(0));
    give(alloc(3 * MIB));
    give(small);
    check_nothing_held();
}
END_TEST

/* ---- Trimming ---- */

START_TEST(trim)
{
    use_fake();
    const struct sm_pinned small = alloc(100);
    const struct sm_pinned first = alloc(4 * MIB);
    const struct sm_pinned second = alloc(5 * MIB);
    OK(synced_mem_host_pool_trim(0));
    ck_assert_uint_eq(pool_now().held_bytes, 11 * MIB);
    give(second);
    give(first);
    OK(synced_mem_host_pool_trim(11 * MIB));
    ck_assert_uint_eq(pool_now().held_bytes, 11 * MIB);
    OK(synced_mem_host_pool_trim(10 * MIB));
    ck_assert_uint_lt(pool_now().held_bytes, 8 * MIB);
    OK(synced_mem_host_pool_trim(0));
    ck_assert_uint_eq(pool_now().held_bytes, 2 * MIB);
    ck_assert(!sm_host_pool_relieve());
    give(small);
    ck_assert(sm_host_pool_relieve());
    ck_assert(!sm_host_pool_relieve());
    check_nothing_held();
}
END_TEST

/* What a transfer is still reading, or bringing, is in use. */
START_TEST(trim_in_flight)
{
    enum { SIZE = 300000 };
    if (!gpu_expected())
        return;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const up = make_on(SIZE, 0);
    synced_mem *const down = make_at_gpu(SIZE, 2);
    host_fill(synced_mem_overwrite_cpu_data(up), SIZE, 1);
    gpu_delay(stream);
    OK(synced_mem_async_gpu_push(up, stream));
    OK(synced_mem_async_cpu_pull(down, stream));
    OK(synced_mem_release_cpu_data(up));
    OK(synced_mem_host_pool_trim(0));
    ck_assert(device_is(synced_mem_gpu_data(up), SIZE, 1));
    ck_assert(host_is(synced_mem_cpu_data(down), SIZE, 2));
    OK(synced_mem_release(up));
    OK(synced_mem_release(down));
    gpu_stream_sync(stream);
    OK(synced_mem_reap());
    OK(synced_mem_host_pool_trim(0));
    ck_assert_uint_eq(stats_now().pinned_bytes, 0);
    close_stream(stream);
}
END_TEST

/* ---- Decay ---- */

static void pass_some_time(void)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    (void)nanosleep(&pause, NULL);
}

START_TEST(unused_for_long)
{
    use_fake();
    give(alloc(100));
    pass_some_time();
    OK(synced_mem_reap());
    ck_assert_uint_eq(pool_now().held_bytes, 2 * MIB);
    OK(synced_mem_host_pool_set_decay(3600000));
    OK(synced_mem_reap());
    ck_assert_uint_eq(pool_now().held_bytes, 2 * MIB);
    OK(synced_mem_host_pool_set_decay(1));
    pass_some_time();
    OK(synced_mem_reap());
    ck_assert_uint_eq(pool_now().held_bytes, 0);
    const struct sm_pinned used = alloc(100);
    give(alloc(3 * MIB));
    OK(synced_mem_host_pool_trim(5 * MIB)); /* out of the cache */
    pass_some_time();
    OK(synced_mem_reap());
    ck_assert_uint_eq(pool_now().held_bytes, 2 * MIB);
    give(used);
    OK(synced_mem_host_pool_trim(2 * MIB));
    pass_some_time();
    give(alloc(3 * MIB)); /* the pool grows */
    ck_assert_uint_eq(pool_now().held_bytes, 3 * MIB);
    check_nothing_held();
}
END_TEST

/* An uptime that is shorter than the time set. */
START_TEST(times)
{
    ck_assert_uint_eq(sm_host_store_time(UINT32_MAX), 0);
    ck_assert_uint_gt(sm_host_store_time(0), sm_host_store_time(10));
}
END_TEST

/* ---- Reserving ---- */

START_TEST(reserved)
{
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_host_pool_reserve(-2, 1));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_host_pool_reserve(0, SIZE_MAX));
    SAYS("18446744073709551615");
    FAILS_WITHOUT_GPU(synced_mem_host_pool_reserve(0, 0));
    FAILS_WITHOUT_GPU(synced_mem_host_pool_reserve(SYNCED_MEM_DEVICE_CURRENT, 20 * MIB));
    if (!gpu_expected())
        return;
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_host_pool_reserve(devices(), 1));
    FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_host_pool_reserve(0, PTRDIFF_MAX));
    ck_assert_uint_eq(pool_now().registrations, 1);
    OK(synced_mem_host_pool_reserve(0, 100));
    synced_mem *const mem = make_on(20 * MIB, 0);
    ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(mem));
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PINNED);
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(pool_now().registrations, 1);
    ck_assert_uint_eq(pool_now().reused_allocations, 1);
    ck_assert_uint_eq(pool_now().fresh_allocations, 0);
}
END_TEST

/* What could not be reserved is not expected any more: slabs that are too small are not held beside new ones. */
START_TEST(reserved_in_vain)
{
    use_fake();
    ck_assert_int_eq(sm_host_pool_reserve(0, SM_SPACE_LARGEST), SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
    give(alloc(20 * MIB));
    give(alloc(21 * MIB));
    ck_assert_uint_eq(pool_now().held_bytes, 21 * MIB);
    OK(sm_host_pool_reserve(0, 25 * MIB));
    ck_assert_uint_eq(pool_now().held_bytes, 25 * MIB);
    give(alloc(10 * MIB));
    ck_assert_uint_eq(pool_now().held_bytes, 25 * MIB);
    check_nothing_held();
}
END_TEST

/* ---- Pageable memory instead ---- */

START_TEST(pageable_fallback)
{
    if (!gpu_expected())
        return;
    OK(synced_mem_host_pool_set_limit(4096));
    synced_mem *const mem = make_on(5000, 0);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_overwrite_cpu_data(mem));
    SAYS("limit");
    synced_mem_set_pageable_fallback(1);
    host_fill(synced_mem_overwrite_cpu_data(mem), 5000, 1);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PAGEABLE);
    ck_assert_uint_eq(stats_now().pageable_fallbacks, 1);
    ck_assert(device_is(synced_mem_gpu_data(mem), 5000, 1));
    synced_mem_set_pageable_fallback(0);
    OK(synced_mem_release_cpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_overwrite_cpu_data(mem));
    ck_assert_uint_eq(stats_now().pageable_fallbacks, 1);
    OK(synced_mem_release(mem));
}
END_TEST

/* Memory that was found elsewhere is nothing to climb the ladder for when a record can't be had later. */
START_TEST(no_records_after_a_fallback)
{
    enum { MANY = 1000 };
    static synced_mem *objects[MANY];
    int i = 0;
    if (!gpu_expected())
        return;
    OK(synced_mem_host_pool_set_limit(4096));
    synced_mem_set_pageable_fallback(1);
    for (int j = 0; j < MANY; j++)
        objects[j] = make_on(5000, 0);
    do
        lacks = i > 0 ? RECORDS : NOTHING;
    while (synced_mem_overwrite_cpu_data(objects[i]) && ++i < MANY);
    lacks = NOTHING;
    ck_assert_int_gt(i, 0);
    ck_assert_int_lt(i, MANY);
    SAYS("record");
    ck_assert_uint_eq(stats_now().pageable_fallbacks, (unsigned)i);
    ck_assert_uint_eq(stats_now().oom_reaps + stats_now().oom_failures, 0);
    for (int j = 0; j < MANY; j++)
        OK(synced_mem_release(objects[j]));
    synced_mem_set_pageable_fallback(0);
}
END_TEST

/* ---- Numbers ---- */

START_TEST(numbers)
{
    synced_mem_host_pool_stats stats = {.struct_size = sizeof stats - 1};
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_host_pool_get_stats(NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_host_pool_get_stats(&stats));
    SAYS("struct_size");
    use_fake();
    const struct sm_pinned first = alloc(3 * MIB);
    give(alloc(100));
    ck_assert_uint_eq(pool_now().peak_requested_bytes, 3 * MIB + 100);
    ck_assert_uint_eq(pool_now().peak_held_bytes, 5 * MIB);
    give(first);
    OK(synced_mem_host_pool_trim(0));
    ck_assert_uint_eq(pool_now().peak_held_bytes, 5 * MIB);
    OK(synced_mem_host_pool_reset_peaks());
    ck_assert_uint_eq(pool_now().peak_requested_bytes, 0);
    ck_assert_uint_eq(pool_now().peak_held_bytes, 0);
    give(alloc(50));
    ck_assert_uint_eq(pool_now().peak_requested_bytes, 50);
    give(alloc(50));
    ck_assert_uint_eq(pool_now().fresh_allocations, 3);
    ck_assert_uint_eq(pool_now().reused_allocations, 1);
    check_nothing_held();
}
END_TEST

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

/* What is small then has a block of its own, and whoever can't note the rest of a block has all of it. */
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
    fake.register_fails_at = 1; /* less will do */
    const struct sm_pinned more = alloc(MIB + MIB / 2);
    const struct sm_pinned exact = alloc(MIB);
    ck_assert_uint_eq(pool_now().held_bytes, 5 * MIB - 2 * MIB);
    give(more);
    give(exact);
    give(small);
    check_nothing_held();
}
END_TEST

/* The runtime does not let go of a slab: it stays, and is tried again. */
START_TEST(unregistration_fails)
{
    use_fake();
    const struct sm_pinned first = alloc(100);
    give(alloc(3 * MIB));
    give(first);
    fake.unregister_answers = SYNCED_MEM_ERR_CUDA;
    OK(synced_mem_host_pool_trim(0));
    ck_assert_uint_eq(pool_now().held_bytes, 5 * MIB);
    ck_assert(!sm_host_pool_relieve());
    ck_assert_int_eq(sm_host_pool_shutdown(), SYNCED_MEM_ERR_CUDA);
    ck_assert_uint_eq(pool_now().held_bytes, 5 * MIB);
    ck_assert_uint_eq(pool_now().slabs, 2);
    give(alloc(3 * MIB));
    ck_assert_uint_eq(pool_now().held_bytes, 5 * MIB);
    fake.unregister_answers = SYNCED_MEM_OK;
    check_nothing_held();
}
END_TEST

/* The others go all the same, also those that were used after it. */
START_TEST(one_slab_is_stuck)
{
    use_fake();
    const struct sm_pinned small = alloc(100);
    const struct sm_pinned first = alloc(3 * MIB);
    const struct sm_pinned second = alloc(5 * MIB);
    fake.stuck = first.data;
    give(first);
    OK(synced_mem_host_pool_trim(10 * MIB)); /* out of the cache */
    pass_some_time();
    give(second);
    OK(synced_mem_host_pool_trim(0));
    ck_assert_uint_eq(pool_now().held_bytes, 5 * MIB);
    ck_assert_uint_eq(pool_now().slabs, 2);
    ck_assert(!sm_host_pool_relieve());
    give(alloc(3 * MIB));
    ck_assert_uint_eq(pool_now().held_bytes, 5 * MIB);
    give(small);
    ck_assert_int_eq(sm_host_pool_shutdown(), SYNCED_MEM_ERR_CUDA);
    ck_assert_uint_eq(pool_now().held_bytes, 3 * MIB);
    fake.stuck = NULL;
    check_nothing_held();
}
END_TEST

/* What was page-locked in a lost device's context went with it. */
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
    check_refused(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, SM_SPACE_LARGEST);
    check_refused(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, SM_SPACE_LARGEST + 1);
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

/* Memory near one device is not for the other, but better than none. */
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
    ck_assert_uint_eq(sm_host_store_place_of(memory.owner), 1);
    ck_assert_uint_eq(pool_now().slabs, 1);
    ck_assert_uint_eq(pool_now().fresh_allocations, pool_now().registrations);
    OK(synced_mem_host_pool_set_limit(0));
    give(memory);
    give(here);
    check_nothing_held();
}
END_TEST

/* The runtime's own answer, and the machine's own nodes. */
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
    ck_assert(!sm_host_pool_relieve());
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_host_pool_set_limit(1));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_host_pool_trim(0));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_host_pool_set_decay(1));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_host_pool_reserve(0, 1));
    (void)pool_now();
}

START_TEST(forked)
{
    int device;
    if (!gpu_expected())
        return;
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
    Suite *const made = suite_create("host_pool");
    TCase *const memory = add_case(made, "memory");
    tcase_add_loop_test(memory, waste, 0, 2);
    tcase_add_test(memory, reuse);
    tcase_add_test(memory, slabs);
    tcase_add_test(memory, a_slab_for_nothing);
    tcase_add_test(memory, many_threads);
    tcase_add_test(memory, set_meanwhile);
    tcase_add_loop_test(memory, touched, 0, 2);
    TCase *const controls = add_case(made, "controls");
    tcase_add_test(controls, limit);
    tcase_add_test(controls, trim);
    tcase_add_test(controls, trim_in_flight);
    tcase_add_test(controls, unused_for_long);
    tcase_add_test(controls, times);
    tcase_add_test(controls, reserved);
    tcase_add_test(controls, reserved_in_vain);
    tcase_add_test(controls, pageable_fallback);
    tcase_add_test(controls, no_records_after_a_fallback);
    tcase_add_test(controls, numbers);
    TCase *const failures = add_case(made, "failures");
    tcase_add_loop_test(failures, the_system_has_nothing, 0, 3);
    tcase_add_test(failures, no_records_for_runs);
    tcase_add_test(failures, registration_fails);
    tcase_add_test(failures, unregistration_fails);
    tcase_add_test(failures, one_slab_is_stuck);
    tcase_add_test(failures, the_device_is_lost);
    tcase_add_test(failures, absurd_sizes);
    TCase *const nearness = add_case(made, "nodes");
    tcase_add_loop_test(nearness, nodes, 0, NODE_CASES);
    tcase_add_test(nearness, two_nodes);
    tcase_add_test(nearness, nodes_of_this_machine);
    TCase *const children = add_case(made, "children");
    tcase_add_test(children, forked);
    return made;
}
