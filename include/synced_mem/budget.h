/**
 * @file
 * More than fits in memory: budgets for devices and for host copies, and objects whose copies go while nobody holds
 * them. Defaults: synced_mem.h. Details: docs/guide/budget.md.
 */
#ifndef SYNCED_MEM_BUDGET_H
#define SYNCED_MEM_BUDGET_H

#include "../synced_mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Objects that may be evicted ---- */
/*
 * An object made with options.evictable may lose its copy on a side while nobody holds it there. The library evicts it
 * if it would otherwise exceed the budget of the device or of host copies, or if the runtime refuses memory. Contents
 * that only that side has first go to the other side, or from the host to the scratch file. Which object goes is
 * predicted from the times of its last holds.
 *
 * - Device pointers are good while the object is held on the device; otherwise accesses to the device fail with
 *   ERR_INVALID_STATE. While host copies have a budget, host pointers need a hold on the host in the same way. Pushes,
 *   pulls and copies need no hold.
 * - While an object is held, its last release and calls that resize it, put it into a file or release its memory return
 *   ERR_INVALID_STATE. Calls that make views of it or hand in memory always do.
 * - Pointers in a captured graph need a hold until the graph's last launch has ended. A tensor of a copy
 *   (synced_mem/dlpack.h) is made with the hold that an access needs; the copy stays until the tensor's deleter is
 *   called.
 * - Holds count for each object and side, and belong to no thread. A list (_n) may be empty.
 * - An eviction changes the head of its object, also if the call that needs the memory fails. A hold that fails holds
 *   none of its objects; contents of some may have been transferred.
 *
 * Blocking: a hold, until contents are pulled to pageable memory, or are in the scratch file, if such an object is
 * evicted; while memory is short, also until pushes, pulls and copies of other threads have ended that have the memory,
 * for a second at most.
 *
 * Errors: ERR_INVALID_STATE (an object is not evictable; an unhold of one that is not held there: all stay held);
 * ERR_INVALID_ARGUMENT (an object is named twice); of a hold also ERR_OUT_OF_DEVICE_MEMORY, ERR_OUT_OF_HOST_MEMORY (the
 * objects are larger than the budget, or others are held: nothing is evicted; or memory is refused), ERR_FILE (also the
 * scratch file) and GPU errors.
 */

/** Holds the object on a side, until one unhold of that side. Gives it memory there and, unless the mode is to
 * overwrite, queues the transfer of its contents; so a hold ahead, on a stream for copies, is a prefetch. No hold waits
 * for an unhold.
 * @param mode  of the accesses to come; those of other modes are allowed too, and may transfer
 * @param stream  for the transfer, of the object's device, also SYNCED_MEM_STREAM_LIBRARY. A hold on the host ignores
 *                it
 * @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_hold(synced_mem *mem, synced_mem_side side, synced_mem_mode mode,
                                                 synced_mem_stream stream);

/** Holds count objects on a side, all or none. Claims the memory of all of them before it evicts an object.
 * @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_hold_n(synced_mem *const *mems, size_t count, synced_mem_side side,
                                                   synced_mem_mode mode, synced_mem_stream stream);

/** Ends a hold of the object on the side. The last one on its device ends the use of its device copy by all streams:
 * evictions wait for work that was queued before, not for later work. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_unhold(synced_mem *mem, synced_mem_side side);

/** Ends a hold of each of count objects on the side. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_unhold_n(synced_mem *const *mems, size_t count, synced_mem_side side);

/* ---- Budgets ---- */

struct synced_mem_file; /* synced_mem_file, of files.h */

#define SYNCED_MEM_NO_BUDGET UINT64_MAX /**< no limit */

/** Sets the most memory that the library has on the device, in bytes: of all objects, and released memory that it keeps
 * for reuse. What exceeds it goes: memory kept for reuse and copies of evictable objects at once, held ones at their
 * last unhold. Later allocations that would exceed it evict, or fail with ERR_OUT_OF_DEVICE_MEMORY. The shutdown
 * removes budgets.
 * @param bytes  SYNCED_MEM_NO_BUDGET: no limit, as at first
 * @param over  gets the number of bytes by which the library still exceeds the budget, which is no failure; or NULL
 * Blocking: until work on released memory has ended, if the library still exceeds it. Errors: GPU errors. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_set_budget(int device, uint64_t bytes, uint64_t *over);

/** Sets the most memory that host copies have, in bytes: of all objects, and released copies still in use. What exceeds
 * it goes: host copies of evictable objects at once, held ones at their last unhold. Those whose contents the device or
 * a file has go first, without a transfer; contents of others are written to the scratch file; without one they stay.
 * Later allocations that would exceed the budget evict, or fail with ERR_OUT_OF_HOST_MEMORY. Set it while no thread
 * uses pointers to host copies of evictable objects. The shutdown removes it.
 * @param bytes  SYNCED_MEM_NO_BUDGET: no limit, as at first
 * @param scratch  a file on a disk, which the library keeps open, and of which it uses every byte; or NULL. On Linux
 *                 it goes past the system's cache, and has the file system keep room for contents before they are
 *                 written, where the file system can do either. In a forked child contents in it are ERR_FORKED
 * @param over  gets the number of bytes by which host copies still exceed the budget, which is no failure; or NULL
 * Blocking: until contents are written; until work on released copies has ended, if copies still exceed the budget.
 * Errors: ERR_INVALID_ARGUMENT (the file can't be written, or is in memory); ERR_FILE (the scratch file has no room or
 * could not be written, and copies exceed the budget: the budget and the scratch file are those from before; copies
 * that have gone stay in the new file); in the same way ERR_OUT_OF_HOST_MEMORY, GPU errors; ERR_FORKED (the parent
 * process has opened the file, or has used a GPU). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_cpu_set_budget(uint64_t bytes, struct synced_mem_file *scratch,
                                                           uint64_t *over);

#ifdef __cplusplus
}
#endif

#endif
