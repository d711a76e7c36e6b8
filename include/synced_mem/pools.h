/**
 * @file
 * Memory that the library keeps for reuse, and devices. Most programs need none of it. synced_mem.h has the defaults
 * that hold for every function. Details: docs/guide/pools.md.
 */
#ifndef SYNCED_MEM_POOLS_H
#define SYNCED_MEM_POOLS_H

#include "../synced_mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Page-locked memory ---- */
/*
 * One pool for the process has the library's page-locked host memory, in large segments. Calls that set its limit, trim
 * or reserve may wait for the device in the CUDA runtime.
 */

/** Sets the most that the pool may hold; 0 (the default): no limit. Unused memory beyond it goes back to the system;
 * growth beyond it fails with ERR_OUT_OF_HOST_MEMORY.
 * Errors: ERR_FORKED. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_set_limit(size_t bytes);

/** Gives unused segments back to the system, the longest unused first, until the pool holds at most keep bytes.
 * Errors: ERR_FORKED. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_trim(size_t keep);

/** Sets how long an unused segment is kept; 0 (the default): for ever. Only synced_mem_reap() and growth check the
 * time.
 * Errors: ERR_FORKED. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_set_decay(unsigned milliseconds);

/** Makes sure that so many bytes in one piece are free in the pool.
 * @param device  whose transfers the memory is for, or SYNCED_MEM_DEVICE_CURRENT
 * Blocking: as long as page-locking takes. Errors: ERR_INVALID_ARGUMENT (a device below -1, a size over PTRDIFF_MAX);
 * ERR_OUT_OF_HOST_MEMORY (also by the limit); GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_reserve(int device, size_t bytes);

/** The pool of page-locked memory. */
typedef struct synced_mem_host_pool_stats {
    size_t struct_size;            /**< sizeof(synced_mem_host_pool_stats) */
    uint64_t requested_bytes;      /**< in use, before any rounding */
    uint64_t peak_requested_bytes; /**< the most of that; threads may miss a moment */
    uint64_t held_bytes;           /**< page-locked, in use or not */
    uint64_t peak_held_bytes;      /**< the most of that */
    uint64_t free_bytes;           /**< held and not in use */
    uint64_t slabs;                /**< segments held */
    uint64_t registrations;        /**< segments ever page-locked */
    uint64_t reused_allocations;   /**< allocations from memory held */
    uint64_t fresh_allocations;    /**< other allocations */
} synced_mem_host_pool_stats;

/** Fills stats, one number after another while other threads go on. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_get_stats(synced_mem_host_pool_stats *stats);

/** Sets both peaks to the current values. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_reset_peaks(void);

/** Lets new host copies be pageable if there is no more page-locked memory. By default such an access returns
 * ERR_OUT_OF_HOST_MEMORY. @since 0.1 */
SYNCED_MEM_API void synced_mem_set_pageable_fallback(int allow);

/* ---- Staged transfers ---- */

/** Settings of staged transfers: threads of the library copy pageable memory through page-locked buffers. */
typedef struct synced_mem_staging {
    size_t struct_size; /**< sizeof(synced_mem_staging) */
    /** At most 64. 0: pulls into pageable memory block. Default: half of the processors, 1 to 8. */
    unsigned threads;
    /** From 64 KiB to 64 MiB; each thread has two buffers. Default: 2 MiB. */
    size_t buffer_bytes;
    /** Smaller transfers are mostly not staged. Default: 1 MiB. */
    size_t minimum_bytes;
} synced_mem_staging;

/** Sets how later transfers are staged. Existing threads stay.
 * Errors: ERR_INVALID_ARGUMENT (out of range). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_set_staging(const synced_mem_staging *staging);

/** Fills staging with the current settings. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_get_staging(synced_mem_staging *staging);

/* ---- Device memory pools ---- */
/*
 * The library has its own memory pool (cudaMemPool_t) on each device, until synced_mem_shutdown(), which also resets
 * all settings. device and peer are numbers or SYNCED_MEM_DEVICE_CURRENT. Each call may return GPU errors, and may then
 * have made a part of its settings. On a device without pools memory comes from cudaMalloc, and settings have no
 * effect.
 */

/** Sets how many bytes the pool keeps (UINT64_MAX, the default: all) when a synchronization lets the CUDA runtime give
 * memory back to the system. Sets also the limit of synced_mem_gpu_pool_set_spare_limit().
 * Source: cudaMemPoolAttrReleaseThreshold. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_set_threshold(int device, uint64_t bytes);

/** Frees finished memory and the device cache, then gives unused memory back to the system until the pool has at most
 * keep bytes.
 * Blocking: the driver takes its time; the CUDA runtime may wait for the device. Ownership: due adopted memory gets its
 * callback.
 * Source: cudaMemPoolTrimTo. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_trim(int device, size_t keep);

/** Sets how much released memory the device cache keeps for objects of exactly the same size: up to 1 GiB, the default.
 * If there is more, all of it is freed, in the order of the work on it. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_set_spare_limit(int device, size_t bytes);

/** A device's pool, in bytes. Without pools: the library's memory of cudaMalloc. */
typedef struct synced_mem_gpu_pool_stats {
    size_t struct_size;     /**< sizeof(synced_mem_gpu_pool_stats) */
    uint64_t reserved;      /**< taken from the system */
    uint64_t reserved_high; /**< the most since synced_mem_gpu_pool_reset_peaks() */
    uint64_t used;          /**< of that, allocated */
    uint64_t used_high;     /**< likewise */
} synced_mem_gpu_pool_stats;

