/* The state machine of one object. */
#include "coherence.h"

#include "stats.h"
#include "status.h"
#include "transfer.h"

#include <assert.h>
#include <string.h>

/* What has to be done to make a side's copy valid. */
enum work { NOTHING, ZERO, MOVE };

/* The table of synced_mem.h: next head and work, by head, side and mode. */
/* clang-format off */
static const struct step {
    unsigned char work;
    unsigned char next;
} steps[4][SM_SIDES][SM_MODES] = {
#define UN SYNCED_MEM_UNINITIALIZED
#define CPU SYNCED_MEM_AT_CPU
#define GPU SYNCED_MEM_AT_GPU
#define SYN SYNCED_MEM_SYNCED
/*  head      side       read            mutable         overwrite       */
    [UN]  = {[SM_CPU] = {{ZERO,    CPU}, {ZERO,    CPU}, {NOTHING, CPU}},
             [SM_GPU] = {{ZERO,    GPU}, {ZERO,    GPU}, {NOTHING, GPU}}},
    [CPU] = {[SM_CPU] = {{NOTHING, CPU}, {NOTHING, CPU}, {NOTHING, CPU}},
             [SM_GPU] = {{MOVE,    SYN}, {MOVE,    GPU}, {NOTHING, GPU}}},
    [GPU] = {[SM_CPU] = {{MOVE,    SYN}, {MOVE,    CPU}, {NOTHING, CPU}},
             [SM_GPU] = {{NOTHING, GPU}, {NOTHING, GPU}, {NOTHING, GPU}}},
    [SYN] = {[SM_CPU] = {{NOTHING, SYN}, {NOTHING, CPU}, {NOTHING, CPU}},
             [SM_GPU] = {{NOTHING, SYN}, {NOTHING, GPU}, {NOTHING, GPU}}},
#undef UN
#undef CPU
#undef GPU
#undef SYN
};
/* clang-format on */

static unsigned bit(enum sm_side side)
{
    return 1u << side;
}

static enum sm_side other(enum sm_side side)
{
    return side == SM_CPU ? SM_GPU : SM_CPU;
}

static unsigned head_of(const struct synced_mem *mem)
{
    return atomic_load_explicit(&mem->head, memory_order_relaxed);
}

static int device_of(const struct synced_mem *mem)
{
    return atomic_load_explicit(&mem->device, memory_order_relaxed);
}

/* ---- The head, and what the hot path may hand out ---- */

bool sm_object_is_valid(const struct synced_mem *mem)
{
    const unsigned head = head_of(mem);
    const struct sm_copy *const gpu = mem->copy[SM_GPU];
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
        const struct sm_copy *const copy = mem->copy[side];
        if ((head & bit(side)) && !copy)
            return false;
        for (int writing = 0; writing < 2; writing++) {
            const void *const ready = atomic_load_explicit(&mem->ready[side][writing], memory_order_relaxed);
            if (ready && (!(head & bit(side)) || ready != copy->data || (writing && head != bit(side))))
                return false;
        }
    }
    return !gpu || (gpu->device >= 0 && gpu->device == device_of(mem));
}

/* A device pointer is published once it was asked for in that mode: only then is there a use to wait for later. */
static void *ready_for(const struct synced_mem *mem, enum sm_side side, bool writing)
{
    struct sm_copy *const copy = mem->copy[side];
    const unsigned head = head_of(mem);
    if (!(head & bit(side)) || (writing && head != bit(side)) || sm_copy_blocker(copy, writing))
        return NULL;
    if (side == SM_GPU && !(copy->handed & (writing ? SM_HANDED_WRITE : SM_HANDED_READ)))
        return NULL;
    return copy->data;
}

static void publish(struct synced_mem *mem)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
        if (mem->copy[side])
            sm_copy_prune(mem->copy[side]);
        for (int writing = 0; writing < 2; writing++)
            atomic_store_explicit(&mem->ready[side][writing], ready_for(mem, side, writing != 0), memory_order_release);
    }
}

