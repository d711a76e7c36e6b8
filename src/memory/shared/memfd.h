/*
 * Files in memory that processes share (sealed.h of system/), with statuses. A file that came from another process is
 * checked before it is mapped.
 */
#ifndef SM_MEMFD_H
#define SM_MEMFD_H

#include "synced_mem.h"
#include "system/sealed.h"

#include <stddef.h>

enum { SM_MEMFD_PAGE = 4096 };

/* Returns ERR_FILE on a system without such files. */
synced_mem_status sm_memfd_probe(void);

/* Makes a sealed file of this size, a multiple of SM_MEMFD_PAGE, all zeros. It has no pages yet. The caller closes *fd,
 * which is above the standard descriptors; on failure it is -1. ERR_OUT_OF_HOST_MEMORY; ERR_FILE: the system has no
 * descriptor left, or no such files; or the size is over RLIMIT_FSIZE. */
synced_mem_status sm_memfd_make(size_t bytes, int *fd);

/* Checks that a descriptor is of such a file, of this size, and can be written. Does not block. ERR_PEER. */
synced_mem_status sm_memfd_check(int fd, size_t bytes);

/* Maps the file at a multiple of alignment, a power of two. sm_sealed_unmap() ends it. ERR_OUT_OF_HOST_MEMORY,
 * ERR_FILE. */
synced_mem_status sm_memfd_map(int fd, size_t bytes, size_t alignment, void **out);

/* Opens the descriptor's file anew: a descriptor with locks of its own. The caller closes *fd; on failure it is -1.
 * Does not block. ERR_PEER: another process has a lease on it. ERR_OUT_OF_HOST_MEMORY, ERR_FILE. */
synced_mem_status sm_memfd_reopen(int of, int *fd);

/* Moves a descriptor above the standard ones, which the program may close and still print to. Closes the old one if it
 * has moved, or on failure. ERR_FILE: the system has no descriptor left. */
synced_mem_status sm_fd_move_up(int *fd);
/* Makes a copy of the descriptor above the standard ones. On failure *out is unchanged. */
synced_mem_status sm_fd_copy_up(int fd, int *out);

/* Closes the descriptor, unless it is -1, and sets it to -1. */
void sm_fd_close(int *fd);

/* Records a failure of the system: ERR_OUT_OF_HOST_MEMORY if it has no memory, else ERR_FILE. what: the thing that
 * can't be done. error: see file.h of system/. */
synced_mem_status sm_fail_system(const char *what, int error);

#endif
