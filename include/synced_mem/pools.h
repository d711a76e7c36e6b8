/**
 * @file
 * Memory that the library keeps for reuse, what happens when memory is short, and devices. Most programs need
 * none of it. synced_mem.h has the defaults that hold for every function. Details: docs/guide/memory.md.
 */
#ifndef SYNCED_MEM_POOLS_H
#define SYNCED_MEM_POOLS_H

#include "../synced_mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Page-locked memory ---- */
/*
 * The library's page-locked host memory comes from a pool for the whole process. The pool takes large segments from the
 * system, and keeps released memory for the next object. Transfers may be in flight during these calls. Those that set
 * the limit, trim or reserve also wait while the pool grows in another thread.
 */

/** Sets the most that the pool may hold; 0 (the default): no limit. Unused memory beyond it goes back to the system;
 * memory in use stays. Growth beyond it fails with ERR_OUT_OF_HOST_MEMORY; the detail has the limit, the bytes held,
 * and the request.
 * Blocking: the CUDA runtime may wait for the device. Errors: ERR_FORKED. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_set_limit(size_t bytes);

/** Gives unused segments back to the system, the longest unused first, until the pool holds at most keep bytes or no
 * unused segment. A segment that the CUDA runtime refuses to release stays, and is tried again later.
 * Blocking: the CUDA runtime may wait for the device. Errors: ERR_FORKED. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_trim(size_t keep);

/** Sets how long an unused segment is kept; 0 (the default): for ever. Only synced_mem_reap() and a growth of the pool
 * check the time, so that an access that finds memory never waits for it.
 * Errors: ERR_FORKED. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_set_decay(unsigned milliseconds);

/** Makes sure that so many bytes in one piece are free in the pool, so that a program can pay for page-locking when it
 * starts. They stay until they are used, or unused segments are given back. After a failure the pool is as before, less
 * unused segments.
 * @param device  whose transfers the memory is for, whose context page-locks it; or SYNCED_MEM_DEVICE_CURRENT
 * @param bytes   0: nothing is done
 * Blocking: as long as page-locking takes. Errors: ERR_INVALID_ARGUMENT (a device below -1, a size over PTRDIFF_MAX);
 * ERR_OUT_OF_HOST_MEMORY (also by the limit); GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_reserve(int device, size_t bytes);

/** The contents and the work of the pool of page-locked memory. */
typedef struct synced_mem_host_pool_stats {
    size_t struct_size;            /**< set it to sizeof(synced_mem_host_pool_stats) before the call */
    uint64_t requested_bytes;      /**< requested and in use, before any rounding */
    uint64_t peak_requested_bytes; /**< the most of that at a time; with several threads a moment may be missed */
    uint64_t held_bytes;           /**< page-locked, in use or not */
    uint64_t peak_held_bytes;      /**< the most of that at a time */
    uint64_t free_bytes;           /**< held and not in use */
    uint64_t slabs;                /**< segments held */
    uint64_t registrations;        /**< segments ever page-locked */
    uint64_t reused_allocations;   /**< allocations from memory that was page-locked already */
    uint64_t fresh_allocations;    /**< allocations for which memory was page-locked */
} synced_mem_host_pool_stats;

/** Fills stats. The numbers are read one by one while other threads go on. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_get_stats(synced_mem_host_pool_stats *stats);

/** Sets both peaks to the current values. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_reset_peaks(void);

/** Lets new host copies be pageable if the limit, the system or the CUDA runtime has no more page-locked memory. By
 * default such an access returns ERR_OUT_OF_HOST_MEMORY. If the runtime page-locks nothing for another reason (it
 * can't, or the device is lost) host copies are pageable in any case. synced_mem_stats.pageable_fallbacks counts both.
 * @since 0.1 */
SYNCED_MEM_API void synced_mem_set_pageable_fallback(int allow);

/* ---- Staged transfers ---- */

/** Settings of staged transfers, from and to pageable memory. They run in chunks through page-locked buffers, which the
 * library's copy threads, and every thread that waits for the transfer, fill or empty. */
