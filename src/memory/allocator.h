/* The caller's own allocators: the tables that were given, and the calls through them. */
#ifndef SM_ALLOCATOR_H
#define SM_ALLOCATOR_H

#include "base/side.h"
#include "synced_mem.h"

#include <stdbool.h>

/* A table, constant and never freed before the library shuts down; those that are equal are one. */
struct sm_allocator;

/* What is asked for, and given back with the same sizes. */
struct sm_request {
    size_t size;
    size_t alignment;
    int device;
    synced_mem_stream stream;
};

/* The record for a table that a caller gave for one side; NULL for NULL. ERR_INVALID_ARGUMENT for a bad one. */
synced_mem_status sm_allocator_record(const synced_mem_allocator *table, enum sm_side side,
                                      const struct sm_allocator **out);

/* The tables for objects that have none of their own; NULL: the library's own memory. ERR_INVALID_ARGUMENT for a bad
 * one, and then nothing has changed. */
synced_mem_status sm_allocator_set_for_all(const synced_mem_allocator *cpu, const synced_mem_allocator *gpu);

/* The one for objects that have none of their own. NULL: the library's own memory. */
const struct sm_allocator *sm_allocator_of_all(enum sm_side side);

bool sm_allocator_is_of_host(const struct sm_allocator *allocator);

/* Memory from the allocator, if it is of use: aligned, and of the right kind as far as the runtime knows; else it is
 * given back. pinned: host memory that is page-locked. With no lock held. */
synced_mem_status sm_allocator_take(const struct sm_allocator *allocator, const struct sm_request *request, void **out,
                                    bool *pinned);
void sm_allocator_give(const struct sm_allocator *allocator, const struct sm_request *request, void *data);

/* Forgets all tables, which nobody may use. */
void sm_allocator_shutdown(void);

#endif
