/*
 * Shared by the right and the wrong programs that capture and launch graphs.
 */
#ifndef TRUST_CAPTURE_H
#define TRUST_CAPTURE_H

#include "trust.h"

#include <pthread.h>

static inline void begin(cudaStream_t stream)
{
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
}

/* Destroys the graph. */
static inline cudaGraphExec_t instantiate(cudaGraph_t graph)
{
    cudaGraphExec_t exec;

    MUST(cudaGraphInstantiate(&exec, graph, 0));
    MUST(cudaGraphDestroy(graph));
    return exec;
}

static inline cudaGraphExec_t end(cudaStream_t stream)
{
    cudaGraph_t graph;

    MUST(cudaStreamEndCapture(stream, &graph));
    return instantiate(graph);
}

static inline void in_thread(void *(*run)(void *), void *argument)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, run, argument) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

#endif
