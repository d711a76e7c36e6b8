/**
 * @file
 * Views: objects whose bytes are a part of another object's; and copies of parts. synced_mem.h has the defaults that
 * hold for every function. Details: docs/guide/parts.md.
 */
#ifndef SYNCED_MEM_VIEWS_H
#define SYNCED_MEM_VIEWS_H

#include "../synced_mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Views ---- */
/*
 * A view is used as any object, and a call on it concerns its bytes alone. Its root is in parts while it has views.
 *
 * - Heads are kept by bytes. An object in parts has the bit of a side if all of its bytes are valid there; if neither
 *   side has all, and some byte is initialized, it is MIXED. A push then moves the bytes that are AT_CPU, a pull those
 *   that are AT_GPU.
 * - Accesses to a root and its views conflict only if their bytes overlap.
 * - Memory, allocators, placement, alignment and device are the root's, and a view's pointer is the root's plus the
 *   offset. Calls that replace or release memory return ERR_INVALID_STATE on a view, and resizes also on an object with
 *   views that have bytes.
 * - Any call on an object in parts, except for facts, may return ERR_OUT_OF_HOST_MEMORY.
 */

/** Makes a view of size bytes of an object, or of a view of it, from offset on. The view has one reference, and holds
 * one to the root. Making or releasing a view is no access.
 * @param options  may be NULL; only name and user may differ from the defaults
 * Ownership: the caller owns the reference until synced_mem_release(). Errors: ERR_INVALID_ARGUMENT (the part is not
 * within the object, an option is not a default); ERR_OUT_OF_HOST_MEMORY; ERR_FORKED. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_view(synced_mem **out, synced_mem *of, size_t offset, size_t size,
                                                 const synced_mem_options *options);

/** The object that a view is a part of.
 * @return the root, with no new reference; mem itself if it is no view; NULL for NULL @since 0.2 */
SYNCED_MEM_API synced_mem *synced_mem_root(const synced_mem *mem);

/** The place of a view in its root.
 * @return in bytes; 0 if mem is no view, and for NULL @since 0.2 */
SYNCED_MEM_API size_t synced_mem_offset(const synced_mem *mem);

/* ---- Copies of parts ---- */

/** Copies size bytes of from, beginning at from_offset, to the bytes of to that begin at to_offset. from keeps its head
 * and its copies, and to its other bytes. The copied bytes are then valid on one side of to alone. The library chooses
 * the side on which alone the other bytes of to are valid, so that they need not be parts of their own; if there is no
 * such side, that on which alone the bytes of from are valid; else the device. Bytes of from without contents make
 * those of to UNINITIALIZED, without a transfer. Size 0 does nothing if both offsets lie in the objects.
 * @param from    may be to, if the bytes do not overlap
 * @param stream  the transfer to a device copy is queued on it: of the device of either object; a default stream and
 *                SYNCED_MEM_STREAM_LIBRARY are of that of to; if to has none, of from. A copy to the host ignores it.
 *                SYNCED_MEM_NO_STREAM: the copy goes to the host.
 * Blocking: to the device only for pageable memory, and with mapped placement; to the host until the bytes have
 * arrived, and earlier work on those of the host copy of to is done. Threads: a resize of either object meanwhile may
 * return ERR_INVALID_STATE. Errors: ERR_INVALID_ARGUMENT (the bytes lie not within the objects, they or their memory
 * overlap); ERR_OUT_OF_HOST_MEMORY; GPU errors. If the bytes of either object are in several parts, a refused
 * call may have copied some: each part of to has its old contents or the copy. If a transfer fails after it has begun,
 * the bytes of to become UNINITIALIZED where only the overwritten copy was valid. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_copy(synced_mem *to, size_t to_offset, synced_mem *from, size_t from_offset,
                                                 size_t size, synced_mem_stream stream);

#ifdef __cplusplus
}
#endif

#endif
