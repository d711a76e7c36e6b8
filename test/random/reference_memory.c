/* The effect of calls on memory and size, of copies between objects, and of kernels, by the one rule. */
#include "world.h"

#include "pattern.h"

#include <string.h>

/* ---- Objects ---- */

void ref_created(struct object *object, synced_mem *mem, size_t size)
{
    memset(object, 0, offsetof(struct object, bytes));
    object->mem = mem;
    object->references = 1;
    object->size = size;
    object->owner = object;
    object->device = SYNCED_MEM_DEVICE_CURRENT;
    object->parts = 1;
    object->part[0].end = size;
    object->part[0].loose_writer = NOBODY;
    ref_no_pointers(object);
}

/* ---- Memory ---- */

static stream_set kernels_of(const struct part *part)
{
    return part->writing | part->reading | part->loose_writing | part->loose_reading;
}

/* Borrowed memory is the caller's again at once, with the caller's own work on it. Adopted memory is so after its
 * callback, which may have come already. */
static void give_block_back(struct object *owner, enum side side)
{
    struct copy *const copy = &owner->copy[side];
    stream_set busy = 0;
    for
        EACH_PART(part, owner)
        {
            busy |= side == GPU ? kernels_of(part) : part->filling;
        }
    if (copy->block)
        sharers_release(copy->block);
    if (copy->origin == BORROWED) {
        block_check_unlocked(copy->block);
        block_return(copy->block, busy);
    } else if (copy->origin == ADOPTED && copy->block->state == BLOCK_ADOPTED) {
        copy->block->state = BLOCK_LET_GO;
    }
}

static void forget_side(struct part *part, enum side side)
{
    part->arriving[side] = part->leaving[side] = 0;
    if (side == CPU) {
        part->filling = 0;
        return;
    }
    part->old = false;
    part->writing = part->reading = part->loose_writing = part->loose_reading = 0;
    part->loose_writer = NOBODY;
    part->loose_readers = 0;
}

/* Work in flight belongs to the memory, and goes with it. */
void ref_let_go(struct object *owner, enum side side)
{
    give_block_back(owner, side);
    owner->copy[side] = (struct copy){.origin = NONE};
    for
        EACH_PART(part, owner)
        {
            forget_side(part, side);
        }
}

static void end_pointers_of(struct part *part, enum side side)
{
    if (side == CPU) {
        part->host_reads = part->host_writes = false;
        return;
    }
    part->writer = NOBODY;
    part->readers = 0;
}

void ref_renewed(struct object *owner, enum side side)
{
    if (!owner->copy[side].read_only)
        return;
    ref_let_go(owner, side);
    owner->copy[side].origin = OWN;
    for
        EACH_PART(part, owner)
        {
            end_pointers_of(part, side);
        }
}

void ref_renewed_by_call(struct object *object, enum side side, bool writes)
{
    if (writes)
        ref_renewed(object->owner, side);
}

static void put_head(struct object *owner, unsigned head)
{
    for
        EACH_PART(part, owner)
        {
            part->head = head;
            part->in_file = false;
        }
    ref_no_pointers(owner);
}

void ref_set(struct object *owner, const bool sides[SIDES], struct block *const blocks[SIDES], bool adopted,
             unsigned pattern)
{
    unsigned head = 0;
    for (enum side side = CPU; side < SIDES; side++) {
        if (!sides[side])
            continue;
        ref_let_go(owner, side);
        blocks[side]->state = adopted ? BLOCK_ADOPTED : BLOCK_BORROWED;
        owner->copy[side] = (struct copy){.origin = adopted ? ADOPTED : BORROWED, .block = blocks[side]};
        head |= 1u << side;
    }
    put_head(owner, head);
    ref_wrote(owner, (struct range){0, owner->size}, pattern);
}

