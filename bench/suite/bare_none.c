/* A build without CUDA: only the first two functions are called. */
#include "bare.h"

#include "measure.h"

static void *none(void)
{
    must(false, "a call of the CUDA runtime in a build without CUDA");
    return NULL;
}

bool bare_start(void)
{
    return false;
}

bool bare_is_emulated(void)
{
    return false;
}

void *bare_host_alloc(size_t size)
{
    (void)size;
    return none();
}

void bare_host_free(void *data)
{
    (void)data;
    (void)none();
}

void bare_register(void *data, size_t size)
{
    (void)data;
    (void)size;
    (void)none();
}

void bare_unregister(void *data)
{
    (void)data;
    (void)none();
}

void *bare_device_alloc(size_t size)
{
    (void)size;
    return none();
}

void *bare_device_alloc_on(int device, size_t size)
{
    (void)device;
    (void)size;
    return none();
}

void bare_device_free(void *data)
{
    (void)data;
    (void)none();
}

size_t bare_device_room(void)
{
    (void)none();
    return 0;
}

int bare_device_of(const void *memory)
{
    (void)memory;
    (void)none();
    return 0;
}

void *bare_managed_alloc(size_t size)
{
    (void)size;
    return none();
}

void bare_prefetch(void *managed, size_t size, bool to_device, synced_mem_stream stream)
{
    (void)managed;
    (void)size;
    (void)to_device;
    (void)stream;
    (void)none();
}

synced_mem_stream bare_stream_create(void)
{
    return none();
}

synced_mem_stream bare_stream_create_on(int device)
{
    (void)device;
    return none();
}

void bare_stream_destroy(synced_mem_stream stream)
{
    (void)stream;
    (void)none();
}

void bare_wait(synced_mem_stream stream)
{
    (void)stream;
    (void)none();
}

void bare_wait_all(void)
{
    (void)none();
}

struct bare_event *bare_event_create(void)
{
    return none();
}

void bare_event_destroy(struct bare_event *event)
{
    (void)event;
    (void)none();
}

void bare_event_record(struct bare_event *event, synced_mem_stream stream)
{
    (void)event;
    (void)stream;
    (void)none();
}

void bare_event_wait(struct bare_event *event, synced_mem_stream stream)
{
    (void)event;
    (void)stream;
    (void)none();
}

void bare_event_wait_here(struct bare_event *event)
{
    (void)event;
    (void)none();
}

bool bare_event_is_done(struct bare_event *event)
{
    (void)event;
    return none() != NULL;
}

void bare_copy_up(void *device, const void *host, size_t size)
{
    (void)device;
    (void)host;
    (void)size;
    (void)none();
}

void bare_copy_down(void *host, const void *device, size_t size)
{
    (void)host;
    (void)device;
    (void)size;
    (void)none();
}

void bare_queue_up(void *device, const void *host, size_t size, synced_mem_stream stream)
{
    (void)device;
    (void)host;
    (void)size;
    (void)stream;
    (void)none();
}

void bare_queue_down(void *host, const void *device, size_t size, synced_mem_stream stream)
{
    (void)host;
    (void)device;
    (void)size;
    (void)stream;
    (void)none();
}

void bare_queue_across(void *to, const void *from, size_t size, synced_mem_stream stream)
{
    (void)to;
    (void)from;
    (void)size;
    (void)stream;
    (void)none();
}

void bare_queue_peer(void *to, int to_device, const void *from, int from_device, size_t size, synced_mem_stream stream)
{
    (void)to;
    (void)to_device;
    (void)from;
    (void)from_device;
    (void)size;
    (void)stream;
    (void)none();
}

void bare_let_reach(int device, int peer)
{
    (void)device;
    (void)peer;
    (void)none();
}

bool bare_has_batches(void)
{
    return false;
}

void bare_queue_batch(void *const *to, const void *const *from, const size_t *sizes, size_t count,
                      synced_mem_stream stream)
{
    (void)to;
    (void)from;
    (void)sizes;
    (void)count;
    (void)stream;
    (void)none();
}

void bare_queue_fill(void *device, int byte, size_t size, synced_mem_stream stream)
{
    (void)device;
    (void)byte;
    (void)size;
    (void)stream;
    (void)none();
}

struct bare_pool *bare_pool_create(void)
{
    return none();
}

void bare_pool_destroy(struct bare_pool *pool)
{
    (void)pool;
    (void)none();
}

void *bare_pool_alloc(struct bare_pool *pool, size_t size, synced_mem_stream stream)
{
    (void)pool;
    (void)size;
    (void)stream;
    return none();
}

void bare_pool_free(void *data, synced_mem_stream stream)
{
    (void)data;
    (void)stream;
    (void)none();
}
