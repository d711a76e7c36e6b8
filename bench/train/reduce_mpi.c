/*
 * Sums over all ranks by MPI, on the host copies.
 *
 * MPI_Iallreduce need not go on while the program is outside MPI. So a thread tests the started reductions while the
 * arithmetic runs. A mutex lets one thread at a time call MPI. Between two tests the thread sleeps, so that it takes
 * little of the arithmetic's cores.
 */
#include "failure.h"
#include "mpi_error.h"
#include "reduce.h"

#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct timespec pause_between_tests = {.tv_nsec = 20000};

struct started {
    synced_mem *object;
    MPI_Request request; /* MPI_REQUEST_NULL: done */
};

struct state {
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t mutex; /* of all that follows, and of calls of MPI */
    pthread_cond_t begun;  /* a reduction has started, or the thread shall end */
    bool ending;
    int running; /* reductions that are not done */
    int code;    /* MPI's, of the first failure */
    int count;
    struct started started[REDUCE_MOST];
    long steps;
    double waited; /* seconds */
    float *plain;  /* memory that the library does not manage */
    int plain_count;
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Tests each reduction once. Call it with the mutex. */
static void test_all(struct state *state)
{
    for (int i = 0; i < state->count && state->code == MPI_SUCCESS; ++i) {
        MPI_Request *const request = &state->started[i].request;
        int done = 0;
        if (*request == MPI_REQUEST_NULL)
            continue;
        state->code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        state->running -= done != 0;
    }
}

static void *test_meanwhile(void *argument)
{
    struct state *const state = argument;
    pthread_mutex_lock(&state->mutex);
    while (!state->ending) {
        if (state->running == 0 || state->code != MPI_SUCCESS) {
            pthread_cond_wait(&state->begun, &state->mutex);
            continue;
        }
        test_all(state);
        pthread_mutex_unlock(&state->mutex);
        nanosleep(&pause_between_tests, NULL);
        pthread_mutex_lock(&state->mutex);
    }
    pthread_mutex_unlock(&state->mutex);
    return NULL;
}

/* MPI takes any memory. */
static bool mpi_attach(struct reduce *reduce, synced_mem *object)
{
    (void)reduce, (void)object;
    return true;
}

static bool mpi_begin_step(struct reduce *reduce)
{
    struct state *const state = reduce->state;
    state->steps++;
    return true;
}

/* object: NULL for the plain memory. */
static bool start_sum(struct state *state, synced_mem *object, void *data, int count, enum reduce_type type)
{
    if (state->count == REDUCE_MOST)
        return fail("reduction: more than %d at once", REDUCE_MOST);

    pthread_mutex_lock(&state->mutex);
    struct started *const started = &state->started[state->count];
    started->object = object;
    const int code = MPI_Iallreduce(MPI_IN_PLACE, data, count, type == REDUCE_FLOAT ? MPI_FLOAT : MPI_DOUBLE, MPI_SUM,
                                    MPI_COMM_WORLD, &started->request);
    if (code == MPI_SUCCESS) {
        state->count++;
        state->running++;
        pthread_cond_signal(&state->begun);
    }
    pthread_mutex_unlock(&state->mutex);
    return mpi_succeeded("reduction", code);
}

static bool mpi_start(struct reduce *reduce, synced_mem *object, int count, enum reduce_type type)
{
    void *const data = synced_mem_mutable_cpu_data(object);
    return data ? start_sum(reduce->state, object, data, count, type) : fail_library("reduction");
}

static void forget(struct state *state, int i)
{
    memmove(&state->started[i], &state->started[i + 1], (size_t)(--state->count - i) * sizeof state->started[0]);
}

/* Returns the place of the object's reduction, or state->count. Call it with the mutex. */
static int find(const struct state *state, const synced_mem *object)
{
    int i = 0;
    while (i < state->count && state->started[i].object != object)
        ++i;
    return i;
}

static bool mpi_wait(struct reduce *reduce, synced_mem *object)
{
    struct state *const state = reduce->state;
    const double started = now();
    pthread_mutex_lock(&state->mutex);
    const int i = find(state, object);
    while (i < state->count && state->started[i].request != MPI_REQUEST_NULL && state->code == MPI_SUCCESS) {
        test_all(state);
        pthread_mutex_unlock(&state->mutex);
        sched_yield();
        pthread_mutex_lock(&state->mutex);
    }
    if (i < state->count)
        forget(state, i);
    const int code = state->code;
    pthread_mutex_unlock(&state->mutex);
    state->waited += now() - started;
    return mpi_succeeded("reduction", code);
}

static bool mpi_check(struct reduce *reduce)
{
    struct state *const state = reduce->state;
    pthread_mutex_lock(&state->mutex);
    const int code = state->code;
    pthread_mutex_unlock(&state->mutex);
    return mpi_succeeded("reduction", code);
}

static double mpi_unhidden(struct reduce *reduce)
{
    struct state *const state = reduce->state;
    const double mean = state->steps > 0 ? state->waited / (double)state->steps : 0.0;
    state->steps = 0;
    state->waited = 0.0;
    return mean;
}

static bool make_plain(struct state *state, int count)
{
    if (count <= state->plain_count)
        return true;
    free(state->plain);
    state->plain = calloc((size_t)count, sizeof *state->plain);
    state->plain_count = state->plain ? count : 0;
    return state->plain || fail("out of memory for %d numbers", count);
}

static bool mpi_time(struct reduce *reduce, synced_mem *object, int count, int times, double *seconds)
{
    struct state *const state = reduce->state;
    double started = 0.0;
    if (!object && !make_plain(state, count))
        return false;
    for (int i = -1; i < times; ++i) {
        if (i == 0)
            started = now();
        if (!(object ? mpi_start(reduce, object, count, REDUCE_FLOAT)
                     : start_sum(state, NULL, state->plain, count, REDUCE_FLOAT)) ||
            !mpi_wait(reduce, object))
            return false;
    }
    *seconds = (now() - started) / times;
    return true;
}

static void mpi_close(struct reduce *reduce)
{
    struct state *const state = reduce->state;
    if (!state)
        return;
    if (state->has_thread) {
        pthread_mutex_lock(&state->mutex);
        state->ending = true;
        pthread_cond_signal(&state->begun);
        pthread_mutex_unlock(&state->mutex);
        pthread_join(state->thread, NULL);
    }
    pthread_cond_destroy(&state->begun);
    pthread_mutex_destroy(&state->mutex);
    free(state->plain);
    free(state);
    reduce->state = NULL;
}

/* The thread must not be inside MPI any more. The mutex is never given back. */
static void mpi_abort(struct reduce *reduce)
{
    struct state *const state = reduce->state;
    pthread_mutex_lock(&state->mutex);
}

/* Without MPI's leave for a second thread, reductions go on in wait() alone. */
static void start_thread(struct state *state)
{
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    if (level >= MPI_THREAD_SERIALIZED)
        state->has_thread = pthread_create(&state->thread, NULL, test_meanwhile, state) == 0;
}

static void name_library(char *name, size_t size)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "MPI";
    int length;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = '\0'; /* build and host follow */
    snprintf(name, size, "%s", version);
}

bool reduce_open_mpi(struct reduce *reduce)
{
    struct state *const state = calloc(1, sizeof *state);
    if (!state)
        return fail("out of memory for reductions");
    pthread_mutex_init(&state->mutex, NULL);
    pthread_cond_init(&state->begun, NULL);
    *reduce = (struct reduce){
        .state = state,
        .attach = mpi_attach,
        .begin_step = mpi_begin_step,
        .start = mpi_start,
        .wait = mpi_wait,
        .check = mpi_check,
        .unhidden = mpi_unhidden,
        .time = mpi_time,
        .close = mpi_close,
        .abort = mpi_abort,
    };
    name_library(reduce->name, sizeof reduce->name);
    start_thread(state);
    return true;
}
