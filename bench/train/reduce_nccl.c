/*
 * Sums over all ranks by NCCL, on the device copies.
 *
 * Reductions have a stream of their own. A reduction starts with an access that changes the object on this stream, so
 * that the stream waits for the arithmetic that computes the object. It ends with the end of this use. A later access
 * on the stream of the arithmetic waits for the reduction, and for no reduction that is queued after it. The host waits
 * for none of this.
 *
 * The gradients are in memory that NCCL allocates and that is registered as a symmetric window: each rank's kernels
 * then read and write the memory of the others directly, and need fewer multiprocessors for the same bandwidth.
 *
 * If another rank ends, a reduction may never end, and so the host may wait for the device without end. A thread
 * watches NCCL's errors. It aborts the communicator after one, which ends the reductions on the device. The next call
 * here then fails.
 */
#include "failure.h"
#include "reduce.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Symmetric windows. */
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
#define HAVE_WINDOWS
#endif

/* One step in this many is timed: its waits have an event before and one after. */
enum { STEPS_PER_SAMPLE = 16, FIRST_SAMPLE = 2, MOST_WAITS = 64, MOST_WINDOWS = 2 };

static const struct timespec pause_between_polls = {.tv_nsec = 100000000};

struct state {
#ifdef HAVE_WINDOWS
    ncclWindow_t windows[MOST_WINDOWS]; /* of the attached objects; NULL: this machine has none */
    int window_count;
#endif
    cudaStream_t stream;  /* of the reductions */
    cudaStream_t compute; /* of the arithmetic */
    pthread_t watcher;
    bool has_watcher;
    pthread_mutex_t mutex;   /* of the next three, and of calls of NCCL */
    ncclComm_t communicator; /* NULL: not there yet, or aborted */
    ncclResult_t error;      /* that the watcher has seen */
    bool ending;
    long steps;
    bool sampling;                    /* this step is timed */
    int waits;                        /* of the timed step */
    cudaEvent_t marks[MOST_WAITS][2]; /* before and after each wait */
    long samples;
    double stalled;       /* milliseconds, of all samples */
    cudaEvent_t timer[2]; /* around timed reductions */
    float *plain;         /* device memory that the library does not manage */
    size_t plain_size;    /* bytes */
};

static bool nccl_succeeded(const char *what, ncclResult_t result)
{
    if (result == ncclSuccess || result == ncclInProgress)
        return true;
    return fail_peer("%s: NCCL: %s: %s", what, ncclGetErrorString(result), ncclGetLastError(NULL));
}

static bool cuda_succeeded(const char *what, cudaError_t error)
{
    return error == cudaSuccess || fail("%s: %s", what, cudaGetErrorString(error));
}

/* ---- Memory ---- */

#ifdef HAVE_WINDOWS
static void *allocate(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    void *data = NULL;
    int current;
    (void)alignment, (void)stream, (void)user; /* NCCL's memory begins at a page, and is there at once */
    if (cudaGetDevice(&current) != cudaSuccess || cudaSetDevice(device) != cudaSuccess)
        return NULL;
    const ncclResult_t result = ncclMemAlloc(&data, size);
    return cudaSetDevice(current) == cudaSuccess && result == ncclSuccess ? data : NULL;
}

static void deallocate(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)size, (void)alignment, (void)device, (void)user;
    if (stream) /* NULL: the device is lost */
        cudaStreamSynchronize(stream);
    ncclMemFree(data);
}

const synced_mem_allocator *reduce_nccl_allocator(void)
{
    static const synced_mem_allocator allocator = {
        .struct_size = sizeof allocator, .alloc = allocate, .free = deallocate};
    return &allocator;
}

static bool nccl_attach(struct reduce *reduce, synced_mem *object)
{
    struct state *const state = reduce->state;
    if (state->window_count == MOST_WINDOWS)
        return fail("window: more than %d objects", MOST_WINDOWS);
    void *const data = synced_mem_mutable_gpu_data_on(object, state->stream);
    if (!data)
        return fail_library("window");
    const ncclResult_t result = ncclCommWindowRegister(state->communicator, data, synced_mem_size(object),
                                                       &state->windows[state->window_count], NCCL_WIN_COLL_SYMMETRIC);
    state->window_count += result == ncclSuccess;
    return nccl_succeeded("window", result) &&
           (synced_mem_end_use_on(object, state->stream) == SYNCED_MEM_OK || fail_library("window"));
}

static void leave_windows(struct state *state)
{
    for (int i = 0; i < state->window_count && state->communicator; ++i) {
        if (state->windows[i])
            ncclCommWindowDeregister(state->communicator, state->windows[i]);
    }
}
#else
const synced_mem_allocator *reduce_nccl_allocator(void)
{
    return NULL;
}

