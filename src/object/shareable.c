/* Shareable objects. */
#include "object/shareable.h"

#include "base/process.h"
#include "base/refusal.h"
#include "base/status.h"
#include "copy/pin.h"
#include "memory/accounting.h"
#include "object/objects.h"
#include "object/publish.h"
#include "object/span.h"
#include "object/transaction.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static struct {
    struct sm_lock lock;
    struct sm_sharing *first;
} sharings = {.lock = SM_LOCK_INITIALIZER};

/* ---- Forks ---- */

/* In a forked child whose parent used no GPU. All objects are whole. */
static void withdraw_object(struct synced_mem *mem)
{
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each)) {
        sm_set_head(each, SYNCED_MEM_UNINITIALIZED);
        sm_publish(each);
    }
}

static bool is_shareable(const struct synced_mem *mem, void *unused)
{
    (void)unused;
    return sm_sharing_of(mem) != NULL;
}

static void withdraw_pointers(const struct synced_mem *mem, void *unused)
{
    (void)unused;
    sm_publish_nothing((struct synced_mem *)(uintptr_t)mem);
}

/* A signal handler may have forked while its thread was in a call, which goes on in the child. It may write the host
 * memory. Another thread may have held the lock. The end of a turn may have been in a wait for the calls of other
 * threads. */
static void reopen_in_child(struct sm_sharing *sharing)
{
    const struct sm_shared_memory *const memory = sharing->memory;
    sm_sealed_make_private(memory->host, (size_t)memory->facts.host_bytes, memory->files.host);
    sm_mutex_init(&sharing->lock);
    sm_events_add(&sharing->ended);
}

/* The turns are the parent's. In a child of a process that uses a GPU another thread may have been inside an object. So
 * only the pointers are stored there; no later call publishes any. */
static void begin_child(void)
{
    struct sm_slab_walk walk = {.begun = false};
    if (sm_process_lost_gpu())
        while (sm_objects_next(&walk, is_shareable, withdraw_pointers, NULL))
            continue;
    else
        for (struct sm_sharing *each = sharings.first; each; each = each->next)
            withdraw_object(each->mem);
    for (struct sm_sharing *each = sharings.first; each; each = each->next)
        reopen_in_child(each);
}

/* ---- Life ---- */

static void add_sharing(struct sm_sharing *sharing)
{
    sm_process_watch_children(begin_child);
    sm_lock(&sharings.lock);
    sharing->next = sharings.first;
    sharing->link = &sharings.first;
    if (sharings.first)
        sharings.first->link = &sharing->next;
    sharings.first = sharing;
    sm_unlock(&sharings.lock);
}

static void remove_sharing(struct sm_sharing *sharing)
{
    sm_lock(&sharings.lock);
    *sharing->link = sharing->next;
    if (sharing->next)
        sharing->next->link = sharing->link;
    sharing->link = NULL;
    sm_unlock(&sharings.lock);
}

static void drop_host_memory(void *data, void *memory, synced_mem_stream stream)
{
    (void)data, (void)stream;
    sm_shared_drop(memory);
}

static void drop_device_memory(void *data, void *user, synced_mem_stream stream)
{
    struct sm_shared_memory *const memory = user;
    const int device = atomic_load(&memory->device);
    (void)stream;
    (void)sm_device_unmap(device, data, (size_t)memory->facts.device_bytes);
    sm_gpu_freed(device, (size_t)memory->facts.device_bytes);
    sm_shared_drop(memory);
}

synced_mem_status sm_sharing_begin(struct synced_mem *mem, struct sm_shared_memory *memory, enum sm_turn turn)
{
    struct sm_copy *host;
    struct sm_sharing *const sharing = calloc(1, sizeof *sharing);
    if (!sharing)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of a shareable object");
    if (sm_copy_wrap_shareable(memory->host, (size_t)memory->facts.host_bytes, -1, drop_host_memory, memory, &host) !=
        SYNCED_MEM_OK) {
        free(sharing);
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    }
    sm_shared_hold(memory);
    sharing->memory = memory;
    sharing->mem = mem;
    sharing->turn = turn;
    sharing->wish.writing = turn == SM_TURN_WRITE;
    sharing->received = turn == SM_TURN_NONE;
    atomic_init(&sharing->shares, sharing->received);
    sm_put_copy(sm_own_record(mem), SM_CPU, host);
    mem->extras->sharing = sharing;
    add_sharing(sharing);
    return SYNCED_MEM_OK;
}

