/* The effect of each call, by the one rule. */
#include "world.h"

#include "pattern.h"

#include <string.h>

struct world world;

int device_for(const struct object *object)
{
    return object->device >= 0 ? object->device : world.current[world.thread];
}

/* The legacy and the per-thread stream have no handle of their own. They belong to the object's device. */
int resolve(const struct object *object, int stream)
{
    const int place = stream % PLACES;
    if (place >= PER_THREAD)
        return machine.per_thread ? device_for(object) * PLACES + PER_THREAD + world.thread : -1;
    if (place == LEGACY)
        return device_for(object) * PLACES;
    return stream / PLACES < machine.devices ? stream : -1;
}

bool is_shared(const struct object *object)
{
    return machine.gpu && object->placement != SYNCED_MEM_PLACEMENT_SEPARATE;
}

/* ---- Pointers ---- */

void ref_no_pointers(struct object *object)
{
    object->host_reads = object->host_writes = false;
    object->old = NULL;
    object->writer = NOBODY;
    object->readers = 0;
}

/* Permits a stream that was given the pointer. For a pointer requested without a stream, permits a stream that the
 * library covers and that the caller's own order allows. */
bool ref_may_read(const struct object *object, int stream)
{
    if (stream < 0 || device_of_stream(stream) != object->device)
        return false;
    if (object->writer == stream || (object->readers & in_set(stream)))
        return true;
    const bool loose = object->writer == NO_STREAM || (object->readers & in_set(NO_STREAM));
    if (!loose || domain_of_stream(stream) == DOMAIN_NONBLOCKING)
        return false;
    return stream % PLACES == LEGACY || object->loose_writer == NOBODY || object->loose_writer == stream;
}

bool ref_may_write(const struct object *object, int stream)
{
    if (stream >= 0 && object->writer == stream)
        return true;
    if (object->writer != NO_STREAM || !ref_may_read(object, stream))
        return false;
    return stream % PLACES == LEGACY || !(object->loose_readers & ~in_set(stream));
}

/* ---- Finished work ---- */

/* Forgets all work on these streams. */
static void forget(struct object *object, stream_set streams)
{
    for (int side = 0; side < SIDES; side++) {
        object->copy[side].arriving &= ~streams;
        object->copy[side].reading &= ~streams;
        object->copy[side].filling &= ~streams;
    }
    object->writing &= ~streams;
    object->reading &= ~streams;
    object->loose_writing &= ~streams;
    object->loose_reading &= ~streams;
}

static void forget_everywhere(stream_set streams)
{
    for (int i = 0; i < OBJECTS; i++)
        if (world.objects[i].mem)
            forget(&world.objects[i], streams);
    for (int i = 0; i < BLOCKS; i++)
        world.blocks[i].busy &= ~streams;
}

void ref_stream_synced(int stream)
{
    forget_everywhere(in_set(stream));
}

void ref_device_synced(int device)
{
    forget_everywhere(((in_set(PLACES) - 1) << (device * PLACES)) | in_set(GONE + device));
}

/* A transfer that has arrived has also read the other copy. */
static void arrived(struct object *object, enum side side)
{
    object->copy[side].arriving = 0;
    object->copy[!side].reading = 0;
}

void ref_waited(struct object *object)
{
    arrived(object, CPU);
    arrived(object, GPU);
}

/* ---- Access ---- */

enum work ref_work(const struct object *object, enum side side, enum mode mode)
{
    if (mode == OVERWRITE || (object->head & (1u << side)))
        return NOTHING;
    return object->head == SYNCED_MEM_UNINITIALIZED ? ZERO : MOVE;
}

/* Gives the side memory of the object's own, if it has none. */
static void obtain(struct object *object, enum side side)
{
    if (object->copy[side].origin == NONE)
        object->copy[side].origin = OWN;
    if (is_shared(object))
        object->copy[!side].origin = OWN;
}

/* Sets the head by the table, and the contents by the promise of the access. */
static void step(struct object *object, enum side side, enum mode mode)
{
    if (ref_work(object, side, mode) == ZERO) {
        memset(object->bytes, 0, object->size);
        object->defined = true;
    }
    if (mode == OVERWRITE)
        object->defined = object->size == 0;
    object->head = mode == READ ? object->head | (1u << side) : 1u << side;
    obtain(object, side);
}

/* The library chooses whether its own memory is page-locked. Only transfers of page-locked memory stay in flight. */
static bool host_is_pageable(const struct object *object)
{
    if (object->copy[CPU].block && !object->copy[CPU].block->shared)
        return object->copy[CPU].block->kind == PAGEABLE_BLOCK && !object->copy[CPU].locked;
    return !synced_mem_cpu_is_pinned(object->mem);
}

