/* The structs of callers' streams, and when a struct can become another stream's. */
#include "stream/stream_struct.h"

#include "base/slab.h"
#include "base/status.h"

static _Atomic uint64_t last_serial;

char sm_no_stream;
char sm_set_of_streams;

const char *const sm_stream_kinds[] = {[SM_STREAM_CREATED] = "the caller's stream",
                                       [SM_STREAM_PER_THREAD] = "a thread's default stream",
                                       [SM_STREAM_LEGACY] = "the legacy stream",
                                       [SM_STREAM_ANY] = "any stream",
                                       [SM_STREAM_INTERNAL] = "the library's stream"};

uint64_t sm_stream_new_serial(void)
{
    return atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed) + 1;
}

void sm_stream_describe(struct sm_stream *stream, enum sm_stream_kind kind, int device, synced_mem_stream hot)
{
    stream->kind = (unsigned char)kind;
    stream->device = device;
    stream->serial = sm_stream_new_serial();
    atomic_store_explicit(&stream->frees, 0, memory_order_relaxed);
    atomic_store_explicit(&stream->awaited, 0, memory_order_relaxed);
    atomic_store_explicit(&stream->hot, hot, memory_order_relaxed);
}

static struct sm_slab structs = SM_SLAB_INITIALIZER(struct sm_stream);

/* The structs of created streams that nobody refers to, the longest unused first. The hot path of another thread may
 * have loaded one and be about to compare its handle. So each waits here until LAID_BY others came after it. */
enum { LAID_BY = 4096 };
static struct {
    struct sm_lock lock;
    struct sm_stream *first;
    struct sm_stream *last;
    unsigned count;
} laid_by = {.lock = SM_LOCK_INITIALIZER};

/* Makes the longest unused struct available if there are more than so many. Returns whether there were. */
static bool reuse_struct_beyond(unsigned most)
{
    sm_lock(&laid_by.lock);
    struct sm_stream *const stream = laid_by.count > most ? laid_by.first : NULL;
    if (stream) {
        laid_by.first = stream->next;
        laid_by.count--;
    }
    sm_unlock(&laid_by.lock);
    if (stream)
        sm_slab_give(&structs, stream);
    return stream != NULL;
}

struct sm_stream *sm_stream_struct_take(void)
{
    return sm_slab_take(&structs);
}

void sm_stream_struct_give(struct sm_stream *stream)
{
    if (!stream)
        return;
    sm_fence_drop(atomic_load_explicit(&stream->last, memory_order_relaxed));
    atomic_store_explicit(&stream->last, NULL, memory_order_relaxed);
    if (!sm_stream_can_be_hot(stream)) {
        sm_slab_give(&structs, stream);
        return;
    }
    stream->next = NULL;
    sm_lock(&laid_by.lock);
    if (laid_by.first)
        laid_by.last->next = stream;
    else
        laid_by.first = stream;
    laid_by.last = stream;
    laid_by.count++;
    sm_unlock(&laid_by.lock);
    (void)reuse_struct_beyond(LAID_BY);
}

void sm_stream_structs_trim(void)
{
    while (reuse_struct_beyond(0))
        continue;
    sm_slab_trim(&structs);
}
