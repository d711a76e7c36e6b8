/* Plays copies between objects, and calls that give up contents. */
#include "world.h"

#include "gpu.h"

#include <stdlib.h>
#include <string.h>

struct call {
    struct object *to[OBJECTS], *from;
    int count;
    enum side side;
    int stream; /* or HOST */
    unsigned allowed;
};

/* A default stream belongs to the target's device. If the target has none, it belongs to the source's. */
static int resolve_copy(const struct call *call, const struct op *op)
{
    const bool of_source = get_device_of(call->to[0]) < 0 && get_device_of(call->from) >= 0;
    return resolve(of_source ? call->from : call->to[0], op->stream);
}

static void find_allowed(struct call *call)
{
    call->allowed = OK_ONLY;
    if (call->stream == HOST)
        return;
    const int device = device_of_stream(call->stream);
    for (int i = 0; i < call->count; i++)
        if (get_device_of(call->to[i]) >= 0 && get_device_of(call->to[i]) != device &&
            get_device_of(call->from) != device)
            call->allowed = 1u << SYNCED_MEM_ERR_INVALID_DEVICE;
    if (!machine.gpu)
        call->allowed = 1u << SYNCED_MEM_ERR_NO_GPU;
}

/* Returns whether bytes that are written are also named elsewhere in the call. */
static bool has_overlap(const struct call *call)
{
    for (int i = 0; i < call->count; i++) {
        if (ref_overlap(call->to[i], call->from))
            return true;
        for (int j = 0; j < i; j++)
            if (ref_overlap(call->to[i], call->to[j]))
                return true;
    }
    return false;
}

static bool can_be_copied(const struct object *to, const struct object *from)
{
    return to->mem && from->mem && to != from && to->size == from->size;
}

/* The object of the operation is the target or the source. */
static bool find_pair(const struct op *op, struct call *call)
{
    const bool out = op->code == OP_COPY_OUT || op->code == OP_CPU_COPY_OUT;
    struct object *const mine = &world.objects[op->object], *const other = &world.objects[op->a % OBJECTS];
    call->to[0] = out ? other : mine;
    call->from = out ? mine : other;
    call->count = 1;
    return can_be_copied(call->to[0], call->from);
}

/* Finds one source, and all objects of its size whose bit is set. The operation's object comes first. */
static bool find_pairs(const struct op *op, struct call *call)
{
    if (!find_pair(op, call))
        return false;
    for (int i = 0; i < OBJECTS; i++)
        if ((op->b >> i & 1) && &world.objects[i] != call->to[0] && can_be_copied(&world.objects[i], call->from))
            call->to[call->count++] = &world.objects[i];
    return true;
}

static bool find_objects(const struct op *op, struct call *call)
{
    *call = (struct call){.side = op->code == OP_CPU_COPY || op->code == OP_CPU_COPY_OUT ? CPU : GPU, .stream = HOST};
    if (op->code == OP_COPY_N ? !find_pairs(op, call) : !find_pair(op, call))
        return false;
    if (call->side == GPU)
        call->stream = resolve_copy(call, op);
    find_allowed(call);
    if (has_overlap(call))
        call->allowed = (call->allowed & ~(unsigned)OK_ONLY) | 1u << SYNCED_MEM_ERR_INVALID_ARGUMENT;
    return call->stream >= 0;
}

static int get_index(const struct object *object)
{
    return (int)(object - world.objects);
}

static synced_mem_status make_call(const struct op *op, const struct call *call)
{
    synced_mem *to[OBJECTS], *from[OBJECTS];
    if (op->code != OP_COPY_N) {
        const int to_index = get_index(call->to[0]), from_index = get_index(call->from);
        if (call->side == CPU)
            code_line("(void)synced_mem_cpu_copy(mem[%d], mem[%d]);", to_index, from_index);
        else
            code_line("(void)synced_mem_async_gpu_copy(mem[%d], mem[%d], stream[%d]);", to_index, from_index,
                      call->stream);
        return call->side == CPU
                   ? synced_mem_cpu_copy(call->to[0]->mem, call->from->mem)
                   : synced_mem_async_gpu_copy(call->to[0]->mem, call->from->mem, world.streams[call->stream]);
    }
    for (int i = 0; i < call->count; i++) {
        to[i] = call->to[i]->mem;
        from[i] = call->from->mem;
        code_line("to[%d] = mem[%d], from[%d] = mem[%d];", i, get_index(call->to[i]), i, get_index(call->from));
    }
    code_line("(void)synced_mem_async_gpu_copy_n(to, from, %d, stream[%d]);", call->count, call->stream);
    return synced_mem_async_gpu_copy_n(to, from, (size_t)call->count, world.streams[call->stream]);
}

