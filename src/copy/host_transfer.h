/*
 * Transfers and fills of host memory by threads of the host, with no lock held. A transfer has one fence, which is
 * queueing until the bytes are moved. The first thread that waits for the fence moves them. So whoever begins a
 * transfer must wait for it. In a forked child of a process without a GPU no other thread is in the middle of one.
 */
#ifndef SM_HOST_TRANSFER_H
#define SM_HOST_TRANSFER_H

#include "copy/inflight.h"

/* A range that is written. */
struct sm_host_range {
    void *to;
    const void *from; /* NULL: zeros */
    size_t size;
};

/* Makes a transfer of all ranges and returns its fence, which the caller holds. Nothing is entered as work in flight.
 * NULL: the system has no memory. */
struct sm_fence *sm_host_transfer_make(const struct sm_host_range *ranges, size_t count);

/* A transfer that collects ranges, up to room of them, as long as the locks of all copies concerned are held. */
struct sm_host_collection {
    size_t room;
    struct sm_fence *fence; /* held; NULL: no range was added */
};

/* Adds size bytes at the offset in from to the first bytes of to, and enters the transfer as work in flight on both
 * copies. Nothing may be in flight that a write of to or a read of from waits for. The contents of to are arriving
 * then. Does not block. ERR_OUT_OF_HOST_MEMORY: nothing has changed. */
synced_mem_status sm_host_collection_add(struct sm_host_collection *collection, struct sm_copy *to,
                                         struct sm_copy *from, size_t from_offset, size_t size);

#endif
