/* Accounting: the memory that the library holds, on each device and on the host. */
#ifndef SM_ACCOUNTING_H
#define SM_ACCOUNTING_H

#include "device/device.h"

/* Count device memory that the library has obtained, and freed. */
void sm_gpu_obtained(int device, size_t bytes);
void sm_gpu_freed(int device, size_t bytes);

/* Count device memory that goes into the device cache, and that leaves it. */
void sm_gpu_cache_add(int device, size_t bytes);
void sm_gpu_cache_remove(int device, size_t bytes);

/* Returns the bytes that objects and retired copies have on the device, and those in the device cache. */
uint64_t sm_gpu_in_use(int device);
uint64_t sm_gpu_cached(int device);

/* Count page-locked memory of host copies. Pageable memory is counted with the other numbers (base/stats.h). */
void sm_host_obtained(size_t bytes, bool pinned);
void sm_pinned_freed(size_t bytes);
/* Returns the bytes that host copies have, retired ones too. */
uint64_t sm_host_in_use(void);

/* Set the peak to the bytes held now, on one device and on all. */
void sm_gpu_begin_peak(int device);
void sm_gpu_forget_peaks(void);

/* Reports what the device's pool holds. Without pools: what the functions above have counted. */
synced_mem_status sm_gpu_numbers(int device, struct sm_pool_numbers *numbers);

#endif