/* The one place where the head is written. */
static void commit(struct synced_mem *mem, unsigned head)
{
    atomic_store_explicit(&mem->head, (unsigned char)head, memory_order_relaxed);
    publish(mem);
    assert(sm_object_is_valid(mem));
}

/* ---- Memory ---- */

/* The device to page-lock host memory for; -1 for pageable memory: where no device can be used, and where nothing says
 * yet that one will be. */
static int device_for_host(const struct synced_mem *mem)
{
    int device = device_of(mem);
    if (device >= 0)
        return device < sm_device_count() ? device : -1;
    if (sm_device_in_use() && sm_device_resolve(SYNCED_MEM_DEVICE_CURRENT, &device) == SYNCED_MEM_OK)
        return device;
    return -1;
}

/* Host memory is no work for the device: where it can't page-lock any for another reason than its amount, pageable
 * memory does as well. */
static synced_mem_status obtain_host(struct synced_mem *mem, bool zeroed)
{
    const int device = device_for_host(mem);
    const size_t alignment = sm_object_alignment(mem);
    synced_mem_status status = sm_copy_obtain_host(mem->size, alignment, device, zeroed, &mem->copy[SM_CPU]);
    if (status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY)
        status = sm_copy_obtain_host(mem->size, alignment, -1, zeroed, &mem->copy[SM_CPU]);
    return status;
}

/* A copy that an untracked transfer may still be writing can't be used. The library's own is given up for good;
 * the caller's stays, and the access fails. */
static synced_mem_status make_usable(struct synced_mem *mem, enum sm_side side)
{
    struct sm_copy *const copy = mem->copy[side];
    if (!copy || copy->untracked != SM_UNTRACKED_WRITE)
        return SYNCED_MEM_OK;
    if (sm_copy_retrack(copy) == SYNCED_MEM_OK && !copy->untracked)
        return SYNCED_MEM_OK;
    if (copy->source == SYNCED_MEM_SOURCE_BORROWED || copy->source == SYNCED_MEM_SOURCE_ADOPTED)
        return sm_fail(SYNCED_MEM_ERR_CUDA, "nobody can tell when an earlier transfer to %p of the caller's ends",
                       copy->data);
    mem->copy[side] = NULL;
    sm_copy_quarantine(copy);
    return SYNCED_MEM_OK;
}

/* ---- Contents ---- */

/* provide() sees to it that a side has memory, and unless it is to be overwritten, that it holds the contents: then the
 * head has the side's bit, the contents arriving perhaps. Or it names what the host has to wait for before that can be
 * done. */

static synced_mem_status provide_host(struct synced_mem *mem, enum work work, struct sm_ticket **wait)
{
    const bool fresh = !mem->copy[SM_CPU];
    synced_mem_status status = fresh ? obtain_host(mem, work == ZERO) : SYNCED_MEM_OK;
    if (status != SYNCED_MEM_OK)
        return status;
    struct sm_copy *const copy = mem->copy[SM_CPU];
    sm_stream stream;
    switch (work) {
    case NOTHING:
        return SYNCED_MEM_OK;
    case ZERO:
        *wait = sm_copy_blocker(copy, true);
        if (*wait)
            return SYNCED_MEM_OK;
        if (!fresh)
            memset(copy->data, 0, mem->size);
        break;
    case MOVE:
        status = sm_device_lane(device_of(mem), SM_LANE_D2H, &stream);
        if (status == SYNCED_MEM_OK)
            status = sm_transfer(SM_D2H, copy, mem->copy[SM_GPU], mem->size, device_of(mem), stream);
        break;
    }
    if (status == SYNCED_MEM_OK)
        commit(mem, head_of(mem) | bit(SM_CPU));
    return status;
}

