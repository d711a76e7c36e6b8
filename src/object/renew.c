/* The replacement of read-only memory. */
#include "object/renew.h"

#include "object/borrowed.h"
#include "object/exports.h"
#include "object/publish.h"
#include "object/replacement.h"
#include "object/span.h"
#include "object/user_allocator.h"

bool sm_access_needs_renewal(const struct synced_mem *mem, enum sm_side side, enum sm_mode mode)
{
    if (!sm_is_read_only(mem, side))
        return false;
    bool writes = mode != SM_READ;
    for (struct sm_record *each = sm_first_record(mem); each && !writes; each = sm_next_record(mem, each))
        writes = sm_transitions[sm_whole_head(each)][side][mode].work != SM_NOTHING;
    return writes;
}

synced_mem_status sm_renew(struct sm_transaction *transaction, enum sm_side side, bool overwrites,
                           struct sm_stream *stream)
{
    struct synced_mem *const owner = sm_owner(transaction->mem);
    const struct sm_replacing renewal = {.transaction = transaction,
                                         .owner = owner,
                                         .side = side,
                                         .size = sm_size(owner),
                                         .overwrites = overwrites,
                                         .stream = stream};
    if (!sm_is_read_only(transaction->mem, side))
        return SYNCED_MEM_OK;
    SM_TRY(sm_check_not_exported(owner, side));
    SM_TRY(sm_replacement_prepare(&renewal));
    SM_TRY(sm_find_wait_of_borrowed(owner, side, &transaction->waits));
    SM_TRY(sm_replacement_commit(&renewal));
    for (struct sm_record *each = sm_first_record(owner); each; each = sm_next_record(owner, each))
        sm_publish(each);
    return SYNCED_MEM_OK;
}

static synced_mem_status renew_and_wait(struct sm_transaction *transaction, enum sm_side side)
{
    synced_mem_status status;
    do
        status = sm_renew(transaction, side, false, NULL);
    while (sm_wait_again(transaction, &status) || transaction->waits_ended);
    return status;
}

static synced_mem_status make_writable(struct synced_mem *mem, enum sm_side side)
{
    struct sm_transaction transaction;
    SM_TRY(sm_enter_restoring_nothing(&transaction, mem));
    return sm_leave(&transaction, renew_and_wait(&transaction, side));
}

synced_mem_status sm_obtain_alone(struct synced_mem *owner, enum sm_side side, struct sm_stream *stream)
{
    struct sm_transaction transaction;
    SM_TRY(make_writable(owner, side));
    SM_TRY(sm_enter_restoring_nothing(&transaction, owner));
    const synced_mem_status status = sm_user_allocator_obtain(owner, side, stream);
    return sm_leave(&transaction, status == SM_AGAIN ? SYNCED_MEM_OK : status);
}
