/* Turns of a shareable object. */
#include "object/acquire.h"

#include "base/status.h"
#include "object/access.h"
#include "object/exports.h"
#include "object/fetch.h"
#include "object/piece.h"
#include "object/reclaim.h"
#include "object/span.h"
#include "object/transaction.h"

/* ---- Changes of the turn ---- */

/* From now on this thread alone changes the turn. */
static synced_mem_status claim_turn(struct sm_sharing *sharing)
{
    SM_TRY(sm_sharing_check_process(sharing));
    sm_mutex_lock(&sharing->lock);
    const bool free = sharing->turn == SM_TURN_NONE;
    if (free)
        sharing->turn = SM_TURN_CHANGING;
    sm_mutex_unlock(&sharing->lock);
    if (free)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "this process has a turn, or waits for one: end it first");
}

/* *before: the turn. In a callback the calling thread may be in a call on the object, whose end would never come. */
static synced_mem_status begin_ending(struct sm_sharing *sharing, enum sm_turn *before)
{
    SM_TRY(sm_sharing_check_process(sharing));
    sm_mutex_lock(&sharing->lock);
    *before = sharing->turn;
    const bool has_turn = *before == SM_TURN_READ || *before == SM_TURN_WRITE;
    const bool inside = sharing->calls > 0 && sm_gate_is_passed();
    if (has_turn && !inside)
        sharing->turn = SM_TURN_CHANGING;
    sm_mutex_unlock(&sharing->lock);
    if (!has_turn)
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "this process has no turn to end");
    if (inside)
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "a callback can't end the turn of the call that it is in");
    return SYNCED_MEM_OK;
}

/* ERR_FORKED: a signal handler has forked, and the child has returned from it. The calls have no end there. */
static synced_mem_status wait_for_calls(struct sm_sharing *sharing)
{
    for (;;) {
        const unsigned seen = sm_events_seen(&sharing->ended);
        SM_TRY(sm_sharing_check_process(sharing));
        sm_mutex_lock(&sharing->lock);
        const unsigned calls = sharing->calls;
        sm_mutex_unlock(&sharing->lock);
        if (calls == 0)
            return SYNCED_MEM_OK;
        sm_events_wait(&sharing->ended, seen);
    }
}

static void set_turn(struct sm_sharing *sharing, enum sm_turn turn, unsigned valid)
{
    sm_mutex_lock(&sharing->lock);
    sharing->turn = turn;
    sharing->valid = valid;
    sm_mutex_unlock(&sharing->lock);
}

/* ---- Taking over the contents ---- */

/* Nothing writes a stale side in a turn to read, so valid sides alone are made read-only. */
static void set_read_only(const struct sm_record *record, unsigned sides)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (sm_copy_of(record, side))
            sm_copy_of(record, side)->read_only = (sides & sm_bit(side)) != 0;
}

static void set_heads(struct synced_mem *mem, unsigned head, bool reading)
{
    const unsigned read_only = reading ? head : SYNCED_MEM_UNINITIALIZED;
    set_read_only(sm_own_record(mem), read_only);
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each)) {
        set_read_only(each, read_only);
        sm_set_head(each, head);
    }
}

/* With the object's lock. A process that uses no device leaves the device's side out, unless it is needed. *head: as
 * published, then as taken over. */
static synced_mem_status take_over(struct sm_sharing *sharing, enum sm_side side, bool writing, unsigned *head)
{
    struct synced_mem *const mem = sharing->mem;
    const bool needed = side == SM_GPU || *head == SYNCED_MEM_AT_GPU;
    if (needed || ((*head & sm_bit(SM_GPU)) && sm_device_in_use())) {
        const struct sm_detail first = sm_detail_get();
        const synced_mem_status status = sm_shareable_attach_device(sharing);
        if (status != SYNCED_MEM_OK && needed)
            return status;
        if (status != SYNCED_MEM_OK)
            sm_detail_set(&first);
    }
    if (!sm_copy_of(sm_own_record(mem), SM_GPU))
        *head &= ~sm_bit(SM_GPU);
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each))
        for (enum sm_side valid = SM_CPU; valid < SM_SIDES; valid++)
            if (each->kind == SM_PIECE && (*head & sm_bit(valid)))
                SM_TRY(sm_attach_part(sm_piece_of(each), valid));
    set_heads(mem, *head, !writing && (*head & sm_bit(side)));
    return SYNCED_MEM_OK;
}

static synced_mem_status take_over_contents(struct sm_sharing *sharing, enum sm_side side, bool writing, unsigned *head)
{
    struct sm_reclaim reclaim = {.handler_calls = 0};
    synced_mem_status status;
    do {
        struct sm_transaction transaction;
        SM_TRY(sm_enter_restoring_nothing(&transaction, sharing->mem));
        status = sm_leave_and_reap(&transaction, take_over(sharing, side, writing, head), true);
    } while (sm_reclaim_helps(&reclaim, status));
    return status;
}

