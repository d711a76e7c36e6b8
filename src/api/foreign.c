/* The public functions that hand in memory of the caller's, in the header's order. */
#include "api/argument.h"
#include "copy/inflight.h"
#include "copy/pin.h"
#include "object/storage.h"

static synced_mem_status check_foreign(const synced_mem *mem, const void *data, const char *what)
{
    if (!mem)
        return sm_no_object();
    if (!data)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the %s is NULL", what);
    if (mem->extras && mem->extras->asked && (uintptr_t)data % mem->extras->asked != 0)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the %s %p is not aligned to %zu bytes as the options asked",
                       what, data, mem->extras->asked);
    return SYNCED_MEM_OK;
}

/* What the caller hands in. */
struct foreign {
    void *cpu; /* NULL: not that side */
    void *gpu;
    bool locked; /* on request, for as long as the object borrows it */
    bool adopted;
    synced_mem_release_callback callback;
    void *user;
    bool ordered; /* its contents are ready in the order of the stream */
    synced_mem_stream stream;
};

static synced_mem_status check_pointers(const synced_mem *mem, const struct foreign *foreign, bool cpu, bool gpu)
{
    synced_mem_status status = SYNCED_MEM_OK;
    if (foreign->adopted && !foreign->callback)
        status = sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the callback is NULL");
    if (status == SYNCED_MEM_OK && cpu)
        status = check_foreign(mem, foreign->cpu, "host memory");
    if (status == SYNCED_MEM_OK && gpu)
        status = check_foreign(mem, foreign->gpu, "device memory");
    if (status == SYNCED_MEM_OK && cpu && gpu && foreign->cpu == foreign->gpu)
        status = sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "%p can't be both copies", foreign->cpu);
    return status;
}

/* Nothing of CUDA's is started by handing in host memory; what is not looked at now is before its first transfer. */
static synced_mem_status look_at(const synced_mem *mem, const struct foreign *foreign, struct sm_copy *copy)
{
    synced_mem_status status = SYNCED_MEM_OK;
    if (foreign->locked)
        return sm_pin(copy, sm_device(mem));
    if (foreign->gpu || foreign->ordered || sm_device_in_use())
        status = sm_pin_query(copy, sm_device(mem));
    if (status == SYNCED_MEM_OK)
        sm_pin_share(copy);
    return status;
}

static synced_mem_status wrap_cpu(const synced_mem *mem, const struct foreign *foreign, struct sm_copy **out)
{
    synced_mem_status status = sm_copy_wrap(foreign->cpu, sm_size(mem), -1, foreign->callback, foreign->user, out);
    return status == SYNCED_MEM_OK ? look_at(mem, foreign, *out) : status;
}

/* What fills device memory is the caller's work: without a stream, as if it had been given out to be written. */
static synced_mem_status wrap_gpu(const synced_mem *mem, const struct foreign *foreign, struct sm_copy **out)
{
    struct sm_pointer_facts facts;
    synced_mem_status status = sm_device_look_at(sm_device(mem), foreign->gpu, &facts);
    if (status != SYNCED_MEM_OK)
        return status;
    if (facts.kind != SM_POINTER_DEVICE && facts.kind != SM_POINTER_MANAGED)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "%p is memory of the host, not of a device", foreign->gpu);
    status = sm_copy_wrap(foreign->gpu, sm_size(mem), facts.device, foreign->callback, foreign->user, out);
    if (status == SYNCED_MEM_OK && !foreign->ordered)
        sm_inflight_given(*out, NULL, sm_stream_any(facts.device), true);
    return status;
}

static synced_mem_status put(synced_mem *mem, const struct foreign *foreign, bool with_cpu, bool with_gpu)
{
    struct sm_copy *cpu = NULL;
    struct sm_copy *gpu = NULL;
    synced_mem_status status = check_pointers(mem, foreign, with_cpu, with_gpu);
    if (status == SYNCED_MEM_OK && with_cpu)
        status = wrap_cpu(mem, foreign, &cpu);
    if (status == SYNCED_MEM_OK && with_gpu)
        status = wrap_gpu(mem, foreign, &gpu);
    if (status == SYNCED_MEM_OK)
        status = foreign->ordered ? sm_replace_on(mem, cpu, gpu, foreign->stream) : sm_replace(mem, cpu, gpu);
    if (status != SYNCED_MEM_OK) {
        sm_copy_unwrap(cpu);
        sm_copy_unwrap(gpu);
    }
    return status;
}

