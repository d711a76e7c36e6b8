/* Plays accesses and transfers. */
#include "world.h"

#include "gpu.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The target of a call. */
struct call {
    struct object *object;
    int stream; /* or HOST, NO_STREAM */
    synced_mem_stream handle;
    unsigned allowed;
};

/* The legacy stream has two names. */
static synced_mem_stream handle_of(const struct op *op, int stream)
{
    const bool named = stream % PLACES == LEGACY && (op->b & 1);
    return named ? (synced_mem_stream)1 /* cudaStreamLegacy */ : world.streams[stream];
}

/* Finds the object and the stream of a call on a stream. Returns false if there is no such stream. */
static bool call_on(const struct op *op, struct call *call)
{
    call->object = &world.objects[op->object];
    call->stream = call->object->mem ? resolve(call->object, op->stream) : -1;
    if (call->stream < 0)
        return false;
    call->handle = handle_of(op, call->stream);
    const bool elsewhere =
        get_device_of(call->object) >= 0 && device_of_stream(call->stream) != get_device_of(call->object);
    call->allowed = elsewhere ? 1u << SYNCED_MEM_ERR_INVALID_DEVICE : OK_ONLY;
    if (!machine.gpu)
        call->allowed = 1u << SYNCED_MEM_ERR_NO_GPU;
    return true;
}

/* ---- Accessors ---- */

/* Some accesses are made by tensors. Without bytes these have no pointer. */
static bool is_by_tensor(const struct op *op, const struct object *object)
{
    return object->size > 0 && (op->b >> 4) % 8 == 5;
}

/* Stores the pointer to the root, as for the root's own accesses. */
static void print_access(const struct op *op, const struct call *call)
{
    char minus[32] = "", stream[32] = "";
    if (!code_wanted)
        return;
    if (is_by_tensor(op, call->object))
        code_line("/* by the pointer of a tensor */");
    if (call->object->offset > 0)
        (void)snprintf(minus, sizeof minus, " - %zu", call->object->offset);
    if (call->stream != HOST && call->stream != NO_STREAM)
        (void)snprintf(stream, sizeof stream, ", stream[%d]", call->stream);
    code_line("%s[%td] = (char *)synced_mem_%s(mem[%d]%s)%s;", call->stream == HOST ? "host" : "device",
              call->object->owner - world.objects, op_name(op->code), op->object, stream, minus);
}

static const void *reads(const struct op *op, const struct call *call)
{
    synced_mem *const mem = call->object->mem;
    switch (op->code) {
    case OP_CPU_READ:
        return synced_mem_cpu_data(mem);
    case OP_GPU_READ:
        return synced_mem_gpu_data(mem);
    default:
        return synced_mem_gpu_data_on(mem, call->handle);
    }
}

static void *writes(const struct op *op, const struct call *call)
{
    synced_mem *const mem = call->object->mem;
    switch (op->code) {
    case OP_CPU_MUTABLE:
        return synced_mem_mutable_cpu_data(mem);
    case OP_CPU_OVERWRITE:
        return synced_mem_overwrite_cpu_data(mem);
    case OP_GPU_MUTABLE:
        return synced_mem_mutable_gpu_data(mem);
    case OP_GPU_OVERWRITE:
        return synced_mem_overwrite_gpu_data(mem);
    case OP_GPU_MUTABLE_ON:
        return synced_mem_mutable_gpu_data_on(mem, call->handle);
    default:
        return synced_mem_overwrite_gpu_data_on(mem, call->handle);
    }
}

/* A further access must return the same pointer as long as it is valid. The caller's memory has its own alignment. */
static void check_pointer(const struct object *object, enum side side, const void *data)
{
    const struct object *const owner = object->owner;
    const unsigned char *const begin = (const unsigned char *)data - object->offset;
    bool good = false;
    for
        EACH_PART(part, owner)
        {
            good |= side == CPU ? part->host_reads : part->writer != NOBODY || part->readers;
        }
    if (good && begin != (side == CPU ? owner->host : owner->device_data))
        fail("the pointer differs from an earlier one that is still valid");
    const size_t alignment = owner->alignment ? owner->alignment : 64;
    if (owner->copy[side].origin <= OWN && (uintptr_t)begin % alignment != 0)
        fail("the pointer %p is not aligned to %zu bytes", data, alignment);
}

