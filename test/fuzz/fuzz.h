/* Shared by the fuzz targets: a check that aborts, and the bytes of the input. */
#ifndef FUZZ_H
#define FUZZ_H

#include "synced_mem.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The target, which libFuzzer and replay.c call. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, synced_mem_last_error_message()); \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The bytes of the input that have not been taken. */
static const uint8_t *rest;
static size_t left;

static inline void begin_input(const uint8_t *data, size_t size)
{
    rest = data;
    left = size;
}

/* Takes bytes from the input. Zeros stand for the bytes behind its end. */
static inline void take(void *to, size_t bytes)
{
    const size_t taken = bytes < left ? bytes : left;
    memset(to, 0, bytes);
    if (taken > 0)
        memcpy(to, rest, taken);
    rest += taken;
    left -= taken;
}

#endif
