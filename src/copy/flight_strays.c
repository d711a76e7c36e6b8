/* Work on a copy that got out of sight. */
#include "copy/flight.h"

void sm_flight_untrack(struct sm_copy *copy, enum sm_untracked how, struct sm_stream *stream)
{
    struct sm_stream *const lane = stream && stream->kind == SM_STREAM_LANE ? stream : NULL;
    const bool elsewhere = copy->untracked && copy->untracked_on != lane; /* no one event can cover both */
    copy->untracked_on = elsewhere ? NULL : lane;
    if (copy->untracked < how)
        copy->untracked = (unsigned char)how;
}

static bool is_stray(const struct sm_ticket *ticket)
{
    return ticket && sm_ticket_state(ticket) == SM_TICKET_LOST &&
           atomic_load_explicit(&ticket->stray, memory_order_relaxed);
}

static bool has_stray(const struct sm_use *list)
{
    while (list && !is_stray(list->ticket))
        list = list->next;
    return list != NULL;
}

void sm_flight_note_strays(struct sm_copy *copy)
{
    if (is_stray(copy->write))
        sm_flight_untrack(copy, SM_UNTRACKED_WRITE, NULL);
    if (has_stray(copy->reads) || has_stray(copy->owed))
        sm_flight_untrack(copy, SM_UNTRACKED_READ, NULL);
}

/* The ticket stands for what is not known of, and for the write that it replaces. */
synced_mem_status sm_flight_retrack(struct sm_copy *copy)
{
    struct sm_ticket *ticket = NULL;
    if (!copy->untracked || !copy->untracked_on)
        return SYNCED_MEM_OK;
    synced_mem_status status = sm_stream_wait(copy->untracked_on, copy->write);
    if (status == SYNCED_MEM_OK)
        status = sm_stream_queued(copy->untracked_on, &ticket);
    if (status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST)
        return status;
    if (ticket) {
        sm_ticket_drop(copy->write);
        copy->write = ticket;
        copy->write_is_owed = false;
    }
    copy->untracked = SM_TRACKED;
    return SYNCED_MEM_OK;
}