static int count_transfers(const struct call *call)
{
    int most = ref_is_in_file_alone(call->from) ? ref_most_transfers(call->from) : 0;
    for (int i = 0; i < call->count; i++)
        most += ref_most_transfers(call->from) * ref_most_transfers(call->to[i]);
    return most;
}

/* Rewrites a pageable source, as the copy has read it when it returns. */
static void rewrite_source(const struct op *op, const struct call *call)
{
    const struct object *const from = call->from;
    const struct block *const block = from->owner->copy[CPU].block;
    if (!(op->b >> 20 & 1) || !block || block->kind != PAGEABLE_BLOCK || block->shared || block->read_only ||
        from->owner->copy[CPU].locked || call->stream == HOST)
        return;
    if (!ref_all_at(from, SYNCED_MEM_AT_CPU) || !ref_is_defined(from) || getenv("SYNCED_MEM_DEBUG"))
        return;
    memset(block->data + from->offset, 0xEE, from->size);
    (void)gpu_stream_is_idle(world.streams[call->stream]);
    memcpy(block->data + from->offset, ref_bytes(from), from->size);
}

/* The library cuts all objects of a call alike, also those without views. */
static void mark_divided(const struct call *call)
{
    bool any = ref_most_transfers(call->from) > 1;
    for (int i = 0; i < call->count; i++)
        any |= ref_most_transfers(call->to[i]) > 1;
    call->from->owner->divided |= any;
    for (int i = 0; i < call->count; i++)
        call->to[i]->owner->divided |= any;
}

static bool play_one_copy(const struct op *op)
{
    struct call call;
    size_t moved[SIDES] = {0};
    if (!find_objects(op, &call))
        return false;
    const int to_cell = call.side == CPU ? OP_CPU_COPY : OP_COPY;
    const int from_cell = call.side == CPU ? OP_CPU_COPY_OUT : OP_COPY_OUT;
    const bool has_contents = ref_has_contents(call.from);
    const bool loads_to_device = call.side == GPU && ref_is_in_file_alone(call.from);
    mark_divided(&call);
    const int most = count_transfers(&call);
    for (int i = 0; i < call.count; i++)
        ref_moved_by_copy(call.to[i], call.from, call.side, moved);
    moved[GPU] += loads_to_device ? ref_bytes_in_file_alone(call.from) : 0;
    for (int i = 1; i < call.count; i++)
        call_meets(call.to[i], to_cell, call.stream);
    call_meets(call.from, from_cell, call.stream);
    call_begins(call.to[0], to_cell, call.stream);
    const bool ok = answered(op_name(op->code), make_call(op, &call), call.allowed);
    call_moved(most, ok ? moved[GPU] : 0, ok ? moved[CPU] : 0);
    if (ok && loads_to_device)
        take_device(call.from, device_of_stream(call.stream), true);
    for (int i = 0; i < call.count; i++) {
        struct object *const to = call.to[i];
        const bool took = ok && has_contents;
        if (took && (call.side == GPU || is_shared(to)))
            take_device(to, call.side == GPU ? device_of_stream(call.stream) : device_for(to), true);
        if (ok)
            ref_copied(to, call.from, call.side, call.stream);
        else
            call_failed(to, call.stream == HOST ? device_for(to) : device_of_stream(call.stream));
    }
    for (int i = 0; i < call.count; i++)
        check_facts(call.to[i]);
    check_facts(call.from);
    if (ok)
        rewrite_source(op, &call);
    return true;
}

static bool play_clear(const struct op *op)
{
    struct object *const object = &world.objects[op->object];
    if (!object->mem)
        return false;
    code_line("OK(synced_mem_clear(mem[%d]));", op->object);
    call_begins(object, op->code, HOST);
    (void)answered("clear", synced_mem_clear(object->mem), OK_ONLY);
    call_ends(0, 0);
    ref_cleared(object);
    check_facts(object);
    return true;
}

bool play_copy(const struct op *op)
{
    if (op->code == OP_CLEAR)
        return play_clear(op);
    return op->code >= OP_COPY && op->code <= OP_CPU_COPY_OUT && play_one_copy(op);
}
