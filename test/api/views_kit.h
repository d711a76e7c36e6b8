/*
 * The functions that the suites of views share: views, writers of parts, and the expected contents of one root, to the
 * byte.
 */
#ifndef VIEWS_KIT_H
#define VIEWS_KIT_H

#include "fixture.h"

#include <stdlib.h>
#include <string.h>

enum { ROOT = 24000 };

/* The expected contents of the root. */
static unsigned char expected[ROOT];

static inline synced_mem *view_of(synced_mem *of, size_t offset, size_t size)
{
    synced_mem *out = NULL;
    OK(synced_mem_view(&out, of, offset, size, NULL));
    ck_assert_ptr_nonnull(out);
    return out;
}

/* Makes a root, UNINITIALIZED. Its host memory is page-locked if there is a device, or else pageable memory of the
 * test's, of which one root at a time can be made. */
static inline synced_mem *make_root(bool pageable)
{
    static _Alignas(4096) unsigned char memory[6 * 4096];
    synced_mem *const root = make_on(ROOT, gpu_expected() ? 0 : SYNCED_MEM_DEVICE_CURRENT);
    if (pageable) {
        OK(synced_mem_set_cpu_data(root, memory));
        OK(synced_mem_clear(root));
    }
    memset(expected, 0, sizeof expected);
    return root;
}

static inline void expect(const synced_mem *mem, unsigned pattern)
{
    pattern_write(expected + synced_mem_offset(mem), synced_mem_size(mem), pattern);
}

/* ---- Writers of all bytes of an object ---- */

static inline void host_writes(synced_mem *mem, unsigned pattern)
{
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), synced_mem_size(mem), pattern);
    expect(mem, pattern);
}

/* By a kernel on the stream. */
static inline void device_writes(synced_mem *mem, unsigned pattern, synced_mem_stream stream)
{
    gpu_fill(given(synced_mem_overwrite_gpu_data_on(mem, stream)), synced_mem_size(mem), pattern, stream);
    expect(mem, pattern);
}

/* Brings an object that is UNINITIALIZED to the head, with the pattern. */
static inline void bring_to(synced_mem *mem, synced_mem_head_kind head, unsigned pattern)
{
    if (head == SYNCED_MEM_AT_GPU)
        device_writes(mem, pattern, NULL);
    else if (head != SYNCED_MEM_UNINITIALIZED)
        host_writes(mem, pattern);
    if (head == SYNCED_MEM_SYNCED)
        (void)given(synced_mem_gpu_data_on(mem, NULL));
    ck_assert_int_eq(synced_mem_head(mem), head);
}

/* ---- Checks ---- */

#define HEAD(mem, head) ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_##head)

/* Returns the head of an object in parts with these heads. */
static inline synced_mem_head_kind head_of_parts(const synced_mem_head_kind *heads, int count)
{
    unsigned all = SYNCED_MEM_SYNCED, any = 0;
    for (int i = 0; i < count; i++) {
        all &= (unsigned)heads[i];
        any |= (unsigned)heads[i];
    }
    return all == 0 && any != 0 ? SYNCED_MEM_MIXED : (synced_mem_head_kind)all;
}

/* Returns whether the bytes, of the object's host copy, are as expected. */
static inline bool bytes_are_right(const synced_mem *mem, const void *data)
{
    gpu_note_host_read(data, synced_mem_size(mem));
    return memcmp(data, expected + synced_mem_offset(mem), synced_mem_size(mem)) == 0;
}

/* These read the object by an access of the host, or of the device, and compare it with the expected contents. */
static inline bool host_reads_right(synced_mem *mem)
{
    return bytes_are_right(mem, given(synced_mem_cpu_data(mem)));
}

static inline bool device_reads_right(synced_mem *mem)
{
    static unsigned char bytes[ROOT];
    gpu_read(bytes, given(synced_mem_gpu_data_on(mem, NULL)), synced_mem_size(mem));
    return memcmp(bytes, expected + synced_mem_offset(mem), synced_mem_size(mem)) == 0;
}

/* Queues a kernel on the stream that compares the object with the expected contents. */
static inline void kernel_reads(synced_mem *mem, synced_mem_stream stream)
{
    gpu_expect(given(synced_mem_gpu_data_on(mem, stream)), synced_mem_size(mem), expected + synced_mem_offset(mem),
               stream);
}

/* Checks the bytes that were transferred: to the device (up), and to the host (down). */
static inline void check_bytes(const synced_mem_stats *before, uint64_t up, uint64_t down)
{
    const synced_mem_stats after = stats_now();
    ck_assert_uint_eq(after.h2d_bytes - before->h2d_bytes, up);
    ck_assert_uint_eq(after.d2h_bytes - before->d2h_bytes, down);
}

#endif
