/* The device cache: memory by its size and by the stream that used it last. */
#include "copy/device_cache.h"

#include "copy/inflight.h"
#include "base/hash.h"
#include "base/process.h"
#include "base/shard.h"
#include "base/stats.h"
#include "memory/accounting.h"

#include <stdalign.h>

/* The bins of a size: one for copies without a stream or of none that was named, one for the legacy stream's, and
 * NUMBERED for those of other streams. */
enum { SIZES_LOG = 4, SIZES = 1 << SIZES_LOG, NUMBERED = 8, STREAMS = 2 + NUMBERED };
enum { BINS = SIZES * STREAMS, MOST = 256, TRIES = 4 };
#define DEFAULT_LIMIT ((size_t)1 << 30)

/* Each bin lists the copy first that was put there last. A search takes the copies that it examines out of the bin and
 * out of the order of age. Then it puts them back at their place in the order of age. */
static struct cache {
    struct sm_copy *bins[BINS];
    /* Each call writes the members below: one cache line. */
    alignas(SM_CACHE_LINE) struct sm_copy *oldest;
    struct sm_copy *newest;
    uint64_t kept; /* counts all copies that were ever kept */
    unsigned count;
    unsigned next_stream; /* the bin of streams that the next search of a stream without memory begins with */
    size_t bytes;
    size_t less; /* the default limit less this is the limit */
} devices[SM_MAX_DEVICES];

/* Guards all caches. A forked child never takes it: it uses no device memory, and retires none of its parent's. */
static struct sm_lock guard = SM_LOCK_INITIALIZER;

/* ---- With the lock held ---- */

static const struct sm_stream *get_last_stream(const struct sm_copy *copy)
{
    return copy->writer ? copy->writer : sm_inflight_last_reader(copy);
}

/* Returns the first of the bins for the size. */
static struct sm_copy **find_bins_of_size(struct cache *on, size_t bytes)
{
    return &on->bins[(sm_hash(bytes) >> (64 - SIZES_LOG)) * STREAMS];
}

/* Streams have consecutive numbers, so up to NUMBERED streams that became known one after another share no bin. A
 * stream's number stays the same while a copy refers to its struct. */
static struct sm_copy **find_bin_of_stream(struct cache *on, size_t bytes, const struct sm_stream *stream)
{
    struct sm_copy **const bins = find_bins_of_size(on, bytes);
    if (!stream || stream->kind == SM_STREAM_ANY || stream->kind == SM_STREAM_INTERNAL)
        return bins;
    return bins + (stream->kind == SM_STREAM_LEGACY ? 1 : 2 + stream->number % NUMBERED);
}

/* Inserts the copy by age. Most copies are the newest, and those that a search puts back are nearly the oldest. */
static void insert_copy_by_age(struct cache *on, struct sm_copy *copy)
{
    struct sm_copy *older = on->newest;
    if (older && older->kept_at > copy->kept_at) {
        struct sm_copy *newer = on->oldest;
        while (newer->kept_at < copy->kept_at)
            newer = newer->newer;
        older = newer->older;
    }
    copy->older = older;
    copy->newer = older ? older->newer : on->oldest;
    *(copy->older ? &copy->older->newer : &on->oldest) = copy;
    *(copy->newer ? &copy->newer->older : &on->newest) = copy;
}

static void insert_copy(struct cache *on, struct sm_copy *copy)
{
    struct sm_copy **const bin = find_bin_of_stream(on, copy->bytes, get_last_stream(copy));
    copy->next = *bin;
    *bin = copy;
    insert_copy_by_age(on, copy);
    on->count++;
    on->bytes += copy->bytes;
    sm_gpu_set_cached(copy->device, on->bytes);
    sm_count_up(SM_COUNT_gpu_spare_bytes, copy->bytes);
}

static struct sm_copy *unlink_copy(struct cache *on, struct sm_copy **link)
{
    struct sm_copy *const copy = *link;
    *link = copy->next;
    *(copy->older ? &copy->older->newer : &on->oldest) = copy->newer;
    *(copy->newer ? &copy->newer->older : &on->newest) = copy->older;
    copy->next = NULL;
    copy->older = NULL;
    copy->newer = NULL;
    on->count--;
    on->bytes -= copy->bytes;
    sm_gpu_set_cached(copy->device, on->bytes);
    sm_count_down(SM_COUNT_gpu_spare_bytes, copy->bytes);
    return copy;
}

static struct sm_copy *take_oldest_copy(struct cache *on)
{
    const struct sm_copy *const oldest = on->oldest;
    struct sm_copy **link = find_bin_of_stream(on, oldest->bytes, get_last_stream(oldest));
    while (*link != oldest)
        link = &(*link)->next;
    return unlink_copy(on, link);
}

static size_t get_cache_limit(const struct cache *on)
{
    return DEFAULT_LIMIT - on->less;
}

