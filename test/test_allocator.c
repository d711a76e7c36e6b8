/* Memory from the caller's own allocators: asked, used and given back rightly; and bad allocators. */
#include "fixture.h"
#include "heap.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 5000 };

static struct heap host, device;

/* Both heaps, given with the options. */
static synced_mem *make_with_heaps(size_t size)
{
    const synced_mem_allocator cpu = heap_table(&host, false);
    const synced_mem_allocator gpu = heap_table(&device, true);
    synced_mem *mem = NULL;
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.cpu_allocator = &cpu;
    options.gpu_allocator = &gpu;
    OK(synced_mem_create(&mem, size, &options));
    return mem;
}

static void end_heaps(void)
{
    OK(synced_mem_shutdown());
    heap_check_end(&host);
    heap_check_end(&device);
}

/* ---- Life ---- */

START_TEST(on_the_host)
{
    synced_mem *const mem = make_with_heaps(SIZE);
    ck_assert_uint_eq(host.calls, 0);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_ALLOCATOR);
    ck_assert_uint_eq(synced_mem_cpu_capacity(mem), SIZE);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 0);
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 1);
    OK(synced_mem_resize(mem, 100));
    OK(synced_mem_resize(mem, SIZE));
    ck_assert_uint_eq(host.calls, 1);
    OK(synced_mem_resize(mem, 2 * SIZE));
    ck_assert_uint_eq(host.calls, 2);
    ck_assert_uint_eq(heap_live(&host), 1);
    const unsigned char *const data = synced_mem_cpu_data(mem);
    ck_assert(host_is(data, 100, 1));
    ck_assert(pattern_is(data + 100, 2 * SIZE - 100, 0));
    const synced_mem_stats stats = stats_now();
    ck_assert_uint_eq(stats.pageable_bytes + stats.pinned_bytes, 0);
    OK(synced_mem_release_data(mem));
    ck_assert_uint_eq(heap_live(&host), 0);
    ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(mem));
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(device.calls, 0);
    end_heaps();
}
END_TEST

/* An object that has no bytes has pointers too, and memory of one byte; alignment is what was asked for. */
START_TEST(sizes_and_alignments)
{
    static const size_t alignments[] = {0, 1, 64, 4096, 65536};
    const synced_mem_allocator cpu = heap_table(&host, false);
    synced_mem *mem = NULL;
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.cpu_allocator = &cpu;
    options.alignment = alignments[_i];
    OK(synced_mem_create(&mem, 0, &options));
    const uintptr_t address = (uintptr_t)synced_mem_cpu_data(mem);
    ck_assert_uint_ne(address, 0);
    ck_assert_uint_eq(address % (alignments[_i] > 0 ? alignments[_i] : 64), 0);
    ck_assert_uint_eq(host.blocks[0].size, 1);
    ck_assert_int_eq(host.blocks[0].device, -1);
    OK(synced_mem_release(mem));
    end_heaps();
}
END_TEST

START_TEST(back_and_forth)
{
    if (!gpu_expected())
        return;
    synced_mem_stream stream = open_stream(_i);
    synced_mem *const mem = make_with_heaps(SIZE);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    ck_assert(device_is(synced_mem_gpu_data_on(mem, stream), SIZE, 1));
    ck_assert_int_eq(synced_mem_gpu_source(mem), SYNCED_MEM_SOURCE_ALLOCATOR);
    ck_assert_uint_eq(synced_mem_gpu_capacity(mem), SIZE);
    gpu_fill(synced_mem_mutable_gpu_data_on(mem, stream), SIZE, 2, stream);
    OK(synced_mem_release_cpu_data(mem));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release_gpu_data(mem));
    OK(synced_mem_async_gpu_push(mem, stream));
    gpu_fill(synced_mem_mutable_gpu_data_on(mem, stream), SIZE, 3, stream);
    OK(synced_mem_resize(mem, 3 * SIZE));
    OK(synced_mem_async_cpu_pull(mem, stream));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 3));
    ck_assert(pattern_is((const char *)synced_mem_cpu_data(mem) + SIZE, 2 * SIZE, 0));
    gpu_fill(synced_mem_mutable_gpu_data_on(mem, stream), 3 * SIZE, 4, stream);
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(stats_now().gpu_allocations, 0);
    close_stream(stream);
    end_heaps();
}
END_TEST

