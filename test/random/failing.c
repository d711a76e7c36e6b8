/*
 * Plays calls while calls of the runtime fail, also those of the library's own threads, which run beside the calls. A
 * call has a right result, or it fails and changes nothing, except that arriving contents may be lost. Once nothing
 * fails any more, the contents are there.
 */
#include "world.h"

#include "gpu.h"

#include <string.h>

enum { STEPS = 6, STEPS_IN_PARTS = 16, TRIES = 50, LATEST = 4 };

struct failing {
    struct object *object; /* of the present call: it has the bytes of the first one's root, or some of them */
    struct object *owner;
    int stream;
    synced_mem_stream handle;
    uint64_t random;
    bool failed; /* the present call */
};

static bool call_answered(struct failing *failing, const char *what, synced_mem_status status)
{
    failing->failed = !answered(what, status, OK_ONLY | 1u << SYNCED_MEM_ERR_CUDA);
    return !failing->failed;
}

static bool gave(struct failing *failing, const char *what, const void *data)
{
    return call_answered(failing, what, data ? SYNCED_MEM_OK : synced_mem_last_error());
}

/* ---- One call ---- */

static unsigned fresh_pattern(struct failing *failing)
{
    return 1 + random_below(&failing->random, 250);
}

/* A kernel compares the contents, and may write others. */
static void use_device(struct failing *failing, void *data, bool reads, bool writes)
{
    struct object *const object = failing->object;
    gpu_make_current(device_of_stream(failing->stream));
    if (reads)
        gpu_expect(data, object->size, ref_bytes(object), failing->handle);
    if (writes) {
        const unsigned pattern = fresh_pattern(failing);
        gpu_fill(data, object->size, pattern, failing->handle);
        ref_wrote(object, (struct range){0, object->size}, pattern);
    }
    gpu_make_current(world.current[world.thread]);
}

static void use_host(struct failing *failing, void *data, bool reads, bool writes)
{
    struct object *const object = failing->object;
    if (reads)
        check_contents(object, data, "the host, while calls fail");
    if (writes) {
        const unsigned pattern = fresh_pattern(failing);
        gpu_note_host_write(data, object->size);
        ref_wrote(object, (struct range){0, object->size}, pattern);
        memcpy(data, ref_bytes(object), object->size);
    }
}

static void access(struct failing *failing, unsigned kind)
{
    synced_mem *const mem = failing->object->mem;
    void *data;
    switch (kind) {
    case 0:
        data = (void *)synced_mem_gpu_data_on(mem, failing->handle);
        if (gave(failing, "gpu_data_on", data))
            use_device(failing, data, true, false);
        break;
    case 1:
        data = synced_mem_mutable_gpu_data_on(mem, failing->handle);
        if (gave(failing, "mutable_gpu_data_on", data))
            use_device(failing, data, true, random_below(&failing->random, 2) == 0);
        break;
    case 2:
        data = synced_mem_overwrite_gpu_data_on(mem, failing->handle);
        if (gave(failing, "overwrite_gpu_data_on", data))
            use_device(failing, data, false, true);
        break;
    case 3:
        data = (void *)synced_mem_cpu_data(mem);
        if (gave(failing, "cpu_data", data))
            use_host(failing, data, true, false);
        break;
    case 4:
        data = synced_mem_mutable_cpu_data(mem);
        if (gave(failing, "mutable_cpu_data", data))
            use_host(failing, data, true, random_below(&failing->random, 2) == 0);
        break;
    default:
        data = synced_mem_overwrite_cpu_data(mem);
        if (gave(failing, "overwrite_cpu_data", data))
            use_host(failing, data, false, true);
        break;
    }
}

/* The head may change beside the calls. Then there may be nothing to move. */
static void move(struct failing *failing, bool push)
{
    synced_mem *const mem = failing->object->mem;
    const synced_mem_status status =
        push ? synced_mem_async_gpu_push(mem, failing->handle) : synced_mem_async_cpu_pull(mem, failing->handle);
    failing->failed = !answered(push ? "async_gpu_push" : "async_cpu_pull", status,
                                OK_ONLY | 1u << SYNCED_MEM_ERR_CUDA | 1u << SYNCED_MEM_ERR_INVALID_STATE);
}

static void ask(struct failing *failing, bool wait)
{
    int pending;
    const synced_mem_status status =
        wait ? synced_mem_wait(failing->object->mem) : synced_mem_query(failing->object->mem, &pending);
    (void)call_answered(failing, wait ? "wait" : "query", status);
}

/* ---- The heads ---- */

/* Lists the heads of the owner and of all its views. */
static void list_heads(const struct failing *failing, unsigned heads[OBJECTS])
{
    for (int i = 0; i < OBJECTS; i++)
        if (world.objects[i].mem && world.objects[i].owner == failing->owner)
            heads[i] = (unsigned)synced_mem_head(world.objects[i].mem);
}

/* A failed call makes no copy valid. Contents that were arriving may be lost. */
static void check_heads(const struct failing *failing, const unsigned before[OBJECTS])
{
    unsigned after[OBJECTS] = {0};
    list_heads(failing, after);
    for (int i = 0; i < OBJECTS; i++)
        if (world.objects[i].mem && world.objects[i].owner == failing->owner && before[i] != SYNCED_MEM_MIXED &&
            after[i] != SYNCED_MEM_MIXED && (after[i] & ~before[i]))
            fail("a failed call changed the head from %u to %u", before[i], after[i]);
}

