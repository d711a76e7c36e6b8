#include "unified_kit.h"

const synced_mem_placement_kind kinds[KINDS] = {SYNCED_MEM_PLACEMENT_MAPPED, SYNCED_MEM_PLACEMENT_MANAGED};

synced_mem *make_placed(size_t size, synced_mem_placement_kind placement)
{
    synced_mem *mem = NULL;
    synced_mem_options options = default_options();
    ck_assert_int_eq(options.placement, SYNCED_MEM_PLACEMENT_SEPARATE);
    options.placement = placement;
    OK(synced_mem_create(&mem, size, &options));
    ck_assert_int_eq(synced_mem_placement(mem), placement);
    return mem;
}

bool has(synced_mem_placement_kind placement)
{
    if (!gpu_expected())
        return false;
    synced_mem *const mem = make_placed(1, placement);
    const bool can = synced_mem_cpu_data(mem) != NULL;
    if (!can)
        ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_INVALID_STATE);
    OK(synced_mem_release(mem));
    return can;
}

static void check_nothing_moved(void)
{
    const synced_mem_stats stats = stats_now();
    ck_assert_uint_eq(stats.h2d_transfers + stats.d2h_transfers, 0);
    ck_assert_uint_eq(stats.h2d_bytes + stats.d2h_bytes, 0);
    ck_assert_uint_eq(stats.gpu_bytes, 0);
}

void finish(synced_mem *mem)
{
    check_nothing_moved();
    OK(synced_mem_release(mem));
}

/* ---- Ways to each head ---- */

const int head_of[WAYS] = {
    [CPU_BY_HOST] = CPU,      [CPU_AGAIN] = CPU,     [CPU_ALONE] = CPU,      [GPU_BY_ANY] = GPU,
    [GPU_BY_STREAM] = GPU,    [GPU_DONE] = GPU,      [GPU_ALONE] = GPU,      [SYNCED_BY_GPU] = SYN,
    [SYNCED_BY_STREAM] = SYN, [SYNCED_BY_CPU] = SYN, [SYNCED_BY_PUSH] = SYN, [SYNCED_BY_PULL] = SYN};

struct work work;

void kernel_writes(synced_mem *mem, unsigned pattern)
{
    gpu_delay(work.stream);
    gpu_fill(synced_mem_mutable_gpu_data_on(mem, work.stream), SIZE, pattern, work.stream);
}

void kernel_reads(synced_mem *mem)
{
    gpu_delay(work.stream);
    gpu_copy(work.seen, synced_mem_gpu_data_on(mem, work.stream), SIZE, work.stream);
    work.reads = true;
}

void go(synced_mem *mem, enum way way)
{
    switch (way) {
    case NEW:
        return;
    case DISCARDED:
        kernel_writes(mem, 9);
        OK(synced_mem_resize_discard(mem, SIZE));
        return;
    case CPU_AGAIN:
        kernel_writes(mem, 9);
        host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 1);
        return;
    case GPU_BY_ANY:
        gpu_fill(synced_mem_overwrite_gpu_data(mem), SIZE, 1, NULL);
        return;
    case GPU_BY_STREAM:
        kernel_writes(mem, 1);
        return;
    case GPU_DONE:
        kernel_writes(mem, 1);
        OK(synced_mem_end_use_on(mem, work.stream));
        return;
    case SYNCED_BY_CPU:
        kernel_writes(mem, 1);
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
        return;
    case SYNCED_BY_PULL:
        kernel_writes(mem, 1);
        OK(synced_mem_async_cpu_pull(mem, work.other));
        return;
    case CPU_BY_HOST:
    case CPU_ALONE:
    case GPU_ALONE:
    case SYNCED_BY_GPU:
    case SYNCED_BY_STREAM:
    case SYNCED_BY_PUSH:
    case WAYS:
        break;
    }
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    if (way == CPU_ALONE || way == SYNCED_BY_STREAM)
        kernel_reads(mem);
    if (way == CPU_ALONE)
        OK(synced_mem_release_gpu_data(mem));
    if (way == GPU_ALONE)
        OK(synced_mem_release_cpu_data(mem));
    if (way == SYNCED_BY_GPU)
        ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    if (way == SYNCED_BY_PUSH)
        OK(synced_mem_async_gpu_push(mem, work.other));
}

void prepare(void)
{
    work.stream = open_stream(NON_BLOCKING);
    work.other = open_stream(NON_BLOCKING);
    work.seen = gpu_alloc(0, SIZE);
    work.reads = false;
}

void clean_up(void)
{
    close_stream(work.stream);
    close_stream(work.other);
    if (work.reads)
        ck_assert(device_is(work.seen, SIZE, 1));
    gpu_free(work.seen);
}
