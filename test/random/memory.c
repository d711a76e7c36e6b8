/* The caller's own memory, and the calls that hand it in. */
#include "world.h"

#include "gpu.h"
#include "pattern.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { POISON = 0xA5, PAGE = 4096 };

/* ---- Blocks ---- */

static void block_make(struct block *block, int i)
{
    const int kind = i < SMALL_BLOCKS ? i / BLOCKS_OF_A_KIND : PAGEABLE_BLOCK;
    *block = (struct block){.size = i < SMALL_BLOCKS ? BLOCK_SIZE : (MAX_SIZE + PAGE - 1) / PAGE * PAGE,
                            .kind = kind < DEVICE_BLOCK ? (enum block_kind)kind : DEVICE_BLOCK,
                            .device = kind < DEVICE_BLOCK ? -1 : kind - DEVICE_BLOCK};
    if (block->kind == PAGEABLE_BLOCK)
        block->base = aligned_alloc(PAGE, block->size);
    else if (block->kind == PINNED_BLOCK)
        block->base = machine.gpu ? gpu_pinned_alloc(BLOCK_SIZE + PAGE) : NULL;
    else
        block->base = block->device < machine.devices ? gpu_alloc(block->device, BLOCK_SIZE + PAGE) : NULL;
    if (block->base)
        block->data = (unsigned char *)(((uintptr_t)block->base + PAGE - 1) / PAGE * PAGE);
    if (block->data && block->kind != DEVICE_BLOCK)
        block_poison(block);
}

void blocks_make(void)
{
    for (int i = 0; i < BLOCKS; i++)
        block_make(&world.blocks[i], i);
}

void blocks_unmake(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        struct block *const block = &world.blocks[i];
        if (block->state != BLOCK_FREE)
            fail("memory was never given back");
        block_check_unlocked(block);
        if (block->kind == PAGEABLE_BLOCK)
            free(block->base);
        else if (block->data && block->kind == PINNED_BLOCK)
            gpu_pinned_free(block->base);
        else if (block->data)
            gpu_free(block->base);
    }
}

void block_poison(struct block *block)
{
    gpu_note_host_write(block->data, block->size);
    memset(block->data, POISON, block->size);
    block->poisoned = true;
}

/* Checks that the memory was not written between its return and its next use. */
static void check_poison(struct block *block)
{
    if (!block->poisoned)
        return;
    gpu_note_host_read(block->data, block->size);
    if (block->data[0] != POISON || memcmp(block->data, block->data + 1, block->size - 1) != 0)
        fail("memory was written after it had been given back");
    block->poisoned = false;
}

/* The runtime would refuse to page-lock memory that is still page-locked. */
void block_check_unlocked(struct block *block)
{
    if (!block->locked)
        return;
    (void)synced_mem_reap(); /* a callback may have released the last object that used it */
    gpu_register(block->data, block->size);
    gpu_unregister(block->data);
    block->locked = false;
}

void block_permit_writes(const struct block *block, bool permit)
{
    if (block->kind == PAGEABLE_BLOCK && mprotect(block->data, block->size, PROT_READ | (permit ? PROT_WRITE : 0)) != 0)
        fail("the memory's protection could not be changed");
}

void block_return(struct block *block, stream_set busy)
{
    sharers_release(block);
    if (block->read_only)
        block_permit_writes(block, true);
    block->read_only = false;
    block->state = BLOCK_FREE;
    block->busy = busy;
    block->used = ++world.time;
    if (block->kind != DEVICE_BLOCK && busy == 0)
        block_poison(block);
}

/* Returns the streams whose work is ordered before new work on this one. */
static stream_set ordered_before(int stream)
{
    if (stream >= STREAMS)
        return 0;
    const int first = stream - stream % PLACES;
    switch (domain_of_stream(stream)) {
    case DOMAIN_LEGACY:
        return in_set(first) | in_set(first + BLOCKING) | in_set(first + BLOCKING + 1) |
               (in_set(first + PLACES) - in_set(first + PER_THREAD));
    case DOMAIN_BLOCKING:
    case DOMAIN_PER_THREAD:
        return in_set(stream) | in_set(first);
    case DOMAIN_HOST:
    case DOMAIN_NO_STREAM:
    case DOMAIN_NONBLOCKING:
    case DOMAINS:
        break;
    }
    return in_set(stream);
}

/* Returns the block that was given back last, where a wrong access of the library is likeliest. Large blocks are for
 * large objects only. */
