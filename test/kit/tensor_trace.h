/*
 * A trace of allocations and frees with the tensor sizes of real networks. A ResNet-50 and a small GPT train in turn,
 * with varying batches. Buffers of a data loader come and go between. Some lives end in any order. The trace is the
 * same in each run.
 */
#ifndef TENSOR_TRACE_H
#define TENSOR_TRACE_H

#include <stdbool.h>
#include <stddef.h>

enum trace_kind {
    TRACE_TRAINING, /* forward, backward: most lives end in the opposite order */
    TRACE_MIXED     /* also many lives that end in any order */
};

struct trace_user {
    void *(*alloc)(size_t size, void **owner);
    void (*free)(void *data, size_t size, void *owner);
    unsigned shrink; /* divides all sizes; 0 and 1: sizes stay */
};

/* Plays this number of allocations and frees, and then frees the rest. */
void trace_play(enum trace_kind kind, unsigned events, const struct trace_user *user);

#endif
