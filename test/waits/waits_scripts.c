/* The parts of scripts: two streams and an object, and the calls on them. */
#include "waits_scripts.h"

synced_mem *make(size_t size)
{
    synced_mem *mem = NULL;
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.device = 0;
    OK(synced_mem_create(&mem, size, &options));
    return mem;
}

void host_writes(void *data, unsigned pattern)
{
    MUST(data);
    gpu_note_host_write(data, SIZE);
    pattern_write(data, SIZE, pattern);
}

void host_reads(const void *data, unsigned pattern)
{
    MUST(data);
    gpu_note_host_read(data, SIZE);
    MUST(pattern_is(data, SIZE, pattern));
}

struct things begin(void)
{
    struct things it = {gpu_stream_create(0, false), gpu_stream_create(0, false), gpu_alloc(0, SIZE),
                        gpu_alloc(0, SIZE),          gpu_pinned_alloc(SIZE),      make(SIZE)};
    return it;
}

void end(struct things *it)
{
    OK(synced_mem_forget_stream(it->one));
    OK(synced_mem_forget_stream(it->two));
    gpu_stream_sync(it->one);
    gpu_stream_sync(it->two);
    if (it->mem)
        OK(synced_mem_release(it->mem));
    OK(synced_mem_shutdown());
    gpu_stream_destroy(it->one);
    gpu_stream_destroy(it->two);
    gpu_free(it->device);
    gpu_free(it->seen);
    gpu_pinned_free(it->host);
}

void push(struct things *it, synced_mem_stream stream, enum way way)
{
    synced_mem *const mems[] = {it->mem, it->mem};
    OK(way == ONE ? synced_mem_async_gpu_push(it->mem, stream) : synced_mem_async_gpu_push_n(mems, way, stream));
}

void pull(struct things *it, synced_mem_stream stream, enum way way)
{
    synced_mem *const mems[] = {it->mem, it->mem};
    OK(way == ONE ? synced_mem_async_cpu_pull(it->mem, stream) : synced_mem_async_cpu_pull_n(mems, way, stream));
}

void keep(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
}
