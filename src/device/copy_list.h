/*
 * A list of copies or fills, as a kernel reads it. The host's code and device/cuda/copy_kernel.cu share this file, so
 * it is C and C++ alike. Addresses and sizes are arbitrary. The entries are in no order, so no target may overlap
 * another target, or a source.
 */
#ifndef SM_COPY_LIST_H
#define SM_COPY_LIST_H

#include <stddef.h>

struct sm_list_entry {
    void *to;
    const void *from; /* ignored by fills */
    size_t bytes;
};

/* A job with at most so many entries carries them itself. Each launch passes all of them, used or not: a kernel and its
 * wait take 0.5 microseconds less with 64 than with 160, which are 3.9 KB (H200, 2026-11-30). */
enum { SM_FEW_ENTRIES = 64 };

/* The kernel's only parameter. */
struct sm_list_job {
    const struct sm_list_entry *list; /* in page-locked memory; NULL: the entries are in few */
    unsigned count;
    int value; /* fills with this byte; -1: copies */
    struct sm_list_entry few[SM_FEW_ENTRIES];
};

#endif