static struct block *find_free(enum block_kind kind, int device, int stream, size_t size)
{
    struct block *found = NULL;
    for (int i = 0; i < BLOCKS; i++) {
        struct block *const block = &world.blocks[i];
        if (block->kind != kind || block->state != BLOCK_FREE || !block->data || block->device != device)
            continue;
        if ((block->size > BLOCK_SIZE) != (size > BLOCK_SIZE))
            continue;
        if (!(block->busy & ~ordered_before(stream)) && (!found || block->used > found->used))
            found = block;
    }
    return found;
}

struct block *block_take(enum block_kind kind, int device, int stream, size_t size)
{
    const int where = kind == DEVICE_BLOCK ? device : -1;
    struct block *found = find_free(kind, where, stream, size);
    for (int i = 0; !found && i < machine.devices; i++) {
        gpu_sync_device(i);
        ref_device_synced(i);
        found = find_free(kind, where, stream, size);
    }
    if (found)
        check_poison(found);
    if (found)
        block_check_unlocked(found);
    if (found)
        found->shared = false;
    return found;
}

/* With NULL, all use of the memory is over. Otherwise it is ordered before the stream. A stream that is not the test's
 * is internal to the library, and is waited for. */
void block_callback(void *data, void *user, synced_mem_stream stream)
{
    struct block *const block = user;
    stream_set busy = 0;
    if (block->data != data)
        fail("the callback got memory that differs from the adopted memory");
    if (block->state != BLOCK_LET_GO && !(block->state == BLOCK_ADOPTED && (block->going || block->read_only)))
        fail("the callback came for memory that is not released");
    for (int i = 0; stream && i < machine.devices * PLACES; i++)
        if (world.streams[i] == stream && i / PLACES == block->device && i % PLACES < PER_THREAD)
            busy |= in_set(i);
    if (stream && !busy)
        gpu_stream_sync(stream);
    block_return(block, busy);
}

/* ---- Handing in memory ---- */

struct handing {
    const struct op *op;
    struct object *object;
    bool sides[SIDES];
    bool adopt;
    bool lock;
    bool read_only;
    int stream; /* NO_STREAM, or the call's stream */
    unsigned pattern;
    struct block *blocks[SIDES];
    stream_set filling; /* of the host side */
};

/* Returns the stream whose work fills the device side. A call without a stream permits only blocking streams. */
static int filler(const struct handing *handing, int device)
{
    if (handing->stream != NO_STREAM)
        return handing->stream;
    return device * PLACES + (handing->op->b & 2 ? BLOCKING : LEGACY);
}

static void fill_device_side(struct handing *handing, int device)
{
    const int stream = filler(handing, device);
    const size_t size = handing->object->size;
    struct block *const block = block_take(DEVICE_BLOCK, device, size > 0 ? stream : HOST, size);
    handing->blocks[GPU] = block;
    if (!block || size == 0)
        return;
    gpu_make_current(device_of_stream(stream));
    gpu_fill(block->data, size, handing->pattern, world.streams[stream]);
    gpu_make_current(world.current[world.thread]);
    block->busy |= in_set(stream);
    shared->kernels++;
}

static bool is_page_locked(const struct handing *handing)
{
    return machine.gpu && (handing->op->a & 1) && handing->object->size <= BLOCK_SIZE;
}

/* Page-locked memory that is handed in on a stream is filled in the stream's order, perhaps after the call. */
static void fill_host_side(struct handing *handing)
{
    const bool pinned = is_page_locked(handing);
    const bool late = pinned && handing->stream != NO_STREAM && handing->object->size > 0;
    const enum block_kind kind = pinned ? PINNED_BLOCK : PAGEABLE_BLOCK;
    struct block *const block = block_take(kind, -1, late ? handing->stream : HOST, handing->object->size);
    handing->blocks[CPU] = block;
    if (!block)
        return;
    if (late) {
        gpu_make_current(device_of_stream(handing->stream));
        gpu_fill_host(block->data, handing->object->size, handing->pattern, world.streams[handing->stream]);
        gpu_make_current(world.current[world.thread]);
        handing->filling = in_set(handing->stream);
        block->busy |= handing->filling;
    } else {
        gpu_note_host_write(block->data, handing->object->size);
        pattern_write(block->data, handing->object->size, handing->pattern);
    }
}

/* Device memory that is filled on a stream has the stream's device. Otherwise it is rarely another device's. */
static int device_of_memory(const struct handing *handing)
{
    const int own = handing->stream == NO_STREAM ? device_for(handing->object) : device_of_stream(handing->stream);
    const bool other = handing->stream == NO_STREAM && (handing->op->a >> 1) % 16 == 15;
    return other ? (own + 1) % machine.devices : own;
}

/* Memory, stream and object must be of one device. Views, and objects whose sides share memory, refuse the
 * caller's. */
