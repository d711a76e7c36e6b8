/*
 * Shared by the small programs that test the emulated runtime. Each program runs in a process of its own.
 */
#ifndef TRUST_H
#define TRUST_H

#include "cudart_emu.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The exit status of a program that fails before its purpose. */
enum { EXIT_UNEXPECTED = 3 };

#define MUST(call) trust_must(#call, (call))
static inline void trust_must(const char *call, cudaError_t code)
{
    if (code == cudaSuccess)
        return;
    fprintf(stderr, "%s returned %d\n", call, (int)code);
    _exit(EXIT_UNEXPECTED);
}

#define CHECK(condition) trust_check(#condition, __FILE__, __LINE__, (condition))
static inline void trust_check(const char *condition, const char *file, int line, bool holds)
{
    if (holds)
        return;
    fprintf(stderr, "%s:%d: failed: %s\n", file, line, condition);
    _exit(EXIT_UNEXPECTED);
}

struct program {
    const char *name;
    void (*run)(void);
};

/* Tables of programs. Each ends with a row without a name. */
extern const struct program right_memory_programs[];
extern const struct program right_capture_programs[];
extern const struct program wrong_by_code_programs[];
extern const struct program wrong_by_bytes_programs[];
extern const struct program right_race_programs[];
extern const struct program right_mapping_programs[];
extern const struct program right_list_programs[];

/* A program with a race, and the words that its report must contain. */
struct racing_program {
    struct program program;
    const char *words[2];
};
extern const struct racing_program wrong_race_programs[];

enum { SIZE = 4096 };
typedef unsigned char byte;

/* ---- Objects ---- */

static inline cudaStream_t new_stream(void)
{
    cudaStream_t stream;

    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static inline cudaStream_t new_blocking_stream(void)
{
    cudaStream_t stream;

    MUST(cudaStreamCreate(&stream));
    return stream;
}

static inline cudaEvent_t new_event(void)
{
    cudaEvent_t event;

    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

static inline byte *new_device_memory(void)
{
    void *data;

    MUST(cudaMalloc(&data, SIZE));
    return data;
}

static inline byte *new_pinned(void)
{
    void *data;

    MUST(cudaMallocHost(&data, SIZE));
    return data;
}

static inline cudaMemPool_t new_pool(int device)
{
    struct cudaMemPoolProps props;
    unsigned long long keep = UINT64_MAX;
    cudaMemPool_t pool;

    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = device;
    MUST(cudaMemPoolCreate(&pool, &props));
    MUST(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    return pool;
}

static inline byte *new_pool_memory(cudaMemPool_t pool, cudaStream_t stream)
{
    void *data;

    MUST(cudaMallocFromPoolAsync(&data, SIZE, pool, stream));
    return data;
}

/* ---- The host's own accesses, announced ---- */

static inline void host_fill(void *data, int value)
{
    emu_host_write(data, SIZE);
    memset(data, value, SIZE);
}

static inline bool all_are(const void *data, int value)
{
    const byte *const bytes = data;

    for (size_t i = 0; i < SIZE; i++)
        if (bytes[i] != (byte)value)
            return false;
    return true;
}

static inline bool host_finds(const void *data, int value)
{
    emu_host_read(data, SIZE);
    return all_are(data, value);
}

/* ---- Work ---- */

/* A host function. */
static inline void run_host_fill(void *data)
{
    host_fill(data, 2);
}

static inline void to_device(byte *to, const byte *from, cudaStream_t stream)
{
    MUST(cudaMemcpyAsync(to, from, SIZE, cudaMemcpyHostToDevice, stream));
}

static inline void to_host(byte *to, const byte *from, cudaStream_t stream)
{
    MUST(cudaMemcpyAsync(to, from, SIZE, cudaMemcpyDeviceToHost, stream));
}

static inline void after(cudaStream_t stream, cudaEvent_t event, cudaStream_t other)
{
    MUST(cudaEventRecord(event, other));
    MUST(cudaStreamWaitEvent(stream, event, 0));
}

/* A kernel: to[i] = from[i] + plus, over SIZE bytes. It must stay valid until it has run. */
struct sum {
    byte *to;
    const byte *from;
    int plus;
};

static inline void run_sum(void *argument)
{
    const struct sum *const sum = argument;
    byte *const to = emu_pointer(sum->to);
    const byte *const from = emu_pointer(sum->from);

    for (size_t i = 0; i < SIZE; i++)
        to[i] = (byte)(from[i] + sum->plus);
}

static inline void launch(struct sum *sum, cudaStream_t stream)
{
    const struct emu_range ranges[] = {{sum->from, SIZE, false}, {sum->to, SIZE, true}};

    MUST(emu_launch(stream, run_sum, sum, ranges, 2));
}

#endif
