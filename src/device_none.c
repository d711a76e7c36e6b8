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

synced_mem_status sm_device_alloc(int device, size_t size, sm_stream stream, void **out)
{
    (void)device, (void)size, (void)stream, (void)out;
    return no_gpu();
}

synced_mem_status sm_device_free(int device, void *data, sm_stream stream)
{
    (void)device, (void)data, (void)stream;
    return no_gpu();
}

synced_mem_status sm_device_lane(int device, enum sm_lane lane, sm_stream *out)
{
    (void)device, (void)lane, (void)out;
    return no_gpu();
}

bool sm_device_is_lane(int device, sm_stream stream)
{
    (void)device, (void)stream;
    return false;
}

synced_mem_status sm_device_stream_sync(int device, sm_stream stream)
{
    (void)device, (void)stream;
    return no_gpu();
}

synced_mem_status sm_device_stream_wait(int device, sm_stream stream, sm_event event)
{
    (void)device, (void)stream, (void)event;
    return no_gpu();
}

synced_mem_status sm_device_copy_h2d(int device, void *to, const void *from, size_t size, sm_stream stream)
{
    (void)device, (void)to, (void)from, (void)size, (void)stream;
    return no_gpu();
}

synced_mem_status sm_device_copy_d2h(int device, void *to, const void *from, size_t size, sm_stream stream)
{
    (void)device, (void)to, (void)from, (void)size, (void)stream;
    return no_gpu();
}

synced_mem_status sm_device_zero(int device, void *data, size_t size, sm_stream stream)
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

synced_mem_status sm_device_event_record(int device, sm_event event, sm_stream stream)
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
