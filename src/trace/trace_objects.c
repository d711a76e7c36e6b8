/* The objects of a trace: their numbers, and how often their contents went back and forth. */
#include "trace/trace_event.h"

#include "base/hash.h"
#include "base/side.h"
#include "base/slab.h"

#include <stdio.h>
#include <string.h>

enum { BUCKETS = 1024 };

static struct {
    struct sm_cells cells;
    struct sm_traced *buckets[BUCKETS];
    uint64_t last_id;
    struct sm_traced gone[SM_TRACED_TOP]; /* of the objects that are gone, those of most turns, in falling order */
    size_t gone_count;
} objects = {.cells = SM_CELLS_INITIALIZER(struct sm_traced)};

static struct sm_traced **get_object_bucket(const void *object)
{
    return &objects.buckets[sm_hash((uintptr_t)object) >> 54];
}

struct sm_traced *sm_traced_find(const struct sm_subject *subject)
{
    struct sm_traced **const bucket = get_object_bucket(subject->object);
    struct sm_traced *traced = *bucket;
    while (traced && traced->object != subject->object)
        traced = traced->next;
    if (traced)
        return traced;
    traced = sm_cells_take(&objects.cells);
    if (!traced)
        return NULL;
    *traced = (struct sm_traced){.object = subject->object, .next = *bucket, .id = ++objects.last_id, .last = SM_SIDES};
    sm_subject_name(traced->name, subject);
    *bucket = traced;
    return traced;
}

void sm_traced_moved(struct sm_traced *object, unsigned to, uint64_t bytes, const struct sm_by *by)
{
    object->turns += object->last == sm_other((enum sm_side)to);
    object->last = (unsigned char)to;
    object->transfers[to]++;
    object->bytes[to] += bytes;
    object->moved_by[to] = *by;
    object->stale_by[to] = object->lost_by[to];
}

void sm_traced_evicted(struct sm_traced *object)
{
    object->turns += object->last == SM_GPU;
    object->last = SM_CPU;
}

/* ---- Objects with most turns ---- */

static uint64_t count_object_transfers(const struct sm_traced *object)
{
    return object->transfers[SM_CPU] + object->transfers[SM_GPU];
}

static bool comes_before(const struct sm_traced *a, const struct sm_traced *b)
{
    if (a->turns != b->turns)
        return a->turns > b->turns;
    if (count_object_transfers(a) != count_object_transfers(b))
        return count_object_transfers(a) > count_object_transfers(b);
    return a->id < b->id;
}

/* Inserts the object if it is among the first SM_TRACED_TOP of all that were inserted. Returns the new count. */
static size_t insert_object_by_turns(struct sm_traced top[SM_TRACED_TOP], size_t count, const struct sm_traced *object)
{
    size_t at = count;
    if (count_object_transfers(object) == 0)
        return count;
    while (at > 0 && comes_before(object, &top[at - 1]))
        at--;
    if (at == SM_TRACED_TOP)
        return count;
    count += count < SM_TRACED_TOP;
    memmove(&top[at + 1], &top[at], (count - 1 - at) * sizeof *top);
    top[at] = *object;
    return count;
}

size_t sm_traced_top(struct sm_traced top[SM_TRACED_TOP])
{
    size_t count = objects.gone_count;
    memcpy(top, objects.gone, sizeof objects.gone);
    for (int i = 0; i < BUCKETS; i++)
        for (const struct sm_traced *object = objects.buckets[i]; object; object = object->next)
            count = insert_object_by_turns(top, count, object);
    return count;
}

/* ---- End of objects ---- */

static void remove_object(struct sm_traced **link)
{
    struct sm_traced *const object = *link;
    *link = object->next;
    object->object = NULL;
    objects.gone_count = insert_object_by_turns(objects.gone, objects.gone_count, object);
    sm_cells_give(&objects.cells, object);
}

void sm_traced_end(const void *object)
{
    struct sm_traced **link = get_object_bucket(object);
    while (*link && (*link)->object != object)
        link = &(*link)->next;
    if (*link)
        remove_object(link);
}

void sm_traced_clear(void)
{
    for (int i = 0; i < BUCKETS; i++)
        while (objects.buckets[i])
            remove_object(&objects.buckets[i]);
    sm_cells_trim(&objects.cells);
    objects.gone_count = 0;
    objects.last_id = 0;
}

void sm_trace_name(char out[SM_TRACE_NAME_BYTES], const char *name, uint64_t id)
{
    (void)snprintf(out, SM_TRACE_NAME_BYTES, "%s#%llu", name, (unsigned long long)id);
}
