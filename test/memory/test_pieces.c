/* Checks host memory that is registered in pieces, because the driver refuses 512 GiB as one. The memory is address
 * space of which only touched pages exist. */
#include "host_pool_kit.h"

#include "cudart_emu.h"

#include <string.h>
#include <sys/mman.h>

static const size_t GIB = (size_t)1 << 30;
static const size_t PIECE = (size_t)64 << 30;
enum { HALF = 3000, SIZE = 2 * HALF };

static char *reserve(size_t size)
{
    void *const data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(data, MAP_FAILED);
    return data;
}

/* Returns the first multiple of the size of a piece behind data. */
static char *border_in(char *data)
{
    return data + (PIECE - (uintptr_t)data % PIECE);
}

static size_t pieces_of(const char *data, size_t size)
{
    return ((uintptr_t)data + size - 1) / PIECE - (uintptr_t)data / PIECE + 1;
}

static synced_mem *make_in(char *data, size_t size)
{
    synced_mem *const mem = make_on(size, 0);
    OK(USE(mem, .cpu_data = data, .flags = SYNCED_MEM_MEMORY_PAGE_LOCK));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 1);
    return mem;
}

START_TEST(more_than_the_driver_takes)
{
    const size_t size = 600 * GIB + 5000;
    char *const data = reserve(size);
    synced_mem *const mem = make_in(data + 100, size - 100);
    ck_assert_uint_eq(emu_live(EMU_REGISTERED), pieces_of(data + 100, size - 100));
    ck_assert_uint_eq(emu_live_bytes(EMU_REGISTERED), size - 100);
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(emu_live(EMU_REGISTERED), 0);
    (void)munmap(data, size);
}
END_TEST

/* Memory that is no larger than a piece is registered as one, at any address. */
START_TEST(one_piece)
{
    char *const data = reserve(2 * PIECE);
    synced_mem *const mem = make_in(border_in(data) - 100, PIECE);
    ck_assert_uint_eq(emu_live(EMU_REGISTERED), 1);
    OK(synced_mem_release(mem));
    (void)munmap(data, 2 * PIECE);
}
END_TEST

/* ---- Transfers ---- */

struct across {
    char *data;
    size_t size;
    char *border;
    synced_mem *whole; /* keeps the memory registered */
    synced_mem *part;  /* one half in each of two pieces */
};

static struct across begin(void)
{
    struct across it = {.size = 3 * PIECE};
    it.data = reserve(it.size);
    it.border = border_in(it.data);
    it.whole = make_in(it.data, it.size);
    it.part = make_on(SIZE, 0);
    pattern_write(it.border - HALF, SIZE, 1);
    OK(synced_mem_set_cpu_data(it.part, it.border - HALF));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(it.part), 1);
    return it;
}

static void end(const struct across *it)
{
    RELEASE_EACH(it->part, it->whole);
    ck_assert_uint_eq(emu_live(EMU_REGISTERED), 0);
    (void)munmap(it->data, it->size);
}

START_TEST(transfers_across_a_border)
{
    const struct across it = begin();
    synced_mem_stream stream = open_stream(_i);
    OK(synced_mem_async_gpu_push(it.part, stream));
    ck_assert(device_is(synced_mem_gpu_data(it.part), SIZE, 1));
    gpu_fill(synced_mem_mutable_gpu_data_on(it.part, stream), SIZE, 2, stream);
    OK(synced_mem_async_cpu_pull(it.part, stream));
    ck_assert(host_is(synced_mem_cpu_data(it.part), SIZE, 2));
    close_stream(stream);
    end(&it);
}
END_TEST

