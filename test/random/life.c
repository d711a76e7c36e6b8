/* Plays the calls that create, query, change and release objects, and wrong calls. */
#include "world.h"

#include "gpu.h"

#include <stdio.h>
#include <string.h>

enum { MOST_REFERENCES = 3 };

/* ---- Objects ---- */

/* Above the bits of the other options. */
enum { KIND = 64 };

/* Sets user allocators: for the host, for the device, or for both. */
static void set_allocators(const struct op *op, synced_mem_options *options)
{
    const uint32_t kind = op->b / KIND % 4;
    const bool pinned = machine.gpu && op->b / KIND / 4 % 2 != 0;
    if (kind != 0)
        options->cpu_allocator = allocator_of_host(pinned);
    if (kind <= 1)
        options->gpu_allocator = allocator_of_device();
}

/* Sets a placement with memory that both sides use. */
static void set_placement(const struct op *op, synced_mem_options *options)
{
    const bool managed = machine.managed && op->b / KIND % 2 != 0;
    options->placement = managed ? SYNCED_MEM_PLACEMENT_MANAGED : SYNCED_MEM_PLACEMENT_MAPPED;
}

/* Device 0, 1 or none, several alignments, with and without a name. */
static synced_mem_options options_of(const struct op *op)
{
    static const size_t alignments[] = {0, 64, 256, 4096};
    synced_mem_options options;
    synced_mem_options_init(&options);
    const int device = (int)(op->b % 4) - 1;
    options.device = device < machine.devices || device < DEVICES ? device : SYNCED_MEM_DEVICE_CURRENT;
    if (machine.gpu && options.device >= machine.devices)
        options.device = SYNCED_MEM_DEVICE_CURRENT;
    options.alignment = alignments[op->b / 4 % 4];
    options.name = op->b / 16 % 2 ? "some name" : NULL;
    options.user = op->b / 32 % 2 ? &world : NULL;
    if (op->code == OP_CREATE_ALLOCATED)
        set_allocators(op, &options);
    if (op->code == OP_CREATE_SHARED)
        set_placement(op, &options);
    return options;
}

static bool create(const struct op *op)
{
    struct object *const object = &world.objects[op->object];
    const size_t size = op->a % (MAX_SIZE + 1);
    const synced_mem_options options = options_of(op);
    const bool given = op->code != OP_CREATE || op->b % KIND != 0;
    synced_mem *mem = NULL;
    if (object->mem || op->object >= FIRST_VIEW)
        return false;
    code_line("mem[%d] = NULL; /* device %d, alignment %zu, placement %d%s%s */", op->object, options.device,
              options.alignment, (int)options.placement, options.cpu_allocator ? ", an allocator of host memory" : "",
              options.gpu_allocator ? ", an allocator of device memory" : "");
    code_line("OK(synced_mem_create(&mem[%d], %zu, &options));", op->object, size);
    call_begins(NULL, op->code, HOST);
    (void)answered("create", synced_mem_create(&mem, size, given ? &options : NULL), OK_ONLY);
    world.alive++;
    call_ends(0, 0);
    ref_created(object, mem, size);
    if (given) {
        object->device = options.device;
        object->alignment = options.alignment;
        object->named = options.name != NULL;
        object->placement = options.placement;
        object->allocated[CPU] = options.cpu_allocator != NULL;
        object->allocated[GPU] = options.gpu_allocator != NULL;
    }
    check_facts(object);
    return true;
}

/* Releases the last reference to an object or a view. */
static void release_last(const struct op *op, struct object *object)
{
    code_line("OK(synced_mem_release(mem[%d]));", op->object);
    for (; object->references > 1; object->references--)
        (void)answered("release", synced_mem_release(object->mem), OK_ONLY);
    call_begins(object, op->code, HOST);
    (void)answered("release", synced_mem_release(object->mem), OK_ONLY);
    object->references = 0;
}

/* The memory goes, with any work in flight. Adopted memory may get its callback later. */
static void end_object(struct object *object)
{
    ref_let_go(object, CPU);
    ref_let_go(object, GPU);
    object->mem = NULL;
}

/* The last view of a root without references takes the root with it. */
static void destroy_view(const struct op *op, struct object *view)
{
    struct object *const root = view->root;
    const bool last = root->references == 0 && root->views == 1;
    if (last)
        late_kernel(root);
    release_last(op, view);
    world.alive -= last ? 2 : 1;
    call_ends(0, 0);
    ref_unviewed(view);
    if (last)
        end_object(root);
    else
        check_facts(root);
}

