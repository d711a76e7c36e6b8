/* Accounting: the memory that the library holds, on each device and on the host. */
#ifndef SM_ACCOUNTING_H
#define SM_ACCOUNTING_H

#include "device/device.h"

/* Count device memory in use that the library has obtained, and freed. */
void sm_gpu_obtained(int device, size_t bytes);
void sm_gpu_freed(int device, size_t bytes);

/* Count device memory that is not in use any more but stays the library's, that is in use again, and that is freed
 * instead. None of these changes sm_gpu_bytes(), but the last. */
void sm_gpu_spared(int device, size_t bytes);
void sm_gpu_reused(int device, size_t bytes);
void sm_gpu_spare_freed(int device, size_t bytes);

/* Count device memory that goes into the device cache, and that leaves it. */
void sm_gpu_cache_add(int device, size_t bytes);
void sm_gpu_cache_remove(int device, size_t bytes);

/* Returns the bytes that the library has on the device: of objects, of retired copies, of the device cache, and on the
 * way between them. */
uint64_t sm_gpu_bytes(int device);
/* Returns those in the device cache. */
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
