/* The seam without a GPU runtime: there are no devices, and whatever needs one fails with ERR_NO_GPU. */
#include "device/device.h"

#include "base/status.h"

static synced_mem_status fail_without_gpu(void)
{
    return sm_fail(SYNCED_MEM_ERR_NO_GPU, "no GPU: this library was built without CUDA");
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
    return fail_without_gpu();
}

unsigned sm_device_losses(void)
{
    return 0;
}

void sm_device_stay(int device)
{
    (void)device;
}

synced_mem_status sm_device_query_pointer(int device, const void *data, struct sm_pointer_facts *facts)
{
    (void)device, (void)data, (void)facts;
    return fail_without_gpu();
}

synced_mem_status sm_device_shutdown(void)
{
    return SYNCED_MEM_OK;
}

synced_mem_status sm_device_info(int wanted, synced_mem_device_info *info)
{
    (void)wanted, (void)info;
    return fail_without_gpu();
}

synced_mem_status sm_device_memory_info(int device, size_t *free, size_t *total)
{
    (void)device, (void)free, (void)total;
    return fail_without_gpu();
}

synced_mem_status sm_device_pci_id(int device, char id[SM_PCI_ID_BYTES])
{
    (void)device, (void)id;
    return fail_without_gpu();
}

synced_mem_status sm_device_host_register(int device, void *data, size_t size, bool read_only, size_t *locked)
{
    (void)device, (void)data, (void)size, (void)read_only;
    *locked = 0;
    return fail_without_gpu();
}

synced_mem_status sm_device_host_unregister(int device, void *data, size_t size, size_t *locked)
{
    (void)device, (void)data, (void)size, (void)locked;
    return fail_without_gpu();
}

synced_mem_status sm_device_alloc(int device, size_t size, synced_mem_stream stream, void **out)
{
    (void)device, (void)size, (void)stream, (void)out;
    return fail_without_gpu();
}

synced_mem_status sm_device_free(int device, void *data, synced_mem_stream stream)
{
    (void)device, (void)data, (void)stream;
    return fail_without_gpu();
}

bool sm_device_frees_in_order(int device)
{
    (void)device;
    return false;
}

synced_mem_status sm_device_pool_set_threshold(int device, uint64_t bytes)
{
    (void)device, (void)bytes;
    return fail_without_gpu();
}

synced_mem_status sm_device_pool_set_reuse(int device, unsigned policies)
{
    (void)device, (void)policies;
    return fail_without_gpu();
}

synced_mem_status sm_device_pool_allow_peer(int device, int peer, bool allow)
{
    (void)device, (void)peer, (void)allow;
    return fail_without_gpu();
}

void sm_device_pool_reach(int device, int peer)
{
    (void)device, (void)peer;
}

void sm_device_pool_warm_beside(bool beside)
{
    (void)beside;
}

synced_mem_status sm_device_pool_trim(int device, size_t keep)
{
    (void)device, (void)keep;
    return fail_without_gpu();
}

synced_mem_status sm_device_pool_reset_peaks(int device)
{
    (void)device;
    return fail_without_gpu();
}

synced_mem_status sm_device_pool_numbers(int device, struct sm_pool_numbers *numbers)
{
    (void)device, (void)numbers;
    return fail_without_gpu();
}

synced_mem_status sm_device_unified_facts(int device, struct sm_unified_facts *facts)
{
    (void)device, (void)facts;
    return fail_without_gpu();
}

synced_mem_status sm_device_check_mapped(int device, void *data)
{
    (void)device, (void)data;
    return fail_without_gpu();
}

synced_mem_status sm_device_managed_alloc(int device, size_t size, void **out)
{
    (void)device, (void)size, (void)out;
    return fail_without_gpu();
}

synced_mem_status sm_device_managed_free(int device, void *data)
{
    (void)device, (void)data;
    return fail_without_gpu();
}

synced_mem_status sm_device_managed_prefetch(int device, const void *data, size_t size, bool host,
                                             synced_mem_stream stream)
{
    (void)device, (void)data, (void)size, (void)host, (void)stream;
    return fail_without_gpu();
}

synced_mem_status sm_device_managed_advise(int device, const void *data, size_t size)
{
    (void)device, (void)data, (void)size;
    return fail_without_gpu();
}

synced_mem_status sm_device_uuid(int device, unsigned char uuid[SM_DEVICE_UUID_BYTES])
{
    (void)device, (void)uuid;
    return fail_without_gpu();
}

synced_mem_status sm_device_share(int device, size_t size, size_t alignment, struct sm_device_shareable *out)
{
    (void)device, (void)size, (void)alignment, (void)out;
    return fail_without_gpu();
}

synced_mem_status sm_device_import(int device, int file, size_t bytes, size_t alignment, void **out)
{
    (void)device, (void)file, (void)bytes, (void)alignment, (void)out;
    return fail_without_gpu();
}

synced_mem_status sm_device_unmap(int device, void *data, size_t bytes)
{
    (void)device, (void)data, (void)bytes;
    return fail_without_gpu();
}

