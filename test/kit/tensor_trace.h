/*
 * A trace of allocations and frees with the sizes of real networks' tensors: a ResNet-50 and a small GPT, which train
 * in turn, with batches that differ, buffers of a data loader that come and go between, and lives that end in any
 * order. The same in each run.
 */
#ifndef TENSOR_TRACE_H
#define TENSOR_TRACE_H

#include <stdbool.h>
#include <stddef.h>

enum trace_kind {
    TRACE_TRAINING, /* forward, backward: most lives end in the opposite order */
    TRACE_MIXED     /* as many lives end in any order */
};

struct trace_user {
    void *(*alloc)(size_t size, void **owner);
    void (*free)(void *data, size_t size, void *owner);
    unsigned shrink; /* all sizes are divided by it; 0 and 1: they stay as they are */
};

/* Plays so many allocations and frees, and then frees the rest. */
void trace_play(enum trace_kind kind, unsigned events, const struct trace_user *user);

#endif
