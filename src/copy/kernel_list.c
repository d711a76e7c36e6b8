/* Copies and fills that a kernel makes. */
#include "copy/kernel_list.h"

#include "base/stats.h"
#include "base/status.h"
#include "copy/bounce.h"

#include <string.h>

/* The most entries of one kernel, which limits the memory of its list. */
enum { MOST_ENTRIES = 1 << 15 };
/* A call with more copies begins to look for room when it has planned them. */
enum { MOST_FORESEEN = 160 };

void sm_kernel_list_begin(struct sm_kernel_list *list, const struct sm_stream *stream, size_t copies)
{
    sm_kernel_list_open(list, stream->device);
    list->is_open = stream->kind != SM_STREAM_INTERNAL && sm_kernel_way_is_open(stream->device, copies);
}

void sm_kernel_list_open(struct sm_kernel_list *list, int device)
{
    if (list->device != device)
        list->probe.since = 0;
    list->is_open = true;
    list->has_room = false;
    list->device = device;
    list->look_at = sm_kernel_way_least();
}

static unsigned choose_blocks(const struct sm_kernel_list *list, enum sm_direction direction)
{
    return sm_kernel_way_blocks(list->device, direction, list->count, list->bytes, list->longest);
}

/* Closes the list if no probe can be launched. */
static void look_for_room(struct sm_kernel_list *list)
{
    if (list->is_open && list->probe.since == 0)
        list->is_open = sm_kernel_probe_begin(&list->probe, list->device);
}

void sm_kernel_list_foresee(struct sm_kernel_list *list, int device, size_t copies)
{
    list->probe.since = 0;
    if (device < 0 || copies < sm_kernel_way_least() || copies > MOST_FORESEEN || !sm_kernel_has_run_lately(device) ||
        !sm_kernel_way_is_open(device, copies))
        return;
    list->is_open = true;
    list->device = device;
    look_for_room(list);
}

void sm_kernel_list_expect(struct sm_kernel_list *list, enum sm_direction direction, const struct sm_expected *expected)
{
    if (sm_kernel_way_blocks(list->device, direction, expected->count, expected->bytes, expected->longest) > 0)
        look_for_room(list);
}

void sm_kernel_list_look(struct sm_kernel_list *list, enum sm_direction direction)
{
    if (choose_blocks(list, direction) > 0)
        look_for_room(list);
    else
        list->look_at *= 2;
}

/* Gives the buffer back behind the kernel. */
static void give_buffer(struct sm_bounce *buffer, struct sm_stream *stream)
{
    struct sm_fence *fence = NULL;
    if (sm_stream_record(stream, &fence) != SYNCED_MEM_OK) {
        const synced_mem_status waited = sm_device_stream_sync(stream->device, stream->handle);
        if (waited != SYNCED_MEM_OK && waited != SYNCED_MEM_ERR_DEVICE_LOST) {
            sm_bounce_lose(buffer);
            sm_device_keep_lists();
            return;
        }
    }
    sm_bounce_give(buffer, fence);
    sm_fence_drop(fence);
}

/* Queues a kernel. list: where it reads the entries. value: -1 for copies. Returns whether it is queued. */
static bool run_kernel(const struct sm_list_entry *entries, const struct sm_list_entry *list, size_t count, int value,
                       unsigned blocks, const struct sm_stream *stream)
{
    struct sm_list_job job;
    const bool is_few = count <= SM_FEW_ENTRIES;
    job.count = (unsigned)count;
    job.value = value;
    job.list = is_few ? NULL : list;
    if (is_few)
        memcpy(job.few, entries, count * sizeof *entries);
    return sm_device_run_list(stream->device, &job, blocks, stream->handle) == SYNCED_MEM_OK;
}

/* Does so with a copy of the entries. Every kernel has a buffer, also if it needs no memory for its entries: shutdown
 * waits for all buffers, and so for all kernels, before it unloads their code. */
static bool launch_kernel(const struct sm_list_entry *entries, size_t count, int value, unsigned blocks,
                          struct sm_gather *keeper, struct sm_stream *stream)
{
    const size_t copied = count <= SM_FEW_ENTRIES ? 1 : count;
    struct sm_bounce *const buffer = sm_bounce_take(stream->device, entries, copied * sizeof *entries);
    if (!buffer)
        return false;
    const bool queued = run_kernel(entries, sm_bounce_data(buffer), count, value, blocks, stream);
    if (!queued)
        sm_bounce_give(buffer, NULL);
    else if (keeper)
        sm_gather_keep(keeper, buffer);
    else
        give_buffer(buffer, stream);
    return queued;
}

/* Returns how many entries are queued. */
static size_t launch_kernels(const struct sm_kernel_list *list, int value, unsigned blocks, struct sm_stream *stream)
{
    const struct sm_detail first = sm_detail_get();
    size_t queued = 0;
    bool goes_on = blocks > 0;
    while (goes_on && queued < list->count) {
        const size_t left = list->count - queued;
        const size_t some = left < MOST_ENTRIES ? left : MOST_ENTRIES;
        const struct sm_list_entry *const begin = list->entries + queued;
        goes_on = list->is_buffer ? run_kernel(begin, begin, some, value, blocks, stream)
                                  : launch_kernel(begin, some, value, blocks, list->keeper, stream);
        queued += goes_on ? some : 0;
    }
    sm_detail_set(&first);
    return queued;
}

static size_t count_copies(size_t queued)
{
    sm_count_up(SM_COUNT_kernel_copies, queued);
    return queued;
}

static bool find_room(struct sm_kernel_list *list, uint64_t patience)
{
    look_for_room(list);
    if (list->is_open && !list->has_room)
        list->has_room = list->is_open = sm_kernel_probe_has_run(&list->probe, list->device, patience);
    return list->has_room;
}

size_t sm_kernel_list_send(struct sm_kernel_list *list, enum sm_direction direction, struct sm_stream *stream)
{
    const unsigned blocks = choose_blocks(list, direction);
    if (blocks == 0 || !find_room(list, sm_kernel_way_patience(direction, list->count, list->bytes)))
        return 0;
    const size_t queued = launch_kernels(list, -1, blocks, stream);
    if (queued > 0)
        sm_kernel_note_run(list->device);
    return count_copies(queued);
}

bool sm_kernel_list_send_one(struct sm_kernel_list *list, struct sm_stream *stream)
{
    if (!find_room(list, SM_KERNEL_MOST_PATIENCE))
        return false;
    return count_copies(launch_kernels(list, -1, sm_kernel_way_useful_blocks(list->count), stream) > 0);
}

size_t sm_kernel_list_fill(const struct sm_kernel_list *list, unsigned char value, struct sm_stream *stream)
{
    if (!sm_kernel_way_is_open(stream->device, list->count))
        return 0;
    return count_copies(launch_kernels(list, value, choose_blocks(list, SM_D2D), stream));
}