/* The host has waited for all that the access needs. The device's open write has ended. */
void ref_cpu(struct object *object, enum mode mode, void *data)
{
    if (ref_work(object, CPU, mode) == MOVE) {
        object->writing = object->loose_writing = 0;
        arrived(object, GPU);
    }
    arrived(object, CPU);
    object->copy[CPU].filling = 0;
    if (mode != READ)
        arrived(object, GPU);
    if (mode != READ && is_shared(object))
        object->writing = object->reading = object->loose_writing = object->loose_reading = 0;
    step(object, CPU, mode);
    object->host = data;
    object->host_reads = true;
    object->host_writes |= mode != READ;
    object->writer = NOBODY;
    if (mode != READ) {
        object->readers = 0;
        object->old = NULL;
    }
}

/* For an access without a stream the host has waited for work on pointers requested on streams. */
static void waited_for_device(struct object *object, enum mode mode)
{
    arrived(object, GPU);
    object->writing = 0;
    if (mode != READ) {
        arrived(object, CPU);
        object->reading = 0;
    }
}

static void queued_on(struct object *object, enum work work, int stream)
{
    if (work == NOTHING || (work == MOVE && is_shared(object)))
        return;
    object->copy[GPU].arriving |= in_set(stream);
    if (work == MOVE && !host_is_pageable(object))
        object->copy[CPU].reading |= in_set(stream);
}

/* A writer stays valid after a read of its own, and not after a read elsewhere. */
static void turn_to(struct object *object, enum mode mode, int domain)
{
    if (mode != READ) {
        object->host_reads = object->host_writes = false;
        object->writer = domain;
        object->readers = 0;
        return;
    }
    object->host_reads &= !object->host_writes;
    object->host_writes = false;
    if (object->writer == domain)
        return;
    object->writer = NOBODY;
    object->readers |= in_set(domain);
}

void ref_gpu(struct object *object, enum mode mode, int domain, void *data)
{
    const enum work work = ref_work(object, GPU, mode);
    if (domain == NO_STREAM)
        waited_for_device(object, mode);
    if (domain == NO_STREAM && work == MOVE)
        object->copy[CPU].filling = 0;
    if (domain != NO_STREAM)
        queued_on(object, work, domain);
    step(object, GPU, mode);
    object->device_data = data;
    if (domain == NO_STREAM)
        object->old = data;
    else if (mode != READ)
        object->old = NULL;
    turn_to(object, mode, domain);
}

/* With copy threads, which may be there from before, a transfer staged to the host continues without the caller's
 * streams. Without staging the runtime moves pageable memory during the call, unless other objects have page-locked a
 * part of it: such a transfer is always staged. */
static stream_set pulled_on(const struct object *object, int stream)
{
    if (is_shared(object))
        return 0;
    if (!host_is_pageable(object))
        return in_set(stream);
    const bool staged = world.staged || (object->copy[CPU].block && object->copy[CPU].block->shared);
    return staged && world.helped && object->size > 0 ? in_set(LIBRARY) : 0;
}

/* A push reads the host copy: pointers that write it end. */
void ref_push(struct object *object, int stream)
{
    if (object->head == SYNCED_MEM_AT_CPU) {
        queued_on(object, MOVE, stream);
        step(object, GPU, READ);
    }
    object->host_reads &= !object->host_writes;
    object->host_writes = false;
}

void ref_pull(struct object *object, int stream)
{
    if (object->head == SYNCED_MEM_AT_GPU) {
        step(object, CPU, READ);
        object->copy[CPU].arriving |= pulled_on(object, stream);
        object->copy[GPU].reading |= pulled_on(object, stream);
    }
    object->writer = NOBODY;
}

/* ---- Copies ---- */

void ref_cleared(struct object *object)
{
    object->head = SYNCED_MEM_UNINITIALIZED;
    ref_no_pointers(object);
}

/* The next two functions return the sides of a copy by the place of the memory. */
enum side ref_copied_from(const struct object *from, enum side to)
{
    if (is_shared(from))
        return to == CPU || from->placement == SYNCED_MEM_PLACEMENT_MAPPED ? CPU : GPU;
    return from->head & (1u << to) ? to : !to;
}

enum side ref_copied_to(const struct object *to, enum side side)
{
    return side == GPU && is_shared(to) && to->placement == SYNCED_MEM_PLACEMENT_MAPPED ? CPU : side;
}

