/**
 * @file
 * Memory that the library keeps for reuse, and devices. Most programs need none of it. Defaults: synced_mem.h. Details:
 * docs/guide/pools.md.
 */
#ifndef SYNCED_MEM_POOLS_H
#define SYNCED_MEM_POOLS_H

#include "../synced_mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Page-locked memory ---- */
/*
 * One pool has the library's page-locked host memory, in large segments. Calls that set its limit, trim or reserve may
 * wait for the device.
 */

/** Sets the most that the pool may hold; 0 (the default): no limit. Unused memory beyond it goes back to the system,
 * growth fails with ERR_OUT_OF_HOST_MEMORY. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_set_limit(size_t bytes);

/** Gives the longest unused segments back to the system until the pool holds at most keep bytes. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_trim(size_t keep);

/** Sets how long an unused segment is kept; 0 (the default): for ever. Growth and synced_mem_reap() check it.
 * @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_set_decay(unsigned milliseconds);

/** Makes sure that so many bytes in one piece are free in the pool, for transfers of the device, or of
 * SYNCED_MEM_DEVICE_CURRENT.
 * Errors: ERR_OUT_OF_HOST_MEMORY (also by the limit); GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_reserve(int device, size_t bytes);

/** The pool's numbers. */
typedef struct synced_mem_host_pool_stats {
    size_t struct_size;
    uint64_t requested_bytes;      /**< in use, not rounded */
    uint64_t peak_requested_bytes; /**< about the most */
    uint64_t held_bytes;           /**< page-locked, in use or not */
    uint64_t peak_held_bytes;      /**< the most */
    uint64_t free_bytes;           /**< held, not in use */
    uint64_t slabs;                /**< segments held */
    uint64_t registrations;        /**< segments ever page-locked */
    uint64_t reused_allocations;   /**< from memory held */
    uint64_t fresh_allocations;    /**< others */
} synced_mem_host_pool_stats;

/** Fills stats, number by number while other threads go on. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_get_stats(synced_mem_host_pool_stats *stats);

/** Sets both peaks to the current values. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_reset_peaks(void);

/** Allows pageable host copies if page-locked memory is short, instead of ERR_OUT_OF_HOST_MEMORY. @since 0.1 */
SYNCED_MEM_API void synced_mem_set_pageable_fallback(int allow);

/* ---- Staged transfers ---- */

/** Settings of staged transfers, in which threads copy pageable memory through page-locked buffers. */
typedef struct synced_mem_staging {
    size_t struct_size;
    /** Up to 64 are started, and stay. 0: none, and pulls block if none runs. Default: processors - 1, but 1 to 15. */
    unsigned threads;
    /** 64 KiB to 64 MiB, of which the largest power of two is used. A transfer takes 2 * (threads + 1) buffers at most.
     * Default: 2 MiB. */
    size_t buffer_bytes;
    /** Smaller transfers are mostly not staged. Default: 128 KiB. */
    size_t minimum_bytes;
} synced_mem_staging;

/** Sets how later transfers are staged. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_set_staging(const synced_mem_staging *staging);

/** Fills staging with the current settings. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_get_staging(synced_mem_staging *staging);

/* ---- Copies by a kernel ---- */
/*
 * Copy engines take a time for each copy, whatever its size. So calls on many objects, and pushes and pulls of objects
 * in many parts, let a kernel copy the small ones between page-locked and device memory of the library's own, on the
 * call's stream. A kernel needs a multiprocessor, which copy engines do not. So a call that wants a kernel first looks,
 * for 20 to 200 microseconds at most, whether the device has room, and else uses copy engines. A program that starts
 * kernels that fill the device and wait for the host before its copies have ended, in whatever thread, must switch this
 * off: the copies might wait for such a kernel, and the host for the copies.
 * Details: docs/guide/pools.md.
 */

/** Sets how many thread blocks such a kernel has, fewer for few copies; 0: there are no kernels; -1 (the default): the
 * library chooses by the device and the copies, an eighth of the multiprocessors, up to half for small copies. The
 * environment variable SYNCED_MEM_KERNEL_BLOCKS sets the initial value. Errors: ERR_INVALID_ARGUMENT (below -1 or above
 * 1024). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_set_kernel_blocks(int blocks);

/*
 * Urgent transfers do not wait behind large ones. A copy engine makes its copies one after the other, whatever their
 * streams. So while the library has a transfer of 1 MiB or more in flight in the same direction on another stream, a
 * kernel of up to ten blocks makes the urgent copy, of up to 10 MiB for each part of an object. Without such a
 * transfer, for memory that no kernel copies, if kernels are switched off, and if the device has no room for one within
 * 200 microseconds, a copy engine makes it, behind what is queued.
 */

/** Transfers the host copy to the device ahead of large pushes: AT_CPU becomes SYNCED. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_async_gpu_push_urgent(synced_mem *mem, synced_mem_stream stream);

/** Transfers the device copy to the host ahead of large pulls: AT_GPU becomes SYNCED. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_async_cpu_pull_urgent(synced_mem *mem, synced_mem_stream stream);

/* ---- Device memory pools ---- */
/*
 * The library has a memory pool (cudaMemPool_t) on each device until synced_mem_shutdown(), which also resets settings.
 * device and peer may be SYNCED_MEM_DEVICE_CURRENT. Without pools memory comes from cudaMalloc, and settings do
 * nothing. So does the memory of the first milliseconds of a device, which goes back to the system when it is freed,
 * and which the pool's numbers leave out, unless a setting was made before.
 *
 * Errors: GPU errors, after which a part of the settings may have been made.
 */

