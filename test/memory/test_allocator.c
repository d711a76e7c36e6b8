/* Checks memory from the caller's allocators: requests, use and release. No lock is held around a call of an
 * allocator. */
#include "fixture.h"
#include "heap.h"
#include "memory/allocator.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 5000 };

/* ---- Life ---- */

START_TEST(on_the_host)
{
    synced_mem *const mem = heaps_make(SIZE);
    ck_assert_uint_eq(heaps.host.calls, 0);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_ALLOCATOR);
    ck_assert_uint_eq(synced_mem_cpu_capacity(mem), SIZE);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 0);
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 1);
    OK(synced_mem_resize(mem, 100));
    OK(synced_mem_resize(mem, SIZE));
    ck_assert_uint_eq(heaps.host.calls, 1);
    OK(synced_mem_resize(mem, 2 * SIZE));
    ck_assert_uint_eq(heaps.host.calls, 2);
    ck_assert_uint_eq(heap_live(&heaps.host), 1);
    const unsigned char *const data = synced_mem_cpu_data(mem);
    ck_assert(host_is(data, 100, 1));
    ck_assert(pattern_is(data + 100, 2 * SIZE - 100, 0));
    const synced_mem_stats stats = stats_now();
    ck_assert_uint_eq(stats.pageable_bytes + stats.pinned_bytes, 0);
    OK(synced_mem_release_data(mem));
    ck_assert_uint_eq(heap_live(&heaps.host), 0);
    ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(mem));
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(heaps.device.calls, 0);
    heaps_end();
}
END_TEST

/* An object of size 0 has pointers too, to memory of one byte. The alignment is the requested one. */
START_TEST(sizes_and_alignments)
{
    static const size_t alignments[] = {0, 1, 64, 4096, 65536};
    const synced_mem_allocator cpu = heap_table(&heaps.host, false);
    synced_mem *mem = NULL;
    synced_mem_options options = default_options();
    options.cpu_allocator = &cpu;
    options.alignment = alignments[_i];
    OK(synced_mem_create(&mem, 0, &options));
    const uintptr_t address = (uintptr_t)synced_mem_cpu_data(mem);
    ck_assert_uint_ne(address, 0);
    ck_assert_uint_eq(address % (alignments[_i] > 0 ? alignments[_i] : 64), 0);
    ck_assert_uint_eq(heaps.host.blocks[0].size, 1);
    ck_assert_int_eq(heaps.host.blocks[0].device, -1);
    OK(synced_mem_release(mem));
    heaps_end();
}
END_TEST

START_TEST(back_and_forth)
{
    synced_mem_stream stream = open_stream(_i);
    synced_mem *const mem = heaps_make(SIZE);
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
    heaps_end();
}
END_TEST

/* Each kind of access obtains the memory: first without contents, then with the contents on the other side. */
START_TEST(each_first_access)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = heaps_make(SIZE);
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
    ck_assert_uint_eq(heaps.device.calls, 1);
    ck_assert_uint_eq(heaps.host.calls, 1);
    OK(synced_mem_release(mem));
    close_stream(stream);
    heaps_end();
}
END_TEST

/* A release of memory in use does not wait. The memory goes back to the allocator once the work has ended. */
START_TEST(given_back_when_it_is_idle)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    heaps.host.pinned = true;
    synced_mem *const mem = heaps_make(SIZE);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(heap_live(&heaps.host), 1);
    gpu_unhold();
    gpu_stream_sync(stream);
    OK(synced_mem_reap());
    ck_assert_uint_eq(heap_live(&heaps.host), 0);
    close_stream(stream);
    heaps_end();
}
END_TEST

/* Memory counts as page-locked if its table says so. Once the runtime is in use, its own report overrides the table. */
START_TEST(page_locked)
{
    const bool in_use = _i % 2;
    const bool lying = _i / 2;
    synced_mem *const first = make(64);
    if (in_use)
        ck_assert_ptr_nonnull(synced_mem_gpu_data(first));
    heaps.host.pinned = true;
    heaps.host.lying = lying;
    synced_mem *const mem = heaps_make(SIZE);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), !(in_use && lying));
    ck_assert_int_eq(heaps.host.blocks[0].device, in_use ? 0 : -1);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    RELEASE_EACH(mem, first);
    heaps_end();
}
END_TEST

/* Managed memory serves either side. */
START_TEST(managed_memory)
{
    heaps.host.managed = heaps.device.managed = true;
    synced_mem *const mem = heaps_make(SIZE);
    gpu_fill(synced_mem_overwrite_gpu_data(mem), SIZE, 1, NULL);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 0);
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 2);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    heaps_end();
}
END_TEST

