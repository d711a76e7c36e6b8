/*
 * Two threads in a fixed order, on the emulated runtime. The second one runs when the first is at a certain call of the
 * runtime. The folder's meson.build lists these calls (interleaving_wraps).
 */
#ifndef INTERLEAVINGS_KIT_H
#define INTERLEAVINGS_KIT_H

#include "fixture.h"

#include "cudart_emu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { SIZE = 5000, LARGER = 100000 };

/* ---- The order ---- */

enum moment { NEVER, AT_THE_LOOK, AT_THE_RECORD, AFTER_THE_RECORD, AT_THE_WAIT, AT_THE_FREE, AFTER_THE_FREE };

static struct {
    enum moment moment;
    void (*body)(void);
    pthread_t thread;
    atomic_bool over;
    bool fails; /* the first thread's wait fails */
} second;

static atomic_int wrong;

/* Check's own assertions are for the main thread. */
static inline void sound(bool condition)
{
    if (!condition)
        atomic_fetch_add(&wrong, 1);
}

static inline void run_second_at(enum moment moment, void (*body)(void))
{
    second.moment = moment;
    second.body = body;
}

static inline void *run_body(void *unused)
{
    (void)unused;
    second.body();
    atomic_store(&second.over, true);
    return NULL;
}

/* Runs the second thread if the moment has come. The thread may have to wait for the first one: then it sleeps. */
static inline void come_to(enum moment moment)
{
    enum { A_WHILE = 200, STEP_US = 100 };
    if (second.moment != moment)
        return;
    second.moment = NEVER;
    ck_assert_int_eq(pthread_create(&second.thread, NULL, run_body, NULL), 0);
    for (int i = 0; !atomic_load(&second.over) && (i < A_WHILE || !others_sleep()); i++)
        (void)usleep(STEP_US);
}

static inline void join_second(void)
{
    ck_assert_int_eq(second.moment, NEVER); /* the moment has come */
    ck_assert_int_eq(pthread_join(second.thread, NULL), 0);
    ck_assert_int_eq(atomic_load(&wrong), 0);
}

cudaError_t __real_cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t __wrap_cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t __wrap_cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    come_to(AT_THE_RECORD);
    const cudaError_t code = __real_cudaEventRecord(event, stream);
    come_to(AFTER_THE_RECORD);
    return code;
}

cudaError_t __real_cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out);
cudaError_t __wrap_cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out);
cudaError_t __wrap_cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out)
{
    come_to(AT_THE_LOOK);
    return __real_cudaStreamIsCapturing(stream, out);
}

cudaError_t __real_cudaEventSynchronize(cudaEvent_t event);
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event);
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event)
{
    const bool here = second.moment == AT_THE_WAIT;
    come_to(AT_THE_WAIT);
    return here && second.fails ? cudaErrorUnknown : __real_cudaEventSynchronize(event);
}

cudaError_t __real_cudaFreeAsync(void *data, cudaStream_t stream);
cudaError_t __wrap_cudaFreeAsync(void *data, cudaStream_t stream);
cudaError_t __wrap_cudaFreeAsync(void *data, cudaStream_t stream)
{
    come_to(AT_THE_FREE);
    const cudaError_t code = __real_cudaFreeAsync(data, stream);
    come_to(AFTER_THE_FREE);
    return code;
}

/* ---- The object and the streams ---- */

static synced_mem *mem;
static synced_mem_stream stream, next;

static inline void push_on_next(void)
{
    sound(synced_mem_async_gpu_push(mem, next) == SYNCED_MEM_OK);
}

#endif
