/**
 * @file
 * More than a device holds: a budget for device memory, and objects that leave their device while nobody holds them.
 * Defaults: synced_mem.h. Details: docs/design/evict.md.
 */
#ifndef SYNCED_MEM_BUDGET_H
#define SYNCED_MEM_BUDGET_H

#include "../synced_mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Objects that may be evicted ---- */
/*
 * An object made with options.evictable may lose its device copy while nobody holds it. It is evicted if the library
 * would otherwise exceed the device's budget, or if the runtime refuses memory. Its contents stay: if only the device
 * has them they are pulled first. Which object goes is predicted from the times of its last holds.
 *
 * - Device pointers are good while the object is held. Otherwise accesses to the device return ERR_INVALID_STATE.
 *   Accesses to the host, pushes, pulls and copies need no hold.
 * - While it is held it can't be resized, released or put into a file, and its memory can't be given back:
 *   ERR_INVALID_STATE. It has no views, and takes no memory of the caller's.
 * - Pointers in a captured graph need a hold until the graph's last launch has ended. A tensor of the device copy needs
 *   one to be made; the copy then stays until the tensor's deleter was called.
 *
 * Errors: ERR_INVALID_STATE (an object is not evictable); ERR_INVALID_ARGUMENT (an object is named twice).
 */

/** Holds objects on their device, and brings them there: they get memory and, but for an overwrite, their contents, in
 * the stream's order. So a hold ahead on a stream for copies is a prefetch. The memory of all of them is claimed before
 * any object is evicted. No hold waits for the end of another one. Holds count; each ends by one synced_mem_unhold().
 * @param side  SYNCED_MEM_SIDE_GPU
 * @param mode  what the accesses will be at most, so that nothing is moved for an overwrite
 * @param stream  also SYNCED_MEM_STREAM_LIBRARY
 * Blocking: until contents are pulled to pageable memory, if such an object is evicted; while memory is short. Errors:
 * ERR_OUT_OF_DEVICE_MEMORY (the objects are larger than the budget, or others are held: nothing is evicted; or the
 * runtime refuses memory); ERR_FILE; GPU errors. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_hold(synced_mem *const *mems, size_t count, synced_mem_side side,
                                                 synced_mem_mode mode, synced_mem_stream stream);

/** Ends a hold of each object. With an object's last hold the accesses of all streams to its device copy end, by an
 * event. Errors: ERR_INVALID_STATE (an object is not held: all stay held). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_unhold(synced_mem *const *mems, size_t count);

/* ---- Budgets ---- */

#define SYNCED_MEM_NO_BUDGET UINT64_MAX /**< as much as the device has */

/** Sets the most memory that the library has on the device, in bytes: of all objects, and of released memory that it
 * keeps for reuse. If it has more, it gives up what it keeps and evicts objects now, and others when they are unheld.
 * The shutdown removes budgets.
 * @param bytes  SYNCED_MEM_NO_BUDGET: no limit, as at first
 * @param over  gets by how much the library still exceeds the budget; or NULL
 * Blocking: until work on released memory has ended, if the library still has more. Errors: GPU errors. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_set_budget(int device, uint64_t bytes, uint64_t *over);

#ifdef __cplusplus
}
#endif

#endif