/* Ends all that a turn has made valid in this process. */
static void give_up_contents(struct sm_sharing *sharing)
{
    struct sm_transaction transaction;
    if (sm_enter_restoring_nothing(&transaction, sharing->mem) == SYNCED_MEM_OK) {
        set_heads(sharing->mem, SYNCED_MEM_UNINITIALIZED, false);
        (void)sm_leave(&transaction, SYNCED_MEM_OK);
    }
}

/* Makes the side valid, and then the copies read-only. */
static synced_mem_status fill_side(struct sm_sharing *sharing, enum sm_side side, unsigned *head)
{
    struct sm_transaction transaction;
    SM_TRY(sm_make_valid(sharing->mem, side));
    SM_TRY(sm_enter_restoring_nothing(&transaction, sharing->mem));
    *head |= sm_bit(side);
    set_heads(sharing->mem, *head, true);
    return sm_leave(&transaction, SYNCED_MEM_OK);
}

/* ---- Acquiring ---- */

static void give_up_turn(struct sm_sharing *sharing, unsigned head)
{
    struct sm_participant *const participant = &sharing->memory->participant;
    if (sharing->wish.writing)
        sm_turn_give_up_write(participant, head);
    else
        sm_turn_end_read(participant);
}

/* A reader consumes the contents before it leaves the line, whose ring then tells of both. */
static void end_shared_turn(struct sm_sharing *sharing, unsigned head)
{
    struct sm_participant *const participant = &sharing->memory->participant;
    if (sharing->wish.writing) {
        sm_turn_end_write(participant, head);
        return;
    }
    if (sharing->wish.kind == SM_WISH_SLOT)
        sm_watch_consume(participant, &sharing->wish);
    sm_turn_end_read(participant);
}

/* With the turn to write, or to fill. *published: the head, as it is to be published if the turn is given up. */
static synced_mem_status use_turn(struct sm_sharing *sharing, enum sm_side side, unsigned *published)
{
    const bool writing = sharing->wish.writing;
    unsigned head = *published;
    if ((head & sm_bit(SM_GPU)) && sharing->memory->facts.device_bytes == 0) {
        *published &= ~sm_bit(SM_GPU); /* a hostile process may publish a side that does not exist */
        return sm_fail(SYNCED_MEM_ERR_PEER, "another process has written an impossible head");
    }
    SM_TRY(take_over_contents(sharing, side, writing, &head));
    if (writing) {
        set_turn(sharing, SM_TURN_WRITE, head);
        return SYNCED_MEM_OK;
    }
    if (!(head & sm_bit(side)))
        SM_TRY(fill_side(sharing, side, &head));
    sm_turn_read(&sharing->memory->participant, *published | head);
    sharing->losses = sm_device_losses();
    set_turn(sharing, SM_TURN_READ, head);
    return SYNCED_MEM_OK;
}

/* A signal handler may fork in this thread, and the child returns from it to here. Then the call fails in the child. */
static synced_mem_status wait_and_use_turn(struct sm_sharing *sharing, enum sm_side side, sm_deadline deadline)
{
    unsigned published;
    if (side == SM_GPU)
        SM_TRY(sm_shareable_find_device(sharing));
    const synced_mem_status came =
        sm_watch_and_wait(&sharing->memory->participant, &sharing->wish, deadline, &published);
    SM_TRY(sm_sharing_check_process(sharing));
    SM_TRY(came);
    synced_mem_status status = use_turn(sharing, side, &published);
    if (status == SYNCED_MEM_OK)
        status = sm_sharing_check_process(sharing);
    if (status == SYNCED_MEM_OK)
        return SYNCED_MEM_OK;
    const struct sm_detail first = sm_detail_get();
    give_up_contents(sharing);
    give_up_turn(sharing, published);
    sm_detail_set(&first);
    return status;
}

synced_mem_status sm_begin_turn(struct sm_sharing *sharing, enum sm_side side, struct sm_wish wish,
                                sm_deadline deadline)
{
    SM_TRY(claim_turn(sharing));
    sharing->wish = wish;
    const synced_mem_status status = wait_and_use_turn(sharing, side, deadline);
    if (status != SYNCED_MEM_OK)
        set_turn(sharing, SM_TURN_NONE, 0);
    return status;
}

/* ---- Handing over ---- */