static bool nccl_attach(struct reduce *reduce, synced_mem *object)
{
    (void)reduce, (void)object;
    return true;
}

static void leave_windows(struct state *state)
{
    (void)state;
}
#endif

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
    state->waits = 0;
    return true;
}

static bool nccl_begin_step(struct reduce *reduce)
{
    struct state *const state = reduce->state;
    /* The sample is read as late as possible: just before the next one. The first step allocates. */
    state->sampling = ++state->steps % STEPS_PER_SAMPLE == FIRST_SAMPLE;
    if (!state->sampling)
        return true;
    if (!read_sample(state))
        return false;
    state->waits = 0; /* also if it was too early */
    return true;
}

static bool mark(cudaStream_t stream, cudaEvent_t *event)
{
    if (!*event && !cuda_succeeded("event", cudaEventCreate(event)))
        return false;
    return cuda_succeeded("event", cudaEventRecord(*event, stream));
}

/* ---- Reductions ---- */

static bool queue_sum(struct state *state, void *data, int count, enum reduce_type type)
{
    pthread_mutex_lock(&state->mutex);
    const ncclResult_t result =
        state->communicator ? ncclAllReduce(data, data, (size_t)count, type == REDUCE_FLOAT ? ncclFloat : ncclDouble,
                                            ncclSum, state->communicator, state->stream)
                            : state->error;
    pthread_mutex_unlock(&state->mutex);
    return nccl_succeeded("reduction", result);
}

static bool nccl_start(struct reduce *reduce, synced_mem *object, int count, enum reduce_type type)
{
    struct state *const state = reduce->state;
    void *const data = synced_mem_mutable_gpu_data_on(object, state->stream);
    if (!data)
        return fail_library("reduction");
    if (!queue_sum(state, data, count, type))
        return false;
    return synced_mem_end_use_on(object, state->stream) == SYNCED_MEM_OK || fail_library("reduction");
}

/* Any access on the stream of the arithmetic waits for the reduction. This one is between the marks. */
static bool nccl_wait(struct reduce *reduce, synced_mem *object)
{
    struct state *const state = reduce->state;
    const bool timed = state->sampling && state->waits < MOST_WAITS;
    cudaEvent_t *const marks = timed ? state->marks[state->waits] : NULL;
    if (timed && !mark(state->compute, &marks[0]))
        return false;
    if (!synced_mem_gpu_data_on(object, state->compute))
        return fail_library("reduction");
    if (timed && !mark(state->compute, &marks[1]))
        return false;
    state->waits += timed;
    return true;
}

static bool nccl_check(struct reduce *reduce)
{
    struct state *const state = reduce->state;
    pthread_mutex_lock(&state->mutex);
    const ncclResult_t result = state->error;
    pthread_mutex_unlock(&state->mutex);
    if (!nccl_succeeded("reduction", result))
        return false;
    const cudaError_t error = cudaStreamQuery(state->stream);
    return error == cudaErrorNotReady || cuda_succeeded("reduction", error);
}

static double nccl_unhidden(struct reduce *reduce)
{
    struct state *const state = reduce->state;
    read_sample(state); /* all work is done; an error would only cost a sample */
    const double mean = state->samples > 0 ? 1e-3 * state->stalled / (double)state->samples : 0.0;
    state->samples = 0;
    state->stalled = 0.0;
    return mean;
}

/* ---- Timed reductions ---- */

static bool make_plain(struct state *state, size_t size)
{
    if (size <= state->plain_size)
        return true;
    if (state->plain && !cuda_succeeded("device memory", cudaFree(state->plain)))
        return false;
    state->plain = NULL;
    state->plain_size = 0;
    void *memory = NULL;
    if (!cuda_succeeded("device memory", cudaMalloc(&memory, size)))
        return false;
    state->plain = memory;
    state->plain_size = size;
    return cuda_succeeded("device memory", cudaMemsetAsync(memory, 0, size, state->stream));
}

/* Waits on the host until the reductions are done. Another rank may end meanwhile. */
static bool await_sums(struct reduce *reduce)
{
    const struct state *const state = reduce->state;
    cudaError_t error;
    while ((error = cudaEventQuery(state->timer[1])) == cudaErrorNotReady) {
        if (!nccl_check(reduce))
            return false;
        sched_yield();
    }
    return cuda_succeeded("reduction", error);
}

/* The first reduction ends when all ranks have joined it. The time runs from then on. */
static bool nccl_time(struct reduce *reduce, synced_mem *object, int count, int times, double *seconds)
{
    struct state *const state = reduce->state;
    float milliseconds = 0.0F;
    if (!object && !make_plain(state, (size_t)count * sizeof(float)))
        return false;
    for (int i = -1; i < times; ++i) {
        if (i == 0 && !mark(state->stream, &state->timer[0]))
            return false;
        if (!(object ? nccl_start(reduce, object, count, REDUCE_FLOAT)
                     : queue_sum(state, state->plain, count, REDUCE_FLOAT)))
            return false;
    }
    if (!mark(state->stream, &state->timer[1]) || !await_sums(reduce) ||
        !cuda_succeeded("time of a reduction", cudaEventElapsedTime(&milliseconds, state->timer[0], state->timer[1])))
        return false;
    *seconds = 1e-3 * (double)milliseconds / times;
    return true;
}