/* A batch takes memory in one registered piece. Memory in two pieces needs a copy for each. */
START_TEST(a_batch_beside_a_border)
{
    enum { COUNT = 4, EACH = 4096 };
    const struct across it = begin();
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *mems[COUNT];
    for (int i = 0; i < COUNT; i++) {
        char *const data = it.border + (i - 2) * EACH - (i == 0 ? EACH : 0) + EACH / 2;
        mems[i] = make_on(EACH, 0);
        pattern_write(data, EACH, (unsigned)i + 1);
        OK(synced_mem_set_cpu_data(mems[i], data));
    }
    const unsigned copies = emu_calls("cudaMemcpyAsync");
    OK(synced_mem_async_gpu_push_n(mems, COUNT, stream));
    ck_assert_uint_eq(emu_calls("cudaMemcpyBatchAsync"), 1);
    ck_assert_uint_eq(emu_calls("cudaMemcpyAsync") - copies, 2);
    for (int i = 0; i < COUNT; i++) {
        ck_assert(device_is(synced_mem_gpu_data(mems[i]), EACH, (unsigned)i + 1));
        gpu_fill(synced_mem_mutable_gpu_data_on(mems[i], stream), EACH, (unsigned)i + 5, stream);
    }
    OK(synced_mem_async_cpu_pull_n(mems, COUNT, stream));
    ck_assert_uint_eq(emu_calls("cudaMemcpyBatchAsync"), 2);
    ck_assert_uint_eq(emu_calls("cudaMemcpyAsync") - copies, 4);
    for (int i = 0; i < COUNT; i++) {
        ck_assert(host_is(synced_mem_cpu_data(mems[i]), EACH, (unsigned)i + 5));
        OK(synced_mem_release(mems[i]));
    }
    close_stream(stream);
    end(&it);
}
END_TEST

START_TEST(a_fill_across_a_border)
{
    const struct across it = begin();
    memset(it.border - HALF, 5, SIZE);
    OK(sm_device_fill(0, it.border - HALF, 0, SIZE, NULL));
    gpu_sync_device(0);
    ck_assert_int_eq(it.border[-HALF] | it.border[-1] | it.border[0] | it.border[HALF - 1], 0);
    emu_fail("cudaMemsetAsync", 2, cudaErrorUnknown, false);
    ck_assert_int_eq(sm_device_fill(0, it.border - HALF, 0, SIZE, NULL), SYNCED_MEM_ERR_CUDA);
    ck_assert_uint_eq(emu_pending(), 0);
    end(&it);
}
END_TEST

/* The first part of a transfer is queued, and the second is refused. Nothing is in flight when the call returns, even
 * if the first wait fails. */
START_TEST(half_a_transfer)
{
    const struct across it = begin();
    synced_mem_stream stream = gpu_stream_create(0, false);
    const unsigned waits = emu_calls("cudaStreamSynchronize");
    emu_fail("cudaMemcpyAsync", 2, cudaErrorUnknown, false);
    if (_i)
        emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_gpu_push(it.part, stream));
    SAYS("cudaMemcpyAsync of 6000 bytes");
    ck_assert_uint_eq(emu_calls("cudaStreamSynchronize") - waits, (unsigned)_i + 1);
    ck_assert_int_eq(synced_mem_head(it.part), SYNCED_MEM_AT_CPU);
    OK(synced_mem_async_gpu_push(it.part, stream));
    ck_assert(device_is(synced_mem_gpu_data(it.part), SIZE, 1));
    close_stream(stream);
    end(&it);
}
END_TEST

/* ---- All or nothing ---- */

START_TEST(a_piece_is_refused)
{
    const size_t size = 3 * PIECE;
    char *const data = reserve(size);
    synced_mem *const mem = make_on(size, 0);
    emu_fail("cudaHostRegister", (unsigned)_i + 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, USE(mem, .cpu_data = data, .flags = SYNCED_MEM_MEMORY_PAGE_LOCK));
    SAYS("cudaHostRegister");
    ck_assert_int_eq(emu_failures(), 1);
    ck_assert_uint_eq(emu_live(EMU_REGISTERED), 0);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_UNINITIALIZED);
    emu_fail("cudaHostRegister", 3, cudaErrorUnknown, false);
    emu_fail("cudaHostUnregister", 1, cudaErrorUnknown, false); /* the undoing is tried twice */
    FAILS(SYNCED_MEM_ERR_CUDA, USE(mem, .cpu_data = data, .flags = SYNCED_MEM_MEMORY_PAGE_LOCK));
    SAYS("cudaHostRegister");
    ck_assert_uint_eq(emu_live(EMU_REGISTERED), 0);
    OK(USE(mem, .cpu_data = data, .flags = SYNCED_MEM_MEMORY_PAGE_LOCK));
    OK(synced_mem_release(mem));
    (void)munmap(data, size);
}
END_TEST