/* Finds the next wait for this process's work on the copies. *lost: the device was lost, and nothing runs there. */
static synced_mem_status find_work(struct sm_transaction *transaction, synced_mem_status *lost)
{
    struct synced_mem *const mem = transaction->mem;
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each)) {
        for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
            struct sm_copy *const copy = sm_copy_of(each, side);
            if (!copy)
                continue;
            sm_inflight_note_strays(copy);
            (void)sm_inflight_retrack(copy);
            if (copy->untracked)
                return sm_fail(SYNCED_MEM_ERR_CUDA,
                               "the end of work on %p is unknown, as no event could be recorded behind it",
                               sm_copy_data(copy));
            SM_TRY(sm_copy_end_streamless(copy));
            const synced_mem_status status = sm_inflight_settle(copy, true, NULL);
            if (status == SYNCED_MEM_ERR_DEVICE_LOST)
                *lost = status;
            else if (status != SYNCED_MEM_OK)
                return status;
            SM_TRY(sm_waits_add(&transaction->waits, sm_inflight_unfinished(copy, true)));
        }
    }
    return SYNCED_MEM_OK;
}

static synced_mem_status wait_for_own_work(struct sm_transaction *transaction, synced_mem_status *lost)
{
    synced_mem_status status;
    bool tries_again;
    do {
        status = find_work(transaction, lost);
        tries_again = sm_wait_again(transaction, &status) || transaction->waits_ended;
        if (tries_again && status != SYNCED_MEM_OK)
            *lost = status;
    } while (tries_again);
    return status;
}

/* With the object's lock. Withdraws all pointers. */
static void close_contents(struct synced_mem *mem)
{
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each))
        sm_close_write(each);
    set_heads(mem, SYNCED_MEM_UNINITIALIZED, false);
}

/* With the object's lock. Contents that are on a lost device alone are lost. An earlier call may have reported the loss
 * already. *head: the sides that are valid. */
static synced_mem_status end_contents(struct synced_mem *mem, bool writing, synced_mem_status lost, unsigned *head)
{
    if (writing && (*head & sm_bit(SM_GPU))) {
        const struct sm_copy *const copy = sm_copy_of(sm_own_record(mem), SM_GPU);
        struct sm_pointer_facts facts;
        if (sm_device_query_pointer(copy->device, sm_copy_data(copy), &facts) == SYNCED_MEM_ERR_DEVICE_LOST)
            lost = SYNCED_MEM_ERR_DEVICE_LOST;
    }
    if (lost != SYNCED_MEM_OK && writing && *head != SYNCED_MEM_UNINITIALIZED) {
        *head &= sm_bit(SM_CPU);
        if (!*head)
            return lost;
    }
    close_contents(mem);
    return SYNCED_MEM_OK;
}

/* With the object's lock. Nobody in this process uses the contents any more. *lost: as above. */
static synced_mem_status end_uses(struct sm_transaction *transaction, synced_mem_status *lost)
{
    SM_TRY(wait_for_own_work(transaction, lost));
    SM_TRY(sm_check_not_exported(transaction->mem, SM_CPU));
    return sm_check_not_exported(transaction->mem, SM_GPU);
}

/* A reader that has found a device lost in its turn may have used nothing of the contents. So its slot does not consume
 * them. */
static synced_mem_status check_reader(const struct sm_sharing *sharing)
{
    if (sharing->wish.kind != SM_WISH_SLOT || sm_device_losses() == sharing->losses)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_DEVICE_LOST,
                   "a device was lost in the turn: abandon it, and the slot's next turn reads "
                   "the contents again");
}

/* With the object's lock. *head: as above; MIXED: the turn to write has not ended, as the contents are on no side. */
static synced_mem_status end_own_work(struct sm_transaction *transaction, bool writing, unsigned *head)
{
    struct synced_mem *const mem = transaction->mem;
    synced_mem_status lost = SYNCED_MEM_OK;
    SM_TRY(end_uses(transaction, &lost));
    SM_TRY(check_reader(sm_sharing_of(mem)));
    *head = sm_head_of_records(mem);
    return writing && *head == SYNCED_MEM_MIXED ? SYNCED_MEM_OK : end_contents(mem, writing, lost, head);
}

static synced_mem_status end_turn_of_object(struct sm_sharing *sharing, bool writing, unsigned *head)
{
    do {
        struct sm_transaction transaction;
        if (writing && sm_read_head(sharing->mem) == SYNCED_MEM_MIXED)
            SM_TRY(sm_make_valid(sharing->mem, SM_CPU));
        SM_TRY(sm_enter_restoring_nothing(&transaction, sharing->mem));
        SM_TRY(sm_leave_and_reap(&transaction, end_own_work(&transaction, writing, head), true));
    } while (writing && *head == SYNCED_MEM_MIXED);
    return SYNCED_MEM_OK;
}

