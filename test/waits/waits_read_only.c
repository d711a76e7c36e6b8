/* Scripts of read-only memory, which a call replaces while the memory is filled or read. */
#include "waits_scripts.h"

#include <string.h>

enum { READ_ONLY = SYNCED_MEM_MEMORY_READ_ONLY, HALF = SIZE / 2 };

static void hand_in_host_memory(struct things *it)
{
    gpu_delay(it->one);
    gpu_fill_host(it->host, SIZE, 1, it->one);
    OK(USE(it->mem, .cpu_data = it->host, .stream = it->one, .flags = READ_ONLY));
}

/* A stream still fills the memory, whose contents the host copies. */
static void copy_what_is_arriving(enum way way)
{
    struct things it = begin();
    (void)way;
    hand_in_host_memory(&it);
    host_reads(synced_mem_mutable_cpu_data(it.mem), 1);
    end(&it);
}

/* A push still reads the memory, which is the caller's again. */
static void hand_back_while_it_is_read(enum way way)
{
    struct things it = begin();
    synced_mem *const from = make(SIZE);
    host_writes(it.host, 1);
    host_writes(synced_mem_overwrite_cpu_data(from), 2);
    OK(USE(it.mem, .cpu_data = it.host, .flags = READ_ONLY));
    gpu_delay(it.one);
    push(&it, it.one, ONE);
    if (way == ONE)
        MUST(synced_mem_overwrite_cpu_data(it.mem));
    else
        OK(synced_mem_cpu_copy(it.mem, from));
    host_writes(it.host, 9);
    OK(synced_mem_release(from));
    end(&it);
}

/* A pull of one half takes other memory for both. */
static void pull_beside_what_is_arriving(enum way way)
{
    struct things it = begin();
    synced_mem *half;
    unsigned char all[SIZE];
    OK(synced_mem_view(&half, it.mem, 0, HALF, NULL));
    hand_in_host_memory(&it);
    gpu_fill(synced_mem_overwrite_gpu_data_on(half, it.two), HALF, 1, it.two);
    OK(way == ONE ? synced_mem_async_cpu_pull(half, it.two) : synced_mem_async_cpu_pull_n(&half, 1, it.two));
    const void *const data = synced_mem_cpu_data(it.mem);
    pattern_write(all, SIZE, 1);
    MUST(data && memcmp((const char *)data + HALF, all + HALF, HALF) == 0);
    OK(synced_mem_release(half));
    end(&it);
}

/* A stream still fills device memory, whose contents another one copies. way ONE: the object is divided meanwhile, so
 * its pieces have the work in flight. */
static void copy_behind_a_stream(enum way way)
{
    struct things it = begin();
    synced_mem *half = NULL;
    gpu_delay(it.one);
    gpu_fill(it.device, SIZE, 1, it.one);
    OK(USE(it.mem, .gpu_data = it.device, .stream = it.one, .flags = READ_ONLY));
    if (way == ONE)
        OK(synced_mem_view(&half, it.mem, 0, HALF, NULL));
    synced_mem *const written = half ? half : it.mem;
    gpu_copy(it.seen, synced_mem_mutable_gpu_data_on(written, it.two), half ? HALF : SIZE, it.two);
    if (half)
        OK(synced_mem_release(half));
    host_reads(synced_mem_cpu_data(it.mem), 1);
    end(&it);
}

static const struct script scripts[] = {{copy_what_is_arriving, 1},
                                        {hand_back_while_it_is_read, 2},
                                        {pull_beside_what_is_arriving, 2},
                                        {copy_behind_a_stream, 2}};
const struct scripts read_only_scripts = {scripts, sizeof scripts / sizeof scripts[0]};