/* ---- One of all calls ---- */

/* Gives up the contents of some bytes, which must always succeed. */
static void clear(const struct failing *failing)
{
    struct object *const object = failing->object;
    (void)answered("clear", synced_mem_clear(object->mem), OK_ONLY);
    memset(ref_bytes(object), 0, object->size);
}

static void make_call(struct failing *failing)
{
    unsigned before[OBJECTS] = {0};
    list_heads(failing, before);
    failing->failed = false;
    const unsigned kind = random_below(&failing->random, ref_is_in_parts(failing->object) ? 14 : 12);
    if (kind >= 12)
        clear(failing);
    else if (kind < 6)
        access(failing, kind);
    else if (kind < 10)
        move(failing, kind < 8);
    else
        ask(failing, kind == 10);
    if (failing->failed)
        check_heads(failing, before);
}

/* ---- The beginning and the end ---- */

/* Waits for the contents that the library's threads bring to the host, or to files. */
static void wait_for_others(void)
{
    files_check();
    for (int i = 0; i < OBJECTS; i++) {
        struct object *const other = &world.objects[i];
        bool waits = false;
        if (!other->mem)
            continue;
        for
            EACH_PART(part, other)
            {
                waits |= (part->arriving[CPU] & in_set(LIBRARY)) != 0;
            }
        if (!waits)
            continue;
        (void)answered("wait", synced_mem_wait(other->mem), OK_ONLY);
        ref_waited(other);
    }
}

/* Picks the owner or one of its views. */
static struct object *pick_object(struct failing *failing)
{
    struct object *found = failing->owner;
    uint32_t count = 1;
    for (int i = FIRST_VIEW; i < OBJECTS; i++) {
        struct object *const view = &world.objects[i];
        if (view->mem && view != failing->owner && view->owner == failing->owner &&
            random_below(&failing->random, ++count) == 0)
            found = view;
    }
    return found;
}

/* Waits until all failures are reported. After that no call may fail. */
static void calm_down(struct failing *failing)
{
    synced_mem *const mem = failing->owner->mem;
    gpu_fail_no_more();
    for (int i = 0; i < TRIES && !call_answered(failing, "wait", synced_mem_wait(mem)); i++)
        continue;
    const void *const data =
        ref_is_in_parts(failing->owner) ? synced_mem_mutable_cpu_data(mem) : synced_mem_cpu_data(mem);
    (void)answered("cpu_data", data ? SYNCED_MEM_OK : synced_mem_last_error(), OK_ONLY);
    check_contents(failing->owner, data, "the host, after calls have failed");
}

/* Brings the reference up to date: nothing is in flight any more, and no pointer is valid. */
static void take_over(const struct failing *failing)
{
    struct object *const owner = failing->owner;
    for (int device = 0; device < machine.devices; device++) {
        gpu_sync_device(device);
        ref_device_synced(device);
    }
    ref_waited(owner);
    ref_no_pointers(owner);
    call_failed(owner, device_of_stream(failing->stream));
    const unsigned head = (unsigned)synced_mem_head(owner->mem);
    if (head != SYNCED_MEM_AT_CPU && (head != SYNCED_MEM_SYNCED || ref_is_in_parts(owner)))
        fail("the host has read the contents, and the head is %u", head);
    for
        EACH_PART(part, owner)
        {
            part->loose_writer = NOBODY;
            part->loose_readers = 0;
            part->head = head;
            part->in_file = synced_mem_in_file(owner->mem) != 0;
        }
    check_facts(owner);
}

/* Without other contents, and outside of files, they are zeros. */
static void zero_contents(struct object *owner)
{
    for
        EACH_PART(part, owner)
        {
            if (!part->head && !part->in_file) {
                memset(owner->bytes + part->begin, 0, part_size(part));
                part->defined = true;
            }
        }
}

static bool is_known(const struct object *owner)
{
    for
        EACH_PART(part, owner)
        {
            if (part->head && !part->defined)
                return false;
        }
    return true;
}

bool play_failing(const struct op *op)
{
    struct object *const object = &world.objects[op->object];
    struct failing failing = {.object = object, .owner = object->owner, .random = (uint64_t)op->b << 32 | op->a};
    failing.stream = object->mem ? resolve(object, op->stream) : -1;
    if (op->code != OP_FAILING || failing.stream < 0 || is_shared(object) || object->size == 0 ||
        !is_known(failing.owner))
        return false;
    if (get_device_of(failing.owner) >= 0 && get_device_of(failing.owner) != device_of_stream(failing.stream))
        return false;
    if (!machine.gpu || !gpu_is_emulated()) /* no other runtime can fail at will */
        return false;
    wait_for_others();
    failing.handle = world.streams[failing.stream];
    code_line("/* calls on mem[%d] while others fail, by %u and %u */", op->object, op->a, op->b);
    call_begins(object, op->code, HOST);
    zero_contents(failing.owner);
    for (int i = 0; i < (ref_is_in_parts(object) ? STEPS_IN_PARTS : STEPS); i++) {
        if (random_below(&failing.random, 2) == 0)
            (void)gpu_fail(random_next(&failing.random), 1 + random_below(&failing.random, LATEST));
        make_call(&failing);
        if (ref_is_in_parts(object))
            failing.object = pick_object(&failing);
    }
    calm_down(&failing);
    call_ends(-1, -1);
    take_over(&failing);
    return true;
}