static unsigned handing_allowed(const struct handing *handing)
{
    const struct object *const object = handing->object;
    const int device = handing->sides[GPU]            ? handing->blocks[GPU]->device
                       : handing->stream != NO_STREAM ? device_of_stream(handing->stream)
                                                      : get_device_of(object);
    const bool elsewhere = get_device_of(object) >= 0 && device != get_device_of(object);
    if (object->root || object->placement != SYNCED_MEM_PLACEMENT_SEPARATE)
        return 1u << SYNCED_MEM_ERR_INVALID_STATE | (elsewhere ? 1u << SYNCED_MEM_ERR_INVALID_DEVICE : 0);
    return elsewhere ? 1u << SYNCED_MEM_ERR_INVALID_DEVICE : OK_ONLY;
}

/* Memory for both sides has one common user pointer. */
static void callback_of_either(void *data, void *user, synced_mem_stream stream)
{
    (void)user;
    for (int i = 0; i < BLOCKS; i++) {
        if (world.blocks[i].data == data) {
            block_callback(data, &world.blocks[i], stream);
            return;
        }
    }
    fail("the callback got memory that was never adopted");
}

/* The legacy stream has its other name here. */
static synced_mem_stream handle_of(int stream)
{
    if (stream == NO_STREAM)
        return NULL;
    return stream % PLACES == LEGACY ? LEGACY_HANDLE : world.streams[stream];
}

/* Sometimes uses Caffe's calls where they suffice. */
static synced_mem_status hand_in(const struct handing *handing, void *cpu, void *gpu)
{
    synced_mem *const mem = handing->object->mem;
    const bool plain = !handing->adopt && !handing->lock && !handing->read_only && handing->stream == NO_STREAM &&
                       (handing->op->a & 64);
    if (plain && !gpu)
        return synced_mem_set_cpu_data(mem, cpu);
    if (plain && !cpu)
        return synced_mem_set_gpu_data(mem, gpu);
    const bool both = cpu && gpu;
    return USE(mem, .cpu_data = cpu, .gpu_data = gpu,
               .callback = !handing->adopt ? NULL
                           : both          ? callback_of_either
                                           : block_callback,
               .user = both ? (void *)&world : handing->blocks[cpu ? CPU : GPU], .stream = handle_of(handing->stream),
               .flags = (handing->lock ? SYNCED_MEM_MEMORY_PAGE_LOCK : 0) |
                        (handing->read_only ? SYNCED_MEM_MEMORY_READ_ONLY : 0));
}

static void print_handing(const struct handing *handing)
{
    const int object = handing->op->object;
    if (handing->sides[CPU])
        code_line("void *cpu = ...; /* %s, pattern %u */", is_page_locked(handing) ? "page-locked" : "pageable",
                  handing->pattern);
    if (handing->sides[GPU])
        code_line("void *gpu = ...; /* pattern %u, by a kernel on stream[%d] */", handing->pattern,
                  filler(handing, handing->blocks[GPU]->device));
    code_line("OK(USE(mem[%d]%s%s%s%s%s));", object, handing->sides[CPU] ? ", .cpu_data = cpu" : "",
              handing->sides[GPU] ? ", .gpu_data = gpu" : "", handing->adopt ? ", .callback = callback" : "",
              handing->stream == NO_STREAM ? "" : ", .stream = stream",
              handing->lock        ? ", .flags = SYNCED_MEM_MEMORY_PAGE_LOCK"
              : handing->read_only ? ", .flags = SYNCED_MEM_MEMORY_READ_ONLY"
                                   : "");
}

/* Device memory that is filled without a named stream counts as used by the object. That work may still run. */
static void handed_in(const struct handing *handing)
{
    struct object *const object = handing->object;
    if (handing->sides[GPU])
        take_device(object, handing->blocks[GPU]->device, true);
    else if (handing->stream != NO_STREAM)
        take_device(object, device_of_stream(handing->stream), false);
    ref_set(object, handing->sides, handing->blocks, handing->adopt, handing->pattern);
    for (int side = 0; side < SIDES; side++)
        if (handing->blocks[side] && handing->read_only) {
            object->copy[side].read_only = handing->blocks[side]->read_only = true;
            block_permit_writes(handing->blocks[side], false);
        }
    for
        EACH_PART(part, object)
        {
            part->filling |= handing->filling;
        }
    if (handing->lock)
        object->copy[CPU].locked = object->copy[CPU].block->locked =
            object->copy[CPU].block->kind == PAGEABLE_BLOCK && object->size > 0;
    if (!handing->sides[GPU])
        return;
    object->device_data = handing->blocks[GPU]->data;
    const int stream = filler(handing, object->device);
    for
        EACH_PART(part, object)
        {
            if (object->size > 0)
                *(handing->stream == NO_STREAM ? &part->loose_writing : &part->writing) |= in_set(stream);
            if (handing->stream == NO_STREAM && stream % PLACES != LEGACY)
                part->loose_writer = stream;
            if (handing->stream == NO_STREAM && !handing->sides[CPU])
                part->writer = NO_STREAM;
        }
}