/** Fills stats; zeros if nothing was allocated yet.
 * Source: cudaMemPoolGetAttribute. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_get_stats(int device, synced_mem_gpu_pool_stats *stats);

/** Sets both high-water marks to the current values. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_reset_peaks(int device);

/** When another stream than that of the free may use freed memory. Source: cudaMemPoolReuseFollowEventDependencies and
 * its siblings. */
enum {
    SYNCED_MEM_GPU_POOL_REUSE_EVENTS = 1,        /**< if that stream has waited for an event after it */
    SYNCED_MEM_GPU_POOL_REUSE_OPPORTUNISTIC = 2, /**< if the free is done */
    SYNCED_MEM_GPU_POOL_REUSE_INTERNAL = 4,      /**< by a wait that the runtime adds */
    SYNCED_MEM_GPU_POOL_REUSE_ALL = 7            /**< the default */
};

/** Sets which of these, or none (0), the pool may do; fewer give reproducible addresses.
 * Errors: ERR_INVALID_ARGUMENT (other bits). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_set_reuse(int device, unsigned policies);

/** Lets another device, the peer, reach the library's memory on this one, or forbids it (allow is 0). Until the first
 * call for the two devices, a copy between them allows it in both directions.
 * Blocking: the driver takes its time to map the memory. Errors: ERR_INVALID_ARGUMENT (the two are one device);
 * ERR_INVALID_DEVICE (the peer can't reach the device); ERR_CUDA (the runtime accepted it without effect).
 * Source: cudaDeviceCanAccessPeer, cudaMemPoolSetAccess. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_allow_peer(int device, int peer, int allow);

/* ---- Devices ---- */

/** The number of CUDA devices that this process can use. The first call starts the driver.
 * @return 0 or more; 0 without CUDA, driver or device, and in a forked child. Blocking: for the driver, when it starts.
 * @since 0.1 */
SYNCED_MEM_API int synced_mem_device_count(void);

/** Ways to give memory of a pool to other processes. Source: cudaMemAllocationHandleType. */
enum {
    SYNCED_MEM_GPU_POOL_HANDLE_NONE = 0,
    SYNCED_MEM_GPU_POOL_HANDLE_POSIX_FD = 1, /**< a file descriptor */
    SYNCED_MEM_GPU_POOL_HANDLE_WIN32 = 2,    /**< a handle of Windows' kernel */
    SYNCED_MEM_GPU_POOL_HANDLE_WIN32_KMT = 4,
    SYNCED_MEM_GPU_POOL_HANDLE_FABRIC = 8 /**< a fabric handle */
};

/** The abilities of a device. Yes is 1, no is 0. Source: cudaDeviceAttr. */
typedef struct synced_mem_device_info {
    size_t struct_size;            /**< sizeof(synced_mem_device_info) */
    int device;                    /**< its number */
    int driver_version;            /**< the newest CUDA that it supports: 1000 * major + 10 * minor */
    int runtime_version;           /**< of the CUDA runtime, likewise */
    int memory_pools;              /**< there are memory pools */
    int pool_handles;              /**< bits SYNCED_MEM_GPU_POOL_HANDLE_*; 0: none, or unknown */
    int managed_memory;            /**< there is managed memory */
    int concurrent_managed_access; /**< ... which both may use at a time */
    int pageable_memory_access;    /**< kernels can use any host memory */
    int integrated;                /**< its memory is the host's */
    int can_map_host_memory;       /**< kernels can use page-locked host memory */
    int host_register;             /**< host memory can be page-locked after it was allocated */
    int unified_addressing;        /**< a pointer tells whose memory it is */
    int async_engines;             /**< 1: transfers run beside kernels in one direction, 2: in both */
    int numa_node;                 /**< nearest node of the host; -1: unknown */
    uint64_t total_memory;         /**< bytes */
    char pci_bus_id[16];           /**< "domain:bus:device.function" */
} synced_mem_device_info;

/** Fills info for a device number or SYNCED_MEM_DEVICE_CURRENT. Blocking: for the driver, while it creates the device's
 * primary context. Errors: GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_get_device_info(int device, synced_mem_device_info *info);

#ifdef __cplusplus
}
#endif

#endif
