/* Parts of a copy. */
#include "copy/part.h"

#include "memory/guard.h"

#include <stdlib.h>

/* Gathered uses are compared with so many that were gathered before. */
enum { MOST_COMPARED_USES = 8 };

/* Returns a copy of the use; NULL: the system has no memory. */
static struct sm_use *clone_use(struct sm_stream *by, struct sm_fence *fence)
{
    struct sm_use *const use = sm_inflight_reserve();
    if (!use)
        return NULL;
    use->by = by;
    if (sm_use_is_by_stream(use))
        sm_stream_hold(by);
    use->fence = fence ? sm_fence_hold(fence) : NULL;
    return use;
}

/* Makes a list of the same uses, in their order. Returns false if the system has no memory for all of them. */
static bool clone_uses(struct sm_use **list, const struct sm_use *uses)
{
    for (; uses; uses = uses->next, list = &(*list)->next) {
        *list = clone_use(uses->by, uses->fence);
        if (!*list)
            return false;
    }
    return true;
}

/* Copies all that is known of the work in flight but the lists of uses. Takes no hold. */
static void copy_work(struct sm_copy *to, const struct sm_copy *from)
{
    to->write = from->write;
    to->writer = from->writer;
    to->writer_fence = from->writer_fence;
    sm_copy_set_untracked_on(to, sm_copy_untracked_on(from));
    to->untracked = from->untracked;
    to->arriving = from->arriving;
    to->write_is_covered = from->write_is_covered;
    to->streamless = from->streamless;
    to->writes = from->writes;
    to->given = from->given;
}

struct sm_copy *sm_part_make(const struct sm_copy *whole, size_t offset)
{
    struct sm_copy *const part = sm_part_struct_take(whole);
    if (!part)
        return NULL;
    atomic_store_explicit(&part->data, (char *)sm_copy_data(whole) + offset, memory_order_relaxed);
    if (part->write)
        sm_fence_hold(part->write);
    if (part->writer)
        sm_stream_hold(part->writer);
    if (part->writer_fence)
        sm_fence_hold(part->writer_fence);
    if (clone_uses(&part->reads, whole->reads) && clone_uses(&part->covered, whole->covered))
        return part;
    sm_part_give(part);
    return NULL;
}

/* Nobody waits for a use with a fence that is done. */
static const struct sm_use *skip_ended(const struct sm_use *use)
{
    while (use && use->fence && !sm_fence_is_open(use->fence))
        use = use->next;
    return use;
}

static bool are_uses_alike(const struct sm_use *one, const struct sm_use *other)
{
    one = skip_ended(one);
    other = skip_ended(other);
    while (one && other && one->by == other->by && one->fence == other->fence) {
        one = skip_ended(one->next);
        other = skip_ended(other->next);
    }
    return !one && !other;
}

bool sm_part_is_alike(const struct sm_copy *one, const struct sm_copy *other)
{
    return one->write == other->write && one->writer == other->writer && one->writer_fence == other->writer_fence &&
           one->arriving == other->arriving && (!one->write || one->write_is_covered == other->write_is_covered) &&
           !one->untracked && !other->untracked && are_uses_alike(one->reads, other->reads);
}

static void poll_fences(const struct sm_use *uses)
{
    for (; uses; uses = uses->next)
        if (uses->fence)
            (void)sm_fence_poll(uses->fence);
}

void sm_part_poll(struct sm_copy *part)
{
    if (part->write)
        (void)sm_fence_poll(part->write);
    if (part->writer_fence)
        (void)sm_fence_poll(part->writer_fence);
    poll_fences(part->reads);
    poll_fences(part->covered);
    sm_inflight_prune(part);
}

bool sm_part_is_idle(const struct sm_copy *part)
{
    return sm_part_has_no_write(part) && !skip_ended(part->reads) && !part->covered;
}