static void hand_over(struct handing *handing)
{
    struct object *const object = handing->object;
    unsigned char *const cpu = handing->sides[CPU] ? handing->blocks[CPU]->data : NULL;
    unsigned char *const gpu = handing->sides[GPU] ? handing->blocks[GPU]->data : NULL;
    const unsigned allowed = handing_allowed(handing);
    for (int side = 0; side < SIDES; side++)
        if (handing->blocks[side])
            handing->blocks[side]->poisoned = false;
    print_handing(handing);
    call_begins(object->placement && !ref_is_in_parts(object) ? NULL : object, handing->op->code, handing->stream);
    if (answered(op_name(handing->op->code), hand_in(handing, cpu, gpu), allowed))
        handed_in(handing);
    else
        call_failed(object, device_for(object));
    call_ends(0, 0);
    check_facts(object);
}

/* Makes an object of a tensor. It adopts one block. */
static void make_by_import(struct handing *handing)
{
    struct object *const object = handing->object;
    struct block *const block = handing->blocks[handing->sides[CPU] ? CPU : GPU];
    synced_mem *mem = NULL;
    block->poisoned = false;
    code_line("OK(synced_mem_from_dlpack(&mem[%d], tensor, %s, NULL)); /* of %zu bytes, pattern %u%s, %s */",
              handing->op->object, handing->stream == NO_STREAM ? "NULL" : "stream", object->size, handing->pattern,
              handing->read_only ? ", read-only" : "", handing->sides[CPU] ? "host" : "device");
    call_begins(NULL, handing->op->code, handing->stream);
    const synced_mem_stream handle = handle_of(handing->stream);
    (void)answered("from_dlpack", import_tensor(&mem, block, object->size, handing->read_only, handle), OK_ONLY);
    object->mem = mem;
    world.alive++;
    call_ends(0, 0);
    handed_in(handing);
    check_facts(object);
}

bool play_import(const struct op *op)
{
    struct object *const object = &world.objects[op->object];
    const bool on_host = !machine.gpu || (op->a >> 7) % 2;
    const size_t size = 1 + op->a % BLOCK_SIZE;
    struct handing handing = {.op = op,
                              .object = object,
                              .sides = {[CPU] = on_host, [GPU] = !on_host},
                              .adopt = true,
                              .read_only = op->b % 3 == 1,
                              .stream = NO_STREAM,
                              .pattern = op->b % 250 + 1};
    if (op->code != OP_IMPORT || object->mem || op->object >= FIRST_VIEW)
        return false;
    ref_created(object, NULL, size);
    if (machine.gpu && op->b % 5 < 2)
        handing.stream = resolve(object, op->stream);
    if (handing.stream < 0)
        return false;
    if (on_host)
        fill_host_side(&handing);
    else
        fill_device_side(&handing, handing.stream == NO_STREAM ? device_for(object) : device_of_stream(handing.stream));
    if (!handing.blocks[on_host ? CPU : GPU])
        return false;
    make_by_import(&handing);
    return true;
}

bool play_set(const struct op *op)
{
    if (op->code < OP_SET_CPU || op->code > OP_ADOPT_BOTH_ON)
        return false;
    const int which = op->code - OP_SET_CPU;
    struct object *const object = &world.objects[op->object];
    struct handing handing = {.op = op,
                              .object = object,
                              .sides = {[CPU] = which % 3 != 1, [GPU] = which % 3 != 0},
                              .adopt = which / 3 % 2 == 1,
                              .lock = machine.gpu && which % 3 != 1 && (op->a >> 7) % 5 == 1,
                              .stream = NO_STREAM,
                              .pattern = op->b % 250 + 1};
    handing.read_only = !handing.lock && (op->a >> 10) % 4 == 1;
    if (!object->mem || object->owner->alignment > PAGE || (object->size > BLOCK_SIZE && handing.sides[GPU]))
        return false;
    if (!machine.gpu && (which >= 6 || handing.sides[GPU]))
        return false;
    if (which >= 6)
        handing.stream = resolve(object, op->stream);
    if (handing.stream < 0)
        return false;
    if (handing.sides[GPU])
        fill_device_side(&handing, device_of_memory(&handing));
    if (handing.sides[CPU])
        fill_host_side(&handing);
    if ((handing.sides[CPU] && !handing.blocks[CPU]) || (handing.sides[GPU] && !handing.blocks[GPU]))
        return false;
    hand_over(&handing);
    return true;
}
