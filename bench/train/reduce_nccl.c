/*
 * Sums over all ranks by NCCL, on the device copies.
 *
 * Reductions have a stream of their own. A reduction starts with an access that changes the object on this stream, so
 * that the stream waits for the arithmetic that computes the object. It ends with the end of this use. A later access
 * on the stream of the arithmetic waits for the reduction, and for no reduction that is queued after it. The host waits
 * for none of this.
 */
#include "failure.h"
#include "reduce.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

/* One step in this many is timed: its waits have an event before and one after. */
enum { STEPS_PER_SAMPLE = 16, MOST_WAITS = 64 };

struct state {
    ncclComm_t communicator;
    cudaStream_t stream;  /* of the reductions */
    cudaStream_t compute; /* of the arithmetic */
    long steps;
    bool sampling;                    /* this step is timed */
    int waits;                        /* of the timed step */
    cudaEvent_t marks[MOST_WAITS][2]; /* before and after each wait */
    long samples;
    double stalled; /* milliseconds, of all samples */
};

static bool nccl_succeeded(const struct state *state, const char *what, ncclResult_t result)
{
    if (result == ncclSuccess || result == ncclInProgress)
        return true;
    return fail_peer("%s: NCCL: %s: %s", what, ncclGetErrorString(result), ncclGetLastError(state->communicator));
}

static bool cuda_succeeded(const char *what, cudaError_t error)
{
    return error == cudaSuccess || fail("%s: %s", what, cudaGetErrorString(error));
}

/* ---- Time ---- */

/* Adds up the waits of the timed step, if the device has done them. Otherwise it counts no sample. */
static bool read_sample(struct state *state)
{
    double stalled = 0.0;
    for (int i = 0; i < state->waits; ++i) {
        float milliseconds = 0.0F;
        const cudaError_t error = cudaEventElapsedTime(&milliseconds, state->marks[i][0], state->marks[i][1]);
        if (error == cudaErrorNotReady)
            return true;
        if (!cuda_succeeded("time of a reduction", error))
            return false;
        stalled += (double)milliseconds;
    }
    state->stalled += stalled;
    state->samples += state->waits > 0;
    return true;
}

static bool nccl_begin_step(struct reduce *reduce)
{
    struct state *const state = reduce->state;
    /* The sample is read as late as possible: just before the next one. The first steps allocate, and are not timed. */
    state->sampling = ++state->steps % STEPS_PER_SAMPLE == 0;
    if (!state->sampling)
        return true;
    if (!read_sample(state))
        return false;
    state->waits = 0;
    return true;
}

static bool mark(struct state *state, cudaEvent_t *event)
{
    if (!*event && !cuda_succeeded("event", cudaEventCreate(event)))
        return false;
    return cuda_succeeded("event", cudaEventRecord(*event, state->compute));
}

/* ---- Reductions ---- */

static bool nccl_start(struct reduce *reduce, synced_mem *object, int count, enum reduce_type type)
{
    struct state *const state = reduce->state;
    void *const data = synced_mem_mutable_gpu_data_on(object, state->stream);
    if (!data)
        return fail_library("reduction");
    const ncclResult_t result = ncclAllReduce(data, data, (size_t)count, type == REDUCE_FLOAT ? ncclFloat : ncclDouble,
                                              ncclSum, state->communicator, state->stream);
    if (!nccl_succeeded(state, "reduction", result))
        return false;
    return synced_mem_end_use_on(object, state->stream) == SYNCED_MEM_OK || fail_library("reduction");
}

/* Any access on the stream of the arithmetic waits for the reduction. This one is between the marks. */
static bool nccl_wait(struct reduce *reduce, synced_mem *object)
{
    struct state *const state = reduce->state;
    const bool timed = state->sampling && state->waits < MOST_WAITS;
    cudaEvent_t *const marks = timed ? state->marks[state->waits] : NULL;
    if (timed && !mark(state, &marks[0]))
        return false;
    if (!synced_mem_gpu_data_on(object, state->compute))
        return fail_library("reduction");
    if (timed && !mark(state, &marks[1]))
        return false;
    state->waits += timed;
    return true;
}

static bool nccl_check(struct reduce *reduce)
{
    const struct state *const state = reduce->state;
    ncclResult_t result = ncclSuccess;
    if (!nccl_succeeded(state, "reduction", ncclCommGetAsyncError(state->communicator, &result)) ||
        !nccl_succeeded(state, "reduction", result))
        return false;
    const cudaError_t error = cudaStreamQuery(state->stream);
    return error == cudaErrorNotReady || cuda_succeeded("reduction", error);
}

static double nccl_unhidden(const struct reduce *reduce)
{
    const struct state *const state = reduce->state;
    return state->samples > 0 ? 1e-3 * state->stalled / (double)state->samples : 0.0;
}

/* ---- Opening and closing ---- */

static void free_state(struct state *state)
{
    for (int i = 0; i < MOST_WAITS; ++i) {
        for (int j = 0; j < 2; ++j) {
            if (state->marks[i][j])
                cudaEventDestroy(state->marks[i][j]);
        }
    }
    if (state->stream) {
        synced_mem_forget_stream(state->stream);
        cudaStreamDestroy(state->stream);
    }
    free(state);
}

static void nccl_close(struct reduce *reduce)
{
    struct state *const state = reduce->state;
    if (!state)
        return;
    if (state->communicator)
        ncclCommDestroy(state->communicator);
    free_state(state);
    reduce->state = NULL;
}

/* A reduction that another rank never joins runs for ever otherwise. */
static void nccl_abort(struct reduce *reduce)
{
    struct state *const state = reduce->state;
    if (state->communicator)
        ncclCommAbort(state->communicator);
    state->communicator = NULL;
}

static bool join(struct state *state, const struct ranks *ranks)
{
    ncclUniqueId id = {{0}};
    if (ranks->rank == 0 && !nccl_succeeded(state, "NCCL does not start", ncclGetUniqueId(&id)))
        return false;
    return ranks->broadcast(&id, sizeof id) &&
           nccl_succeeded(state, "NCCL does not start",
                          ncclCommInitRank(&state->communicator, ranks->count, id, ranks->rank));
}

static void name_library(struct reduce *reduce)
{
    int version = 0;
    ncclGetVersion(&version);
    snprintf(reduce->name, sizeof reduce->name, "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

bool reduce_open_nccl(struct reduce *reduce, const struct ranks *ranks, const struct backend *backend)
{
    struct state *const state = calloc(1, sizeof *state);
    if (!state)
        return fail("out of memory for reductions");
    state->compute = backend->stream;
    *reduce = (struct reduce){
        .state = state,
        .begin_step = nccl_begin_step,
        .start = nccl_start,
        .wait = nccl_wait,
        .check = nccl_check,
        .unhidden = nccl_unhidden,
        .close = nccl_close,
        .abort = nccl_abort,
    };
    name_library(reduce);
    if (cuda_succeeded("stream of reductions", cudaStreamCreateWithFlags(&state->stream, cudaStreamNonBlocking)) &&
        join(state, ranks))
        return true;
    nccl_close(reduce);
    return false;
}