static unsigned get_larger(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

/* Returns the same use among those from first up to end; NULL: it is not there. */
static const struct sm_use *find_use(const struct sm_use *first, const struct sm_use *end, const struct sm_use *use)
{
    for (; first != end; first = first->next)
        if (first->by == use->by && first->fence == use->fence)
            return first;
    return NULL;
}

/* Takes over only the uses that the part lacks, because a cut has given the same list to both parts: with repetitions
 * the list would double at each cut and join. For the same reason the search goes on behind the use that it found last,
 * where the next one mostly stands. */
static void absorb_covered(struct sm_copy *part, struct sm_copy *other)
{
    const struct sm_use *const own = part->covered;
    const struct sm_use *behind = own;
    while (other->covered) {
        struct sm_use *const use = other->covered;
        const struct sm_use *found = find_use(behind, NULL, use);
        if (!found)
            found = find_use(own, behind, use);
        other->covered = use->next;
        if (found) {
            behind = found->next;
            sm_use_free(use);
        } else {
            use->next = part->covered;
            part->covered = use;
        }
    }
}

/* The count of the later call is the larger one. */
void sm_part_absorb(struct sm_copy *part, struct sm_copy *other)
{
    absorb_covered(part, other);
    part->streamless = part->streamless || other->streamless;
    part->given = get_larger(part->given, other->given);
    part->arrivals += other->arrivals;
    part->writes = get_larger(part->writes, other->writes);
}

/* A part that is made later inherits the count of calls that gave out the pointer. So the count never falls. */
void sm_part_return(struct sm_copy *whole, const struct sm_copy *part)
{
    whole->streamless = whole->streamless || part->streamless;
    whole->given = get_larger(whole->given, part->given);
    whole->writes = get_larger(whole->writes, part->writes);
    whole->arrivals += part->arrivals;
}

void sm_part_give(struct sm_copy *part)
{
    if (!part)
        return;
    sm_guard_forget(part);
    sm_copy_struct_give(part);
}

void sm_part_take_over(struct sm_copy *part, struct sm_copy *whole)
{
    struct sm_use **link = &whole->reads;
    while (*link) {
        struct sm_use *const use = *link;
        if (use->by || !sm_fence_is_open(use->fence)) {
            link = &use->next;
            continue;
        }
        *link = use->next;
        use->next = part->covered;
        part->covered = use;
    }
    if (whole->untracked)
        sm_inflight_untrack(part, (enum sm_untracked)whole->untracked,
                            sm_stream_permanent(sm_copy_untracked_on(whole)));
}

void sm_part_move_work(struct sm_copy *to, struct sm_copy *from)
{
    const unsigned given = get_larger(to->given, from->given);
    sm_inflight_forget(to);
    copy_work(to, from);
    to->given = given;
    to->reads = from->reads;
    to->covered = from->covered;
    to->arrivals += from->arrivals;
    from->arrivals = 0;
    from->write = NULL;
    from->writer = NULL;
    from->writer_fence = NULL;
    from->reads = NULL;
    from->covered = NULL;
    from->untracked = SM_TRACKED;
    from->arriving = false;
}

/* Adds a use unless it is among the first of the list, where the neighbouring part has put it. */
static bool gather_use(struct sm_use **list, struct sm_stream *by, struct sm_fence *fence)
{
    const struct sm_use *each = *list;
    int compared = 0;
    while (each && compared++ < MOST_COMPARED_USES && (each->by != by || each->fence != fence))
        each = each->next;
    if (each && compared <= MOST_COMPARED_USES)
        return true;
    struct sm_use *const use = clone_use(by, fence);
    if (!use)
        return false;
    use->next = *list;
    *list = use;
    return true;
}

static bool gather_uses(struct sm_use **list, const struct sm_use *uses)
{
    bool done = true;
    for (; uses && done; uses = uses->next)
        done = gather_use(list, uses->by, uses->fence);
    return done;
}

void sm_part_share_reads(struct sm_copy *part, const struct sm_copy *whole)
{
    for (const struct sm_use *use = whole->reads; use; use = use->next)
        if (!use->by && sm_fence_is_open(use->fence))
            (void)gather_use(&part->reads, NULL, use->fence);
}

/* Nobody needs the contents any more. So writes count as uses, which whoever frees the memory waits for. */
synced_mem_status sm_part_gather(struct sm_copy *whole, const struct sm_copy *part)
{
    bool done = !part->write || gather_use(&whole->reads, NULL, part->write);
    if (done && part->writer)
        done = gather_use(&whole->reads, part->writer, part->writer_fence);
    else if (done && part->writer_fence)
        done = gather_use(&whole->reads, sm_ended_use, part->writer_fence);
    if (done)
        done = gather_uses(&whole->reads, part->reads) && gather_uses(&whole->covered, part->covered);
    if (part->untracked)
        sm_inflight_untrack(whole, (enum sm_untracked)part->untracked, sm_stream_permanent(sm_copy_untracked_on(part)));
    whole->streamless = whole->streamless || part->streamless;
    whole->writes += part->writes;
    return done ? SYNCED_MEM_OK : SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
}

/* An open use comes after the ended ones of its stream, which it stands for. Of several ended ones all but the first are
 * then of no stream. */
static void unite_with(struct sm_use *kept, struct sm_use *use, struct sm_use **others)
{
    if (kept->fence && use->fence) {
        sm_stream_drop(use->by);
        use->by = sm_ended_use;
        sm_use_prepend(others, use);
        return;
    }
    sm_fence_drop(kept->fence);
    kept->fence = NULL;
    sm_use_free(use);
}

void sm_part_unite_gathered(struct sm_copy *whole)
{
    struct sm_use *of_streams = NULL;
    struct sm_use *others = NULL;
    for (struct sm_use *use = whole->reads, *next; use; use = next) {
        next = use->next;
        struct sm_use *kept = sm_use_is_by_stream(use) ? of_streams : NULL;
        while (kept && kept->by != use->by)
            kept = kept->next;
        if (kept)
            unite_with(kept, use, &others);
        else
            sm_use_prepend(sm_use_is_by_stream(use) ? &of_streams : &others, use);
    }
    whole->reads = others;
    while (of_streams) {
        struct sm_use *const use = of_streams;
        of_streams = use->next;
        sm_use_prepend(&whole->reads, use);
    }
}

void sm_part_take_pin(struct sm_copy *part, const struct sm_copy *whole)
{
    part->pinned = whole->pinned;
    part->pin_known = whole->pin_known;
    part->pin_partial = whole->pin_partial;
}