/* In debug mode host memory that is to be overwritten is filled. */
static void check_filled(const struct object *object, const void *data)
{
    const char *const debug = getenv("SYNCED_MEM_DEBUG");
    for (size_t i = 0; debug && strcmp(debug, "1") == 0 && i < object->size; i++)
        if (((const unsigned char *)data)[i] != 0xff)
            fail("byte %zu of the memory to be overwritten is not filled", i);
}

/* The expected transfers are known in advance: the access moves contents only if it needs them and the side lacks them.
 * */
static void access_object(const struct op *op, const struct call *call, enum side side, enum mode mode)
{
    struct object *const object = call->object;
    const int device = call->stream < STREAMS ? device_of_stream(call->stream) : device_for(object);
    const size_t moved = ref_moved_by_access(object, side, mode);
    print_access(op, call);
    call_begins(object, op->code, call->stream);
    const void *const data = is_by_tensor(op, object) ? access_by_tensor(object, side, mode, call->stream, call->handle)
                             : mode == READ           ? reads(op, call)
                                                      : writes(op, call);
    const bool ok = answered(op_name(op->code), data ? SYNCED_MEM_OK : synced_mem_last_error(), call->allowed);
    call_moved(ref_most_transfers(object), ok && side == GPU ? moved : 0, ok && side == CPU ? moved : 0);
    if (ok) {
        ref_renewed_by_access(object, side, mode);
        check_pointer(object, side, data);
        if (side == GPU || is_shared(object))
            take_device(object, device, true);
        if (side == CPU)
            ref_cpu(object, mode, (void *)data);
        else
            ref_gpu(object, mode, call->stream, (void *)data);
        if (side == CPU && mode != OVERWRITE)
            check_contents(object, data, op_name(op->code));
        if (side == CPU && mode == OVERWRITE)
            check_filled(object, data);
    } else {
        call_failed(object, device);
    }
    check_facts(object);
}

bool play_access(const struct op *op)
{
    if (op->code < OP_CPU_READ || op->code > OP_GPU_OVERWRITE_ON)
        return false;
    const int which = op->code - OP_CPU_READ;
    struct call call = {.object = &world.objects[op->object], .stream = which < 3 ? HOST : NO_STREAM};
    if (which >= 6 ? !call_on(op, &call) : !call.object->mem)
        return false;
    if (which < 6)
        call.allowed = which < 3 || machine.gpu ? OK_ONLY : 1u << SYNCED_MEM_ERR_NO_GPU;
    access_object(op, &call, which < 3 ? CPU : GPU, (enum mode)(which % 3));
    return true;
}

/* ---- Transfers ---- */

/* A transfer needs contents on its source side, or on different sides. If the stream is wrong too, either error is
 * right. */
static unsigned transfer_allowed(const struct object *object, bool push, unsigned allowed)
{
    const unsigned head = ref_head(object);
    if (head == SYNCED_MEM_MIXED || (head == SYNCED_MEM_UNINITIALIZED && ref_is_in_file_alone(object)) ||
        (head & (push ? SYNCED_MEM_AT_CPU : SYNCED_MEM_AT_GPU)))
        return allowed;
    return (allowed & ~(unsigned)OK_ONLY) | 1u << SYNCED_MEM_ERR_INVALID_STATE;
}

/* A pull that moves nothing from a device needs none. */
static void transferred(struct object *object, bool push, int stream, bool in_parts)
{
    const unsigned head = ref_head(object);
    take_device(object, device_of_stream(stream), head != SYNCED_MEM_MIXED && (push || (head & SYNCED_MEM_AT_GPU)));
    if (push)
        ref_push(object, stream);
    else
        ref_pull(object, stream, in_parts);
}

/* Work queued behind a push on its stream sees the contents, even through the caller's own pointer. The access that
 * conflicts with such work has to be announced. */
