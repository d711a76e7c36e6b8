/* The transfers of one call. */
#include "copy/transfers.h"

#include "copy/staged.h"

void *sm_transfers_lay_out(struct sm_transfers *transfers, void *block, size_t room)
{
    struct sm_batch *const batch = &transfers->batch;
    transfers->room = room;
    transfers->list = block;
    transfers->arrivals = (struct sm_fence **)(void *)(transfers->list + room);
    batch->to = (void **)(void *)(transfers->arrivals + room);
    batch->from = (const void **)(void *)(batch->to + room);
    batch->sizes = (size_t *)(void *)(batch->from + room);
    batch->room = room > 1 ? room : 0;
    batch->list.entries = (struct sm_list_entry *)(void *)(batch->sizes + room);
    batch->gather.pieces = (struct sm_gather_piece *)(void *)(batch->list.entries + room);
    return batch->gather.pieces + room;
}

/* Buffers of transfers that were not queued are given back at once. */
static synced_mem_status enter_queued(struct sm_transfers *transfers, struct sm_stream *stream)
{
    const size_t count = transfers->queued;
    transfers->queued = 0;
    if (count > 0)
        return sm_transfer_enter(transfers->list, count, &transfers->batch.gather, stream);
    sm_gather_give(&transfers->batch.gather, NULL);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_transfers_enter(struct sm_transfers *transfers, struct sm_stream *stream)
{
    const synced_mem_status sent = sm_batch_send(&transfers->batch, stream);
    return sent == SYNCED_MEM_OK ? enter_queued(transfers, stream) : sm_transfers_enter_unsent(transfers, stream, sent);
}

synced_mem_status sm_transfers_enter_unsent(struct sm_transfers *transfers, struct sm_stream *stream,
                                            synced_mem_status status)
{
    const struct sm_detail first = sm_detail_get();
    sm_batch_empty(&transfers->batch);
    const synced_mem_status entered = enter_queued(transfers, stream);
    const bool fails = status == SM_AGAIN && entered != SYNCED_MEM_OK;
    if (!fails)
        sm_detail_set(&first);
    return fails ? entered : status;
}

synced_mem_status sm_follow_staged(struct sm_fence *arrival, struct sm_stream *stream)
{
    if (!stream)
        return sm_fence_wait(arrival);
    const synced_mem_status status = sm_fence_wait_queued(arrival);
    if (status != SYNCED_MEM_OK || stream->kind == SM_STREAM_INTERNAL || sm_stream_hold_back(stream, arrival))
        return status;
    return sm_fence_wait(arrival);
}

synced_mem_status sm_transfers_follow(struct sm_transfers *transfers, struct sm_stream *stream)
{
    struct sm_outcome first;
    sm_outcome_set(&first, SYNCED_MEM_OK);
    for (size_t i = 0; i < transfers->staged; i++) {
        const synced_mem_status status = sm_follow_staged(transfers->arrivals[i], stream);
        if (first.status == SYNCED_MEM_OK)
            sm_outcome_set(&first, status);
    }
    return sm_outcome_end(&first);
}

void sm_transfers_drop_staged(struct sm_transfers *transfers, bool cancel)
{
    if (transfers->staged == 0)
        return;
    const struct sm_detail first = sm_detail_get();
    for (size_t i = 0; i < transfers->staged; i++) {
        if (cancel)
            sm_staged_cancel(transfers->arrivals[i]);
        sm_fence_drop(transfers->arrivals[i]);
    }
    transfers->staged = 0;
    sm_detail_set(&first);
}
