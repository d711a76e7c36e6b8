/* The seam where there is no GPU runtime: no devices, and nothing that needs one works. */
#include "device.h"

#include "status.h"

static synced_mem_status no_gpu(void)
{
    return sm_fail(SYNCED_MEM_ERR_NO_GPU, "this library was built without CUDA");
}

int sm_device_count(void)
{
    return 0;
}

bool sm_device_in_use(void)
{
    return false;
}

synced_mem_status sm_device_resolve(int wanted, int *device)
{
    (void)wanted, (void)device;
    return no_gpu();
}

synced_mem_status sm_device_of_pointer(const void *data, int *device)
{
    (void)data, (void)device;
    return no_gpu();
}

synced_mem_status sm_device_shutdown(void)
{
    return SYNCED_MEM_OK;
}

synced_mem_status sm_device_pinned_alloc(int device, size_t size, void **out)
{
    (void)device, (void)size, (void)out;
    return no_gpu();
}

synced_mem_status sm_device_pinned_free(int device, void *data)
{
    (void)device, (void)data;
    return no_gpu();
}

synced_mem_status sm_device_alloc(int device, size_t size, synced_mem_stream stream, void **out)
{
    (void)device, (void)size, (void)stream, (void)out;
    return no_gpu();
}

synced_mem_status sm_device_free(int device, void *data, synced_mem_stream stream)
{
    (void)device, (void)data, (void)stream;
    return no_gpu();
}

synced_mem_status sm_device_unified_facts(int device, struct sm_unified_facts *facts)
{
    (void)device, (void)facts;
    return no_gpu();
}

synced_mem_status sm_device_check_mapped(int device, void *data)
{
    (void)device, (void)data;
    return no_gpu();
}

synced_mem_status sm_device_memory_left(int device, size_t *left, size_t *total)
{
    (void)device, (void)left, (void)total;
    return no_gpu();
}

synced_mem_status sm_device_managed_alloc(int device, size_t size, void **out)
{
    (void)device, (void)size, (void)out;
    return no_gpu();
}

synced_mem_status sm_device_managed_free(int device, void *data)
{
    (void)device, (void)data;
    return no_gpu();
}

synced_mem_status sm_device_managed_prefetch(int device, const void *data, size_t size, bool host,
                                             synced_mem_stream stream)
{
    (void)device, (void)data, (void)size, (void)host, (void)stream;
    return no_gpu();
}

synced_mem_status sm_device_managed_advise(int device, const void *data, size_t size)
{
    (void)device, (void)data, (void)size;
    return no_gpu();
}

synced_mem_status sm_device_stream_create(int device, synced_mem_stream *out)
{
    (void)device, (void)out;
    return no_gpu();
}

synced_mem_status sm_device_stream_destroy(int device, synced_mem_stream stream)
{
    (void)device, (void)stream;
    return no_gpu();
}

synced_mem_status sm_device_stream_look(int device, synced_mem_stream stream, struct sm_stream_facts *facts)
{
    (void)device, (void)stream, (void)facts;
    return no_gpu();
}

synced_mem_status sm_device_of_stream(synced_mem_stream stream, int likely, int *device)
{
    (void)stream, (void)likely, (void)device;
    return no_gpu();
}

synced_mem_status sm_device_stream_sync(int device, synced_mem_stream stream)
{
    (void)device, (void)stream;
    return no_gpu();
}

synced_mem_status sm_device_stream_wait(int device, synced_mem_stream stream, sm_event event)
{
    (void)device, (void)stream, (void)event;
    return no_gpu();
}

synced_mem_status sm_device_copy_h2d(int device, void *to, const void *from, size_t size, synced_mem_stream stream)
{
    (void)device, (void)to, (void)from, (void)size, (void)stream;
    return no_gpu();
}

synced_mem_status sm_device_copy_d2h(int device, void *to, const void *from, size_t size, synced_mem_stream stream)
{
    (void)device, (void)to, (void)from, (void)size, (void)stream;
    return no_gpu();
}

synced_mem_status sm_device_copy_d2d(int device, void *to, const void *from, size_t size, synced_mem_stream stream)
{
    (void)device, (void)to, (void)from, (void)size, (void)stream;
    return no_gpu();
}

synced_mem_status sm_device_zero(int device, void *data, size_t size, synced_mem_stream stream)
{
    (void)device, (void)data, (void)size, (void)stream;
    return no_gpu();
}

synced_mem_status sm_device_event_create(int device, sm_event *out)
{
    (void)device, (void)out;
    return no_gpu();
}

synced_mem_status sm_device_event_destroy(int device, sm_event event)
{
    (void)device, (void)event;
    return no_gpu();
}

synced_mem_status sm_device_event_record(int device, sm_event event, synced_mem_stream stream)
{
    (void)device, (void)event, (void)stream;
    return no_gpu();
}

synced_mem_status sm_device_event_sync(int device, sm_event event)
{
    (void)device, (void)event;
    return no_gpu();
}

synced_mem_status sm_device_event_query(int device, sm_event event, bool *done)
{
    (void)device, (void)event, (void)done;
    return no_gpu();
}
