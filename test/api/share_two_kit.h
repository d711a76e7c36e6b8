/* Two objects of one process that share memory, on the emulated runtime. */
#ifndef SHARE_TWO_KIT_H
#define SHARE_TWO_KIT_H

#include "sharing_kit.h"

#include "cudart_emu.h"

static synced_mem *one;
static synced_mem *other;
static synced_mem_stream stream; /* for the test */

static inline void open_two(void)
{
    one = make_shareable(BYTES);
    other = share_with_myself(one);
}

static inline void release_two(void)
{
    RELEASE_EACH(one, other);
}

/* Checks the contents in the other object, and releases both. */
static inline void check_on_host(void)
{
    ck_assert(host_is(synced_mem_cpu_data(other), BYTES, 1));
    release_two();
}

#endif
