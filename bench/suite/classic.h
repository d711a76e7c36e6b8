/*
 * The classic way: the calls that Caffe's SyncedMemory makes, in the same order. Page-locked memory by cudaMallocHost
 * where there is a GPU, else malloc; filled with zeros at the first read; device memory by cudaMalloc; cudaMemcpy
 * between them.
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
    bool on_gpu; /* the mode of the whole program, there */
};

struct classic *classic_create(size_t size, bool on_gpu);
void classic_destroy(struct classic *mem);
const void *classic_cpu_data(struct classic *mem);
void *classic_mutable_cpu_data(struct classic *mem);
const void *classic_gpu_data(struct classic *mem);
void *classic_mutable_gpu_data(struct classic *mem);

#endif
