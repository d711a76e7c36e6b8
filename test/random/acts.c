/* Plays operations on streams, and the caller's uses of valid pointers. */
#include "world.h"

#include "gpu.h"
#include "pattern.h"

#include <string.h>

/* ---- Streams ---- */

/* Returns the table's stream, independent of the object. The per-thread stream is that of the playing thread. */
static int raw_stream(const struct op *op)
{
    if (op->stream / PLACES >= machine.devices)
        return -1;
    if (op->stream % PLACES < PER_THREAD)
        return op->stream;
    return machine.per_thread ? op->stream - op->stream % PLACES + PER_THREAD + op->thread : -1;
}

static bool is_created(int stream)
{
    return stream % PLACES >= BLOCKING && stream % PLACES < PER_THREAD;
}

/* A stream of another device has no use of the object. The call may then succeed or fail. */
static bool end_use_on(const struct op *op)
{
    struct object *const object = &world.objects[op->object];
    const int stream = object->mem ? resolve(object, op->stream) : -1;
    if (stream < 0)
        return false;
    const bool elsewhere = get_device_of(object) >= 0 && get_device_of(object) != device_of_stream(stream);
    const unsigned allowed = !machine.gpu ? OK_ONLY | 1u << SYNCED_MEM_ERR_NO_GPU
                             : elsewhere  ? OK_ONLY | 1u << SYNCED_MEM_ERR_INVALID_DEVICE
                                          : OK_ONLY;
    code_line("(void)synced_mem_end_use_on(mem[%d], stream[%d]);", op->object, stream);
    call_begins(object, op->code, stream);
    const bool ok = answered("end_use_on", synced_mem_end_use_on(object->mem, world.streams[stream]), allowed);
    call_ends(0, 0);
    if (ok && !elsewhere) {
        take_device(object, device_of_stream(stream), false);
        ref_end_use_on(object, stream);
    }
    check_facts(object);
    return true;
}

/* The caller must finish kernels on pointers requested without a stream before it destroys the kernels' stream. */
static bool loose_work_on(int stream)
{
    for (int i = 0; i < OBJECTS; i++)
        for
            EACH_PART(part, &world.objects[i])
            {
                if ((part->loose_writing | part->loose_reading) & in_set(stream))
                    return true;
            }
    return false;
}

static void call_forget_stream(const struct op *op, int stream)
{
    code_line("OK(synced_mem_forget_stream(stream[%d]));", stream);
    call_begins(NULL, op->code, stream);
    (void)answered("forget_stream", synced_mem_forget_stream(world.streams[stream]), OK_ONLY);
    call_ends(0, 0);
    ref_forget_stream(stream);
}

/* The runtime may give the new stream the handle of the old one, whose work continues. */
static bool renew_stream(const struct op *op)
{
    const int stream = raw_stream(op);
    if (stream < 0 || !is_created(stream))
        return false;
    if (loose_work_on(stream)) {
        gpu_stream_sync(world.streams[stream]);
        ref_stream_synced(stream);
    }
    call_forget_stream(op, stream);
    code_line("gpu_stream_destroy(stream[%d]);", stream);
    code_line("stream[%d] = gpu_stream_create(%d, %s);", stream, stream / PLACES,
              stream % PLACES < NONBLOCKING ? "true" : "false");
    gpu_stream_destroy(world.streams[stream]);
    ref_stream_renewed(stream);
    world.streams[stream] = gpu_stream_create(stream / PLACES, stream % PLACES < NONBLOCKING);
    return true;
}

bool play_stream(const struct op *op)
{
    const int stream = raw_stream(op);
    switch (op->code) {
    case OP_END_USE_ON:
        return end_use_on(op);
    case OP_FORGET_STREAM:
        if (stream >= 0 && is_created(stream))
            call_forget_stream(op, stream);
        return stream >= 0 && is_created(stream);
    case OP_RENEW_STREAM:
        return renew_stream(op);
    default:
        return false;
    }
}

/* ---- The host ---- */

static int owner_of(const struct object *object)
{
    return (int)(object->owner - world.objects);
}

/* 0 is the whole range. */
static struct range range_of(const struct object *object, uint32_t choice)
{
    if (choice == 0 || object->size == 0)
        return (struct range){0, object->size};
    const size_t offset = choice % object->size;
    return (struct range){offset, 1 + (choice >> 8) % (object->size - offset)};
}

/* Undefined contents stay undefined if only a part is written. */
static bool host_write(const struct op *op, struct object *object)
{
    struct range range = range_of(object, op->b);
    const unsigned pattern = op->a % 250 + 1;
    if (!ref_permits(object, HOST_WRITES, HOST, &range))
        return false;
    unsigned char *const data = object->owner->host + object->offset + range.offset;
    code_line("host_fill((char *)host[%d] + %zu, %zu, %u);", owner_of(object), object->offset + range.offset,
              range.size, pattern);
    gpu_note_host_write(data, range.size);
    ref_wrote(object, range, pattern);
    memcpy(data, ref_bytes(object) + range.offset, range.size);
    return true;
}

static bool host_read(const struct op *op, const struct object *object)
{
    struct range range = range_of(object, op->b);
    if (!ref_permits(object, HOST_READS, HOST, &range))
        return false;
    code_line("/* the host reads host[%d] + %zu, %zu */", owner_of(object), object->offset + range.offset, range.size);
    const unsigned char *const data = object->owner->host + object->offset + range.offset;
    gpu_note_host_read(data, range.size);
    if (memcmp(data, ref_bytes(object) + range.offset, range.size) != 0)
        fail("a host pointer that is still valid has other contents");
    return true;
}