/* ---- For all objects ---- */

START_TEST(for_all_objects)
{
    struct heap other = {.patterns = 7};
    const synced_mem_allocator cpu = heap_table(&heaps.host, false);
    const synced_mem_allocator its_own = heap_table(&other, false);
    synced_mem_options options = default_options();
    synced_mem *named = NULL;
    options.cpu_allocator = &its_own;
    synced_mem *const early = make_at_cpu(SIZE, 1);
    OK(synced_mem_set_allocators(&cpu, NULL));
    ck_assert_int_eq(synced_mem_cpu_source(early), SYNCED_MEM_SOURCE_PAGEABLE);
    synced_mem *const mem = make_at_cpu(SIZE, 2);
    OK(synced_mem_create(&named, SIZE, &options));
    host_fill(synced_mem_overwrite_cpu_data(named), SIZE, 3);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_ALLOCATOR);
    ck_assert_uint_eq(heap_live(&heaps.host), 1);
    ck_assert_uint_eq(heap_live(&other), 1);
    OK(synced_mem_set_allocators(NULL, NULL));
    OK(synced_mem_resize(mem, 2 * SIZE));
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PAGEABLE);
    ck_assert_uint_eq(heap_live(&heaps.host), 0);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    RELEASE_EACH(early, mem, named);
    heaps_end();
    heap_forget(&other);
}
END_TEST

/* The shutdown forgets the allocators. */
START_TEST(until_the_shutdown)
{
    const synced_mem_allocator cpu = heap_table(&heaps.host, false);
    const synced_mem_allocator gpu = heap_table(&heaps.device, true);
    OK(synced_mem_set_allocators(&cpu, &cpu));
    OK(synced_mem_set_allocators(&cpu, &gpu));
    OK(synced_mem_set_allocators(&cpu, &gpu));
    OK(synced_mem_shutdown());
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PAGEABLE);
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(heaps.host.calls, 0);
}
END_TEST

/* Without a GPU the device allocator is never called. */
START_TEST(no_device_to_allocate_on)
{
    synced_mem *const mem = heaps_make(SIZE);
    if (!gpu_expected()) {
        FAILS_NULL(SYNCED_MEM_ERR_NO_GPU, synced_mem_gpu_data(mem));
        FAILS_NULL(SYNCED_MEM_ERR_NO_GPU, synced_mem_overwrite_gpu_data_on(mem, NULL));
        ck_assert_uint_eq(heaps.device.calls, 0);
    }
    OK(synced_mem_release(mem));
    heaps_end();
}
END_TEST

/* ---- Calls without a lock ---- */

static synced_mem *wanting;

static void ask_facts(void)
{
    ck_assert_int_eq(synced_mem_cpu_source(wanting), SYNCED_MEM_SOURCE_NONE);
    ck_assert_uint_eq(synced_mem_gpu_capacity(wanting), 0);
}

/* Another access obtains the memory first. */
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
    synced_mem *const mem = wanting = heaps_make(SIZE);
    heaps.host.during = _i == 0 ? ask_facts : _i == 1 ? be_faster : make_it_larger;
    const void *const data = synced_mem_cpu_data(mem);
    ck_assert(_i == 1 ? host_is(data, SIZE, 6) : host_is(data, _i == 2 ? 3 * SIZE : SIZE, 0));
    ck_assert_uint_eq(heap_live(&heaps.host), 1);
    ck_assert_uint_eq(heaps.host.calls, _i == 0 ? 1 : 2);
    OK(synced_mem_release(mem));
    heaps_end();
}
END_TEST

START_TEST(called_with_nothing_locked_by_a_stream)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = wanting = heaps_make(SIZE);
    heaps.device.during = _i == 0 ? ask_facts : _i == 1 ? be_faster_on_the_device : make_it_larger;
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
    ck_assert(host_is(synced_mem_cpu_data(mem), synced_mem_size(mem), _i == 1 ? 6 : 0));
    ck_assert_uint_eq(heap_live(&heaps.device), 1);
    OK(synced_mem_release(mem));
    close_stream(stream);
    heaps_end();
}
END_TEST

/* A push of two objects. The allocator's own call changes one of them meanwhile. */
START_TEST(called_with_nothing_locked_by_a_push)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = heaps_make(SIZE);
    synced_mem *const other = wanting = heaps_make(SIZE);
    synced_mem *const both[] = {mem, other};
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    host_fill(synced_mem_overwrite_cpu_data(other), SIZE, 2);
    heaps.device.during = make_it_larger;
    OK(synced_mem_async_gpu_push_n(both, 2, stream));
    ck_assert(device_is(synced_mem_gpu_data_on(mem, stream), SIZE, 1));
    ck_assert(device_is(synced_mem_gpu_data_on(other, stream), SIZE, 2));
    ck_assert_uint_eq(heap_live(&heaps.device), 2);
    RELEASE_EACH(mem, other);
    close_stream(stream);
    heaps_end();
}
END_TEST

