/* The objects of most rows. */
#ifndef OBJECT_H
#define OBJECT_H

#include "measure.h"

/* Creates an object of device 0, so that its host memory is page-locked from the start. */
static inline synced_mem *make_object(size_t size)
{
    synced_mem_options options;
    synced_mem *mem;
    synced_mem_options_init(&options);
    options.device = 0;
    must_work(synced_mem_create(&mem, size, &options) == SYNCED_MEM_OK);
    return mem;
}

static inline void release_object(synced_mem *mem)
{
    must_work(synced_mem_release(mem) == SYNCED_MEM_OK);
}

#endif