static bool destroy(const struct op *op)
{
    struct object *const object = &world.objects[op->object];
    if (!object->mem || object->references == 0)
        return false;
    if (object->root) {
        destroy_view(op, object);
        return true;
    }
    if (object->views == 0)
        late_kernel(object);
    release_last(op, object);
    world.alive -= object->views == 0;
    call_ends(0, 0);
    if (object->views == 0)
        end_object(object);
    else
        check_facts(object);
    return true;
}

/* Never releases the last reference; that is another operation. */
static bool retain_or_release(const struct op *op)
{
    struct object *const object = &world.objects[op->object];
    const bool retain = op->code == OP_RETAIN;
    if (!object->mem || (retain ? object->references == MOST_REFERENCES : object->references <= 1))
        return false;
    code_line("OK(synced_mem_%s(mem[%d]));", op_name(op->code), op->object);
    call_begins(object, op->code, HOST);
    (void)answered(op_name(op->code), retain ? synced_mem_retain(object->mem) : synced_mem_release(object->mem),
                   OK_ONLY);
    call_ends(0, 0);
    object->references += retain ? 1u : -1u;
    check_facts(object);
    return true;
}

static bool ask_facts(const struct op *op)
{
    const struct object *const object = &world.objects[op->object];
    if (!object->mem)
        return false;
    call_begins(object, op->code, HOST);
    const char *const name = synced_mem_name(object->mem);
    void *const user = synced_mem_user(object->mem);
    if (strcmp(name, object->named ? "some name" : "") != 0 || (user && user != &world))
        fail("the name is '%s', the user pointer %p", name, user);
    if (synced_mem_device_count() < machine.devices || synced_mem_version() <= 0)
        fail("there are %d devices, version %d", synced_mem_device_count(), synced_mem_version());
    (void)synced_mem_last_error_message();
    call_ends(0, 0);
    check_facts(&world.objects[op->object]);
    return true;
}

/* With objects alive the call must fail. Otherwise it must leave nothing. */
static bool shut_down(const struct op *op)
{
    code_line("(void)synced_mem_shutdown();");
    call_begins(NULL, op->code, HOST);
    const unsigned allowed = world.alive > 0 ? 1u << SYNCED_MEM_ERR_INVALID_STATE : OK_ONLY;
    const bool ok = answered("shutdown", synced_mem_shutdown(), allowed);
    call_ends(0, 0);
    for (int i = 0; ok && i < BLOCKS; i++)
        if (world.blocks[i].state == BLOCK_LET_GO)
            fail("adopted memory got no callback up to the shutdown");
    synced_mem_stats stats = {.struct_size = sizeof stats};
    (void)answered("get_stats", synced_mem_get_stats(&stats), OK_ONLY);
    if (ok)
        memset(world.allocated, 0, sizeof world.allocated);
    if (ok && (stats.gpu_bytes || stats.pinned_bytes || stats.pageable_bytes || stats.managed_bytes || stats.retired))
        fail("memory is held after a shutdown");
    return true;
}

static bool reap(const struct op *op)
{
    code_line("OK(synced_mem_reap());");
    call_begins(NULL, op->code, HOST);
    (void)answered("reap", synced_mem_reap(), OK_ONLY);
    call_ends(0, 0);
    return true;
}

static bool get_stats(const struct op *op)
{
    synced_mem_stats stats = {.struct_size = sizeof stats};
    call_begins(NULL, op->code, HOST);
    (void)answered("get_stats", synced_mem_get_stats(&stats), OK_ONLY);
    call_ends(0, 0);
    return true;
}

bool play_life(const struct op *op)
{
    switch (op->code) {
    case OP_CREATE:
    case OP_CREATE_ALLOCATED:
    case OP_CREATE_SHARED:
        return create(op);
    case OP_DESTROY:
        return destroy(op);
    case OP_RETAIN:
    case OP_RELEASE:
        return retain_or_release(op);
    case OP_FACTS:
        return ask_facts(op);
    case OP_SHUTDOWN:
        return shut_down(op);
    case OP_REAP:
        return reap(op);
    case OP_STATS:
        return get_stats(op);
    default:
        return false;
    }
}

/* ---- Size and memory ---- */

/* Returns the set of possible heads. If no copy with the contents has room, the library chooses, as it does if parts
 * are left of released views. */
static unsigned heads_after_resize(const struct object *object, size_t size, const size_t room[SIDES])
{
    const unsigned head = ref_head(object);
    const unsigned either = 1u << SYNCED_MEM_AT_CPU | 1u << SYNCED_MEM_AT_GPU;
    unsigned with_room = 0;
    if (object->divided)
        return either | 1u << head;
    if (ref_is_in_file_alone(object))
        return 1u << SYNCED_MEM_AT_CPU;
    for (unsigned side = CPU; side < SIDES; side++)
        if ((head & (1u << side)) && room[side] >= size)
            with_room |= 1u << side;
    if (with_room || !head)
        return 1u << with_room;
    return head == SYNCED_MEM_SYNCED ? either : 1u << head;
}