/* Stands for a thread that sets the allocators of all objects while a pull looks for its memory a second time. */
static bool sets_after_a_look;

const struct sm_allocator *__real_sm_allocator_of_all(enum sm_side side);
const struct sm_allocator *__wrap_sm_allocator_of_all(enum sm_side side);
const struct sm_allocator *__wrap_sm_allocator_of_all(enum sm_side side)
{
    const struct sm_allocator *const found = __real_sm_allocator_of_all(side);
    const synced_mem_allocator cpu = heap_table(&heaps.host, false);
    if (sets_after_a_look && side == SM_CPU)
        OK(synced_mem_set_allocators(&cpu, NULL));
    sets_after_a_look = sets_after_a_look && side != SM_CPU;
    return found;
}

START_TEST(set_while_a_pull_looks)
{
    synced_mem *view;
    synced_mem *const mem = make_at_gpu(SIZE, 1);
    OK(synced_mem_view(&view, mem, 1000, 1000, NULL)); /* the host's memory is that of all parts */
    sets_after_a_look = true;
    OK(synced_mem_async_cpu_pull(mem, NULL));
    ck_assert(!sets_after_a_look);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    RELEASE_EACH(view, mem);
    OK(synced_mem_set_allocators(NULL, NULL));
    heaps_end();
}
END_TEST

/* The object moves to another device than the stream's while its allocator is called. */
START_TEST(another_device_meanwhile)
{
    if (devices() < 2)
        return;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = wanting = heaps_make(SIZE);
    heaps.device.during = take_the_other_device;
    if (_i == 0) {
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_overwrite_gpu_data_on(mem, stream));
        ck_assert_uint_eq(heap_live(&heaps.device), 0);
    } else {
        ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data(mem));
        ck_assert_uint_eq(heap_live(&heaps.device), 1);
    }
    ck_assert_int_eq(synced_mem_device(mem), 1);
    OK(synced_mem_release(mem));
    close_stream(stream);
    heaps_end();
}
END_TEST

/* The object's contents change while larger memory is allocated for it. */
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
    synced_mem *const mem = wanting = heaps_make(SIZE);
    gpu_fill(synced_mem_overwrite_gpu_data(mem), SIZE, 5, NULL);
    heaps.device.during = _i == 0 ? write_meanwhile : _i == 1 ? release_meanwhile : make_it_larger;
    OK(synced_mem_resize(mem, 2 * SIZE));
    ck_assert_uint_eq(synced_mem_size(mem), 2 * SIZE);
    if (_i == 1)
        ck_assert(host_is(synced_mem_cpu_data(mem), 2 * SIZE, 0));
    else
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, _i == 0 ? 6 : 5));
    OK(synced_mem_release(mem));
    heaps_end();
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
        synced_mem *const mem = heaps_make(SIZE);
        for (int i = 0; i < THREADS; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, read_it, mem), 0);
        for (int i = 0; i < THREADS; i++)
            ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_eq(heap_live(&heaps.host), 1);
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
        OK(synced_mem_release(mem));
        ck_assert_uint_eq(heap_live(&heaps.host), 0);
        heap_forget(&heaps.host);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("allocator");
    TCase *const life = add_case(made, "life");
    tcase_add_test(life, on_the_host);
    add_gpu_tests(life, given_back_when_it_is_idle, managed_memory);
    tcase_add_loop_test(life, sizes_and_alignments, 0, 5);
    add_gpu_loop_test(life, back_and_forth, 0, STREAM_KINDS);
    add_gpu_loop_test(life, each_first_access, 0, 12);
    add_gpu_loop_test(life, page_locked, 0, 4);
    TCase *const all = add_case(made, "for all objects");
    add_tests(all, for_all_objects, until_the_shutdown, no_device_to_allocate_on);
    TCase *const unlocked = add_case(made, "with nothing locked");
    tcase_add_test(unlocked, several_threads);
    add_gpu_tests(unlocked, called_with_nothing_locked_by_a_push, set_while_a_pull_looks);
    tcase_add_loop_test(unlocked, called_with_nothing_locked, 0, 3);
    add_gpu_loop_test(unlocked, called_with_nothing_locked_by_a_stream, 0, 3);
    tcase_add_loop_test(unlocked, another_device_meanwhile, 0, 2);
    add_gpu_loop_test(unlocked, changed_while_it_grows, 0, 3);
    return made;
}