/* The work itself, in the stream's order, on memory that may have been allocated in that order just before. */
static synced_mem_status fill_device(struct synced_mem *mem, enum work work, bool fresh, sm_stream stream)
{
    struct sm_copy *const copy = mem->copy[SM_GPU];
    switch (work) {
    case NOTHING:
        return fresh ? sm_transfer_none(copy, stream) : SYNCED_MEM_OK;
    case ZERO:
        return sm_transfer_zeros(copy, mem->size, stream);
    case MOVE:
        break;
    }
    return sm_transfer(SM_H2D, copy, mem->copy[SM_CPU], mem->size, copy->device, stream);
}

static synced_mem_status provide_device_on(struct synced_mem *mem, enum work work, int device, sm_stream stream)
{
    const bool fresh = !mem->copy[SM_GPU];
    if (fresh) {
        const synced_mem_status status =
            sm_copy_obtain_device(mem->size, sm_object_alignment(mem), device, stream, &mem->copy[SM_GPU]);
        if (status != SYNCED_MEM_OK)
            return status;
        atomic_store_explicit(&mem->device, device, memory_order_relaxed);
    }
    const synced_mem_status status = fill_device(mem, work, fresh, stream);
    if (status == SYNCED_MEM_OK && work != NOTHING)
        commit(mem, head_of(mem) | bit(SM_GPU));
    if (status != SYNCED_MEM_OK && fresh && !mem->copy[SM_GPU]->untracked) {
        /* The new memory stays as capacity, and whoever uses it next has to come after its allocation. */
        const struct sm_detail first = sm_detail_get();
        (void)sm_transfer_none(mem->copy[SM_GPU], stream);
        sm_detail_set(&first);
    }
    return status;
}

static synced_mem_status provide_device(struct synced_mem *mem, enum work work)
{
    if (work == NOTHING && mem->copy[SM_GPU])
        return SYNCED_MEM_OK;
    int device;
    sm_stream stream;
    synced_mem_status status = sm_device_resolve(device_of(mem), &device);
    if (status == SYNCED_MEM_OK)
        status = sm_device_lane(device, work == MOVE ? SM_LANE_H2D : SM_LANE_ALLOC, &stream);
    return status == SYNCED_MEM_OK ? provide_device_on(mem, work, device, stream) : status;
}

static synced_mem_status provide(struct synced_mem *mem, enum sm_side side, enum work work, struct sm_ticket **wait)
{
    const synced_mem_status status = make_usable(mem, side);
    if (status != SYNCED_MEM_OK)
        return status;
    return side == SM_CPU ? provide_host(mem, work, wait) : provide_device(mem, work);
}

/* ---- Waiting ---- */

/* Contents that were to arrive with work that has failed are lost; the copy they came from is valid still. */
static void lose(struct synced_mem *mem, const struct sm_ticket *failed)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
        struct sm_copy *const copy = mem->copy[side];
        const struct sm_ticket *const write = copy ? copy->write : NULL;
        if (write && copy->arriving && (write == failed || sm_ticket_state(write) == SM_TICKET_LOST)) {
            copy->arriving = false;
            commit(mem, head_of(mem) & ~bit(side));
        }
    }
}

/* Waits on the host with the lock released, so that everything has to be looked at again afterwards. */
static synced_mem_status wait_unlocked(struct synced_mem *mem, struct sm_ticket *ticket)
{
    sm_ticket_hold(ticket);
    pthread_mutex_unlock(&mem->lock);
    const synced_mem_status status = sm_ticket_wait(ticket);
    pthread_mutex_lock(&mem->lock);
    if (status != SYNCED_MEM_OK)
        lose(mem, ticket);
    sm_ticket_drop(ticket);
    return status;
}

/* ---- Calls ---- */

/* What a call keeps from its beginning to its end. */
struct call {
    unsigned head;
    unsigned char handed;
    struct sm_copy *let_go[SM_SIDES]; /* by a call that succeeds */
};

static struct call enter(struct synced_mem *mem)
{
    pthread_mutex_lock(&mem->lock);
    lose(mem, NULL);
    const struct sm_copy *const gpu = mem->copy[SM_GPU];
    return (struct call){.head = head_of(mem), .handed = gpu ? gpu->handed : 0};
}

