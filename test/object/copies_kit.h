/* The functions that the suites of copies between objects share. */
#ifndef COPIES_KIT_H
#define COPIES_KIT_H

#include "fixture.h"

enum { OF_FROM = 1, OF_TO = 9 };

/* Checks the transfers of a copy: to the device (up), to the host (down), or neither. */
static inline void check_moved(const synced_mem_stats *before, unsigned up, unsigned down, size_t size)
{
    const synced_mem_stats after = stats_now();
    ck_assert_uint_eq(after.h2d_transfers - before->h2d_transfers, up);
    ck_assert_uint_eq(after.h2d_bytes - before->h2d_bytes, up * size);
    ck_assert_uint_eq(after.d2h_transfers - before->d2h_transfers, down);
    ck_assert_uint_eq(after.d2h_bytes - before->d2h_bytes, down * size);
}

#endif
