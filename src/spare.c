/* Spare device memory, by its size and by the stream that used it last. */
#include "spare.h"

#include "flight.h"
#include "hands.h"
#include "process.h"
#include "stats.h"

enum { SIZES_LOG = 4, STREAMS_LOG = 3, SIZES = 1 << SIZES_LOG, STREAMS = 1 << STREAMS_LOG };
enum { BINS = SIZES * STREAMS, MOST = 256, LOOKS = 4 };
#define DEFAULT_LIMIT ((size_t)1 << 30)

/* In each bin the copy that was let go of last comes first. */
static struct spares {
    struct sm_copy *bins[BINS];
    unsigned count;
    unsigned next_bin;    /* where one goes from when there are too many */
    unsigned next_stream; /* whose is looked at first for a stream that has none */
    size_t bytes;
    size_t less; /* of the limit, than by default */
} devices[SM_MAX_DEVICES];

/* Of all of them. A child never comes here: it uses no device memory, and lets go of none of its parent's. */
static struct sm_lock guard = SM_LOCK_INITIALIZER;

/* ---- With the lock held ---- */

static const struct sm_stream *stream_of(const struct sm_copy *copy)
{
    return copy->writer ? copy->writer : sm_flight_last_reader(copy);
}

static uint64_t mixed(uint64_t number)
{
    return number * UINT64_C(0x9e3779b97f4a7c15);
}

/* The first of those for the size. */
static struct sm_copy **bins_of(struct spares *on, size_t bytes)
{
    return &on->bins[(mixed(bytes) >> (64 - SIZES_LOG)) * STREAMS];
}

static struct sm_copy **bin_of(struct spares *on, size_t bytes, const struct sm_stream *stream)
{
    return bins_of(on, bytes) + (mixed((uintptr_t)stream) >> (64 - STREAMS_LOG));
}

static void put(struct spares *on, struct sm_copy *copy)
{
    struct sm_copy **const bin = bin_of(on, copy->bytes, stream_of(copy));
    copy->next = *bin;
    *bin = copy;
    on->count++;
    on->bytes += copy->bytes;
    sm_count_up(SM_COUNT_gpu_spare_bytes, copy->bytes);
}

static struct sm_copy *unlink_at(struct spares *on, struct sm_copy **link)
{
    struct sm_copy *const copy = *link;
    *link = copy->next;
    copy->next = NULL;
    on->count--;
    on->bytes -= copy->bytes;
    sm_count_down(SM_COUNT_gpu_spare_bytes, copy->bytes);
    return copy;
}

/* The one that has been in its bin for longest; the bins take turns. */
static struct sm_copy *take_oldest(struct spares *on)
{
    struct sm_copy **link;
    do
        link = &on->bins[on->next_bin++ % BINS];
    while (!*link);
    while ((*link)->next)
        link = &(*link)->next;
    return unlink_at(on, link);
}

/* The stream's own that was let go of last. */
static struct sm_copy *take_own(struct spares *on, const struct sm_stream *stream, size_t bytes)
{
    struct sm_copy **link = bin_of(on, bytes, stream);
    while (*link && ((*link)->bytes != bytes || stream_of(*link) != stream))
        link = &(*link)->next;
    return *link ? unlink_at(on, link) : NULL;
}

/* Any stream's, the one of its that was let go of first. The streams take turns, lest memory that is in use for long
 * keep others from being found. */
static struct sm_copy *take_others(struct spares *on, size_t bytes)
{
    struct sm_copy **const bins = bins_of(on, bytes);
    struct sm_copy **found = NULL;
    const unsigned first = on->next_stream++;
    for (unsigned i = 0; i < STREAMS && !found; i++)
        for (struct sm_copy **link = &bins[(first + i) % STREAMS]; *link; link = &(*link)->next)
            if ((*link)->bytes == bytes)
                found = link;
    return found ? unlink_at(on, found) : NULL;
}

static struct sm_copy *take_of_size(struct spares *on, const struct sm_stream *stream, size_t bytes)
{
    struct sm_copy *const own = take_own(on, stream, bytes);
    return own ? own : take_others(on, bytes);
}

/* ---- What others call ---- */

void sm_spare_keep(struct sm_copy *copy, struct sm_copy **out)
{
    struct spares *const on = &devices[copy->device];
    sm_lock(&guard);
    *out = NULL;
    put(on, copy);
    if (on->count > MOST || on->bytes > DEFAULT_LIMIT - on->less)
        *out = take_oldest(on);
    sm_unlock(&guard);
}

/* Whether nothing is in flight that the stream does not come after anyway. What has to be asked for that once is then
 * known. */
static bool is_usable(struct sm_copy *copy, const struct sm_stream *stream)
{
    if (sm_flight_only_stream(copy) == stream)
        return true;
    if (sm_flight_settle(copy, true, NULL) != SYNCED_MEM_OK || copy->untracked)
        return false;
    sm_flight_close(copy);
    return sm_flight_is_idle(copy);
}

static void put_back(struct spares *on, struct sm_copy *list)
{
    sm_lock(&guard);
    while (list) {
        struct sm_copy *const copy = list;
        list = copy->next;
        put(on, copy);
    }
    sm_unlock(&guard);
}

struct sm_copy *sm_spare_take(const struct sm_stream *stream, size_t bytes)
{
    struct spares *const on = &devices[stream->device];
    struct sm_copy *unusable = NULL;
    struct sm_copy *copy = NULL;
    sm_hands_fill();
    for (unsigned looks = 0; looks < LOOKS; looks++) {
        sm_lock(&guard);
        copy = take_of_size(on, stream, bytes);
        sm_unlock(&guard);
        if (!copy || is_usable(copy, stream))
            break;
        copy->next = unusable;
        unusable = copy;
        copy = NULL;
    }
    if (unusable)
        put_back(on, unusable);
    sm_hands_empty(unusable || copy);
    if (copy)
        sm_flight_forget(copy);
    return copy;
}

struct sm_copy *sm_spare_take_all(int device)
{
    struct spares *const on = &devices[device];
    struct sm_copy *all = NULL;
    sm_lock(&guard);
    while (on->count > 0) {
        struct sm_copy *const copy = take_oldest(on);
        copy->next = all;
        all = copy;
    }
    sm_unlock(&guard);
    return all;
}

size_t sm_spare_bytes(int device)
{
    struct spares *const on = &devices[device];
    sm_lock(&guard);
    const size_t bytes = on->bytes;
    sm_unlock(&guard);
    return bytes;
}

void sm_spare_set_limit(int device, size_t bytes)
{
    struct spares *const on = &devices[device];
    sm_lock(&guard);
    on->less = bytes < DEFAULT_LIMIT ? DEFAULT_LIMIT - bytes : 0;
    sm_unlock(&guard);
}

void sm_spare_reset(void)
{
    sm_lock(&guard);
    for (int device = 0; device < SM_MAX_DEVICES; device++)
        devices[device].less = 0;
    sm_unlock(&guard);
}