/* Every way in which an access may be the one that needs memory: first without, then with the contents elsewhere. */
START_TEST(each_first_access)
{
    if (!gpu_expected())
        return;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_with_heaps(SIZE);
    if (_i >= 6)
        host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    const unsigned pattern = _i >= 6 ? 1 : 0;
    switch (_i % 6) {
    case 0:
        ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, pattern));
        break;
    case 1:
        gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 2, NULL);
        break;
    case 2:
        gpu_fill(synced_mem_overwrite_gpu_data(mem), SIZE, 2, NULL);
        break;
    case 3:
        ck_assert(device_is(synced_mem_gpu_data_on(mem, stream), SIZE, pattern));
        break;
    case 4:
        gpu_fill(synced_mem_mutable_gpu_data_on(mem, stream), SIZE, 2, stream);
        break;
    default:
        gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, 2, stream);
        break;
    }
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, _i % 3 == 0 ? pattern : 2));
    ck_assert_uint_eq(device.calls, 1);
    ck_assert_uint_eq(host.calls, 1);
    OK(synced_mem_release(mem));
    close_stream(stream);
    end_heaps();
}
END_TEST

/* What lets go of memory that is in use does not wait, and gives it back when it is no longer. */
START_TEST(given_back_when_it_is_idle)
{
    if (!gpu_expected())
        return;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    host.pinned = true;
    synced_mem *const mem = make_with_heaps(SIZE);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(heap_live(&host), 1);
    gpu_unhold();
    gpu_stream_sync(stream);
    OK(synced_mem_reap());
    ck_assert_uint_eq(heap_live(&host), 0);
    close_stream(stream);
    end_heaps();
}
END_TEST

/* Page-locked as its table says, unless the runtime says otherwise. */
START_TEST(page_locked)
{
    if (!gpu_expected())
        return;
    const bool in_use = _i % 2;
    const bool lying = _i / 2;
    synced_mem *const first = make(64);
    if (in_use)
        ck_assert_ptr_nonnull(synced_mem_gpu_data(first));
    host.pinned = true;
    host.lying = lying;
    synced_mem *const mem = make_with_heaps(SIZE);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), !(in_use && lying));
    ck_assert_int_eq(host.blocks[0].device, in_use ? 0 : -1);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    OK(synced_mem_release(first));
    end_heaps();
}
END_TEST

/* ---- For all objects ---- */

START_TEST(for_all_objects)
{
    struct heap other = {.patterns = 7};
    const synced_mem_allocator cpu = heap_table(&host, false);
    const synced_mem_allocator its_own = heap_table(&other, false);
    synced_mem_options options;
    synced_mem *named = NULL;
    synced_mem_options_init(&options);
    options.cpu_allocator = &its_own;
    synced_mem *const early = make_at_cpu(SIZE, 1);
    OK(synced_mem_set_allocators(&cpu, NULL));
    ck_assert_int_eq(synced_mem_cpu_source(early), SYNCED_MEM_SOURCE_PAGEABLE);
    synced_mem *const mem = make_at_cpu(SIZE, 2);
    OK(synced_mem_create(&named, SIZE, &options));
    host_fill(synced_mem_overwrite_cpu_data(named), SIZE, 3);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_ALLOCATOR);
    ck_assert_uint_eq(heap_live(&host), 1);
    ck_assert_uint_eq(heap_live(&other), 1);
    OK(synced_mem_set_allocators(NULL, NULL));
    OK(synced_mem_resize(mem, 2 * SIZE));
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PAGEABLE);
    ck_assert_uint_eq(heap_live(&host), 0);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(early));
    OK(synced_mem_release(mem));
    OK(synced_mem_release(named));
    end_heaps();
    heap_check_end(&other);
}
END_TEST

