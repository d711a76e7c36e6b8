/*
 * Whether a device has room for a kernel. A kernel of the program may fill the device and wait for the host. A kernel
 * of lists that is queued then would not start, and nothing could take it back. So each call that has a list first
 * launches a probe, a kernel that only writes its number, on a stream of the library's own, and looks later for the
 * number.
 */
#ifndef SM_KERNEL_START_H
#define SM_KERNEL_START_H

#include <stdbool.h>
#include <stdint.h>

/* A probe that a call has launched. */
struct sm_kernel_probe {
    uint64_t since; /* the time of the launch; 0: none is launched */
    unsigned number;
};

/* Launches a probe, unless an earlier one still waits. Returns whether it is launched. The error detail stays as it
 * is. */
bool sm_kernel_probe_begin(struct sm_kernel_probe *probe, int device);

/* Returns whether the probe has run, at the latest so many nanoseconds after its launch. The error detail stays as it
 * is. */
bool sm_kernel_probe_has_run(const struct sm_kernel_probe *probe, int device, uint64_t patience);

/* Notes that a kernel makes the copies of a call on the device. The second returns whether one has been noted since it
 * was last asked. */
void sm_kernel_note_run(int device);
bool sm_kernel_has_run_lately(int device);

/* Sets for how many nanoseconds every call waits for its probe. 0: as long as the caller says. For tests. */
void sm_kernel_probe_set_patience(uint64_t nanoseconds);

/* Waits for the probes, and forgets what was noted. */
void sm_kernel_probes_shutdown(void);

#endif