/* A call that failed leaves the head as it was, though another side may have become valid on the way: one that had the
 * contents before has them still. Device pointers that were handed out before are good still, and their uses to be
 * waited for. */
static void put_back(struct synced_mem *mem, const struct call *call)
{
    if (mem->copy[SM_GPU])
        mem->copy[SM_GPU]->handed |= call->handed;
    const bool still = call->head && (head_of(mem) & call->head) == call->head;
    commit(mem, still ? call->head : head_of(mem));
}

static synced_mem_status leave(struct synced_mem *mem, const struct call *call, synced_mem_status status)
{
    if (status == SYNCED_MEM_OK)
        publish(mem);
    else
        put_back(mem, call);
    pthread_mutex_unlock(&mem->lock);
    for (int i = 0; i < SM_SIDES; i++)
        sm_copy_retire(call->let_go[i]);
    return status;
}

/* As leave(), for calls that may block: what other calls had to leave behind is looked at too. Not after a failure,
 * whose detail a callback could overwrite. */
static synced_mem_status leave_and_reap(struct synced_mem *mem, const struct call *call, synced_mem_status status)
{
    (void)leave(mem, call, status);
    if (status == SYNCED_MEM_OK)
        (void)sm_copy_reap(false);
    return status;
}

static synced_mem_status make_ready(struct synced_mem *mem, enum sm_side side, enum sm_mode mode)
{
    for (;;) {
        const enum work work = steps[head_of(mem)][side][mode].work;
        struct sm_ticket *wait = NULL;
        synced_mem_status status = provide(mem, side, work, &wait);
        if (status != SYNCED_MEM_OK)
            return status;
        if (!wait && work != NOTHING)
            continue;
        if (!wait)
            wait = sm_copy_blocker(mem->copy[side], mode != SM_READ);
        if (!wait)
            return SYNCED_MEM_OK;
        status = wait_unlocked(mem, wait);
        /* A lost device reads and writes no host memory any more: that can be used, if its contents are there or do not
         * matter. */
        const bool usable = side == SM_CPU && (mode == SM_OVERWRITE || (head_of(mem) & bit(SM_CPU)));
        if (status != SYNCED_MEM_OK && !(status == SYNCED_MEM_ERR_DEVICE_LOST && usable))
            return status;
    }
}

synced_mem_status sm_access(struct synced_mem *mem, enum sm_side side, enum sm_mode mode, void **out)
{
    const struct call call = enter(mem);
    const synced_mem_status status = make_ready(mem, side, mode);
    if (status == SYNCED_MEM_OK) {
        struct sm_copy *const copy = mem->copy[side];
        if (side == SM_GPU)
            copy->handed |= mode == SM_READ ? SM_HANDED_READ : SM_HANDED_WRITE;
        commit(mem, steps[head_of(mem)][side][mode].next);
        *out = copy->data;
    }
    return leave_and_reap(mem, &call, status);
}

static synced_mem_status push_from_host(struct synced_mem *mem, sm_stream stream)
{
    int device;
    synced_mem_status status = sm_device_resolve(device_of(mem), &device);
    if (status == SYNCED_MEM_OK)
        status = make_usable(mem, SM_GPU);
    return status == SYNCED_MEM_OK ? provide_device_on(mem, MOVE, device, stream) : status;
}

synced_mem_status sm_push(struct synced_mem *mem, sm_stream stream)
{
    const struct call call = enter(mem);
    synced_mem_status status = SYNCED_MEM_OK;
    switch ((synced_mem_state)head_of(mem)) {
    case SYNCED_MEM_UNINITIALIZED:
        status = sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the head is UNINITIALIZED: there is nothing to push");
        break;
    case SYNCED_MEM_AT_GPU:
        status = sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the head is AT_GPU: the host copy is stale");
        break;
    case SYNCED_MEM_AT_CPU:
        status = push_from_host(mem, stream);
        break;
    case SYNCED_MEM_SYNCED: /* it may be arriving on another stream */
        status = sm_copy_order(mem->copy[SM_GPU], false, device_of(mem), stream);
        break;
    }
    return leave(mem, &call, status);
}

