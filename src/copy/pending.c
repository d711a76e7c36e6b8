/* Streams with pending work. */
#include "copy/pending.h"

#include "base/hash.h"

#include <stdlib.h>

static size_t get_room(const struct sm_pending *pending)
{
    return pending->many ? pending->room : SM_FEW_PENDING;
}

/* Returns the stream's slot, or the free one where it belongs. At least one slot is free. */
static struct sm_seen *find_slot(struct sm_seen *slots, size_t room, uint64_t stream)
{
    size_t at = (size_t)(sm_hash(stream) >> 32) & (room - 1);
    while (slots[at].stream != 0 && slots[at].stream != stream)
        at = (at + 1) & (room - 1);
    return &slots[at];
}

static struct sm_seen *find(const struct sm_pending *pending, uint64_t stream)
{
    struct sm_seen *const few = (struct sm_seen *)(uintptr_t)pending->few;
    return find_slot(pending->many ? pending->many : few, get_room(pending), stream);
}

/* Without memory the table begins again. */
static void make_room(struct sm_pending *pending)
{
    const size_t room = get_room(pending);
    const struct sm_seen *const old = pending->many ? pending->many : pending->few;
    struct sm_seen *const slots = calloc(2 * room, sizeof *slots);
    if (!slots) {
        sm_pending_end(pending);
        return;
    }
    for (size_t i = 0; i < room; i++)
        if (old[i].stream != 0)
            *find_slot(slots, 2 * room, old[i].stream) = old[i];
    free(pending->many);
    pending->many = slots;
    pending->room = 2 * room;
}

void sm_pending_note(struct sm_pending *pending, const struct sm_fence *fence)
{
    struct sm_seen *slot = find(pending, fence->stream);
    if (slot->stream == 0 && 2 * (pending->count + 1) > get_room(pending)) {
        make_room(pending);
        slot = find(pending, fence->stream);
    }
    pending->count += slot->stream == 0;
    *slot = (struct sm_seen){.stream = fence->stream, .order = fence->order};
}

bool sm_pending_has(const struct sm_pending *pending, const struct sm_fence *fence)
{
    const struct sm_seen *const seen = find(pending, fence->stream);
    return seen->stream != 0 && (seen->order == fence->order || seen->order <= fence->since);
}

void sm_pending_end(struct sm_pending *pending)
{
    free(pending->many);
    *pending = (struct sm_pending){.many = NULL};
}