typedef struct synced_mem_staging {
    size_t struct_size; /**< set it to sizeof(synced_mem_staging) before each call */
    /** Copy threads, at most 64; started when first needed, kept until synced_mem_shutdown(). 0: none, and pulls into
     * pageable memory then block. Default: half of the processors, at least 1, at most 8. */
    unsigned threads;
    /** Of a buffer, from 64 KiB to 64 MiB; each thread at work has two, of page-locked memory. Default: 2 MiB. */
    size_t buffer_bytes;
    /** Transfers of fewer bytes are not staged: pulls are left to the CUDA runtime, pushes are made through one buffer
     * of their size. Always staged are pushes larger than a buffer, and transfers of views and of objects in parts.
     * Default: 1 MiB. */
    size_t minimum_bytes;
} synced_mem_staging;

/** Sets how later transfers are staged. Existing threads stay.
 * Errors: ERR_INVALID_ARGUMENT (out of range; nothing changes). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_set_staging(const synced_mem_staging *staging);

/** Fills staging with the current settings. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_get_staging(synced_mem_staging *staging);

/* ---- Device memory pools ---- */
/*
 * Device memory comes from the library's own memory pool (cudaMemPool_t) on each device, made when first needed, which
 * keeps freed memory. synced_mem_shutdown() destroys the pools and resets all settings. In these functions device and
 * peer are numbers or SYNCED_MEM_DEVICE_CURRENT, and work may use the pool's memory meanwhile. Each may return GPU
 * errors: ERR_INVALID_DEVICE (no such device) and others. A call that fails may have made a part of its settings. On a
 * device without pools (synced_mem_device_info.memory_pools) memory comes from cudaMalloc and goes back at once, so
 * functions that set or trim succeed without effect.
 */

/** Sets how many bytes the pool keeps (UINT64_MAX, the default: all), freed ones included, when a synchronization lets
 * the CUDA runtime give memory back to the system. Sets also the limit of synced_mem_gpu_pool_set_spare_limit().
 * Applies at once.
 * Errors: GPU errors.
 * Source: cudaMemPoolAttrReleaseThreshold. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_set_threshold(int device, uint64_t bytes);

/** Frees released memory whose last use has finished, and the device cache, then gives the pool's unused memory back to
 * the system until it has at most keep bytes. Memory in use, also by queued work, stays.
 * Blocking: the driver takes its time to give memory back; to undo SYNCED_MEM_MEMORY_PAGE_LOCK the CUDA runtime may
 * wait for the device. Ownership: due adopted memory gets its callback. Errors: GPU errors.
 * Source: cudaMemPoolTrimTo. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_trim(int device, size_t keep);

/** Sets how much released device memory the device cache keeps, beside the pool, for objects of exactly the same size:
 * docs/guide/memory.md, "Device memory". The default, and the most, is 1 GiB a device, in at most 256 pieces; beyond it
 * the same call frees the oldest pieces. A larger piece than the limit is not kept.
 * @param bytes  0: none is kept; if there is more, all of it is freed, in the order of the work on it
 * Errors: GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_set_spare_limit(int device, size_t bytes);

/** A device's pool, in bytes. Without pools: the library's memory of cudaMalloc, used and reserved alike. */
typedef struct synced_mem_gpu_pool_stats {
    size_t struct_size;     /**< set it to sizeof(synced_mem_gpu_pool_stats) before the call */
    uint64_t reserved;      /**< taken from the system */
    uint64_t reserved_high; /**< the most that was, since the pool was made or synced_mem_gpu_pool_reset_peaks() */
    uint64_t used;          /**< of that, allocated, and not freed yet */
    uint64_t used_high;     /**< the most that was, likewise */
} synced_mem_gpu_pool_stats;

/** Fills stats; zeros if nothing was allocated yet. The runtime decides whether memory freed in the order of a stream
 * counts as used until the stream gets there.
 * Errors: GPU errors.
 * Source: cudaMemPoolGetAttribute. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_get_stats(int device, synced_mem_gpu_pool_stats *stats);

/** Sets both high-water marks to the current values.
 * Errors: GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_reset_peaks(int device);

/** When freed memory may be used again on another stream than that of the free: bits of
 * synced_mem_gpu_pool_set_reuse(). Source: cudaMemPoolReuseFollowEventDependencies and its siblings. */