/* An object with views, and a view itself, keep their size. A view without bytes need not prevent its root's resize. */
static unsigned resize_allowed(const struct object *object)
{
    if (object->root || object->views_with_bytes > 0)
        return 1u << SYNCED_MEM_ERR_INVALID_STATE;
    return OK_ONLY;
}

/* Read-only memory has no room for new bytes. */
static size_t get_room(const struct object *object, enum side side, size_t size)
{
    if (object->copy[side].read_only && size > object->size)
        return 0;
    return side == CPU ? synced_mem_cpu_capacity(object->mem) : synced_mem_gpu_capacity(object->mem);
}

static void resize(const struct op *op, struct object *object)
{
    const size_t size = op->a % (MAX_SIZE + 1);
    const size_t room[SIDES] = {get_room(object, CPU, size), get_room(object, GPU, size)};
    const unsigned heads = heads_after_resize(object, size, room);
    const unsigned allowed = resize_allowed(object);
    const int moves = object->divided && (allowed & OK_ONLY) ? -1 : 0;
    code_line("(void)synced_mem_%s(mem[%d], %zu);", op_name(op->code), op->object, size);
    call_begins(object, op->code, HOST);
    const synced_mem_status status =
        op->code == OP_DISCARD ? synced_mem_resize_discard(object->mem, size) : synced_mem_resize(object->mem, size);
    const bool ok = answered(op_name(op->code), status, allowed);
    const unsigned head = (unsigned)synced_mem_head(object->mem);
    if (ok && op->code == OP_DISCARD) {
        ref_discarded(object, size, room);
    } else if (ok) {
        if (!(heads & (1u << head)))
            fail("after the resize the head is %u", head);
        ref_resized(object, size, head, room);
    }
    if (ok && object->divided) /* to make one part of several may take memory of either side */
        call_failed(object, device_for(object));
    call_ends(moves, moves);
}

/* Views refuse it. Moves contents to the other side first that only this side has. */
static void release_side(const struct op *op, struct object *object)
{
    const enum side side = op->code == OP_RELEASE_CPU ? CPU : GPU;
    const size_t moved = ref_moved_by_release(object, side);
    const bool needed = ref_is_needed(object, side);
    const unsigned allowed = object->root             ? 1u << SYNCED_MEM_ERR_INVALID_STATE
                             : needed && !machine.gpu ? 1u << SYNCED_MEM_ERR_NO_GPU
                                                      : OK_ONLY;
    const int most = ref_most_transfers(object);
    if (side == GPU && !needed && !is_shared(object) && !object->root) /* otherwise the memory stays */
        late_kernel(object);
    code_line("(void)synced_mem_%s(mem[%d]);", op_name(op->code), op->object);
    call_begins(object, op->code, HOST);
    const synced_mem_status status =
        side == CPU ? synced_mem_release_cpu_data(object->mem) : synced_mem_release_gpu_data(object->mem);
    const bool ok = answered(op_name(op->code), status, allowed);
    call_moved(most, ok && side == CPU ? moved : 0, ok && side == GPU ? moved : 0);
    if (!ok)
        return;
    if (needed && side == CPU)
        take_device(object, device_for(object), true);
    ref_released(object, side);
}

static void release_data(const struct op *op, struct object *object)
{
    if (!object->root)
        late_kernel(object);
    code_line("(void)synced_mem_release_data(mem[%d]);", op->object);
    call_begins(object, op->code, HOST);
    const bool ok = answered("release_data", synced_mem_release_data(object->mem),
                             object->root ? 1u << SYNCED_MEM_ERR_INVALID_STATE : OK_ONLY);
    call_ends(0, 0);
    if (!ok)
        return;
    ref_let_go(object, CPU);
    ref_let_go(object, GPU);
    ref_memory_released(object);
}

bool play_size(const struct op *op)
{
    struct object *const object = &world.objects[op->object];
    if (op->code < OP_RESIZE || op->code > OP_RELEASE_DATA || !object->mem)
        return false;
    if (op->code <= OP_DISCARD)
        resize(op, object);
    else if (op->code == OP_RELEASE_DATA)
        release_data(op, object);
    else
        release_side(op, object);
    check_facts(object);
    return true;
}

/* ---- Wrong calls ---- */

static unsigned one(synced_mem_status status)
{
    return 1u << status;
}