/* With the object's lock. Contents on a lost device are given up like all others. */
static synced_mem_status abandon_contents(struct sm_transaction *transaction)
{
    synced_mem_status lost;
    SM_TRY(end_uses(transaction, &lost));
    close_contents(transaction->mem);
    return SYNCED_MEM_OK;
}

static synced_mem_status abandon_turn_of_object(struct sm_sharing *sharing)
{
    struct sm_transaction transaction;
    SM_TRY(sm_enter_restoring_nothing(&transaction, sharing->mem));
    return sm_leave_and_reap(&transaction, abandon_contents(&transaction), true);
}

static void abandon_shared_turn(struct sm_sharing *sharing)
{
    struct sm_participant *const participant = &sharing->memory->participant;
    if (sharing->wish.writing)
        sm_turn_abandon_write(participant);
    else
        sm_turn_end_read(participant);
}

static synced_mem_status end_or_abandon_turn(struct sm_sharing *sharing, bool abandons)
{
    enum sm_turn before;
    unsigned head = SYNCED_MEM_UNINITIALIZED;
    SM_TRY(begin_ending(sharing, &before));
    synced_mem_status status = wait_for_calls(sharing);
    if (status == SYNCED_MEM_OK)
        status =
            abandons ? abandon_turn_of_object(sharing) : end_turn_of_object(sharing, before == SM_TURN_WRITE, &head);
    sharing->is_given_up = status != SYNCED_MEM_OK && (abandons || sharing->is_given_up);
    if (status != SYNCED_MEM_OK) {
        set_turn(sharing, before, sharing->valid);
        return status;
    }
    if (abandons)
        abandon_shared_turn(sharing);
    else
        end_shared_turn(sharing, head);
    set_turn(sharing, SM_TURN_NONE, 0);
    return sm_sharing_check_process(sharing);
}

synced_mem_status sm_end_turn(struct sm_sharing *sharing)
{
    return end_or_abandon_turn(sharing, false);
}

synced_mem_status sm_abandon_turn(struct sm_sharing *sharing)
{
    return end_or_abandon_turn(sharing, true);
}

void sm_sharing_end(struct sm_sharing *sharing)
{
    const struct sm_detail first = sm_detail_get();
    (void)end_or_abandon_turn(sharing, sharing->is_given_up);
    sm_detail_set(&first);
    sm_sharing_leave(sharing);
}

/* ---- Sharing ---- */

/* Stores whether the object gets device memory: it was not shared yet, and names a device, or the process uses one. A
 * machine without one is no failure. */
static synced_mem_status wants_device(const struct sm_sharing *sharing, bool *wants)
{
    const struct sm_detail first = sm_detail_get();
    int device;
    *wants = atomic_load(&sharing->shares) == 0 && (sm_device(sharing->mem) >= 0 || sm_device_in_use());
    const synced_mem_status status = *wants ? sm_device_resolve(sm_device(sharing->mem), &device) : SYNCED_MEM_OK;
    if (status != SYNCED_MEM_ERR_NO_GPU && status != SYNCED_MEM_ERR_FORKED)
        return status;
    *wants = false;
    sm_detail_set(&first);
    return SYNCED_MEM_OK;
}

/* With the object's lock. From now on no device memory can be added, which the message would not name. */
static synced_mem_status reserve_device(struct sm_sharing *sharing, bool wants)
{
    if (wants && atomic_load(&sharing->shares) == 0 && sharing->memory->facts.device_bytes == 0)
        SM_TRY(sm_shareable_attach_device(sharing));
    atomic_fetch_add(&sharing->shares, 1);
    return SYNCED_MEM_OK;
}

static synced_mem_status begin_share(struct sm_sharing *sharing)
{
    struct sm_reclaim reclaim = {.handler_calls = 0};
    synced_mem_status status;
    bool wants;
    SM_TRY(wants_device(sharing, &wants));
    do {
        struct sm_transaction transaction;
        SM_TRY(sm_enter_restoring_nothing(&transaction, sharing->mem));
        status = sm_leave_and_reap(&transaction, reserve_device(sharing, wants), true);
    } while (sm_reclaim_helps(&reclaim, status));
    return status;
}

static synced_mem_status reserve_and_send(struct sm_sharing *sharing, int socket, sm_deadline deadline)
{
    SM_TRY(begin_share(sharing));
    const synced_mem_status status = sm_shared_send(sharing->memory, socket, deadline);
    if (status != SYNCED_MEM_OK)
        atomic_fetch_sub(&sharing->shares, 1);
    return status;
}

synced_mem_status sm_share(struct sm_sharing *sharing, int socket, sm_deadline deadline)
{
    SM_TRY(sm_gate_pass(sharing, SM_SIDES, SM_READ));
    const synced_mem_status status = reserve_and_send(sharing, socket, deadline);
    sm_gate_leave(sharing);
    return status;
}