/* ---- Errors of other ranks ---- */

/* Aborts the communicator. Call it with the mutex. */
static void give_up(struct state *state)
{
    if (state->communicator)
        ncclCommAbort(state->communicator);
    state->communicator = NULL;
}

static void poll_once(struct state *state)
{
    ncclResult_t error = ncclSuccess;
    const ncclResult_t result = ncclCommGetAsyncError(state->communicator, &error);
    if (result != ncclSuccess)
        error = result;
    if (error != ncclSuccess && error != ncclInProgress) {
        state->error = error;
        give_up(state);
    }
}

static void *watch(void *argument)
{
    struct state *const state = argument;
    pthread_mutex_lock(&state->mutex);
    while (!state->ending && state->communicator) {
        poll_once(state);
        pthread_mutex_unlock(&state->mutex);
        nanosleep(&pause_between_polls, NULL);
        pthread_mutex_lock(&state->mutex);
    }
    pthread_mutex_unlock(&state->mutex);
    return NULL;
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
    for (int i = 0; i < 2; ++i) {
        if (state->timer[i])
            cudaEventDestroy(state->timer[i]);
    }
    if (state->plain)
        cudaFree(state->plain);
    if (state->stream) {
        synced_mem_forget_stream(state->stream);
        cudaStreamDestroy(state->stream);
    }
    free(state);
}

static void end_watcher(struct state *state)
{
    if (!state->has_watcher)
        return;
    pthread_mutex_lock(&state->mutex);
    state->ending = true;
    pthread_mutex_unlock(&state->mutex);
    pthread_join(state->watcher, NULL);
}

static void nccl_close(struct reduce *reduce)
{
    struct state *const state = reduce->state;
    if (!state)
        return;
    end_watcher(state);
    leave_windows(state);
    if (state->communicator)
        ncclCommDestroy(state->communicator);
    pthread_mutex_destroy(&state->mutex);
    free_state(state);
    reduce->state = NULL;
}

static void nccl_abort(struct reduce *reduce)
{
    struct state *const state = reduce->state;
    pthread_mutex_lock(&state->mutex);
    give_up(state);
    pthread_mutex_unlock(&state->mutex);
}

static bool join(struct state *state, const struct ranks *ranks, int blocks)
{
    ncclUniqueId id = {{0}};
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (blocks > 0)
        config.maxCTAs = blocks;
    if (ranks->rank == 0 && !nccl_succeeded("NCCL does not start", ncclGetUniqueId(&id)))
        return false;
    if (!ranks->broadcast(&id, sizeof id) ||
        !nccl_succeeded("NCCL does not start",
                        ncclCommInitRankConfig(&state->communicator, ranks->count, id, ranks->rank, &config)))
        return false;
    state->has_watcher = pthread_create(&state->watcher, NULL, watch, state) == 0;
    return state->has_watcher || fail("out of memory for a thread");
}

/* The kernels of the reductions go before those of the arithmetic, which fill the GPU. Otherwise a reduction waits for
 * the end of a kernel, and the other ranks wait for this one. */
static bool make_stream(struct state *state)
{
    int least, greatest;
    return cuda_succeeded("stream of reductions", cudaDeviceGetStreamPriorityRange(&least, &greatest)) &&
           cuda_succeeded("stream of reductions",
                          cudaStreamCreateWithPriority(&state->stream, cudaStreamNonBlocking, greatest));
}

static void name_library(struct reduce *reduce)
{
    int version = 0;
    ncclGetVersion(&version);
    snprintf(reduce->name, sizeof reduce->name, "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

bool reduce_open_nccl(struct reduce *reduce, const struct ranks *ranks, const struct backend *backend, int blocks)
{
    struct state *const state = calloc(1, sizeof *state);
    if (!state)
        return fail("out of memory for reductions");
    state->compute = backend->stream;
    pthread_mutex_init(&state->mutex, NULL);
    *reduce = (struct reduce){
        .state = state,
        .attach = nccl_attach,
        .begin_step = nccl_begin_step,
        .start = nccl_start,
        .wait = nccl_wait,
        .check = nccl_check,
        .unhidden = nccl_unhidden,
        .time = nccl_time,
        .close = nccl_close,
        .abort = nccl_abort,
    };
    name_library(reduce);
    if (make_stream(state) && join(state, ranks, blocks))
        return true;
    nccl_close(reduce);
    return false;
}