static synced_mem_status put_cpu(synced_mem *mem, struct foreign foreign, const char *function)
{
    sm_caller_begin(function, mem);
    return sm_report(put(mem, &foreign, true, false), function, mem ? synced_mem_name(mem) : NULL);
}

static synced_mem_status put_gpu(synced_mem *mem, struct foreign foreign, const char *function)
{
    sm_caller_begin(function, mem);
    return sm_report(put(mem, &foreign, false, true), function, mem ? synced_mem_name(mem) : NULL);
}

static synced_mem_status put_both(synced_mem *mem, struct foreign foreign, const char *function)
{
    sm_caller_begin(function, mem);
    return sm_report(put(mem, &foreign, true, true), function, mem ? synced_mem_name(mem) : NULL);
}

synced_mem_status synced_mem_set_cpu_data(synced_mem *mem, void *data)
{
    return put_cpu(mem, (struct foreign){.cpu = data}, __func__);
}

synced_mem_status synced_mem_register_cpu_data(synced_mem *mem, void *data)
{
    return put_cpu(mem, (struct foreign){.cpu = data, .locked = true}, __func__);
}

synced_mem_status synced_mem_set_gpu_data(synced_mem *mem, void *data)
{
    return put_gpu(mem, (struct foreign){.gpu = data}, __func__);
}

synced_mem_status synced_mem_set_data(synced_mem *mem, void *cpu_data, void *gpu_data)
{
    return put_both(mem, (struct foreign){.cpu = cpu_data, .gpu = gpu_data}, __func__);
}

#define ADOPTED .adopted = true, .callback = callback, .user = user
#define ORDERED .ordered = true, .stream = stream

synced_mem_status synced_mem_adopt_cpu_data(synced_mem *mem, void *data, synced_mem_release_callback callback,
                                            void *user)
{
    return put_cpu(mem, (struct foreign){.cpu = data, ADOPTED}, __func__);
}

synced_mem_status synced_mem_adopt_gpu_data(synced_mem *mem, void *data, synced_mem_release_callback callback,
                                            void *user)
{
    return put_gpu(mem, (struct foreign){.gpu = data, ADOPTED}, __func__);
}

synced_mem_status synced_mem_adopt_data(synced_mem *mem, void *cpu_data, void *gpu_data,
                                        synced_mem_release_callback callback, void *user)
{
    return put_both(mem, (struct foreign){.cpu = cpu_data, .gpu = gpu_data, ADOPTED}, __func__);
}

synced_mem_status synced_mem_set_cpu_data_on(synced_mem *mem, void *data, synced_mem_stream stream)
{
    return put_cpu(mem, (struct foreign){.cpu = data, ORDERED}, __func__);
}

synced_mem_status synced_mem_set_gpu_data_on(synced_mem *mem, void *data, synced_mem_stream stream)
{
    return put_gpu(mem, (struct foreign){.gpu = data, ORDERED}, __func__);
}

synced_mem_status synced_mem_set_data_on(synced_mem *mem, void *cpu_data, void *gpu_data, synced_mem_stream stream)
{
    return put_both(mem, (struct foreign){.cpu = cpu_data, .gpu = gpu_data, ORDERED}, __func__);
}

synced_mem_status synced_mem_adopt_cpu_data_on(synced_mem *mem, void *data, synced_mem_release_callback callback,
                                               void *user, synced_mem_stream stream)
{
    return put_cpu(mem, (struct foreign){.cpu = data, ADOPTED, ORDERED}, __func__);
}

synced_mem_status synced_mem_adopt_gpu_data_on(synced_mem *mem, void *data, synced_mem_release_callback callback,
                                               void *user, synced_mem_stream stream)
{
    return put_gpu(mem, (struct foreign){.gpu = data, ADOPTED, ORDERED}, __func__);
}

synced_mem_status synced_mem_adopt_data_on(synced_mem *mem, void *cpu_data, void *gpu_data,
                                           synced_mem_release_callback callback, void *user, synced_mem_stream stream)
{
    return put_both(mem, (struct foreign){.cpu = cpu_data, .gpu = gpu_data, ADOPTED, ORDERED}, __func__);
}

#undef ADOPTED
#undef ORDERED
