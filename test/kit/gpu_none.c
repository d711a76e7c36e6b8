/* No GPU: the functions that need one are defined and never called. */
#include "gpu.h"

#include "check_kit.h"

bool gpu_expected(void)
{
    return false;
}

int gpu_start(unsigned schedule)
{
    (void)schedule;
    return 0;
}

void gpu_check_nothing_left(void)
{
}

int gpu_current_device(void)
{
    return 0;
}

int gpu_find_current_device(void)
{
    return 0;
}

void gpu_make_current(int device)
{
    (void)device;
}

void *gpu_alloc(int device, size_t size)
{
    (void)device, (void)size;
    ck_abort_msg("a test asks for device memory where there is none");
    return NULL;
}

void *gpu_managed_alloc(int device, size_t size)
{
    return gpu_alloc(device, size);
}

void gpu_free(void *data)
{
    (void)data;
}

void *gpu_pinned_alloc(size_t size)
{
    return gpu_alloc(0, size);
}

void gpu_pinned_free(void *data)
{
    (void)data;
}

void gpu_register(void *data, size_t size)
{
    (void)data, (void)size;
}

void gpu_unregister(void *data)
{
    (void)data;
}

void gpu_unregister_if_registered(void *data)
{
    (void)data;
}

synced_mem_stream gpu_stream_create(int device, bool blocking)
{
    (void)device, (void)blocking;
    ck_abort_msg("a test asks for a stream where there is none");
    return NULL;
}

void gpu_stream_destroy(synced_mem_stream stream)
{
    (void)stream;
}

void gpu_stream_sync(synced_mem_stream stream)
{
    (void)stream;
}

bool gpu_stream_is_idle(synced_mem_stream stream)
{
    (void)stream;
    return true;
}

bool gpu_has_per_thread_stream(void)
{
    return false;
}

bool gpu_has_stream_ids(void)
{
    return false;
}

void gpu_sync_device(int device)
{
    (void)device;
}

bool gpu_is_busy(const synced_mem_stream *streams, int count)
{
    (void)streams, (void)count;
    return false;
}

bool gpu_try_fill(void *data, size_t size, unsigned pattern, synced_mem_stream stream)
{
    gpu_fill(data, size, pattern, stream);
    return false;
}

void gpu_fill(void *data, size_t size, unsigned pattern, synced_mem_stream stream)
{
    (void)data, (void)size, (void)pattern, (void)stream;
}

void gpu_copy(void *to, const void *from, size_t size, synced_mem_stream stream)
{
    (void)to, (void)from, (void)size, (void)stream;
}

bool gpu_try_copy(void *to, const void *from, size_t size, synced_mem_stream stream)
{
    gpu_copy(to, from, size, stream);
    return false;
}

void gpu_copy_to_host(void *to, const void *from, size_t size, synced_mem_stream stream)
{
    (void)to, (void)from, (void)size, (void)stream;
}

void gpu_hold(synced_mem_stream stream)
{
    (void)stream;
}

void gpu_unhold(void)
{
}

void gpu_delay(synced_mem_stream stream)
{
    (void)stream;
}

void gpu_pause(synced_mem_stream stream)
{
    (void)stream;
}

void gpu_fill_host(void *data, size_t size, unsigned pattern, synced_mem_stream stream)
{
    (void)data, (void)size, (void)pattern, (void)stream;
}

void gpu_expect(const void *data, size_t size, const void *expected, synced_mem_stream stream)
{
    (void)data, (void)size, (void)expected, (void)stream;
}

unsigned gpu_mismatches(bool all)
{
    (void)all;
    return 0;
}

void gpu_read(void *to, const void *from, size_t size)
{
    (void)to, (void)from, (void)size;
}