/* The second try begins where the first one stopped. */
START_TEST(a_piece_stays)
{
    const size_t size = 3 * PIECE;
    char *const data = reserve(size);
    synced_mem *const mem = make_in(data, size);
    emu_fail("cudaHostUnregister", (unsigned)_i + 1, cudaErrorUnknown, false);
    OK(synced_mem_release(mem));
    ck_assert_int_eq(emu_failures(), 1);
    ck_assert_uint_eq(emu_live(EMU_REGISTERED), 0);
    (void)munmap(data, size);
}
END_TEST

/* ---- Segments ---- */

START_TEST(a_slab_in_pieces)
{
    const size_t size = 520 * GIB;
    fake.untouched = true;
    fake.unreserved = true;
    const struct sm_pinned memory = alloc(size);
    ck_assert_uint_gt(emu_live(EMU_REGISTERED), size / PIECE);
    ck_assert_uint_eq(emu_live_bytes(EMU_REGISTERED), pool_now().held_bytes);
    char *const border = border_in(memory.data);
    synced_mem *const part = make_on(SIZE, 0);
    pattern_write(border - HALF, SIZE, 1);
    OK(synced_mem_set_cpu_data(part, border - HALF));
    ck_assert(device_is(synced_mem_gpu_data(part), SIZE, 1));
    OK(synced_mem_release(part));
    give(memory);
    check_nothing_held();
    ck_assert_uint_eq(emu_live(EMU_REGISTERED), 0);
}
END_TEST

/* A segment that is page-locked in part is quarantined. */
START_TEST(a_slab_that_stays_in_part)
{
    fake.untouched = true;
    fake.unreserved = true;
    const uint64_t before = stats_now().quarantined;
    give(alloc(3 * PIECE));
    emu_fail("cudaHostUnregister", (unsigned)_i + 1, cudaErrorUnknown, false);
    (void)sm_host_pool_shutdown();
    const bool whole = _i == 0; /* then the segment stays for a later try */
    ck_assert_uint_eq(stats_now().quarantined, before + !whole);
    ck_assert_uint_eq(pool_now().held_bytes > 0, whole);
    ck_assert_uint_eq(emu_live(EMU_REGISTERED) > 0, true);
    OK(sm_host_pool_shutdown());
    ck_assert_uint_eq(pool_now().held_bytes, 0);
}
END_TEST

START_TEST(a_slab_that_can_not_be_undone)
{
    struct sm_pinned memory;
    fake.untouched = true;
    fake.unreserved = true;
    emu_fail("cudaHostRegister", 2, cudaErrorUnknown, false);
    emu_fail("cudaHostUnregister", 1, cudaErrorUnknown, false);
    emu_fail("cudaHostUnregister", 2, cudaErrorUnknown, false);
    const uint64_t before = stats_now().quarantined;
    ck_assert_int_eq(sm_host_pool_alloc(0, 3 * PIECE, &memory), SYNCED_MEM_ERR_CUDA);
    ck_assert_uint_eq(stats_now().quarantined, before + 1);
    ck_assert_uint_eq(pool_now().held_bytes, 0);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("pieces");
    TCase *const callers = add_case(made, "the caller's memory");
    add_tests(callers, more_than_the_driver_takes, one_piece, a_batch_beside_a_border, a_fill_across_a_border);
    tcase_add_loop_test(callers, transfers_across_a_border, 0, STREAM_KINDS);
    tcase_add_loop_test(callers, half_a_transfer, 0, 2);
    tcase_add_loop_test(callers, a_piece_is_refused, 0, 3);
    tcase_add_loop_test(callers, a_piece_stays, 0, 3);
    TCase *const slabs = add_case(made, "slabs");
    tcase_add_test(slabs, a_slab_in_pieces);
    TCase *const given_up = add_case_without_end(made, "slabs that are given up");
    tcase_add_test(given_up, a_slab_that_can_not_be_undone);
    tcase_add_loop_test(given_up, a_slab_that_stays_in_part, 0, 3);
    return made;
}
