/* The objects of most rows. */
#ifndef OBJECT_H
#define OBJECT_H

#include "measure.h"

/* Creates an object of the device, so that its host memory is page-locked from the start. */
static inline synced_mem *make_object_on(size_t size, int device)
{
    synced_mem_options options;
    synced_mem *mem;
    synced_mem_options_init(&options);
    options.device = device;
    must_work(synced_mem_create(&mem, size, &options) == SYNCED_MEM_OK);
    return mem;
}

/* Creates an object of device 0. */
static inline synced_mem *make_object(size_t size)
{
    return make_object_on(size, 0);
}

static inline void release_object(synced_mem *mem)
{
    must_work(synced_mem_release(mem) == SYNCED_MEM_OK);
}

#endif