/* The shutdown forgets them. */
START_TEST(until_the_shutdown)
{
    const synced_mem_allocator cpu = heap_table(&host, false);
    const synced_mem_allocator gpu = heap_table(&device, true);
    OK(synced_mem_set_allocators(&cpu, &gpu));
    OK(synced_mem_set_allocators(&cpu, &gpu));
    OK(synced_mem_shutdown());
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PAGEABLE);
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(host.calls, 0);
}
END_TEST

/* Without a GPU the device's is never asked. */
START_TEST(no_device_to_allocate_on)
{
    synced_mem *const mem = make_with_heaps(SIZE);
    if (!gpu_expected()) {
        FAILS_NULL(SYNCED_MEM_ERR_NO_GPU, synced_mem_gpu_data(mem));
        FAILS_NULL(SYNCED_MEM_ERR_NO_GPU, synced_mem_overwrite_gpu_data_on(mem, NULL));
        ck_assert_uint_eq(device.calls, 0);
    }
    OK(synced_mem_release(mem));
    end_heaps();
}
END_TEST

/* ---- Bad tables ---- */

static void *never_alloc(size_t size, size_t alignment, int on, synced_mem_stream stream, void *user)
{
    (void)size, (void)alignment, (void)on, (void)stream, (void)user;
    ck_abort_msg("asked for memory through a table that was refused");
    return NULL;
}

static void never_free(void *data, size_t size, size_t alignment, int on, synced_mem_stream stream, void *user)
{
    (void)data, (void)size, (void)alignment, (void)on, (void)stream, (void)user;
    ck_abort_msg("memory was given back through a table that was refused");
}

START_TEST(bad_tables)
{
    static const synced_mem_allocator bad[] = {
        {.struct_size = 0, .alloc = never_alloc, .free = never_free},
        {.struct_size = sizeof bad[0] - 1, .alloc = never_alloc, .free = never_free},
        {.struct_size = sizeof bad[0] + 8, .alloc = never_alloc, .free = never_free},
        {.struct_size = sizeof bad[0], .free = never_free},
        {.struct_size = sizeof bad[0], .alloc = never_alloc},
        {.struct_size = sizeof bad[0], .alloc = never_alloc, .free = never_free, .flags = 2},
        {.struct_size = sizeof bad[0], .alloc = never_alloc, .free = never_free, .flags = ~0u}};
    enum { BAD = sizeof bad / sizeof bad[0] };
    const synced_mem_allocator good = heap_table(&host, false);
    for (int i = 0; i < 2 * BAD; i++) {
        const synced_mem_allocator *const table = &bad[i / 2];
        synced_mem *mem = (synced_mem *)(void *)&host;
        synced_mem_options options;
        synced_mem_options_init(&options);
        options.cpu_allocator = i % 2 ? &good : table;
        options.gpu_allocator = i % 2 ? table : NULL;
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_create(&mem, SIZE, &options));
        ck_assert_ptr_null(mem);
        SAYS("allocator");
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT,
              synced_mem_set_allocators(options.cpu_allocator, options.gpu_allocator));
    }
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PAGEABLE);
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Bad memory ---- */

static synced_mem_status judge(const void *data)
{
    return data ? SYNCED_MEM_OK : synced_mem_last_error();
}