synced_mem_status sm_device_stream_create(int device, synced_mem_stream *out)
{
    (void)device, (void)out;
    return fail_without_gpu();
}

synced_mem_status sm_device_stream_destroy(int device, synced_mem_stream stream)
{
    (void)device, (void)stream;
    return fail_without_gpu();
}

synced_mem_status sm_device_stream_query_capture(int device, synced_mem_stream stream, struct sm_stream_facts *facts)
{
    (void)device, (void)stream, (void)facts;
    return fail_without_gpu();
}

synced_mem_status sm_device_of_stream(synced_mem_stream stream, int likely, int *device)
{
    (void)stream, (void)likely, (void)device;
    return fail_without_gpu();
}

synced_mem_status sm_device_stream_sync(int device, synced_mem_stream stream)
{
    (void)device, (void)stream;
    return fail_without_gpu();
}

synced_mem_status sm_device_stream_wait(int device, synced_mem_stream stream, sm_event event)
{
    (void)device, (void)stream, (void)event;
    return fail_without_gpu();
}

synced_mem_status sm_device_stream_query(int device, synced_mem_stream stream, bool *done)
{
    (void)device, (void)stream, (void)done;
    return fail_without_gpu();
}

synced_mem_status sm_device_copy_h2d(int device, void *to, const void *from, size_t size, synced_mem_stream stream)
{
    (void)device, (void)to, (void)from, (void)size, (void)stream;
    return fail_without_gpu();
}

synced_mem_status sm_device_copy_d2h(int device, void *to, const void *from, size_t size, synced_mem_stream stream)
{
    (void)device, (void)to, (void)from, (void)size, (void)stream;
    return fail_without_gpu();
}

synced_mem_status sm_device_copy_d2d(int device, void *to, const void *from, size_t size, synced_mem_stream stream)
{
    (void)device, (void)to, (void)from, (void)size, (void)stream;
    return fail_without_gpu();
}

synced_mem_status sm_device_copy_any(int device, void *to, const void *from, size_t size, synced_mem_stream stream)
{
    (void)device, (void)to, (void)from, (void)size, (void)stream;
    return fail_without_gpu();
}

synced_mem_status sm_device_copy_peer(int device, void *to, int to_device, const void *from, int from_device,
                                      size_t size, synced_mem_stream stream)
{
    (void)device, (void)to, (void)to_device, (void)from, (void)from_device, (void)size, (void)stream;
    return fail_without_gpu();
}

synced_mem_status sm_device_fill(int device, void *data, unsigned char value, size_t size, synced_mem_stream stream)
{
    (void)device, (void)data, (void)value, (void)size, (void)stream;
    return fail_without_gpu();
}

bool sm_device_has_batches(synced_mem_stream stream)
{
    (void)stream;
    return false;
}

bool sm_device_batch_takes(const void *host, size_t size, bool to_device)
{
    (void)host, (void)size, (void)to_device;
    return false;
}

synced_mem_status sm_device_copy_batch(int device, void *const *to, const void *const *from, const size_t *sizes,
                                       size_t count, bool to_device, synced_mem_stream stream)
{
    (void)device, (void)to, (void)from, (void)sizes, (void)count, (void)to_device, (void)stream;
    return fail_without_gpu();
}

unsigned sm_device_list_processors(int device)
{
    (void)device;
    return 0;
}

void sm_device_await_lists(void)
{
}

void sm_device_keep_lists(void)
{
}

synced_mem_status sm_device_run_probe(int device, unsigned number, synced_mem_stream stream)
{
    (void)device, (void)number, (void)stream;
    return fail_without_gpu();
}

unsigned sm_device_probed(int device)
{
    (void)device;
    return 0;
}

synced_mem_status sm_device_run_list(int device, const struct sm_list_job *job, unsigned blocks,
                                     synced_mem_stream stream)
{
    (void)device, (void)job, (void)blocks, (void)stream;
    return fail_without_gpu();
}

synced_mem_status sm_device_event_create(int device, sm_event *out)
{
    (void)device, (void)out;
    return fail_without_gpu();
}

synced_mem_status sm_device_event_destroy(int device, sm_event event)
{
    (void)device, (void)event;
    return fail_without_gpu();
}

synced_mem_status sm_device_event_record(int device, sm_event event, synced_mem_stream stream)
{
    (void)device, (void)event, (void)stream;
    return fail_without_gpu();
}

synced_mem_status sm_device_event_sync(int device, sm_event event)
{
    (void)device, (void)event;
    return fail_without_gpu();
}

synced_mem_status sm_device_event_query(int device, sm_event event, bool *done)
{
    (void)device, (void)event, (void)done;
    return fail_without_gpu();
}

synced_mem_status sm_device_timing_create(int device, sm_event *out)
{
    (void)device, (void)out;
    return fail_without_gpu();
}

synced_mem_status sm_device_elapsed(int device, sm_event from, sm_event to, uint64_t *nanoseconds)
{
    (void)device, (void)from, (void)to, (void)nanoseconds;
    return fail_without_gpu();
}

void sm_device_set_namer(bool (*name)(const void *address, char *name, size_t room))
{
    (void)name;
}
