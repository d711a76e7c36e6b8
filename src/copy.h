/*
 * One copy: memory in one place that can hold an object's contents, and the work in flight on it. That work belongs to
 * the memory, not to the contents: it outlives their validity, and decides when the memory may be used for something
 * else.
 *
 * The object that holds a copy guards it with its lock; a retired copy is guarded by the retired list.
 */
#ifndef SM_COPY_H
#define SM_COPY_H

#include "ticket.h"

#include <stddef.h>

/* Transfers that may read a copy at the same time; one more waits for the first of them on the device. */
enum { SM_READS = 3 };

/* What of a device pointer was handed out without a stream. The caller's kernels that use it are on the legacy stream,
 * or on blocking ones, and are covered by an event on the legacy stream once it matters. */
enum sm_handed { SM_HANDED_READ = 1, SM_HANDED_WRITE = 2 };

/* Work that is queued on a copy while nobody can tell when it ends. Memory that is read may be used still, since what
 * is read of it is no longer wanted; memory that is written may not; and neither may be freed. */
enum sm_untracked { SM_TRACKED, SM_UNTRACKED_READ, SM_UNTRACKED_WRITE };

struct sm_copy {
    void *data; /* what accessors return */
    void *base; /* what was allocated: base <= data, data + size of the object <= base + bytes */
    size_t bytes;
    synced_mem_release_callback callback; /* of adopted memory */
    void *user;
    struct sm_ticket *write;           /* the transfer that brings the contents, or the allocation */
    struct sm_ticket *turn;            /* the caller's kernels that could write it, up to the last settling */
    struct sm_ticket *read_turn;       /* the same of those that could read it */
    struct sm_ticket *reads[SM_READS]; /* transfers from it */
    struct sm_copy *next;              /* in the retired list */
    int device;                        /* of device memory and of page-locked memory; else -1 */
    unsigned char source;              /* synced_mem_source */
    unsigned char handed;              /* enum sm_handed; device memory only */
    bool arriving;                     /* the contents are those that write will bring; if it fails they are lost */
    unsigned char untracked;           /* enum sm_untracked */
    sm_stream untracked_on;            /* where that was queued, if it is a stream of the library's own */
    int untracked_device;              /* and on which device */
};

/* Host memory of the library's own: page-locked for a device, or pageable if device is -1. With zeroed set its contents
 * are zeros. */
synced_mem_status sm_copy_obtain_host(size_t size, size_t alignment, int device, bool zeroed, struct sm_copy **out);

/* Device memory of the library's own, usable in the stream's order. */
synced_mem_status sm_copy_obtain_device(size_t size, size_t alignment, int device, sm_stream stream,
                                        struct sm_copy **out);

/* Memory of the caller's: borrowed if callback is NULL, else adopted. */
synced_mem_status sm_copy_wrap(void *data, size_t size, int device, synced_mem_release_callback callback, void *user,
                               struct sm_copy **out);
/* Undoes sm_copy_wrap(): the memory is the caller's again, no callback is called. */
void sm_copy_unwrap(struct sm_copy *copy);

/* Lets go of a copy, with no lock held: frees it, calls its callback, or puts it in the retired list until its last use
 * has finished. Waits for none of that work; but to free page-locked memory, and device memory where there are no pools,
 * the CUDA runtime may wait for the device. NULL is ignored. Borrowed memory must have nothing of the library's in
 * flight. */
void sm_copy_retire(struct sm_copy *copy);

/* Gives up a copy's record, and leaves its memory allocated for ever. */
void sm_copy_quarantine(struct sm_copy *copy);

/* Tries again what is in the retired list, with no lock held. With wait set it first waits for the work on each, and
 * says why if any had to stay. */
synced_mem_status sm_copy_reap(bool wait);

/* Returns what the module keeps. */
void sm_copy_trim(void);

/* ---- Work in flight ---- */

/* Turns what the caller may have queued on a handed-out device pointer into a ticket, if an access, conflicting with
 * reads too or not, has to wait for it. That ends the turn of the pointers that the access conflicts with. */
synced_mem_status sm_copy_settle(struct sm_copy *copy, bool conflicting);

/* The first unfinished work that an access has to wait for: what writes the copy, and if it conflicts what reads it.
 * NULL: none. */
struct sm_ticket *sm_copy_blocker(struct sm_copy *copy, bool conflicting);

/* The first unfinished work of the library's own on the copy. NULL: none. */
struct sm_ticket *sm_copy_transfer_on(struct sm_copy *copy);

/* Says that work was queued on the copy which no event could be recorded behind. */
void sm_copy_untrack(struct sm_copy *copy, enum sm_untracked how, int device, sm_stream stream);
/* Tries that again. On a stream of the caller's, which may be gone, it is left alone. */
synced_mem_status sm_copy_retrack(struct sm_copy *copy);

/* Forgets work that is over. Asks no device. */
void sm_copy_prune(struct sm_copy *copy);

/* As sm_copy_blocker(), as waits of a stream. Settles first what an access on that stream has to wait for. */
synced_mem_status sm_copy_order(struct sm_copy *copy, bool conflicting, int device, sm_stream stream);

/* The ticket becomes the copy's write. It is ordered after all that was in flight, and stands for that from now on.
 * Takes over the caller's hold. */
void sm_copy_written(struct sm_copy *copy, struct sm_ticket *ticket);

/* Before a transfer from the copy is queued on the stream: where all slots are taken, the transfer is ordered after one
 * of the reads, so that it covers that one. */
synced_mem_status sm_copy_reserve_read(struct sm_copy *copy, int device, sm_stream stream);
/* Enters that transfer; takes a hold of its own. */
void sm_copy_read(struct sm_copy *copy, struct sm_ticket *ticket);

#endif