/* What needs memory of the host; from 4 on of the device, with an object that is AT_CPU, or AT_GPU for 4 and 10. */
static synced_mem_status want(synced_mem *mem, int which, synced_mem_stream stream)
{
    synced_mem *const twice[] = {mem, mem};
    switch (which) {
    case 0:
        return judge(synced_mem_cpu_data(mem));
    case 1:
        return judge(synced_mem_mutable_cpu_data(mem));
    case 2:
        return judge(synced_mem_overwrite_cpu_data(mem));
    case 3:
        return synced_mem_resize(mem, 2 * SIZE);
    case 4:
        return synced_mem_async_cpu_pull(mem, stream);
    case 5:
        return judge(synced_mem_gpu_data(mem));
    case 6:
        return judge(synced_mem_overwrite_gpu_data(mem));
    case 7:
        return judge(synced_mem_mutable_gpu_data_on(mem, stream));
    case 8:
        return synced_mem_async_gpu_push(mem, stream);
    case 9:
        return synced_mem_async_gpu_push_n(twice, 2, stream);
    case 10:
        return synced_mem_resize(mem, 2 * SIZE);
    default:
        return synced_mem_release_cpu_data(mem);
    }
}
enum { WANTS = 12, WANTS_ON_THE_HOST = 4 };

static bool is_on_the_host(int which)
{
    return which <= 4;
}

static synced_mem *make_in_want(int which)
{
    synced_mem *const mem = make_with_heaps(SIZE);
    if (which == 4 || which == 10)
        gpu_fill(synced_mem_overwrite_gpu_data(mem), SIZE, 4, NULL);
    else if (which >= 3)
        host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 4);
    return mem;
}

static void check_in_want(synced_mem *mem, int which)
{
    if (which >= 3)
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, which == 6 || which == 7 ? 5 : 4));
}

/* Each call of alloc fails once, whoever needs the memory: the object is as before, and the next try succeeds. */
static void try_bad(int which, enum heap_fault fault, synced_mem_status expected)
{
    if (which >= WANTS_ON_THE_HOST && !gpu_expected())
        return;
    synced_mem_stream stream = which >= WANTS_ON_THE_HOST ? open_stream(NON_BLOCKING) : NULL;
    struct heap *const heap = is_on_the_host(which) ? &host : &device;
    synced_mem *const mem = make_in_want(which);
    const struct facts before = facts_of(mem);
    const size_t live = heap_live(heap);
    heap->fault = fault;
    heap->fails_at = heap->calls + 1;
    FAILS(expected, want(mem, which, stream));
    SAYS(is_on_the_host(which) ? "host allocator" : "device allocator");
    check_unchanged(mem, &before);
    ck_assert_uint_eq(heap_live(heap), live);
    OK(want(mem, which, stream));
    if (which == 6 || which == 7)
        gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, 5, stream);
    check_in_want(mem, which);
    OK(synced_mem_release(mem));
    if (which >= WANTS_ON_THE_HOST)
        close_stream(stream);
    end_heaps();
}

START_TEST(no_memory)
{
    try_bad(_i, HEAP_GIVES_NOTHING,
            is_on_the_host(_i) ? SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY : SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY);
}
END_TEST

START_TEST(misaligned_memory)
{
    try_bad(_i, HEAP_MISALIGNS, SYNCED_MEM_ERR_INVALID_STATE);
}
END_TEST

/* Memory of the host from the device's, and the other way round. */
START_TEST(memory_of_the_wrong_kind)
{
    synced_mem *const first = make(64);
    if (gpu_expected()) {
        ck_assert_ptr_nonnull(synced_mem_gpu_data(first));
        try_bad(_i, HEAP_CONFUSES, SYNCED_MEM_ERR_INVALID_STATE);
    }
    OK(synced_mem_release(first));
}
END_TEST

START_TEST(memory_of_another_device)
{
    if (devices() < 2)
        return;
    synced_mem *const mem = make_with_heaps(SIZE);
    device.fault = HEAP_STRAYS;
    device.fails_at = 1;
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_gpu_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_UNINITIALIZED);
    ck_assert_uint_eq(heap_live(&device), 0);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    OK(synced_mem_release(mem));
    end_heaps();
}
END_TEST

