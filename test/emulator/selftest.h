/*
 * Shared by the files of the emulated runtime's self-test.
 */
#ifndef SELFTEST_H
#define SELFTEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "cudart_emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 4096

/* The current seed, for messages. */
extern uint64_t seed;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: seed %llu: %s\n", __FILE__, __LINE__, (unsigned long long)seed, #condition);       \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define OK(call) GIVES(call, cudaSuccess)
#define GIVES(call, expected)                                                                                          \
    do {                                                                                                               \
        const cudaError_t given_ = (call);                                                                             \
        if (given_ != (expected)) {                                                                                    \
            fprintf(stderr, "%s:%d: seed %llu: %s gives %d, not %d\n", __FILE__, __LINE__, (unsigned long long)seed,   \
                    #call, (int)given_, (int)(expected));                                                              \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* ---- Tests ---- */

/* Each table ends with NULL. The second has tests for which the seed hardly matters. */
extern void (*const order_tests[])(void);
extern void (*const order_tests_once[])(void);
extern void (*const memory_tests[])(void);
extern void (*const failure_tests[])(void);
extern void (*const failure_tests_once[])(void);
extern void (*const capture_tests[])(void);
extern void (*const capture_tests_once[])(void);
extern void (*const mapping_tests[])(void);
extern void (*const mapping_tests_once[])(void);
extern void (*const process_tests[])(void);
extern void (*const process_tests_once[])(void);
extern void (*const race_tests[])(void);
extern void (*const race_tests_once[])(void);

/* The part of a program that is started with "take_part" and an exported descriptor. Returns its exit status. */
int selftest_process(int file);

/* ---- Helpers ---- */

/* Return page-locked memory filled with the value, and memory of the current device. */
unsigned char *pinned(unsigned char value);
void *device_memory(void);
cudaStream_t stream_of(unsigned flags);
cudaEvent_t new_event(void);
cudaMemPool_t new_pool(int device);
uint64_t pool_number(cudaMemPool_t pool, enum cudaMemPoolAttr attribute);
/* Returns the first byte of device memory without running anything, or -1 if there is none. */
int peek(const void *memory);

/* A kernel that increments each byte. */
struct increment {
    unsigned char *data;
    size_t size;
    int add;
};
void increment(void *work);
void launch_increment(cudaStream_t stream, struct increment *work);

#endif
