/*
 * The classic way: the calls of Caffe's SyncedMemory, in the same order. Host memory comes from cudaMallocHost if there
 * is a GPU, else from malloc. The first read fills it with zeros. Device memory comes from cudaMalloc, transfers are
 * cudaMemcpy.
 */
#ifndef CLASSIC_H
#define CLASSIC_H

#include <stdbool.h>
#include <stddef.h>

enum classic_head { CLASSIC_UNINITIALIZED, CLASSIC_AT_CPU, CLASSIC_AT_GPU, CLASSIC_SYNCED };

struct classic {
    void *cpu;
    void *gpu;
    size_t size;
    enum classic_head head;
    bool on_gpu; /* in Caffe: the mode of the whole program */
};

struct classic *classic_create(size_t size, bool on_gpu);
void classic_destroy(struct classic *mem);
const void *classic_cpu_data(struct classic *mem);
void *classic_mutable_cpu_data(struct classic *mem);
const void *classic_gpu_data(struct classic *mem);
void *classic_mutable_gpu_data(struct classic *mem);

#endif