static void read_pushed(const struct op *op, struct object *object, int stream)
{
    const struct block *const block = object->owner->copy[GPU].block;
    struct op access = *op;
    if (!(op->b & 4) || !block || !ref_is_defined(object) || ref_head(object) != SYNCED_MEM_SYNCED)
        return;
    code_line("gpu_expect(gpu + %zu, %zu, ..., stream[%d]); /* the memory that was handed in */", object->offset,
              object->size, stream);
    gpu_make_current(get_device_of(object));
    gpu_expect(block->data + object->offset, object->size, ref_bytes(object), world.streams[stream]);
    gpu_make_current(world.current[world.thread]);
    access.code = OP_GPU_READ_ON;
    (void)play_access(&access);
    ref_kernel(object, (struct range){0, object->size}, stream, false);
    shared->kernels++;
}

/* A push has read pageable memory when it returns, and a write to a file when the program has waited for it. Then the
 * caller may rewrite that memory, here for the time of a call of the runtime. */
static void rewrite_source(const struct op *op, const struct object *object, int stream)
{
    const struct block *const block = object->owner->copy[CPU].block;
    if (!(op->b & 8) || !block || block->kind != PAGEABLE_BLOCK || block->shared || block->read_only ||
        object->owner->copy[CPU].locked)
        return;
    if (!ref_is_defined(object) || getenv("SYNCED_MEM_DEBUG")) /* the memory is protected then */
        return;
    files_wait();
    code_line("/* the caller rewrites its pageable memory, and restores it */");
    memset(block->data + object->offset, 0xEE, object->size);
    (void)gpu_stream_is_idle(world.streams[stream]);
    memcpy(block->data + object->offset, ref_bytes(object), object->size);
}

static bool transfer_one(const struct op *op, bool push)
{
    struct call call;
    if (!call_on(op, &call))
        return false;
    struct object *const object = call.object;
    const size_t moved = ref_moved_by_transfer(object, push);
    const bool moves_all = moved > 0 && moved == object->size;
    const unsigned allowed = transfer_allowed(object, push, call.allowed);
    code_line("(void)synced_mem_%s(mem[%d], stream[%d]);", op_name(op->code), op->object, call.stream);
    call_begins(object, op->code, call.stream);
    const synced_mem_status status = push ? synced_mem_async_gpu_push(object->mem, call.handle)
                                          : synced_mem_async_cpu_pull(object->mem, call.handle);
    const bool ok = answered(op_name(op->code), status, allowed);
    call_moved(ref_most_transfers(object), ok && push ? moved : 0, ok && !push ? moved : 0);
    if (ok)
        transferred(object, push, call.stream, object->owner->divided);
    else
        call_failed(object, device_of_stream(call.stream));
    check_facts(object);
    if (ok && push && moves_all) {
        rewrite_source(op, object, call.stream);
        read_pushed(op, object, call.stream);
    }
    return true;
}

/* Lists the objects of a set in the order of the table, perhaps with the first one again at the end. */
static size_t objects_named(const struct op *op, struct object *objects[OBJECTS + 1])
{
    size_t count = 0;
    for (int i = 0; i < OBJECTS; i++)
        if ((op->a >> i & 1) && world.objects[i].mem)
            objects[count++] = &world.objects[i];
    if (count > 0 && (op->b & 2))
        objects[count++] = objects[0];
    return count;
}

/* Returns the stream of the call, or -1 if it is not the same for all objects. */
static int common_stream(const struct op *op, struct object *const *objects, size_t count)
{
    const int stream = count > 0 ? resolve(objects[0], op->stream) : -1;
    for (size_t i = 1; i < count; i++)
        if (resolve(objects[i], op->stream) != stream)
            return -1;
    return stream;
}

/* If there are several mistakes, any of their errors is right. The library decides the order of its checks. */
static unsigned all_allowed(struct object *const *objects, size_t count, bool push, int stream)
{
    unsigned allowed = OK_ONLY;
    for (size_t i = 0; i < count; i++) {
        const bool elsewhere = get_device_of(objects[i]) >= 0 && get_device_of(objects[i]) != device_of_stream(stream);
        const unsigned one =
            transfer_allowed(objects[i], push, elsewhere ? 1u << SYNCED_MEM_ERR_INVALID_DEVICE : OK_ONLY);
        allowed = one & OK_ONLY ? allowed : (allowed & ~(unsigned)OK_ONLY) | one;
    }
    return machine.gpu ? allowed : (allowed & ~(unsigned)OK_ONLY) | 1u << SYNCED_MEM_ERR_NO_GPU;
}

