/* The public functions of files, in the header's order. */
#include "synced_mem.h"

#include "api/argument.h"
#include "api/environment.h"
#include "base/status.h"
#include "object/evict.h"
#include "object/use_file.h"
#include "object/write_file.h"

static synced_mem_status check_file(const synced_mem_file *file)
{
    return file ? SYNCED_MEM_OK : sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the file is NULL");
}

static synced_mem_status open_file(synced_mem_file **out, int fd)
{
    if (!out)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "out is NULL");
    *out = NULL;
    return sm_file_open(fd, out);
}

synced_mem_status synced_mem_file_open(synced_mem_file **out, int fd)
{
    sm_read_environment();
    return sm_report(open_file(out, fd), __func__, NULL);
}

synced_mem_status synced_mem_file_retain(synced_mem_file *file)
{
    const synced_mem_status status = check_file(file);
    if (status == SYNCED_MEM_OK)
        sm_file_hold(file);
    return status == SYNCED_MEM_OK ? SYNCED_MEM_OK : sm_report(status, __func__, NULL);
}

synced_mem_status synced_mem_file_release(synced_mem_file *file)
{
    if (file)
        sm_file_drop(file);
    return SYNCED_MEM_OK;
}

static synced_mem_status check_and_use(synced_mem *mem, synced_mem_file *file, uint64_t offset)
{
    if (!mem)
        return sm_no_object();
    SM_TRY(check_file(file));
    const synced_mem_status status = sm_use_file(mem, file, offset);
    if (mem->extras)
        sm_evictable_refresh(mem);
    return status;
}

synced_mem_status synced_mem_use_file(synced_mem *mem, synced_mem_file *file, uint64_t offset)
{
    return SM_DO(check_and_use(mem, file, offset), mem);
}

int synced_mem_in_file(const synced_mem *mem)
{
    if (!mem)
        (void)SM_REPORT(sm_no_object(), mem);
    return mem && sm_is_object_in_file((synced_mem *)(uintptr_t)mem);
}

static synced_mem_status check_write(const struct sm_write_call *call)
{
    SM_TRY(check_file(call->file));
    if ((!call->mems || !call->offsets) && call->count > 0)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "%s is NULL", call->mems ? "offsets" : "mems");
    for (size_t i = 0; i < call->count; i++)
        if (!call->mems[i])
            return call->count == 1
                       ? sm_no_object()
                       : sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "mems[%zu] of %zu objects is NULL", i, call->count);
    return SYNCED_MEM_OK;
}

static synced_mem_status write_objects(const struct sm_write_call *call, const char *function)
{
    struct synced_mem *failed = NULL;
    sm_caller_begin(function, call->count == 1 && call->mems ? call->mems[0] : NULL);
    synced_mem_status status = check_write(call);
    if (status == SYNCED_MEM_OK)
        status = sm_write_files(call, &failed);
    return sm_report(status, function, status != SYNCED_MEM_OK && failed ? sm_object_name(failed) : NULL);
}

synced_mem_status synced_mem_async_write_file(synced_mem *mem, synced_mem_file *file, uint64_t offset,
                                              synced_mem_stream stream)
{
    const struct sm_write_call call = {.mems = &mem, .offsets = &offset, .count = 1, .file = file, .handle = stream};
    return write_objects(&call, __func__);
}

synced_mem_status synced_mem_async_write_file_n(synced_mem *const *mems, synced_mem_file *file, const uint64_t *offsets,
                                                size_t count, synced_mem_stream stream)
{
    const struct sm_write_call call = {
        .mems = mems, .offsets = offsets, .count = count, .file = file, .handle = stream};
    return write_objects(&call, __func__);
}

/* Files that are about to have the contents of evictable objects let those go. */
static synced_mem_status store_objects(const struct sm_write_call *call, const char *function)
{
    const synced_mem_status status = write_objects(call, function);
    for (size_t i = 0; i < call->count && status == SYNCED_MEM_OK; i++)
        if (call->mems[i]->extras)
            sm_evictable_refresh(call->mems[i]);
    return status;
}

synced_mem_status synced_mem_async_store_in_file(synced_mem *mem, synced_mem_file *file, uint64_t offset,
                                                 synced_mem_stream stream)
{
    const struct sm_write_call call = {
        .mems = &mem, .offsets = &offset, .count = 1, .file = file, .handle = stream, .stores = true};
    return store_objects(&call, __func__);
}

synced_mem_status synced_mem_async_store_in_file_n(synced_mem *const *mems, synced_mem_file *file,
                                                   const uint64_t *offsets, size_t count, synced_mem_stream stream)
{
    const struct sm_write_call call = {
        .mems = mems, .offsets = offsets, .count = count, .file = file, .handle = stream, .stores = true};
    return store_objects(&call, __func__);
}

synced_mem_status synced_mem_file_wait(synced_mem_file *file)
{
    const synced_mem_status status = check_file(file);
    return sm_report(status == SYNCED_MEM_OK ? sm_file_wait(file) : status, __func__, NULL);
}
