/*
 * Read-only memory of the caller's, which the library never writes. A call that has to write it replaces it by memory
 * of the library's own: it renews the side. The words:
 *
 *    renewal    the new memory, which is not the object's yet
 *    copied     of a record's contents: they are copied to the renewal
 *
 * Read-only memory never becomes valid again once it is stale. So the contents that a renewal has keep their worth
 * while the lock is released. The copies of pieces are read-only where the root's is.
 */
#ifndef SM_RENEW_H
#define SM_RENEW_H

#include "object/transaction.h"
#include "stream/stream.h"

/* Returns whether the object's memory on the side is read-only. With the lock held, as all functions but the last. */
static inline bool sm_is_read_only(const struct synced_mem *mem, enum sm_side side)
{
    const struct sm_copy *const memory = sm_copy_of(sm_own_record(sm_owner(mem)), side);
    return memory && memory->read_only;
}

/* Returns whether the access would write read-only memory on the side: the caller would, or a transfer or fill. */
bool sm_access_needs_renewal(const struct synced_mem *mem, enum sm_side side, enum sm_mode mode);

/*
 * Renews the side of the transaction's object, and of all objects with the same memory. The caller's memory is retired
 * at the end of the transaction. No effect if the memory is not read-only. SM_AGAIN: the host waits for the
 * transaction's waits, with the lock released, and calls again. overwrites: the object's contents on this side are not
 * copied, so nothing may fail from here to the end of the access. stream: comes after the work on the new memory; NULL:
 * the host has waited for that work. Waits for no work itself. On failure the object is unchanged.
 */
synced_mem_status sm_renew(struct sm_transaction *transaction, enum sm_side side, bool overwrites,
                           struct sm_stream *stream);

/* Does for a call on several objects what is done with no other object locked: renews the side's memory if it is
 * read-only, or gets it from a user allocator, in the order of the stream. Keeps all contents. Blocks until contents
 * that are copied have arrived, and until the library's work on borrowed memory has ended. No lock may be held. */
synced_mem_status sm_obtain_alone(struct synced_mem *owner, enum sm_side side, struct sm_stream *stream);

#endif
