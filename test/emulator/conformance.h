/*
 * Shared by the sections of the conformance program. A section is a function that runs in a process of its own, forked
 * before CUDA starts in it. So a fact that crashes or poisons the process affects only its own section.
 */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

#if WITH_EMULATOR
#include "cudart_emu.h"
#endif

struct section {
    const char *name;
    void (*run)(void);
    int devices; /* the number of devices it needs; with 0 it needs no driver either */
    int dies_by; /* the signal with which it must end; 0: it returns */
};

/* Each table ends with a row without a name. */
extern const struct section name_sections[];
extern const struct section call_sections[];
extern const struct section memory_sections[];
extern const struct section batch_sections[];
extern const struct section library_sections[];
extern const struct section order_sections[];
extern const struct section capture_sections[];
extern const struct section graph_sections[];
extern const struct section thread_sections[];
extern const struct section shared_sections[];

int device_count(void);

/* Each prints one line, "ok NAME" or "FAIL NAME: expected 1 got 0". */
void expect_value(const char *fact, long long want, long long got);
void expect_true(const char *fact, bool got);
/* Checks the code, and that cudaGetLastError() returns it once. Only success and cudaErrorNotReady set no last error.
 * */
void expect_code(const char *fact, cudaError_t want, cudaError_t got);
/* Checks that each of the size bytes is want. */
void expect_bytes(const char *fact, int want, const void *data, size_t size);
void skip(const char *fact, const char *why);
bool same_bytes(int want, const void *data, size_t size);

/* For a call that prepares a fact. If the call fails, the section ends there as failed. */
#define MUST(call) must(#call, (call))
void must(const char *call, cudaError_t code);

/* Keeps a stream busy until let_go(), at most two seconds, or for the given time. Only one stream is held at a time, as
 * the real runtime runs host functions one after another. Do not wait for work behind the held stream before let_go().
 * */
void hold_stream(cudaStream_t stream);
void hold_stream_for(cudaStream_t stream, int milliseconds);
void let_go(void);
/* Checks that the event is pending, even after a time in which all work that is not held could have run. */
void expect_held(const char *fact, cudaEvent_t event);

enum { SIZE = 1 << 16 };

/* The objects that most sections use: two non-blocking streams, two events, and a pool that keeps its memory. Also two
 * pieces of SIZE bytes each of device memory and of page-locked memory (a holds 0xa1, b holds 0xb2, on both sides). */
struct kit {
    cudaStream_t stream, other;
    cudaEvent_t event, later;
    unsigned char *device_a, *device_b;
    unsigned char *pinned_a, *pinned_b;
    cudaMemPool_t pool;
};
void make_kit(struct kit *kit);
/* Runs the function on a thread of its own, and waits for its end. */
void in_thread(void *(*run)(void *), void *argument);
cudaMemPool_t make_pool(int device);

#endif
