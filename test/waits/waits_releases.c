/* Scripts of memory that is freed or handed back while it is in use. */
#include "waits_scripts.h"

/* Device memory is freed behind a transfer that reads it. */
static void adopt_over_pull(enum way way)
{
    struct things it = begin();
    (void)way;
    gpu_fill(synced_mem_overwrite_gpu_data_on(it.mem, it.one), SIZE, 1, it.one);
    pull(&it, it.two, ONE);
    host_writes(it.host, 2);
    gpu_fill(it.device, SIZE, 2, NULL);
    OK(USE(it.mem, .cpu_data = it.host, .gpu_data = it.device, .callback = keep));
    end(&it);
}

static void write_again(void *data, void *user, synced_mem_stream stream)
{
    (void)user, (void)stream;
    host_writes(data, 9);
}

/* The shutdown waits for adopted memory that is still in use, and for the buffer of a push from pageable memory. */
static void adopted_to_the_end(enum way way)
{
    static char pageable[SIZE];
    struct things it = begin();
    host_writes(way == ONE ? it.host : pageable, 1);
    if (way == ONE)
        OK(USE(it.mem, .cpu_data = it.host, .callback = write_again));
    else
        OK(USE(it.mem, .cpu_data = pageable, .gpu_data = it.device, .callback = keep));
    MUST(synced_mem_mutable_cpu_data(it.mem));
    push(&it, it.one, ONE);
    OK(synced_mem_release(it.mem));
    it.mem = NULL;
    OK(synced_mem_shutdown());
    end(&it);
}

static void without_pools(enum way way)
{
    (void)way;
    emu_set_pools_supported(0, false);
    struct things it = begin();
    gpu_fill(synced_mem_overwrite_gpu_data_on(it.mem, it.one), SIZE, 1, it.one);
    OK(synced_mem_release_data(it.mem));
    end(&it);
}

/* At the end, the buffer of a push of pageable memory is given back behind the push. */
static void shut_down_behind_push(enum way way)
{
    struct things it = begin();
    static unsigned char pageable[SIZE];
    synced_mem_stats stats = {.struct_size = sizeof stats};
    host_writes(pageable, 1);
    OK(synced_mem_set_cpu_data(it.mem, pageable));
    gpu_delay(it.one);
    push(&it, it.one, way);
    OK(synced_mem_release(it.mem));
    it.mem = NULL;
    OK(synced_mem_shutdown());
    OK(synced_mem_get_stats(&stats));
    MUST(stats.pinned_bytes == 0);
    end(&it);
}

static const struct script scripts[] = {
    {adopt_over_pull, 1}, {adopted_to_the_end, 2}, {without_pools, 1}, {shut_down_behind_push, 2}};
const struct scripts release_scripts = {scripts, sizeof scripts / sizeof scripts[0]};
