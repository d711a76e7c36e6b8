/**
 * @file
 * Views, objects whose bytes are a part of another object's, and copies of parts. Defaults: synced_mem.h. Details:
 * docs/guide/parts.md.
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
 * - An object in parts has the bit of a side if all of its bytes are valid there. It is MIXED if neither side has all,
 *   and some byte is initialized; a push then moves the bytes that are AT_CPU, a pull those that are AT_GPU.
 * - Accesses to a root and its views conflict only if their bytes overlap.
 * - Memory, allocators, placement, alignment and device are the root's, and a view's pointer is the root's plus the
 *   offset. Calls that resize, replace or release memory return ERR_INVALID_STATE on a view, resizes also on its root.
 * - A view of 0 bytes has a head and memory of its own, and lets its root be resized.
 */

/** Makes a view of size bytes of an object or view, from offset on, which holds a reference to the root. Making or
 * releasing it is no access. Of the options, which may be NULL, only name and user may be set.
 * Ownership: the caller owns its one reference until synced_mem_release(). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_view(synced_mem **out, synced_mem *of, size_t offset, size_t size,
                                                 const synced_mem_options *options);

/** Returns the object that a view is a part of, with no new reference; mem itself if it is no view. @since 0.2 */
SYNCED_MEM_API synced_mem *synced_mem_root(const synced_mem *mem);

/** Returns the place of a view in its root; 0 if mem is no view. @since 0.2 */
SYNCED_MEM_API size_t synced_mem_offset(const synced_mem *mem);

/* ---- Copies of parts ---- */

/** Copies size bytes of from, beginning at from_offset, to the bytes of to that begin at to_offset. from, which may be
 * to, keeps its head and copies, to its other bytes. The copy is valid on one side: with SYNCED_MEM_NO_STREAM on the
 * host; else where alone the other bytes of to are valid; else where alone the bytes of from are; else on the device.
 * Bytes without contents do not count, and make those of to UNINITIALIZED. A copy to the host ignores the stream. A
 * failed call may have copied some bytes, or lost those of to: docs/guide/copies.md.
 * @param stream  for a copy to the device, of the device of to or from; a default stream and SYNCED_MEM_STREAM_LIBRARY
 *                are of the device of to, else of from
 * Blocking: to the host, until the bytes have arrived and earlier work on those of to is done; to the device with
 * mapped placement. Threads: a resize meanwhile may return ERR_INVALID_STATE. Errors: GPU errors; ERR_INVALID_ARGUMENT
 * (also bytes or memory that overlap). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_copy(synced_mem *to, size_t to_offset, synced_mem *from, size_t from_offset,
                                                 size_t size, synced_mem_stream stream);

#ifdef __cplusplus
}
#endif

#endif
