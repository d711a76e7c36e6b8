/* Moving bytes, in the order that the work in flight asks for. */
#include "transfer.h"

#include "stats.h"

/* A ticket for what was just queued. Without an event to record the stream is waited for instead, and there is no work
 * left to hold a ticket for. If that fails too nobody can tell when the work ends, unless the device is lost: then it
 * has. */
static synced_mem_status follow(int device, sm_stream stream, struct sm_ticket **ticket, bool *untracked)
{
    *ticket = NULL;
    *untracked = false;
    const synced_mem_status recorded = sm_ticket_record(device, stream, ticket);
    if (recorded == SYNCED_MEM_OK || recorded == SYNCED_MEM_ERR_DEVICE_LOST)
        return recorded;
    const synced_mem_status waited = sm_device_stream_sync(device, stream);
    *untracked = waited != SYNCED_MEM_OK && waited != SYNCED_MEM_ERR_DEVICE_LOST;
    return waited;
}

static void finish(struct sm_copy *to, struct sm_ticket *ticket)
{
    sm_copy_written(to, ticket);
    to->arriving = ticket != NULL;
}

static synced_mem_status queue(enum sm_direction direction, void *to, const void *from, size_t size, int device,
                               sm_stream stream)
{
    if (size == 0)
        return SYNCED_MEM_OK;
    switch (direction) {
    case SM_H2D:
        return sm_device_copy_h2d(device, to, from, size, stream);
    case SM_D2H:
        break;
    }
    return sm_device_copy_d2h(device, to, from, size, stream);
}

static void count(enum sm_direction direction, size_t size)
{
    if (size == 0)
        return;
    sm_count_up(direction == SM_H2D ? SM_COUNT_h2d_transfers : SM_COUNT_d2h_transfers, 1);
    sm_count_up(direction == SM_H2D ? SM_COUNT_h2d_bytes : SM_COUNT_d2h_bytes, size);
}

synced_mem_status sm_transfer(enum sm_direction direction, struct sm_copy *to, struct sm_copy *from, size_t size,
                              int device, sm_stream stream)
{
    synced_mem_status status = sm_copy_order(from, false, device, stream);
    if (status == SYNCED_MEM_OK)
        status = sm_copy_order(to, true, device, stream);
    if (status == SYNCED_MEM_OK)
        status = sm_copy_reserve_read(from, device, stream);
    if (status == SYNCED_MEM_OK)
        status = queue(direction, to->data, from->data, size, device, stream);
    if (status != SYNCED_MEM_OK)
        return status;
    struct sm_ticket *ticket;
    bool untracked;
    status = follow(device, stream, &ticket, &untracked);
    if (untracked) {
        sm_copy_untrack(to, SM_UNTRACKED_WRITE, device, stream);
        sm_copy_untrack(from, SM_UNTRACKED_READ, device, stream);
    }
    if (status != SYNCED_MEM_OK)
        return status;
    count(direction, size);
    if (ticket)
        sm_copy_read(from, ticket);
    finish(to, ticket);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_transfer_zeros(struct sm_copy *to, size_t size, sm_stream stream)
{
    synced_mem_status status = sm_copy_order(to, true, to->device, stream);
    if (status == SYNCED_MEM_OK && size > 0)
        status = sm_device_zero(to->device, to->data, size, stream);
    return status == SYNCED_MEM_OK ? sm_transfer_none(to, stream) : status;
}

synced_mem_status sm_transfer_none(struct sm_copy *to, sm_stream stream)
{
    struct sm_ticket *ticket;
    bool untracked;
    const synced_mem_status status = follow(to->device, stream, &ticket, &untracked);
    if (untracked)
        sm_copy_untrack(to, SM_UNTRACKED_WRITE, to->device, stream);
    if (status == SYNCED_MEM_OK)
        finish(to, ticket);
    return status;
}
