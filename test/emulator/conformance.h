/*
 * What the sections of the conformance program share. A section is a function that runs in a process of its own, forked
 * before CUDA was started in it, so that a fact which crashes or poisons the process costs only its own section.
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
    int devices; /* how many it needs; with 0 it needs no driver either */
    int dies_by; /* the signal that must end it; 0: it returns */
};

/* Each table ends with a row without a name. */
extern const struct section name_sections[];
extern const struct section call_sections[];
extern const struct section memory_sections[];
extern const struct section batch_sections[];
extern const struct section order_sections[];
extern const struct section capture_sections[];
extern const struct section graph_sections[];
extern const struct section thread_sections[];

int device_count(void);

/* One line each, "ok NAME" or "FAIL NAME: expected 1 got 0". */
void expect_value(const char *fact, long long want, long long got);
void expect_true(const char *fact, bool got);
/* The code, and that cudaGetLastError() answers it once; only cudaErrorNotReady and success leave none behind. */
void expect_code(const char *fact, cudaError_t want, cudaError_t got);
/* That each of the size bytes is want. */
void expect_bytes(const char *fact, int want, const void *data, size_t size);
void skip(const char *fact, const char *why);
bool same_bytes(int want, const void *data, size_t size);

/* A call that prepares a fact: when it fails, the section ends there as failed. */
#define MUST(call) must(#call, (call))
void must(const char *call, cudaError_t code);

/* Keeps a stream busy until let_go(), at most two seconds, or for the given time. One stream is held at a time: the
 * real runtime runs host functions one after another. Who is held up may not be waited for before let_go(). */
void hold_stream(cudaStream_t stream);
void hold_stream_for(cudaStream_t stream, int milliseconds);
void let_go(void);
/* NAME: the event is pending, also after what could run has had the time to. */
void expect_held(const char *fact, cudaEvent_t event);

enum { SIZE = 1 << 16 };

/* What most sections work with: two non-blocking streams, two events, two pieces of SIZE bytes of device memory and two
 * of page-locked memory (a holds 0xa1, b holds 0xb2, on both sides), and a pool that keeps its memory. */
struct kit {
    cudaStream_t stream, other;
    cudaEvent_t event, later;
    unsigned char *device_a, *device_b;
    unsigned char *pinned_a, *pinned_b;
    cudaMemPool_t pool;
};
void make_kit(struct kit *kit);
cudaMemPool_t make_pool(int device);

#endif
