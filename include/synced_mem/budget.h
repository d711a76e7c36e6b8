/**
 * @file
 * More than memory holds: budgets for devices and for host copies, and objects whose copies go while nobody holds them.
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
 * An object made with options.evictable may lose its copy on a side while nobody holds it there. It is evicted if the
 * library would otherwise exceed the budget of the device or of host copies, or if the runtime refuses memory. Its
 * contents stay: if only that side has them they go to the other side, or to the scratch file, first. Which object goes
 * is predicted from the times of its last holds.
 *
 * - Device pointers are good while the object is held on the device. Otherwise accesses to the device return
 *   ERR_INVALID_STATE. While host copies have a budget, the same is so on the host. Pushes, pulls and copies need no
 *   hold.
 * - While it is held it can't be resized, released or put into a file, and its memory can't be given back:
 *   ERR_INVALID_STATE. It has no views, and takes no memory of the caller's.
 * - Pointers in a captured graph need a hold until the graph's last launch has ended. A tensor of a copy needs a hold
 *   where accesses do; the copy then stays until the tensor's deleter was called.
 *
 * Errors: ERR_INVALID_STATE (an object is not evictable); ERR_INVALID_ARGUMENT (an object is named twice).
 */

/** Holds objects on a side, and brings them there: they get memory and, but for an overwrite, their contents, on their
 * device in the stream's order. So a hold ahead on a stream for copies is a prefetch. The memory of all of them is
 * claimed before any object is evicted. No hold waits for the end of another one. Holds count; each ends by one
 * synced_mem_unhold() of the same side.
 * @param mode  what the accesses will be at most, so that nothing is moved for an overwrite
 * @param stream  also SYNCED_MEM_STREAM_LIBRARY; of the host's side it is ignored
 * Blocking: until contents are pulled to pageable memory, or are in the scratch file, if such an object is evicted;
 * while memory is short. Errors: ERR_OUT_OF_DEVICE_MEMORY, ERR_OUT_OF_HOST_MEMORY (the objects are larger than the
 * budget, or others are held: nothing is evicted; or memory is refused); ERR_FILE (also the scratch file); GPU errors.
 * @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_hold(synced_mem *const *mems, size_t count, synced_mem_side side,
                                                 synced_mem_mode mode, synced_mem_stream stream);

/** Ends a hold of each object on the side. With an object's last hold on its device the accesses of all streams to its
 * device copy end, by an event. Errors: ERR_INVALID_STATE (an object is not held there: all stay held). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_unhold(synced_mem *const *mems, size_t count, synced_mem_side side);

/* ---- Budgets ---- */

struct synced_mem_file; /* synced_mem_file, of files.h */

#define SYNCED_MEM_NO_BUDGET UINT64_MAX /**< as much as the device has */

/** Sets the most memory that the library has on the device, in bytes: of all objects, and of released memory that it
 * keeps for reuse. If it has more, it gives up what it keeps and evicts objects now, and others when they are unheld.
 * The shutdown removes budgets.
 * @param bytes  SYNCED_MEM_NO_BUDGET: no limit, as at first
 * @param over  gets by how much the library still exceeds the budget; or NULL
 * Blocking: until work on released memory has ended, if the library still has more. Errors: GPU errors. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_set_budget(int device, uint64_t bytes, uint64_t *over);

/** Sets the most memory that host copies have, in bytes: of all objects, and of released copies still in use. If they
 * have more, host copies of evictable objects go now, and others when they are unheld: first those whose contents the
 * device or a file has, without a transfer; then others, whose contents are written to the scratch file. Without one
 * these stay. Set it while no thread uses pointers to host copies of evictable objects. The shutdown removes it.
 * @param bytes  SYNCED_MEM_NO_BUDGET: no limit, as at first
 * @param scratch  a file, which the library keeps open, and of which it uses every byte; or NULL. Open it with
 *                 O_DIRECT, as it would else fill the system's cache. In a forked child contents in it are ERR_FORKED
 * @param over  gets by how much they still exceed the budget; or NULL
 * Blocking: until contents are written; until work on released copies has ended, if they still have more. Errors:
 * ERR_INVALID_ARGUMENT (the file can't be written, or is in memory). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_cpu_set_budget(uint64_t bytes, struct synced_mem_file *scratch,
                                                           uint64_t *over);

#ifdef __cplusplus
}
#endif

#endif