void sm_sharing_leave(struct sm_sharing *sharing)
{
    if (!sharing->link)
        return;
    remove_sharing(sharing);
    sharing->turn = SM_TURN_ENDED;
    sm_participant_leave(&sharing->memory->participant);
}

void sm_sharing_free(struct sm_sharing *sharing)
{
    if (!sharing)
        return;
    sm_sharing_leave(sharing);
    sm_shared_drop(sharing->memory);
    free(sharing);
}

synced_mem_status sm_sharing_check_process(const struct sm_sharing *sharing)
{
    if (sharing->mem->generation == sm_process_generation())
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_FORKED, "the object's turn is the parent process's");
}

/* ---- The device ---- */

static synced_mem_status find_device_by_uuid(const unsigned char uuid[SM_UUID_BYTES], int *device)
{
    const int count = sm_device_count();
    for (int i = 0; i < count; i++) {
        unsigned char found[SM_DEVICE_UUID_BYTES];
        SM_TRY(sm_device_uuid(i, found));
        if (memcmp(found, uuid, sizeof found) == 0)
            return sm_device_resolve(i, device);
    }
    return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE,
                   "the device with the object's memory is none of the %d devices of this "
                   "process",
                   count);
}

static synced_mem_status check_has_device(const struct sm_sharing *sharing)
{
    if (atomic_load(&sharing->shares) == 0)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the object was shared without device memory: name a device in its "
                                                 "options, or use it on one before it is shared");
}

synced_mem_status sm_shareable_find_device(struct sm_sharing *sharing)
{
    struct sm_shared_memory *const memory = sharing->memory;
    if (memory->facts.device_bytes == 0)
        return check_has_device(sharing);
    if (atomic_load(&memory->device) < 0) {
        int device;
        SM_TRY(find_device_by_uuid(memory->facts.uuid, &device));
        sm_put_device(sharing->mem, device); /* a thread that sees the number finds it here too */
        atomic_store(&memory->device, device);
    }
    return SYNCED_MEM_OK;
}

/* ---- The gate ---- */

/* The gates that the calling thread has passed and not left. */
static _Thread_local unsigned gates_passed;

bool sm_gate_is_passed(void)
{
    return gates_passed > 0;
}

/* With the lock held. */
static synced_mem_status check_turn(const struct sm_sharing *sharing, enum sm_side side, enum sm_mode mode)
{
    if (sharing->turn != SM_TURN_READ && sharing->turn != SM_TURN_WRITE)
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the object is shareable, and this process has no turn: call "
                                                     "synced_mem_begin_turn() first");
    if (sharing->turn == SM_TURN_WRITE)
        return SYNCED_MEM_OK;
    if (mode != SM_READ)
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE,
                       "this process has the turn to read the object, and not to write it");
    if (side < SM_SIDES && !(sharing->valid & sm_bit(side)))
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "this process has the turn to read the object on the other side");
    return SYNCED_MEM_OK;
}

/* Streams are chosen by the object's device, so a receiver finds the device before. A call that may need the host's
 * side alone goes on without it. */
