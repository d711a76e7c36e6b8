/*
 * Copies or fills the entries of a list. A warp takes one entry after the other, and its lanes access consecutive
 * elements. An element has 16 bytes, or 4 or 1 where target and source are not equally aligned; the bytes before the
 * first whole element and behind the last one are copied one by one. So no byte outside a range is touched.
 *
 * A second kernel only writes a number, which shows that the device had room for it.
 *
 * copy_kernel.sh makes copy_kernel_code.c of this file, which the library is built with.
 */
#include "../copy_list.h"

enum { LANES = 32, AT_ONCE = 4 };

template <typename T>
__device__ void copy_elements(T *to, const T *from, size_t count, unsigned lane)
{
    size_t i = lane;
#pragma unroll 1
    for (; i + (AT_ONCE - 1) * LANES < count; i += AT_ONCE * LANES) {
        T element[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            element[j] = __ldcs(from + i + j * LANES);
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            __stcs(to + i + j * LANES, element[j]);
    }
#pragma unroll 1
    for (; i < count; i += LANES)
        __stcs(to + i, __ldcs(from + i));
}

template <typename T>
__device__ void copy_range(unsigned char *to, const unsigned char *from, size_t bytes, unsigned lane)
{
    const size_t gap = -(size_t)to % sizeof(T);
    const size_t before = gap < bytes ? gap : bytes;
    const size_t count = (bytes - before) / sizeof(T);
    const size_t behind = before + count * sizeof(T);
#pragma unroll 1
    for (size_t i = lane; i < before; i += LANES)
        to[i] = from[i];
    copy_elements((T *)(to + before), (const T *)(from + before), count, lane);
#pragma unroll 1
    for (size_t i = behind + lane; i < bytes; i += LANES)
        to[i] = from[i];
}

__device__ void fill_range(unsigned char *to, unsigned value, size_t bytes, unsigned lane)
{
    const unsigned word = value * 0x01010101u;
    const uint4 element = make_uint4(word, word, word, word);
    const size_t gap = -(size_t)to % sizeof element;
    const size_t before = gap < bytes ? gap : bytes;
    const size_t count = (bytes - before) / sizeof element;
#pragma unroll 1
    for (size_t i = lane; i < before; i += LANES)
        to[i] = (unsigned char)value;
#pragma unroll 1
    for (size_t i = lane; i < count; i += LANES)
        __stcs((uint4 *)(to + before) + i, element);
#pragma unroll 1
    for (size_t i = before + count * sizeof element + lane; i < bytes; i += LANES)
        to[i] = (unsigned char)value;
}

extern "C" __global__ void sm_list_kernel(const __grid_constant__ struct sm_list_job job)
{
    const struct sm_list_entry *const list = job.list ? job.list : job.few;
    const unsigned lane = threadIdx.x % LANES;
    const unsigned warps = gridDim.x * (blockDim.x / LANES);
    for (unsigned i = blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES; i < job.count; i += warps) {
        unsigned char *const to = (unsigned char *)list[i].to;
        const unsigned char *const from = (const unsigned char *)list[i].from;
        const size_t apart = (size_t)to ^ (size_t)from;
        if (job.value >= 0)
            fill_range(to, (unsigned)job.value, list[i].bytes, lane);
        else if (apart % sizeof(uint4) == 0)
            copy_range<uint4>(to, from, list[i].bytes, lane);
        else if (apart % sizeof(unsigned) == 0)
            copy_range<unsigned>(to, from, list[i].bytes, lane);
        else
            copy_range<unsigned char>(to, from, list[i].bytes, lane);
    }
}

extern "C" __global__ void sm_probe_kernel(unsigned *word, unsigned number)
{
    if (threadIdx.x == 0)
        *(volatile unsigned *)word = number;
}