/* The library's work on borrowed memory that is about to be handed back; it may have got out of sight. */
static synced_mem_status blocker_of_borrowed(struct sm_copy *copy, struct sm_ticket **wait)
{
    if (!copy || copy->source != SYNCED_MEM_SOURCE_BORROWED)
        return SYNCED_MEM_OK;
    const synced_mem_status status = sm_copy_retrack(copy);
    if (status == SYNCED_MEM_OK)
        *wait = sm_copy_transfer_on(copy);
    return status;
}

/* Leaves the other side with the contents, arrived, if this one has them; and nothing in flight on borrowed memory. */
static synced_mem_status make_dispensable(struct synced_mem *mem, enum sm_side side)
{
    while (mem->copy[side]) {
        const bool needed = head_of(mem) == bit(side);
        struct sm_ticket *wait = NULL;
        synced_mem_status status = SYNCED_MEM_OK;
        if (needed)
            status = provide(mem, other(side), MOVE, &wait);
        if (status != SYNCED_MEM_OK)
            return status;
        if (head_of(mem) & bit(other(side)))
            wait = sm_copy_blocker(mem->copy[other(side)], false);
        const bool arriving = wait != NULL;
        if (!wait)
            status = blocker_of_borrowed(mem->copy[side], &wait);
        if (!wait)
            return status;
        status = wait_unlocked(mem, wait);
        /* A lost device does no more to borrowed memory; but what was to arrive has not. */
        if (status != SYNCED_MEM_OK && (arriving || status != SYNCED_MEM_ERR_DEVICE_LOST))
            return status;
    }
    return SYNCED_MEM_OK;
}

synced_mem_status sm_release_side(struct synced_mem *mem, enum sm_side side)
{
    struct call call = enter(mem);
    const synced_mem_status status = make_dispensable(mem, side);
    if (status == SYNCED_MEM_OK) {
        call.let_go[side] = mem->copy[side];
        mem->copy[side] = NULL;
        commit(mem, head_of(mem) & ~bit(side));
    }
    return leave_and_reap(mem, &call, status);
}

static synced_mem_status make_replaceable(struct synced_mem *mem, const bool going[SM_SIDES])
{
    for (;;) {
        struct sm_ticket *wait = NULL;
        synced_mem_status status = SYNCED_MEM_OK;
        for (enum sm_side side = SM_CPU; side < SM_SIDES && !wait && status == SYNCED_MEM_OK; side++)
            if (going[side])
                status = blocker_of_borrowed(mem->copy[side], &wait);
        if (!wait)
            return status;
        status = wait_unlocked(mem, wait);
        if (status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST)
            return status;
    }
}

synced_mem_status sm_replace(struct synced_mem *mem, struct sm_copy *cpu, struct sm_copy *gpu)
{
    struct sm_copy *const incoming[SM_SIDES] = {[SM_CPU] = cpu, [SM_GPU] = gpu};
    const bool all = !cpu && !gpu;
    const bool going[SM_SIDES] = {[SM_CPU] = cpu || all, [SM_GPU] = gpu || all};
    struct call call = enter(mem);
    synced_mem_status status = make_replaceable(mem, going);
    if (status == SYNCED_MEM_OK && gpu && device_of(mem) >= 0 && device_of(mem) != gpu->device)
        status = sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE, "memory of device %d for an object of device %d", gpu->device,
                         device_of(mem));
    if (status == SYNCED_MEM_OK) {
        for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
            if (going[side]) {
                call.let_go[side] = mem->copy[side];
                mem->copy[side] = incoming[side];
            }
        }
        if (gpu)
            atomic_store_explicit(&mem->device, gpu->device, memory_order_relaxed);
        commit(mem, (cpu ? bit(SM_CPU) : 0) | (gpu ? bit(SM_GPU) : 0));
    }
    return leave_and_reap(mem, &call, status);
}