/* ---- Kernels ---- */

/* Restores the thread's device. Kernels are launched with their memory's device current, as that selects the legacy and
 * per-thread streams. */
static void leave_device(void)
{
    gpu_make_current(world.current[world.thread]);
}

static bool kernel_write(const struct op *op, struct object *object, int stream)
{
    struct range range = range_of(object, op->b);
    const unsigned pattern = op->a % 250 + 1;
    if (!ref_permits(object, STREAM_WRITES, stream, &range))
        return false;
    const size_t offset = object->offset + range.offset;
    code_line("gpu_fill((char *)device[%d] + %zu, %zu, %u, stream[%d]);", owner_of(object), offset, range.size, pattern,
              stream);
    gpu_make_current(get_device_of(object));
    gpu_fill(object->owner->device_data + offset, range.size, pattern, world.streams[stream]);
    leave_device();
    ref_kernel(object, range, stream, true);
    ref_wrote(object, range, pattern);
    return true;
}

/* Undefined contents are not compared. */
static bool kernel_read(const struct op *op, struct object *object, int stream)
{
    struct range range = range_of(object, op->b);
    if (!ref_permits(object, STREAM_READS, stream, &range))
        return false;
    const size_t offset = object->offset + range.offset;
    code_line("gpu_expect((char *)device[%d] + %zu, %zu, ..., stream[%d]);", owner_of(object), offset, range.size,
              stream);
    gpu_make_current(get_device_of(object));
    gpu_expect(object->owner->device_data + offset, range.size, object->owner->bytes + offset, world.streams[stream]);
    leave_device();
    ref_kernel(object, range, stream, false);
    return true;
}

/* All earlier uses of such a pointer are on the legacy stream, or ordered before it. */
void late_kernel(const struct object *owner)
{
    if (owner->copy[GPU].origin != OWN)
        return;
    for
        EACH_PART(part, owner)
        {
            if (!part->old || !part->defined || part_size(part) == 0)
                continue;
            code_line("gpu_expect((char *)device[%d] + %zu, %zu, ..., NULL); /* through an earlier pointer */",
                      owner_of(owner), part->begin, part_size(part));
            gpu_make_current(get_device_of(owner));
            gpu_expect(owner->device_data + part->begin, part_size(part), owner->bytes + part->begin, NULL);
            leave_device();
            shared->kernels++;
        }
}

/* Orders two objects with each other on one stream. */
static bool kernel_copy(const struct op *op, struct object *object, int stream)
{
    struct object *const from = &world.objects[op->a % OBJECTS];
    struct range read = {0, from->size}, written;
    if (from == object || !from->mem || ref_overlap(from, object) || !ref_permits(from, STREAM_READS, stream, &read))
        return false;
    written = (struct range){0, read.size < object->size ? read.size : object->size};
    if (!ref_permits(object, STREAM_WRITES, stream, &written))
        return false;
    read.size = written.size;
    code_line("gpu_copy((char *)device[%d] + %zu, (char *)device[%d] + %zu, %zu, stream[%d]);", owner_of(object),
              object->offset + written.offset, owner_of(from), from->offset + read.offset, written.size, stream);
    gpu_make_current(get_device_of(object));
    gpu_copy(object->owner->device_data + object->offset + written.offset,
             from->owner->device_data + from->offset + read.offset, written.size, world.streams[stream]);
    leave_device();
    ref_kernel(object, written, stream, true);
    ref_kernel(from, read, stream, false);
    memcpy(ref_bytes(object) + written.offset, ref_bytes(from) + read.offset, written.size);
    ref_defined(object, written);
    return true;
}

static bool on_stream(const struct op *op)
{
    const int stream = raw_stream(op);
    if (stream < 0)
        return false;
    gpu_make_current(device_of_stream(stream));
    if (op->code == OP_DELAY) {
        code_line("gpu_pause(stream[%d]);", stream);
        gpu_pause(world.streams[stream]);
    } else {
        code_line("gpu_stream_sync(stream[%d]);", stream);
        gpu_stream_sync(world.streams[stream]);
        ref_stream_synced(stream);
    }
    leave_device();
    return true;
}

static bool kernel(const struct op *op)
{
    struct object *const object = &world.objects[op->object];
    const int stream = object->mem ? resolve(object, op->stream) : -1;
    if (stream < 0)
        return false;
    const bool done = op->code == OP_KERNEL_WRITE  ? kernel_write(op, object, stream)
                      : op->code == OP_KERNEL_READ ? kernel_read(op, object, stream)
                                                   : kernel_copy(op, object, stream);
    shared->kernels += done;
    return done;
}

static bool set_device(const struct op *op)
{
    const int device = (int)(op->a % (unsigned)machine.devices);
    code_line("gpu_make_current(%d);", device);
    gpu_make_current(device);
    world.current[op->thread] = device;
    return true;
}

bool play_act(const struct op *op)
{
    struct object *const object = &world.objects[op->object];
    if (op->code == OP_HOST_WRITE)
        return object->mem && host_write(op, object);
    if (op->code == OP_HOST_READ)
        return object->mem && host_read(op, object);
    if (!machine.gpu || op_is_call(op->code))
        return false;
    if (op->code >= OP_KERNEL_WRITE && op->code <= OP_KERNEL_COPY)
        return kernel(op);
    return op->code == OP_SET_DEVICE ? set_device(op) : on_stream(op);
}