/* A new size makes one part of all. The contents are known if they were so everywhere. */
static void make_one_part(struct object *object, size_t size)
{
    struct part *const all = &object->part[0];
    for
        EACH_PART(part, object)
        {
            all->defined &= part->defined;
            for (int side = 0; side < SIDES; side++) {
                all->arriving[side] |= part->arriving[side];
                all->leaving[side] |= part->leaving[side];
            }
            all->filling |= part->filling;
            all->writing |= part->writing;
            all->reading |= part->reading;
            all->loose_writing |= part->loose_writing;
            all->loose_reading |= part->loose_reading;
            all->loose_readers |= part->loose_readers;
            if (part->loose_writer != NOBODY)
                all->loose_writer = part->loose_writer;
        }
    object->parts = 1;
    object->size = all->end = size;
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
            ref_obtain(object, side);
    if (size > object->size)
        memset(object->bytes + object->size, 0, size - object->size);
    for
        EACH_PART(part, object)
        {
            if (head && !part->head && !part->in_file) {
                memset(object->bytes + part->begin, 0, part_size(part));
                part->defined = true;
            }
        }
    make_one_part(object, size);
    put_head(object, head);
}

void ref_discarded(struct object *object, size_t size, const size_t capacity[SIDES])
{
    for (enum side side = CPU; side < SIDES; side++)
        if (capacity[side] < size && object->copy[side].origin != NONE)
            ref_let_go(object, side);
    make_one_part(object, size);
    put_head(object, SYNCED_MEM_UNINITIALIZED);
}

size_t ref_moved_by_release(const struct object *object, enum side side)
{
    size_t moved = 0;
    for
        EACH_PART(part, object)
        {
            if (part->head == 1u << side && !part->in_file)
                moved += part_size(part);
        }
    return is_shared(object) ? 0 : moved;
}

bool ref_is_needed(const struct object *object, enum side side)
{
    for
        EACH_PART(part, object)
        {
            if (part->head == 1u << side && !part->in_file)
                return true;
        }
    return false;
}

/* Host contents that still arrive from a push, or alone are valid, have arrived on the device. */
void ref_released(struct object *owner, enum side side)
{
    ref_renewed_by_call(owner, !side, ref_is_needed(owner, side));
    for
        EACH_PART(part, owner)
        {
            const bool needed = part->head == 1u << side && !part->in_file;
            if (needed)
                ref_obtain(owner, !side);
            if (needed || (side == CPU && part->head && owner->copy[CPU].origin != NONE))
                ref_arrived(part, !side);
            part->head = needed ? 1u << !side : part->head & ~(1u << side);
        }
    if (!is_shared(owner))
        ref_let_go(owner, side);
    ref_no_pointers(owner);
}

/* ---- Copies ---- */

void ref_cleared(struct object *object)
{
    put_head(object, SYNCED_MEM_UNINITIALIZED);
}

void ref_memory_released(struct object *object)
{
    for
        EACH_PART(part, object)
        {
            part->head = SYNCED_MEM_UNINITIALIZED;
        }
    ref_no_pointers(object);
}

void ref_uses_file(struct object *object, const unsigned char *bytes)
{
    ref_cleared(object);
    memcpy(ref_bytes(object), bytes, object->size);
    for
        EACH_PART(part, object)
        {
            part->in_file = part->defined = true;
            part->stored = false;
        }
}

/* The next two functions return the sides of a copy by the place of the memory. */
static enum side copied_from(const struct object *from, const struct part *part, enum side to)
{
    if (is_shared(from))
        return to == CPU || from->owner->placement == SYNCED_MEM_PLACEMENT_MAPPED ? CPU : GPU;
    return part->head & (1u << to) ? to : !to;
}

static enum side copied_to(const struct object *to, enum side side)
{
    return side == GPU && is_shared(to) && to->owner->placement == SYNCED_MEM_PLACEMENT_MAPPED ? CPU : side;
}

void ref_moved_by_copy(const struct object *to, const struct object *from, enum side side, size_t moved[SIDES])
{
    const enum side target = copied_to(to, side);
    for
        EACH_PART(part, from)
        {
            const bool is_loaded = !part->head && part->in_file; /* to the side of the call first */
            const enum side source = is_loaded ? side : copied_from(from, part, side);
            if ((part->head || is_loaded) && source != target)
                moved[target] += part_size(part);
        }
}

