/* The rows of the memory benchmark. Each prints its table; the CUDA runtime is called directly for the references. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stddef.h>

/* Pageable memory to the device and back, beside cudaMemcpy and beside page-locked memory. */
void measure_pageable(size_t largest);
/* The same for each number of copy threads and size of buffer. */
void sweep_staging(size_t size);
/* Device memory for an object, on the stream that asks for it, beside the runtime's pool. */
void measure_device_allocation(size_t largest);
/* Create, fill, gpu_data, destroy, beside what Caffe's class would call. */
void measure_life(size_t largest);
/* A million objects. */
void measure_objects(size_t count);

#endif
