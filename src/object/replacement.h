/*
 * Replacing a side's memory. New memory is obtained and filled while the old stays valid, across waits and unlocks.
 * Then it takes the place of the old memory at once. The transaction keeps it meanwhile, as its replacement. The
 * callers are renew.c, for read-only memory, and resize.c, for more room. All functions need the lock.
 */
#ifndef SM_REPLACEMENT_H
#define SM_REPLACEMENT_H

#include "object/transaction.h"
#include "stream/stream.h"

struct sm_replacing {
    struct sm_transaction *transaction;
    struct synced_mem *owner; /* of the memory */
    enum sm_side side;
    size_t size;     /* of the new memory; the bytes behind the contents become zeros */
    bool overwrites; /* contents of the transaction's object are not copied */
    /* The owner is whole when the new memory takes its place. The caller has waited for all work on the host copy, and
     * has gathered that on the device copy. It does not wait until the device has filled the new memory. */
    bool becomes_whole;
    struct sm_stream *stream; /* the caller's, which comes after the work on the new memory; NULL: none */
};

/* Obtains the memory and fills it, as far as that can be done before the commit. SM_AGAIN: the caller waits and calls
 * again. If the owner has other memory, other contents or another size by then, it is filled again. On failure the
 * object is unchanged, and the transaction retires the memory at its end. */
synced_mem_status sm_replacement_prepare(const struct sm_replacing *replacing);

/* Enters the fill of the new memory as a read of each part of the old one, so that writes by other threads' calls come
 * after it while the caller waits. ERR_OUT_OF_HOST_MEMORY: some of it may be entered. */
synced_mem_status sm_replacement_enter_reads(const struct sm_replacing *replacing);

/* Puts prepared memory in the place of the old memory, which the transaction retires at its end. Of an undivided owner
 * it cannot fail. ERR_OUT_OF_HOST_MEMORY: there is too little memory for the structs of the parts. */
synced_mem_status sm_replacement_commit(const struct sm_replacing *replacing);

#endif
