/*
 * The copies of a batch, or the fills of a call, that a kernel makes. They are page-locked and device memory of the
 * library's own, because a bad address in a kernel would end the device's context.
 */
#ifndef SM_KERNEL_LIST_H
#define SM_KERNEL_LIST_H

#include "copy/gather.h"
#include "copy/kernel_start.h"
#include "copy/kernel_way.h"
#include "device/copy_list.h"
#include "stream/stream.h"

/* A call lists its next copies while a kernel makes so many. */
enum { SM_KERNEL_AT_ONCE = 1024 };

/* The copies that a caller is about to list, as far as it knows. */
struct sm_expected {
    size_t count;
    uint64_t bytes;
    size_t longest;
};

struct sm_kernel_list {
    struct sm_list_entry *entries; /* the caller provides them */
    size_t count;
    uint64_t bytes; /* of all entries */
    size_t longest; /* the most bytes of an entry */
    bool is_open;   /* it may collect copies; set by sm_kernel_list_begin() */
    bool has_room;  /* the device has been seen to have room for a kernel */
    bool is_buffer; /* the entries are in a bounce buffer of the caller's, where kernels read them */
    size_t look_at; /* with so many entries the call looks whether a kernel is faster, and then for room */
    int device;
    struct sm_kernel_probe probe;
    /* It keeps the kernels' buffers, which the caller gives back behind them. NULL: each has an event of its own. */
    struct sm_gather *keeper;
};

/* Begins a call, or a round of one, that knows its copies later. If there are few, and the last call on the device had
 * a kernel make its own, begins to look for room. */
void sm_kernel_list_foresee(struct sm_kernel_list *list, int device, size_t copies);
/* Prepares the list to collect copies for the stream. It collects none if the way by kernel is closed for so many
 * copies, nor for an internal stream, where a kernel that waits would hold up later copies. */
void sm_kernel_list_begin(struct sm_kernel_list *list, const struct sm_stream *stream, size_t copies);
/* If a kernel is faster for the copies, begins to look whether the device has room for one, beside the caller's
 * work. */
void sm_kernel_list_expect(struct sm_kernel_list *list, enum sm_direction direction,
                           const struct sm_expected *expected);
/* Prepares the list for copies for which the way by kernel is open, on any stream of the device. */
void sm_kernel_list_open(struct sm_kernel_list *list, int device);

static inline bool sm_kernel_list_takes(const struct sm_kernel_list *list, size_t size)
{
    return list->is_open && size > 0 && size <= SM_KERNEL_MOST_BYTES;
}

static inline void sm_kernel_list_add(struct sm_kernel_list *list, void *to, const void *from, size_t size)
{
    list->entries[list->count++] = (struct sm_list_entry){to, from, size};
    list->bytes += size;
    if (size > list->longest)
        list->longest = size;
}

/* Makes the last entry longer. */
static inline void sm_kernel_list_extend(struct sm_kernel_list *list, size_t size)
{
    struct sm_list_entry *const last = &list->entries[list->count - 1];
    last->bytes += size;
    list->bytes += size;
    if (last->bytes > list->longest)
        list->longest = last->bytes;
}

static inline void sm_kernel_list_empty(struct sm_kernel_list *list)
{
    list->count = 0;
    list->bytes = 0;
    list->longest = 0;
}

/* If a kernel is faster for the entries so far, begins to look whether the device has room for one, so that the answer
 * is there when the copies are sent. Otherwise looks again at twice as many. */
void sm_kernel_list_look(struct sm_kernel_list *list, enum sm_direction direction);

/* Queues the copies by kernels, and counts them. Returns how many of them, the first ones, are queued; the others are
 * to go by engine. Waits for some microseconds to see that the device has room for a kernel; without room the list
 * closes. The error detail stays as it is. */
size_t sm_kernel_list_send(struct sm_kernel_list *list, enum sm_direction direction, struct sm_stream *stream);
/* Queues one copy, which the list has in pieces, by a kernel with a block for as many pieces as it has warps. Waits for
 * room as long as any list. Returns whether it is queued. */
bool sm_kernel_list_send_one(struct sm_kernel_list *list, struct sm_stream *stream);
/* Queues fills with a byte, and returns how many, as sm_kernel_list_send(), but without a look for room: the runtime's
 * own fills are kernels too. */
size_t sm_kernel_list_fill(const struct sm_kernel_list *list, unsigned char value, struct sm_stream *stream);

#endif