START_TEST(absurd_sizes)
{
    const size_t absurd = (size_t)PTRDIFF_MAX - (4 << 20);
    synced_mem *const mem = make_with_heaps(absurd);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_cpu_data(mem));
    ck_assert_uint_eq(host.asked, absurd);
    if (gpu_expected())
        FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_gpu_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_UNINITIALIZED);
    OK(synced_mem_resize(mem, 100));
    ck_assert(host_is(synced_mem_cpu_data(mem), 100, 0));
    OK(synced_mem_release(mem));
    end_heaps();
}
END_TEST

/* ---- With nothing locked ---- */

static synced_mem *wanting;

static void ask_facts(void)
{
    ck_assert_int_eq(synced_mem_cpu_source(wanting), SYNCED_MEM_SOURCE_NONE);
    ck_assert_uint_eq(synced_mem_gpu_capacity(wanting), 0);
}

/* Somebody else was faster. */
static void be_faster(void)
{
    host_fill(synced_mem_overwrite_cpu_data(wanting), SIZE, 6);
}

static void be_faster_on_the_device(void)
{
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data_on(wanting, NULL));
    gpu_fill(synced_mem_overwrite_gpu_data_on(wanting, NULL), SIZE, 6, NULL);
}

static void make_it_larger(void)
{
    OK(synced_mem_resize(wanting, 3 * SIZE));
}

static void take_the_other_device(void)
{
    void *const theirs = gpu_alloc(1, SIZE);
    OK(synced_mem_set_gpu_data(wanting, theirs));
    OK(synced_mem_release_data(wanting));
    gpu_free(theirs);
}

START_TEST(called_with_nothing_locked)
{
    synced_mem *const mem = wanting = make_with_heaps(SIZE);
    host.during = _i == 0 ? ask_facts : _i == 1 ? be_faster : make_it_larger;
    const void *const data = synced_mem_cpu_data(mem);
    ck_assert(_i == 1 ? host_is(data, SIZE, 6) : host_is(data, _i == 2 ? 3 * SIZE : SIZE, 0));
    ck_assert_uint_eq(heap_live(&host), 1);
    ck_assert_uint_eq(host.calls, _i == 0 ? 1 : 2);
    OK(synced_mem_release(mem));
    end_heaps();
}
END_TEST

START_TEST(called_with_nothing_locked_by_a_stream)
{
    if (!gpu_expected())
        return;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = wanting = make_with_heaps(SIZE);
    device.during = _i == 0 ? ask_facts : _i == 1 ? be_faster_on_the_device : make_it_larger;
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
    ck_assert(host_is(synced_mem_cpu_data(mem), synced_mem_size(mem), _i == 1 ? 6 : 0));
    ck_assert_uint_eq(heap_live(&device), 1);
    OK(synced_mem_release(mem));
    close_stream(stream);
    end_heaps();
}
END_TEST

/* A push of two, during which one is changed by the allocator's own call. */
START_TEST(called_with_nothing_locked_by_a_push)
{
    if (!gpu_expected())
        return;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_with_heaps(SIZE);
    synced_mem *const other = wanting = make_with_heaps(SIZE);
    synced_mem *const both[] = {mem, other};
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    host_fill(synced_mem_overwrite_cpu_data(other), SIZE, 2);
    device.during = make_it_larger;
    OK(synced_mem_async_gpu_push_n(both, 2, stream));
    ck_assert(device_is(synced_mem_gpu_data_on(mem, stream), SIZE, 1));
    ck_assert(device_is(synced_mem_gpu_data_on(other, stream), SIZE, 2));
    ck_assert_uint_eq(heap_live(&device), 2);
    OK(synced_mem_release(mem));
    OK(synced_mem_release(other));
    close_stream(stream);
    end_heaps();
}
END_TEST