/** Sets how many bytes the pool keeps (UINT64_MAX, the default: all) when a synchronization lets CUDA give memory back
 * to the system, and the limit of synced_mem_gpu_pool_set_spare_limit().
 * Source: cudaMemPoolAttrReleaseThreshold. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_set_threshold(int device, uint64_t bytes);

/** Frees finished memory and the device cache, calls due callbacks of adopted memory, and gives unused memory back to
 * the system until the pool has at most keep bytes.
 * Blocking: the CUDA runtime may wait for the device.
 * Source: cudaMemPoolTrimTo. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_trim(int device, size_t keep);

/** Sets how much released memory the device cache keeps for objects of the same size: up to 1 GiB, the default. If it
 * has more, it is emptied. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_set_spare_limit(int device, size_t bytes);

/** A device's pool, or without pools the library's cudaMalloc memory. */
typedef struct synced_mem_gpu_pool_stats {
    size_t struct_size;
    uint64_t reserved;      /**< taken from the system */
    uint64_t reserved_high; /**< the most since synced_mem_gpu_pool_reset_peaks() */
    uint64_t used;          /**< of that, allocated */
    uint64_t used_high;     /**< likewise */
} synced_mem_gpu_pool_stats;

/** Fills stats, with zeros before the first allocation.
 * Source: cudaMemPoolGetAttribute. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_get_stats(int device, synced_mem_gpu_pool_stats *stats);

/** Sets both peaks to the current values. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_reset_peaks(int device);

/** When another stream than that of the free may use freed memory. Source: cudaMemPoolReuseFollowEventDependencies and
 * its siblings. */
enum {
    SYNCED_MEM_GPU_POOL_REUSE_EVENTS = 1,        /**< if that stream has waited for an event after it */
    SYNCED_MEM_GPU_POOL_REUSE_OPPORTUNISTIC = 2, /**< if the free is done */
    SYNCED_MEM_GPU_POOL_REUSE_INTERNAL = 4,      /**< by a wait that the runtime adds */
    SYNCED_MEM_GPU_POOL_REUSE_ALL = 7            /**< the default */
};

/** Sets in which of these cases, or none (0), the pool may do so; fewer give reproducible addresses. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_set_reuse(int device, unsigned policies);

/** Lets the device peer reach the library's memory on device, or forbids it (allow is 0). Until the first call for the
 * two, a copy between them allows it in both directions.
 * Blocking: the driver maps memory. Errors: ERR_INVALID_ARGUMENT (the two are one); ERR_INVALID_DEVICE (also if peer
 * can't reach device); ERR_CUDA (also if nothing took effect).
 * Source: cudaDeviceCanAccessPeer, cudaMemPoolSetAccess. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_allow_peer(int device, int peer, int allow);

/* ---- Devices ---- */

/** Returns the number of CUDA devices, 0 also without CUDA or a driver, and in a forked child. The first call starts
 * the driver. @since 0.1 */
SYNCED_MEM_API int synced_mem_device_count(void);

/** Ways to share a pool with other processes. Source: cudaMemAllocationHandleType. */
enum {
    SYNCED_MEM_GPU_POOL_HANDLE_NONE = 0,
    SYNCED_MEM_GPU_POOL_HANDLE_POSIX_FD = 1, /**< a file descriptor */
    SYNCED_MEM_GPU_POOL_HANDLE_WIN32 = 2,    /**< a handle of Windows */
    SYNCED_MEM_GPU_POOL_HANDLE_WIN32_KMT = 4,
    SYNCED_MEM_GPU_POOL_HANDLE_FABRIC = 8 /**< a fabric handle */
};

/** The abilities of a device. Yes is 1, no is 0. Source: cudaDeviceAttr. */
typedef struct synced_mem_device_info {
    size_t struct_size;
    int device;                    /**< its number */
    int driver_version;            /**< the newest CUDA for it: 1000 * major + 10 * minor */
    int runtime_version;           /**< of the CUDA runtime, likewise */
    int memory_pools;              /**< exist */
    int pool_handles;              /**< SYNCED_MEM_GPU_POOL_HANDLE_*; 0: also if unknown */
    int managed_memory;            /**< exists */
    int concurrent_managed_access; /**< both sides may use it at a time */
    int pageable_memory_access;    /**< kernels can use any host memory */
    int integrated;                /**< its memory is the host's */
    int can_map_host_memory;       /**< kernels can use page-locked host memory */
    int host_register;             /**< allocated host memory can be page-locked */
    int unified_addressing;        /**< a pointer tells whose memory it is */
    int async_engines;             /**< directions of transfers beside kernels: up to 2 */
    int numa_node;                 /**< the nearest; -1: unknown */
    uint64_t total_memory;         /**< bytes */
    char pci_bus_id[16];           /**< "domain:bus:device.function" */
} synced_mem_device_info;

/** Fills info for a device, or SYNCED_MEM_DEVICE_CURRENT.
 * Blocking: the driver creates the device's primary context. Errors: GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_get_device_info(int device, synced_mem_device_info *info);

#ifdef __cplusplus
}
#endif

#endif
