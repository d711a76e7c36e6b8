/* What the library holds on each device. */
#ifndef SM_ACCOUNTING_H
#define SM_ACCOUNTING_H

#include "device/device.h"

/* Device memory of the library's own that was obtained, and let go of. */
void sm_gpu_obtained(int device, size_t bytes);
void sm_gpu_freed(int device, size_t bytes);

/* Device memory that is kept for reuse from now on, and no longer. */
void sm_gpu_kept(int device, size_t bytes);
void sm_gpu_kept_no_more(int device, size_t bytes);

/* The high-water mark begins again, on one device and on all. */
void sm_gpu_begin_peak(int device);
void sm_gpu_forget_peaks(void);

/* What the device's pool holds; without pools, what those two have counted. */
synced_mem_status sm_gpu_numbers(int device, struct sm_pool_numbers *numbers);

#endif