/* Meanwhile the object has become one of another device than the stream's. */
START_TEST(another_device_meanwhile)
{
    if (devices() < 2)
        return;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = wanting = make_with_heaps(SIZE);
    device.during = take_the_other_device;
    if (_i == 0) {
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_overwrite_gpu_data_on(mem, stream));
        ck_assert_uint_eq(heap_live(&device), 0);
    } else {
        ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data(mem));
        ck_assert_uint_eq(heap_live(&device), 1);
    }
    ck_assert_int_eq(synced_mem_device(mem), 1);
    OK(synced_mem_release(mem));
    close_stream(stream);
    end_heaps();
}
END_TEST

/* The object grows, and while larger memory is found for it, its contents change. */
static void write_meanwhile(void)
{
    gpu_fill(synced_mem_overwrite_gpu_data_on(wanting, NULL), SIZE, 6, NULL);
}

static void release_meanwhile(void)
{
    OK(synced_mem_release_data(wanting));
}

START_TEST(changed_while_it_grows)
{
    if (!gpu_expected())
        return;
    synced_mem *const mem = wanting = make_with_heaps(SIZE);
    gpu_fill(synced_mem_overwrite_gpu_data(mem), SIZE, 5, NULL);
    device.during = _i == 0 ? write_meanwhile : _i == 1 ? release_meanwhile : make_it_larger;
    OK(synced_mem_resize(mem, 2 * SIZE));
    ck_assert_uint_eq(synced_mem_size(mem), 2 * SIZE);
    if (_i == 1)
        ck_assert(host_is(synced_mem_cpu_data(mem), 2 * SIZE, 0));
    else
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, _i == 0 ? 6 : 5));
    OK(synced_mem_release(mem));
    end_heaps();
}
END_TEST

enum { THREADS = 4, ROUNDS = 30 };

static void *read_it(void *mem)
{
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    return NULL;
}

START_TEST(several_threads)
{
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        synced_mem *const mem = make_with_heaps(SIZE);
        for (int i = 0; i < THREADS; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, read_it, mem), 0);
        for (int i = 0; i < THREADS; i++)
            ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_eq(heap_live(&host), 1);
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
        OK(synced_mem_release(mem));
        ck_assert_uint_eq(heap_live(&host), 0);
        heap_forget(&host);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("allocator");
    TCase *const life = add_case(made, "life");
    tcase_add_test(life, on_the_host);
    tcase_add_loop_test(life, sizes_and_alignments, 0, 5);
    tcase_add_loop_test(life, back_and_forth, 0, STREAM_KINDS);
    tcase_add_loop_test(life, each_first_access, 0, 12);
    tcase_add_test(life, given_back_when_it_is_idle);
    tcase_add_loop_test(life, page_locked, 0, 4);
    TCase *const all = add_case(made, "for all objects");
    tcase_add_test(all, for_all_objects);
    tcase_add_test(all, until_the_shutdown);
    tcase_add_test(all, no_device_to_allocate_on);
    TCase *const bad = add_case(made, "bad");
    tcase_add_test(bad, bad_tables);
    tcase_add_loop_test(bad, no_memory, 0, WANTS);
    tcase_add_loop_test(bad, misaligned_memory, 0, WANTS);
    tcase_add_loop_test(bad, memory_of_the_wrong_kind, 0, WANTS);
    tcase_add_test(bad, memory_of_another_device);
    tcase_add_test(bad, absurd_sizes);
    TCase *const unlocked = add_case(made, "with nothing locked");
    tcase_add_loop_test(unlocked, called_with_nothing_locked, 0, 3);
    tcase_add_loop_test(unlocked, called_with_nothing_locked_by_a_stream, 0, 3);
    tcase_add_test(unlocked, called_with_nothing_locked_by_a_push);
    tcase_add_loop_test(unlocked, another_device_meanwhile, 0, 2);
    tcase_add_loop_test(unlocked, changed_while_it_grows, 0, 3);
    tcase_add_test(unlocked, several_threads);
    return made;
}