/* Plays the read of one object. On the writer's stream the write stays open. */
static void read_by_copy(struct object *from, enum side side, int stream)
{
    const bool on_host = ref_copied_from(from, side) == CPU;
    if (stream != HOST && (on_host || is_shared(from))) {
        from->host_reads &= !from->host_writes;
        from->host_writes = false;
    }
    if ((!on_host || is_shared(from)) && from->writer != stream)
        from->writer = NOBODY;
    if (stream == HOST)
        return;
    if (!on_host)
        from->copy[GPU].reading |= in_set(stream);
    else if (!host_is_pageable(from))
        from->copy[CPU].reading |= in_set(stream);
}

void ref_copied(struct object *to, struct object *from, enum side side, int stream)
{
    if (from->head == SYNCED_MEM_UNINITIALIZED) {
        ref_cleared(to);
        return;
    }
    read_by_copy(from, side, stream);
    if (stream != HOST)
        to->copy[GPU].arriving |= in_set(stream);
    to->head = 1u << side;
    obtain(to, side);
    ref_no_pointers(to);
    memcpy(to->bytes, from->bytes, from->size);
    to->defined = from->defined;
}

/* ---- Streams ---- */

void ref_end_use_on(struct object *object, int stream)
{
    if (object->writer == stream)
        object->writer = NOBODY;
    object->readers &= ~in_set(stream);
}

void ref_forget_stream(int stream)
{
    for (int i = 0; i < OBJECTS; i++)
        if (world.objects[i].mem)
            ref_end_use_on(&world.objects[i], stream);
}

/* The stream's work stays pending, but the stream can no longer be named. */
static void move(stream_set *set, int from, int to)
{
    if (*set & in_set(from))
        *set = (*set & ~in_set(from)) | in_set(to);
}

void ref_stream_renewed(int stream)
{
    const int gone = GONE + device_of_stream(stream);
    ref_forget_stream(stream);
    for (int i = 0; i < OBJECTS; i++) {
        struct object *const object = &world.objects[i];
        for (int side = 0; side < SIDES; side++) {
            move(&object->copy[side].arriving, stream, gone);
            move(&object->copy[side].reading, stream, gone);
            move(&object->copy[side].filling, stream, gone);
        }
        move(&object->writing, stream, gone);
        move(&object->reading, stream, gone);
        if (object->loose_writer == stream)
            object->loose_writer = NOBODY;
        object->loose_readers &= ~in_set(stream);
    }
    for (int i = 0; i < BLOCKS; i++)
        move(&world.blocks[i].busy, stream, gone);
}

/* ---- Memory ---- */

void ref_created(struct object *object, synced_mem *mem, size_t size)
{
    memset(object, 0, offsetof(struct object, bytes));
    object->mem = mem;
    object->references = 1;
    object->size = size;
    object->device = SYNCED_MEM_DEVICE_CURRENT;
    object->loose_writer = NOBODY;
    ref_no_pointers(object);
}

/* Borrowed memory is the caller's again at once, with the caller's own work on it. Adopted memory is so after its
 * callback, which may have come already. */
static void give_block_back(struct object *object, enum side side)
{
    struct copy *const copy = &object->copy[side];
    if (copy->block)
        sharers_release(copy->block);
    if (copy->origin == BORROWED) {
        block_check_unlocked(copy->block);
        const stream_set kernels = object->writing | object->reading | object->loose_writing | object->loose_reading;
        block_return(copy->block, side == GPU ? kernels : copy->filling);
    } else if (copy->origin == ADOPTED && copy->block->state == BLOCK_ADOPTED) {
        copy->block->state = BLOCK_LET_GO;
    }
}

/* Work in flight belongs to the memory, and goes with it. */
void ref_let_go(struct object *object, enum side side)
{
    give_block_back(object, side);
    object->copy[side] = (struct copy){.origin = NONE};
    if (side == GPU) {
        object->old = NULL;
        object->writing = object->reading = object->loose_writing = object->loose_reading = 0;
        object->loose_writer = NOBODY;
        object->loose_readers = 0;
    }
}

void ref_set(struct object *object, const bool sides[SIDES], struct block *const blocks[SIDES], bool adopted,
             unsigned pattern)
{
    object->head = 0;
    for (enum side side = CPU; side < SIDES; side++) {
        if (!sides[side])
            continue;
        ref_let_go(object, side);
        blocks[side]->state = adopted ? BLOCK_ADOPTED : BLOCK_BORROWED;
        object->copy[side] = (struct copy){.origin = adopted ? ADOPTED : BORROWED, .block = blocks[side]};
        object->head |= 1u << side;
    }
    ref_no_pointers(object);
    pattern_write(object->bytes, object->size, pattern);
    object->defined = true;
}

/* Copies without room are released. If such a copy still has the contents, they were moved to memory of the library's.
 * */
