/* The effect of each call, by the one rule. */
#include "world.h"

#include "pattern.h"

#include <string.h>

struct world world;

void ref_begin(void)
{
    memset(&world, 0, sizeof world);
    for (int i = 0; i < OBJECTS; i++)
        world.objects[i].owner = &world.objects[i];
}

int device_for(const struct object *object)
{
    return get_device_of(object) >= 0 ? get_device_of(object) : world.current[world.thread];
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
    return machine.gpu && object->owner->placement != SYNCED_MEM_PLACEMENT_SEPARATE;
}

/* ---- Pointers ---- */

static void end_pointers(struct part *part)
{
    part->host_reads = part->host_writes = false;
    part->old = false;
    part->writer = NOBODY;
    part->readers = 0;
}

void ref_no_pointers(struct object *object)
{
    for
        EACH_PART(part, object)
        {
            end_pointers(part);
        }
}

/* ---- Finished work ---- */

/* Forgets all work on these streams. */
static void forget(struct object *object, stream_set streams)
{
    for
        EACH_PART(part, object)
        {
            for (int side = 0; side < SIDES; side++) {
                part->arriving[side] &= ~streams;
                part->leaving[side] &= ~streams;
            }
            part->filling &= ~streams;
            part->writing &= ~streams;
            part->reading &= ~streams;
            part->loose_writing &= ~streams;
            part->loose_reading &= ~streams;
        }
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
void ref_arrived(struct part *part, enum side side)
{
    part->arriving[side] = 0;
    part->leaving[!side] = 0;
}

void ref_waited(struct object *object)
{
    for
        EACH_PART(part, object)
        {
            ref_arrived(part, CPU);
            ref_arrived(part, GPU);
        }
}

/* ---- Access ---- */

enum work { NOTHING, ZERO, MOVE, LOAD };

static enum work find_work(const struct part *part, enum side side, enum mode mode)
{
    if (mode == OVERWRITE || (part->head & (1u << side)))
        return NOTHING;
    if (part->head == SYNCED_MEM_UNINITIALIZED)
        return part->in_file ? LOAD : ZERO;
    return MOVE;
}

size_t ref_moved_by_access(const struct object *object, enum side side, enum mode mode)
{
    size_t moved = 0;
    for
        EACH_PART(part, object)
        {
            const enum work work = find_work(part, side, mode);
            if (work == MOVE || (work == LOAD && side == GPU))
                moved += part_size(part);
        }
    return is_shared(object) ? 0 : moved;
}

void ref_renewed_by_access(struct object *object, enum side side, enum mode mode)
{
    bool writes = mode != READ;
    for
        EACH_PART(part, object)
        {
            writes |= find_work(part, side, mode) != NOTHING;
        }
    ref_renewed_by_call(object, side, writes);
}

void ref_obtain(struct object *owner, enum side side)
{
    if (owner->copy[side].origin == NONE)
        owner->copy[side].origin = OWN;
    if (is_shared(owner))
        owner->copy[!side].origin = OWN;
}

/* Sets the head by the table, and the contents by the promise of the access. */
static void step(struct object *owner, struct part *part, enum side side, enum mode mode)
{
    if (find_work(part, side, mode) == ZERO) {
        memset(owner->bytes + part->begin, 0, part_size(part));
        part->defined = true;
    }
    if (mode == OVERWRITE)
        part->defined = part_size(part) == 0;
    part->head = mode == READ ? part->head | (1u << side) : 1u << side;
    part->in_file &= mode == READ;
    ref_obtain(owner, side);
}

/* The library chooses whether its own memory is page-locked. Only transfers of page-locked memory stay in flight. */
bool ref_host_is_pageable(const struct object *owner)
{
    if (owner->copy[CPU].block && !owner->copy[CPU].block->shared)
        return owner->copy[CPU].block->kind == PAGEABLE_BLOCK && !owner->copy[CPU].locked;
    return !synced_mem_cpu_is_pinned(owner->mem);
}

static void end_kernels(struct part *part)
{
    part->writing = part->reading = part->loose_writing = part->loose_reading = 0;
}

static void access_on_host(struct object *owner, struct part *part, enum mode mode)
{
    if (find_work(part, CPU, mode) == MOVE) {
        part->writing = part->loose_writing = 0;
        ref_arrived(part, GPU);
    }
    ref_arrived(part, CPU);
    part->filling = 0;
    if (mode != READ)
        ref_arrived(part, GPU);
    if (mode != READ && is_shared(owner))
        end_kernels(part);
    step(owner, part, CPU, mode);
    part->host_reads = true;
    part->host_writes |= mode != READ;
    part->writer = NOBODY;
    if (mode != READ) {
        part->readers = 0;
        part->old = false;
    }
}

/* The host has waited for all that the access needs. The device's open write has ended. */
void ref_cpu(struct object *object, enum mode mode, void *data)
{
    for
        EACH_PART(part, object)
        {
            access_on_host(object->owner, part, mode);
        }
    object->owner->host = (unsigned char *)data - object->offset;
}

/* For an access without a stream the host has waited for work on pointers requested on streams. */
static void waited_for_device(struct part *part, enum mode mode)
{
    ref_arrived(part, GPU);
    part->writing = 0;
    if (mode != READ) {
        ref_arrived(part, CPU);
        part->reading = 0;
    }
}

static void queued_on(const struct object *owner, struct part *part, enum work work, int stream)
{
    if (work == NOTHING || (work == MOVE && is_shared(owner)))
        return;
    part->arriving[GPU] |= in_set(stream);
    if (work == MOVE && !ref_host_is_pageable(owner))
        part->leaving[CPU] |= in_set(stream);
}

/* A writer stays valid after a read of its own, and not after a read elsewhere. What it had to read before it wrote
 * stays valid to read. */
static void turn_to(struct part *part, enum mode mode, int domain)
{
    if (mode != READ) {
        part->host_reads = part->host_writes = false;
        part->writer = domain;
        part->readers &= in_set(domain);
        return;
    }
    part->host_reads &= !part->host_writes;
    part->host_writes = false;
    if (part->writer == domain)
        return;
    part->writer = NOBODY;
    part->readers |= in_set(domain);
}

static void access_on_device(struct object *owner, struct part *part, enum mode mode, int domain)
{
    const enum work work = find_work(part, GPU, mode);
    if (domain == NO_STREAM)
        waited_for_device(part, mode);
    if (domain == NO_STREAM && work == MOVE)
        part->filling = 0;
    if (domain != NO_STREAM)
        queued_on(owner, part, work, domain);
    step(owner, part, GPU, mode);
    if (domain == NO_STREAM)
        part->old = true;
    else if (mode != READ)
        part->old = false;
    turn_to(part, mode, domain);
}

void ref_gpu(struct object *object, enum mode mode, int domain, void *data)
{
    for
        EACH_PART(part, object)
        {
            access_on_device(object->owner, part, mode, domain);
        }
    object->owner->device_data = (unsigned char *)data - object->offset;
}

/* ---- Pushes and pulls ---- */

/* With copy threads, which may be there from before, a transfer staged to the host continues without the caller's
 * streams. Without staging the runtime moves pageable memory during the call, unless other objects have page-locked a
 * part of it: such a transfer is always staged, as are those of an object with views, and of others in its call. */
static stream_set pulled_on(const struct object *owner, const struct part *part, int stream, bool in_parts)
{
    if (is_shared(owner))
        return 0;
    if (!ref_host_is_pageable(owner))
        return in_set(stream);
    const bool staged = world.staged || in_parts || (owner->copy[CPU].block && owner->copy[CPU].block->shared);
    return staged && world.helped && part_size(part) > 0 ? in_set(LIBRARY) : 0;
}

size_t ref_moved_by_transfer(const struct object *object, bool push)
{
    size_t moved = 0;
    for
        EACH_PART(part, object)
        {
            if (part->head == (push ? SYNCED_MEM_AT_CPU : SYNCED_MEM_AT_GPU))
                moved += part_size(part);
        }
    moved += push ? ref_bytes_in_file_alone(object) : 0;
    return is_shared(object) ? 0 : moved;
}

/* Contents that a file alone has are read to the side, by threads or in the order of the stream. */
void ref_loaded(struct object *owner, struct part *part, enum side side, int stream)
{
    if (find_work(part, side, READ) != LOAD)
        return;
    step(owner, part, side, READ);
    part->arriving[side] |= in_set(stream);
}

/* The host copy is read if it is valid: pointers that write it end. */
static void written_to_file(struct object *owner, struct part *part)
{
    ref_loaded(owner, part, CPU, LIBRARY);
    part->leaving[part->head & SYNCED_MEM_AT_CPU ? CPU : GPU] |= in_set(LIBRARY);
    part->host_reads &= !part->host_writes;
    part->host_writes = false;
    part->writer = NOBODY;
}

void ref_written_to_file(struct object *object)
{
    for
        EACH_PART(part, object)
        {
            written_to_file(object->owner, part);
        }
}

void ref_stored(struct object *object)
{
    for
        EACH_PART(part, object)
        {
            if (part->in_file && part->stored)
                continue;
            if (object->size > 0)
                written_to_file(object->owner, part);
            part->in_file = part->stored = true;
        }
}

/* A push reads the host copy: pointers that write it end. */
void ref_push(struct object *object, int stream)
{
    ref_renewed_by_call(object, GPU, ref_any_at(object, SYNCED_MEM_AT_CPU));
    for
        EACH_PART(part, object)
        {
            if (part->head == SYNCED_MEM_AT_CPU) {
                queued_on(object->owner, part, MOVE, stream);
                step(object->owner, part, GPU, READ);
            } else if (find_work(part, GPU, READ) == LOAD) {
                queued_on(object->owner, part, LOAD, stream);
                step(object->owner, part, GPU, READ);
            }
            part->host_reads &= !part->host_writes;
            part->host_writes = false;
        }
}

void ref_pull(struct object *object, int stream, bool in_parts)
{
    ref_renewed_by_call(object, CPU, ref_any_at(object, SYNCED_MEM_AT_GPU));
    for
        EACH_PART(part, object)
        {
            if (part->head == SYNCED_MEM_AT_GPU) {
                step(object->owner, part, CPU, READ);
                part->arriving[CPU] |= pulled_on(object->owner, part, stream, in_parts);
                part->leaving[GPU] |= pulled_on(object->owner, part, stream, in_parts);
            } else {
                ref_loaded(object->owner, part, CPU, LIBRARY);
            }
            part->writer = NOBODY;
        }
}

/* ---- Streams ---- */

void ref_end_use_on(struct object *object, int stream)
{
    for
        EACH_PART(part, object)
        {
            if (part->writer == stream)
                part->writer = NOBODY;
            part->readers &= ~in_set(stream);
        }
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

static void move_all(struct part *part, int from, int to)
{
    for (int side = 0; side < SIDES; side++) {
        move(&part->arriving[side], from, to);
        move(&part->leaving[side], from, to);
    }
    move(&part->filling, from, to);
    move(&part->writing, from, to);
    move(&part->reading, from, to);
    if (part->loose_writer == from)
        part->loose_writer = NOBODY;
    part->loose_readers &= ~in_set(from);
}

void ref_stream_renewed(int stream)
{
    const int gone = GONE + device_of_stream(stream);
    ref_forget_stream(stream);
    for (int i = 0; i < OBJECTS; i++)
        for
            EACH_PART(part, &world.objects[i])
            {
                move_all(part, stream, gone);
            }
    for (int i = 0; i < BLOCKS; i++)
        move(&world.blocks[i].busy, stream, gone);
}
