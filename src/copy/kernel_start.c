/* Whether kernels of lists start in time. */
#include "copy/kernel_start.h"

#include "base/status.h"
#include "copy/kernel_way.h"
#include "memory/pinned/host_pool.h"
#include "system/clock.h"

#include <stdatomic.h>

/* Kernels of a program that let others in at times do so within this time. 2026-11-26. */
#define LATE_NS 20000000u

enum { FREE, TAKEN, WATCHED };

static struct watch {
    atomic_uint state;       /* the thread that has changed it to TAKEN has the rest */
    struct sm_pinned memory; /* of the word */
    struct sm_fence *before; /* held while a kernel is watched */
    uint64_t since;          /* when the fence was first seen done; 0: not yet */
} watches[SM_MAX_DEVICES];

static _Atomic uint64_t late_set;

enum { WORD_BYTES = 64 };

static atomic_uint *get_word(const struct watch *watch)
{
    return watch->memory.data;
}

static bool take(struct watch *watch, unsigned expected)
{
    return atomic_compare_exchange_strong_explicit(&watch->state, &expected, TAKEN, memory_order_acquire,
                                                   memory_order_relaxed);
}

static void put(struct watch *watch, unsigned state)
{
    if (state == FREE) {
        sm_fence_drop(watch->before);
        watch->before = NULL;
    }
    atomic_store_explicit(&watch->state, state, memory_order_release);
}

unsigned *sm_kernel_start_begin(struct sm_stream *stream)
{
    struct watch *const watch = &watches[stream->device];
    if (!take(watch, FREE))
        return NULL;
    const bool has_word =
        watch->memory.data || sm_host_pool_alloc(stream->device, WORD_BYTES, &watch->memory) == SYNCED_MEM_OK;
    if (!has_word || sm_stream_record(stream, &watch->before) != SYNCED_MEM_OK) {
        put(watch, FREE);
        return NULL;
    }
    watch->since = 0;
    atomic_store_explicit(get_word(watch), 0, memory_order_relaxed);
    return watch->memory.data;
}

void sm_kernel_start_end(int device, bool launched)
{
    put(&watches[device], launched ? WATCHED : FREE);
}

static uint64_t get_late(void)
{
    const uint64_t set = atomic_load_explicit(&late_set, memory_order_relaxed);
    return set > 0 ? set : LATE_NS;
}

/* Returns the state of the watch afterwards. */
static unsigned look_at(struct watch *watch, int device)
{
    if (atomic_load_explicit(get_word(watch), memory_order_relaxed) != 0)
        return FREE;
    if (watch->since == 0)
        watch->since = sm_fence_poll(watch->before) ? 0 : sm_now();
    else if (sm_now() - watch->since > get_late())
        sm_kernel_way_close(device);
    return WATCHED;
}

void sm_kernel_start_look(int device)
{
    struct watch *const watch = &watches[device];
    if (atomic_load_explicit(&watch->state, memory_order_relaxed) == WATCHED && take(watch, WATCHED))
        put(watch, look_at(watch, device));
}

void sm_kernel_start_set_late(uint64_t nanoseconds)
{
    atomic_store_explicit(&late_set, nanoseconds, memory_order_relaxed);
}

void sm_kernel_start_shutdown(void)
{
    for (int device = 0; device < SM_MAX_DEVICES; device++) {
        struct watch *const watch = &watches[device];
        if (watch->memory.data)
            sm_host_pool_free(watch->memory.data, WORD_BYTES, watch->memory.block);
        watch->memory = (struct sm_pinned){.data = NULL};
        put(watch, FREE);
    }
}