static void prepend_copy(struct sm_copy **list, struct sm_copy *copy)
{
    copy->next = *list;
    *list = copy;
}

/* Removes the oldest copies until the limit is kept. */
static void enforce_cache_limit(struct cache *on, struct sm_copy **gone)
{
    while (on->count > MOST || on->bytes > get_cache_limit(on))
        prepend_copy(gone, take_oldest_copy(on));
}

/* Takes a copy of any stream, the one that this stream retired first. The streams take turns. Otherwise memory that is
 * in use for long would hide the rest. */
static struct sm_copy *take_any_copy(struct cache *on, size_t bytes)
{
    struct sm_copy **const bins = find_bins_of_size(on, bytes);
    struct sm_copy **found = NULL;
    const unsigned first = on->next_stream++;
    for (unsigned i = 0; i < STREAMS && !found; i++)
        for (struct sm_copy **link = &bins[(first + i) % STREAMS]; *link; link = &(*link)->next)
            if ((*link)->bytes == bytes)
                found = link;
    return found ? unlink_copy(on, found) : NULL;
}

/* Takes the stream's own copy that was retired last, else one of any stream. */
static struct sm_copy *take_copy_of_size(struct cache *on, const struct sm_stream *stream, size_t bytes)
{
    struct sm_copy **link = find_bin_of_stream(on, bytes, stream);
    while (*link && ((*link)->bytes != bytes || get_last_stream(*link) != stream))
        link = &(*link)->next;
    return *link ? unlink_copy(on, link) : take_any_copy(on, bytes);
}

/* ---- Functions for other files ---- */

struct sm_copy *sm_device_cache_keep(struct sm_copy *copy)
{
    struct cache *const on = &devices[copy->device];
    struct sm_copy *gone = NULL;
    sm_lock(&guard);
    if (copy->bytes > get_cache_limit(on)) {
        prepend_copy(&gone, copy);
    } else {
        copy->kept_at = ++on->kept;
        insert_copy(on, copy);
        enforce_cache_limit(on, &gone);
    }
    sm_unlock(&guard);
    return gone;
}

/* Returns whether the stream comes after all work in flight on the copy. The first call records the fences, which later
 * calls only poll. If a stream has vanished the copy is untracked. */
static bool is_copy_usable(struct sm_copy *copy, const struct sm_stream *stream)
{
    if (sm_inflight_only_stream(copy) == stream)
        return true;
    if (sm_inflight_settle(copy, true, NULL) != SYNCED_MEM_OK)
        return false;
    sm_inflight_close(copy);
    return sm_inflight_is_idle(copy);
}

/* Keeps the copies that a search has passed over. Untracked copies go to *gone: no fence tells when their work ends, so
 * no later search may find them. */
static void reinsert_copies(struct cache *on, struct sm_copy *list, struct sm_copy **gone)
{
    sm_lock(&guard);
    while (list) {
        struct sm_copy *const copy = list;
        list = copy->next;
        if (copy->untracked)
            prepend_copy(gone, copy);
        else
            insert_copy(on, copy);
    }
    enforce_cache_limit(on, gone);
    sm_unlock(&guard);
}

struct sm_copy *sm_device_cache_take(const struct sm_stream *stream, size_t bytes, struct sm_copy **gone,
                                     bool *examined)
{
    struct cache *const on = &devices[stream->device];
    struct sm_copy *unusable = NULL;
    struct sm_copy *copy = NULL;
    *gone = NULL;
    for (unsigned tries = 0; tries < TRIES; tries++) {
        sm_lock(&guard);
        copy = take_copy_of_size(on, stream, bytes);
        sm_unlock(&guard);
        if (!copy || is_copy_usable(copy, stream))
            break;
        prepend_copy(&unusable, copy);
        copy = NULL;
    }
    if (unusable)
        reinsert_copies(on, unusable, gone);
    *examined = unusable || copy;
    if (copy)
        sm_inflight_forget(copy);
    return copy;
}

struct sm_copy *sm_device_cache_take_all(int device)
{
    struct cache *const on = &devices[device];
    struct sm_copy *all = NULL;
    sm_lock(&guard);
    while (on->count > 0)
        prepend_copy(&all, take_oldest_copy(on));
    sm_unlock(&guard);
    return all;
}

size_t sm_device_cache_bytes(int device)
{
    struct cache *const on = &devices[device];
    sm_lock(&guard);
    const size_t bytes = on->bytes;
    sm_unlock(&guard);
    return bytes;
}

void sm_device_cache_set_limit(int device, size_t bytes)
{
    struct cache *const on = &devices[device];
    sm_lock(&guard);
    on->less = bytes < DEFAULT_LIMIT ? DEFAULT_LIMIT - bytes : 0;
    sm_unlock(&guard);
}

void sm_device_cache_reset(void)
{
    sm_lock(&guard);
    for (int device = 0; device < SM_MAX_DEVICES; device++)
        devices[device].less = 0;
    sm_unlock(&guard);
}