void ref_resized(struct object *object, size_t size, unsigned head, const size_t capacity[SIDES])
{
    for (enum side side = CPU; side < SIDES; side++)
        if (capacity[side] < size && object->copy[side].origin != NONE)
            ref_let_go(object, side);
    for (enum side side = CPU; side < SIDES; side++)
        if (head & (1u << side))
            obtain(object, side);
    if (size > object->size)
        memset(object->bytes + object->size, 0, size - object->size);
    object->size = size;
    object->head = head;
    ref_no_pointers(object);
}

void ref_discarded(struct object *object, size_t size, const size_t capacity[SIDES])
{
    for (enum side side = CPU; side < SIDES; side++)
        if (capacity[side] < size && object->copy[side].origin != NONE)
            ref_let_go(object, side);
    object->size = size;
    object->head = SYNCED_MEM_UNINITIALIZED;
    ref_no_pointers(object);
}

void ref_released(struct object *object, enum side side)
{
    const bool needed = object->head == 1u << side;
    if (needed) {
        obtain(object, !side);
        object->head = 1u << !side;
    } else {
        object->head &= ~(1u << side);
    }
    if (needed || (side == CPU && object->head && object->copy[CPU].origin != NONE))
        arrived(object, !side);
    if (!is_shared(object))
        ref_let_go(object, side);
    ref_no_pointers(object);
}

/* ---- Kernels ---- */

/* A kernel on the legacy stream comes after and before all work of blocking streams. */
void ref_kernel(struct object *object, int stream, bool writes)
{
    const bool loose = object->writer != stream && !(object->readers & in_set(stream));
    if (!loose) {
        *(writes ? &object->writing : &object->reading) |= in_set(stream);
        return;
    }
    *(writes ? &object->loose_writing : &object->loose_reading) |= in_set(stream);
    if (stream % PLACES == LEGACY) {
        object->loose_writer = NOBODY;
        object->loose_readers = 0;
    } else if (writes) {
        object->loose_writer = stream;
    } else {
        object->loose_readers |= in_set(stream);
    }
}

void ref_wrote(struct object *object, size_t offset, size_t size, unsigned pattern)
{
    pattern_write(object->bytes + offset, size, pattern);
    object->defined |= size == object->size;
}

/* ---- Work in flight ---- */

/* Returns the transfers at the copy that the access is about, or at both. */
static stream_set transfers(const struct object *object, enum access access, bool arriving)
{
    const stream_set host =
        arriving ? object->copy[CPU].arriving | object->copy[CPU].filling : object->copy[CPU].reading;
    const stream_set device = arriving ? object->copy[GPU].arriving : object->copy[GPU].reading;
    switch (access) {
    case CELL_CPU_READ:
    case CELL_CPU_MUTABLE:
    case CELL_CPU_OVERWRITE:
    case CELL_SET_CPU:
    case CELL_RELEASE_CPU:
    case CELL_CPU_COPY:
        return host;
    case CELL_GPU_READ:
    case CELL_GPU_MUTABLE:
    case CELL_GPU_OVERWRITE:
    case CELL_SET_GPU:
    case CELL_RELEASE_GPU:
    case CELL_END_USE_ON:
    case CELL_COPY:
        return device;
    case CELL_PUSH:
    case CELL_PULL:
    case CELL_SET_BOTH:
    case CELL_RELEASE_DATA:
    case CELL_RESIZE:
    case CELL_DISCARD:
    case CELL_DESTROY:
    case CELL_COPY_OUT:
    case CELL_CPU_COPY_OUT:
    case CELL_CLEAR:
    case CELL_ACCESSES:
        break;
    }
    return host | device;
}

/* `here` means the stream of the call. For a call without a stream it means pointers requested without one. */
static bool kernel(stream_set asked, stream_set loose, int stream, bool here)
{
    const stream_set same = stream == HOST ? 0 : stream == NO_STREAM ? loose : (asked | loose) & in_set(stream);
    const stream_set all = asked | loose;
    return here ? same != 0 : stream == NO_STREAM ? asked != 0 : (all & ~same) != 0;
}

bool in_flight(const struct object *object, enum access access, int stream, enum flight flight)
{
    switch (flight) {
    case IDLE:
        return !(transfers(object, CELL_DESTROY, true) | transfers(object, CELL_DESTROY, false) | object->writing |
                 object->reading | object->loose_writing | object->loose_reading);
    case ARRIVING:
        return transfers(object, access, true) != 0;
    case READING:
        return transfers(object, access, false) != 0;
    case WRITES_HERE:
    case WRITES_ELSEWHERE:
        return kernel(object->writing, object->loose_writing, stream, flight == WRITES_HERE);
    case READS_HERE:
    case READS_ELSEWHERE:
    case FLIGHTS:
        break;
    }
    return kernel(object->reading, object->loose_reading, stream, flight == READS_HERE);
}