static synced_mem_status find_device_for(struct sm_sharing *sharing, enum sm_side side)
{
    const struct sm_detail first = sm_detail_get();
    const bool useful = side == SM_GPU || (side == SM_SIDES && sm_device_in_use());
    if (!useful || !sharing->received || sharing->memory->facts.device_bytes == 0)
        return SYNCED_MEM_OK;
    const synced_mem_status status = sm_shareable_find_device(sharing);
    if (status == SYNCED_MEM_OK || side == SM_GPU)
        return status;
    sm_detail_set(&first);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_gate_pass(struct sm_sharing *sharing, enum sm_side side, enum sm_mode mode)
{
    SM_TRY(sm_sharing_check_process(sharing));
    sm_mutex_lock(&sharing->lock);
    synced_mem_status status = check_turn(sharing, side, mode);
    sharing->calls += status == SYNCED_MEM_OK;
    sm_mutex_unlock(&sharing->lock);
    if (status != SYNCED_MEM_OK)
        return status;
    gates_passed++;
    status = find_device_for(sharing, side);
    if (status != SYNCED_MEM_OK)
        sm_gate_leave(sharing);
    return status;
}

void sm_gate_leave(struct sm_sharing *sharing)
{
    gates_passed--;
    sm_mutex_lock(&sharing->lock);
    const bool awaited = --sharing->calls == 0 && sharing->turn == SM_TURN_CHANGING;
    sm_mutex_unlock(&sharing->lock);
    if (awaited)
        sm_events_add(&sharing->ended);
}

synced_mem_status sm_check_not_shareable(const struct synced_mem *mem)
{
    if (!sm_sharing_of(mem))
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the object is shareable: its size and its memory stay as they are");
}

/* ---- Device memory ---- */

static synced_mem_status import_memory(struct sm_sharing *sharing, int device, void **data)
{
    const struct sm_shared_memory *const memory = sharing->memory;
    assert(device == atomic_load(&memory->device));
    return sm_device_import(device, memory->files.device, (size_t)memory->facts.device_bytes,
                            (size_t)memory->facts.alignment, data);
}

static synced_mem_status make_memory(struct sm_sharing *sharing, int device, void **data)
{
    struct sm_shared_memory *const memory = sharing->memory;
    struct sm_device_shareable made;
    unsigned char uuid[SM_DEVICE_UUID_BYTES];
    SM_TRY(check_has_device(sharing));
    SM_TRY(sm_device_uuid(device, uuid));
    SM_TRY(sm_device_share(device, (size_t)memory->facts.size, (size_t)memory->facts.alignment, &made));
    const synced_mem_status status = sm_fd_move_up(&made.file);
    if (status != SYNCED_MEM_OK) {
        (void)sm_device_unmap(device, made.data, made.bytes);
        return status;
    }
    sm_shared_add_device(memory, made.file, made.bytes, uuid);
    sm_put_device(sharing->mem, device);
    atomic_store(&memory->device, device);
    *data = made.data;
    return SYNCED_MEM_OK;
}

void sm_shareable_pin(struct sm_sharing *sharing, int device)
{
    struct sm_copy *const host = sm_copy_of(sm_own_record(sharing->mem), SM_CPU);
    if (sm_allocation_of(host)->pin_held || sharing->pin_tried)
        return;
    const struct sm_detail first = sm_detail_get();
    sharing->pin_tried = true;
    if (sm_pin(host, device) != SYNCED_MEM_OK)
        sm_detail_set(&first);
}

/* Memory that this process made and whose copy it gave up is imported like any other. */
synced_mem_status sm_shareable_obtain_device(const struct synced_mem *mem, int device, struct sm_copy **out)
{
    struct sm_sharing *const sharing = sm_sharing_of(mem);
    struct sm_shared_memory *const memory = sharing->memory;
    const bool is_made = memory->facts.device_bytes > 0;
    void *data;
    synced_mem_status status = is_made ? import_memory(sharing, device, &data) : make_memory(sharing, device, &data);
    if (status != SYNCED_MEM_OK)
        return sm_refusal_note(status, device, (size_t)memory->facts.size);
    const size_t bytes = (size_t)memory->facts.device_bytes;
    status = sm_copy_wrap_shareable(data, bytes, device, drop_device_memory, memory, out);
    if (status != SYNCED_MEM_OK) {
        (void)sm_device_unmap(device, data, bytes);
        return status;
    }
    sm_shared_hold(memory);
    sm_gpu_obtained(device, bytes);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_shareable_attach_device(struct sm_sharing *sharing)
{
    struct synced_mem *const mem = sharing->mem;
    struct sm_copy *copy;
    int device;
    if (sm_copy_of(sm_own_record(mem), SM_GPU))
        return SYNCED_MEM_OK;
    SM_TRY(sm_shareable_find_device(sharing));
    SM_TRY(sm_device_resolve(sm_device(mem), &device));
    SM_TRY(sm_shareable_obtain_device(mem, device, &copy));
    sm_put_copy(sm_own_record(mem), SM_GPU, copy);
    sm_put_device(mem, device);
    return SYNCED_MEM_OK;
}