static void mistake_of_create(unsigned which)
{
    synced_mem *mem = NULL;
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.alignment = which == 0 ? 3 : 0;
    options.device = which == 1 ? -2 : -1;
    options.struct_size += which == 2;
    const size_t size = which == 3 ? SIZE_MAX : 1;
    (void)answered("create", synced_mem_create(&mem, size, &options), one(SYNCED_MEM_ERR_INVALID_ARGUMENT));
    if (mem)
        fail("a failed call has created an object");
}

/* Calls without an object or without an output. */
static void mistake_of_nothing(unsigned which)
{
    const unsigned refused = one(SYNCED_MEM_ERR_INVALID_ARGUMENT);
    synced_mem_stats stats = {.struct_size = 1};
    int pending = 0;
    switch (which) {
    case 0:
        (void)answered("query", synced_mem_query(NULL, &pending), refused);
        break;
    case 1:
        (void)answered("get_stats", synced_mem_get_stats(&stats), refused);
        break;
    case 2:
        (void)answered("push_n", synced_mem_async_gpu_push_n(NULL, 1, NULL), refused);
        break;
    case 3:
        (void)answered("resize", synced_mem_resize(NULL, 1), refused);
        break;
    case 4:
        if (synced_mem_gpu_data_on(NULL, NULL))
            fail("an accessor of NULL returned a pointer");
        (void)answered("gpu_data_on", synced_mem_last_error(), refused);
        break;
    default:
        if (synced_mem_cpu_data(NULL))
            fail("an accessor of NULL returned a pointer");
        (void)answered("cpu_data", synced_mem_last_error(), refused);
        break;
    }
}

/* Calls that need a GPU. */
static void mistakes_without_gpu(struct object *object)
{
    const unsigned absent =
        one(SYNCED_MEM_ERR_NO_GPU) | (object->placement || object->root ? one(SYNCED_MEM_ERR_INVALID_STATE) : 0);
    static unsigned char some[BLOCK_SIZE];
    (void)answered("set_gpu_data", synced_mem_set_gpu_data(object->mem, some), absent);
    (void)answered("use_memory", USE(object->mem, .cpu_data = some + 1, .gpu_data = some), absent);
    (void)answered("use_memory", USE(object->mem, .cpu_data = some, .stream = LEGACY_HANDLE), absent);
    (void)answered("use_memory", USE(object->mem, .gpu_data = some, .stream = LEGACY_HANDLE), absent);
    (void)answered("use_memory", USE(object->mem, .cpu_data = some, .flags = SYNCED_MEM_MEMORY_PAGE_LOCK), absent);
}

/* Wrong calls on an object, which must not change it. The library decides which of several mistakes it reports. */
static void mistake_of_object(struct object *object, unsigned which)
{
    const unsigned fixed = object->root || object->views_with_bytes > 0 ? one(SYNCED_MEM_ERR_INVALID_STATE) : 0;
    const unsigned refused = one(SYNCED_MEM_ERR_INVALID_ARGUMENT) | fixed;
    static unsigned char some[BLOCK_SIZE];
    switch (which) {
    case 0:
        (void)answered("set_cpu_data", synced_mem_set_cpu_data(object->mem, NULL), refused);
        break;
    case 1:
        (void)answered("use_memory", USE(object->mem, .cpu_data = some, .flags = 4), refused);
        break;
    case 2:
        (void)answered("set_gpu_data", synced_mem_set_gpu_data(object->mem, some),
                       machine.gpu ? refused : refused | one(SYNCED_MEM_ERR_NO_GPU));
        break;
    case 3:
        (void)answered("resize", synced_mem_resize(object->mem, SIZE_MAX), refused);
        break;
    default:
        (void)answered("query", synced_mem_query(object->mem, NULL), one(SYNCED_MEM_ERR_INVALID_ARGUMENT));
        break;
    }
    if (!machine.gpu && object->owner->alignment <= 1)
        mistakes_without_gpu(object);
    check_facts(object);
}

bool play_mistake(const struct op *op)
{
    struct object *const object = &world.objects[op->object];
    if (op->code != OP_MISTAKE)
        return false;
    call_begins(NULL, op->code, HOST);
    if (op->a % 3 == 0)
        mistake_of_create(op->b % 4);
    else if (op->a % 3 == 1 || !object->mem)
        mistake_of_nothing(op->b % 6);
    else
        mistake_of_object(object, op->b % 5);
    if (op->a % 3 == 2 && object->mem && op->object >= PLAIN && op->b / 5 % 3 == 0)
        mistake_of_view(object, op->b / 15 % 6);
    call_ends(0, 0);
    return true;
}