/* Plays the transfers in the reference, one after the other, so that bytes that are named twice are moved once. */
static size_t all_transferred(struct object *const *objects, size_t count, bool push, int stream)
{
    size_t moved = 0;
    bool in_parts = false;
    for (size_t i = 0; i < count; i++)
        in_parts = in_parts || objects[i]->owner->divided;
    for (size_t i = 0; i < count; i++) {
        moved += ref_moved_by_transfer(objects[i], push);
        transferred(objects[i], push, stream, in_parts);
    }
    return moved;
}

/* After a failure some transfers may have been made. */
static bool transfer_several(const struct op *op, bool push)
{
    struct object *objects[OBJECTS + 1];
    synced_mem *mems[OBJECTS + 1];
    const size_t count = objects_named(op, objects);
    const int stream = common_stream(op, objects, count);
    if (stream < 0)
        return false;
    int most = 0;
    for (size_t i = 0; i < count; i++) {
        mems[i] = objects[i]->mem;
        code_line("several[%zu] = mem[%td];", i, objects[i] - world.objects);
        most += ref_most_transfers(objects[i]);
    }
    code_line("(void)synced_mem_%s(several, %zu, stream[%d]);", op_name(op->code), count, stream);
    const unsigned allowed = all_allowed(objects, count, push, stream);
    for (size_t i = 1; i < count; i++)
        call_meets(objects[i], op->code, stream);
    call_begins(objects[0], op->code, stream);
    const synced_mem_stream handle = handle_of(op, stream);
    const unsigned batches = gpu_calls("cudaMemcpyBatchAsync");
    const unsigned lists = gpu_calls("cudaLaunchKernelExC");
    const synced_mem_status status =
        push ? synced_mem_async_gpu_push_n(mems, count, handle) : synced_mem_async_cpu_pull_n(mems, count, handle);
    const bool ok = answered(op_name(op->code), status, allowed);
    shared->batches += gpu_calls("cudaMemcpyBatchAsync") > batches;
    shared->lists += gpu_calls("cudaLaunchKernelExC") > lists;
    const size_t moved = ok ? all_transferred(objects, count, push, stream) : 0;
    if (ok)
        call_moved(most, push ? moved : 0, push ? 0 : moved);
    else
        call_ends(-1, -1);
    for (size_t i = 0; i < count; i++) {
        if (!ok)
            call_failed(objects[i], device_of_stream(stream));
        check_facts(objects[i]);
    }
    return true;
}

/* Accepts any result, as it depends on the runtime. Only a wait makes it certain. */
static void query(struct object *object, int index)
{
    int pending = -1;
    code_line("OK(synced_mem_query(mem[%d], &pending));", index);
    call_begins(object, OP_QUERY, HOST);
    if (answered("query", synced_mem_query(object->mem, &pending), OK_ONLY) && pending != 0 && pending != 1)
        fail("query returned %d", pending);
    call_ends(0, 0);
}

static void wait(struct object *object, int index)
{
    int pending = -1;
    code_line("OK(synced_mem_wait(mem[%d]));", index);
    call_begins(object, OP_WAIT, HOST);
    (void)answered("wait", synced_mem_wait(object->mem), OK_ONLY);
    call_ends(0, 0);
    ref_waited(object);
    (void)answered("query", synced_mem_query(object->mem, &pending), OK_ONLY);
    if (pending != 0)
        fail("work is pending after a wait");
}

bool play_transfer(const struct op *op)
{
    struct object *const object = &world.objects[op->object];
    switch (op->code) {
    case OP_PUSH:
    case OP_PULL:
        return transfer_one(op, op->code == OP_PUSH);
    case OP_PUSH_N:
    case OP_PULL_N:
        return transfer_several(op, op->code == OP_PUSH_N);
    case OP_QUERY:
        if (object->mem)
            query(object, op->object);
        return object->mem != NULL;
    case OP_WAIT:
        if (object->mem)
            wait(object, op->object);
        return object->mem != NULL;
    default:
        return false;
    }
}