enum {
    SYNCED_MEM_GPU_POOL_REUSE_EVENTS = 1,        /**< when the other stream has waited for an event behind the free */
    SYNCED_MEM_GPU_POOL_REUSE_OPPORTUNISTIC = 2, /**< when the free happens to be done */
    SYNCED_MEM_GPU_POOL_REUSE_INTERNAL = 4,      /**< by a wait for the free, which the runtime adds to the stream */
    SYNCED_MEM_GPU_POOL_REUSE_ALL = 7            /**< the default */
};

/** Sets which of these, or none (0), the pool may do; fewer give reproducible addresses. Applies at once.
 * Errors: ERR_INVALID_ARGUMENT (other bits); GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_set_reuse(int device, unsigned policies);

/** Lets another device, the peer, reach the library's present and future memory on this one, in kernels and in
 * transfers, or forbids it (allow is 0). Before the first call for the two devices access is unset: there is none, but
 * a copy between objects on the two devices allows it in both directions. After a call the library does not change it
 * by itself. A repeated call changes nothing. Without pools this is cudaDeviceEnablePeerAccess for all memory of the
 * device; only access that the library has allowed can be forbidden there, and no copy allows it.
 * Blocking: the driver takes its time to map the memory. Errors: ERR_INVALID_ARGUMENT (the two are one device);
 * ERR_INVALID_DEVICE (the peer can't reach the device); ERR_CUDA (the runtime accepted it without effect); other GPU
 * errors.
 * Source: cudaDeviceCanAccessPeer, cudaMemPoolSetAccess. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_allow_peer(int device, int peer, int allow);

/* ---- Devices ---- */

/** The number of CUDA devices that this process can use. The first call starts the driver; no context is created.
 * @return 0 or more; 0 in a build without CUDA, on a machine without driver or device, and in a forked child. Blocking:
 * for the driver, when it starts. @since 0.1 */
SYNCED_MEM_API int synced_mem_device_count(void);

/** Ways to give memory of a pool to other processes: bits of synced_mem_device_info.pool_handles.
 * Source: cudaMemAllocationHandleType. */
enum {
    SYNCED_MEM_GPU_POOL_HANDLE_NONE = 0,
    SYNCED_MEM_GPU_POOL_HANDLE_POSIX_FD = 1, /**< a file descriptor */
    SYNCED_MEM_GPU_POOL_HANDLE_WIN32 = 2,    /**< a handle of Windows' kernel */
    SYNCED_MEM_GPU_POOL_HANDLE_WIN32_KMT = 4,
    SYNCED_MEM_GPU_POOL_HANDLE_FABRIC = 8 /**< a fabric handle */
};

/** The abilities of a device. Yes is 1, no is 0. Source: cudaDeviceAttr. */
typedef struct synced_mem_device_info {
    size_t struct_size;            /**< set it to sizeof(synced_mem_device_info) before the call */
    int device;                    /**< its number, also for SYNCED_MEM_DEVICE_CURRENT */
    int driver_version;            /**< 1000 * major + 10 * minor, the newest CUDA that the driver supports */
    int runtime_version;           /**< of the CUDA runtime that is linked, likewise */
    int memory_pools;              /**< there are memory pools */
    int pool_handles;              /**< bits SYNCED_MEM_GPU_POOL_HANDLE_*; 0 also if the driver does not say */
    int managed_memory;            /**< memory that moves between host and device by itself */
    int concurrent_managed_access; /**< ... which both may use at a time */
    int pageable_memory_access;    /**< kernels can use any host memory */
    int integrated;                /**< its memory is the host's */
    int can_map_host_memory;       /**< kernels can use page-locked host memory */
    int host_register;             /**< host memory can be page-locked after it was allocated */
    int unified_addressing;        /**< a pointer tells whose memory it is */
    int async_engines;             /**< transfers that can run beside kernels: 1 one direction, 2 both */
    int numa_node;                 /**< of the host, nearest to the device; -1 if the runtime does not say */
    uint64_t total_memory;         /**< bytes */
    char pci_bus_id[16];           /**< "domain:bus:device.function" */
} synced_mem_device_info;

/** Fills info for a device number or SYNCED_MEM_DEVICE_CURRENT. Creates the device's primary context if there is none.
 * Blocking: for the driver, while it creates the context. Errors: ERR_INVALID_DEVICE (no such device), other GPU
 * errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_get_device_info(int device, synced_mem_device_info *info);

#ifdef __cplusplus
}
#endif

#endif