/* Plays the read of one part. On the writer's stream the write stays open. */
static void read_by_copy(struct object *from, struct part *part, enum side side, int stream)
{
    const bool on_host = copied_from(from, part, side) == CPU;
    if (stream != HOST && (on_host || is_shared(from))) {
        part->host_reads &= !part->host_writes;
        part->host_writes = false;
    }
    if ((!on_host || is_shared(from)) && part->writer != stream)
        part->writer = NOBODY;
    if (stream == HOST)
        return;
    if (!on_host)
        part->leaving[GPU] |= in_set(stream);
    else if (!ref_host_is_pageable(from->owner))
        part->leaving[CPU] |= in_set(stream);
}

static void copy_part(struct object *to, struct object *from, struct part *source, enum side side, int stream)
{
    const size_t offset = source->begin - from->offset;
    read_by_copy(from, source, side, stream);
    memcpy(ref_bytes(to) + offset, from->owner->bytes + source->begin, part_size(source));
    for
        EACH_PART(part, to)
        {
            const size_t begin = part->begin - to->offset;
            if (begin < offset || begin >= offset + part_size(source))
                continue;
            if (stream != HOST)
                part->arriving[GPU] |= in_set(stream);
            part->head = 1u << side;
            part->defined = source->defined;
        }
    ref_obtain(to->owner, side);
}

/* Cuts both objects where either has a border. */
static void cut_alike(struct object *to, struct object *from)
{
    size_t borders[2 * MOST_PARTS];
    int count = 0;
    for
        EACH_PART(part, from)
        {
            borders[count++] = part->begin - from->offset;
        }
    for
        EACH_PART(part, to)
        {
            borders[count++] = part->begin - to->offset;
        }
    for (int i = 0; i < count; i++) {
        ref_cut(to, borders[i]);
        ref_cut(from, borders[i]);
    }
}

void ref_copied(struct object *to, struct object *from, enum side side, int stream)
{
    cut_alike(to, from);
    for
        EACH_PART(part, from)
        {
            ref_loaded(from->owner, part, side, stream == HOST ? LIBRARY : stream);
        }
    ref_renewed_by_call(to, side, ref_head(from) != SYNCED_MEM_UNINITIALIZED);
    ref_cleared(to);
    for
        EACH_PART(part, from)
        {
            if (part->head)
                copy_part(to, from, part, side, stream);
        }
    if (to->size == 0 && from->part->head)
        to->part->head = 1u << side;
}

/* ---- Kernels ---- */

static bool touches(const struct object *object, const struct part *part, struct range range)
{
    const size_t from = object->offset + range.offset;
    return part->begin < from + range.size && part->end > from;
}

/* A kernel on the legacy stream comes after and before all work of blocking streams. */
static void run_kernel(struct part *part, int stream, bool writes)
{
    const bool loose = part->writer != stream && !(part->readers & in_set(stream));
    if (!loose) {
        *(writes ? &part->writing : &part->reading) |= in_set(stream);
        return;
    }
    *(writes ? &part->loose_writing : &part->loose_reading) |= in_set(stream);
    if (stream % PLACES == LEGACY) {
        part->loose_writer = NOBODY;
        part->loose_readers = 0;
    } else if (writes) {
        part->loose_writer = stream;
    } else {
        part->loose_readers |= in_set(stream);
    }
}

void ref_kernel(struct object *object, struct range range, int stream, bool writes)
{
    for
        EACH_PART(part, object)
        {
            if (touches(object, part, range))
                run_kernel(part, stream, writes);
        }
}

void ref_defined(struct object *object, struct range range)
{
    const size_t from = object->offset + range.offset;
    for
        EACH_PART(part, object)
        {
            part->defined |= part->begin >= from && part->end <= from + range.size;
        }
}

void ref_wrote(struct object *object, struct range range, unsigned pattern)
{
    pattern_write(ref_bytes(object) + range.offset, range.size, pattern);
    ref_defined(object, range);
}
