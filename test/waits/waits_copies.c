/* Scripts of copies between objects. */
#include "waits_scripts.h"

static void copy(synced_mem *to, synced_mem *from, synced_mem_stream stream, enum way way)
{
    synced_mem *const other = make(SIZE);
    synced_mem *const both[] = {to, other};
    synced_mem *const twice[] = {from, from};
    OK(way == ONE ? synced_mem_async_gpu_copy(to, from, stream)
                  : synced_mem_async_gpu_copy_n(both, twice, way, stream));
    OK(synced_mem_release(other));
}

/* Copies to a device other than the stream's. Before and after, work on the stream writes the source. */
static void copy_to_another_device(enum way way)
{
    struct things it = begin();
    synced_mem *to = NULL;
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.device = 1;
    OK(synced_mem_create(&to, SIZE, &options));
    host_writes(it.host, 1);
    OK(synced_mem_set_cpu_data(it.mem, it.host));
    gpu_fill_host(it.host, SIZE, 2, it.one);
    copy(to, it.mem, it.one, way);
    gpu_fill_host(it.host, SIZE, 3, it.one);
    host_reads(synced_mem_cpu_data(to), 2);
    OK(synced_mem_release(to));
    end(&it);
}

static const struct script scripts[] = {{copy_to_another_device, WAYS}};
const struct scripts copy_scripts = {scripts, sizeof scripts / sizeof scripts[0]};
