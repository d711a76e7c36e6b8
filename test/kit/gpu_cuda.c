/* The real runtime. Copies take the place of kernels, so that no device code has to be built. */
#include "gpu.h"

#include "gpu_cudart.h"

#include "device/device.h"
#include "pattern.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int gpu_start(unsigned schedule)
{
    int count = 0;
    (void)schedule;
    sm_device_pool_warm_beside(false);
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

/* Sources of copies that may run long after they were queued. */
enum { MOST_KEPT = 256 };
static void *kept[MOST_KEPT];
static int kept_count;

void gpu_check_nothing_left(void)
{
    while (kept_count > 0)
        gpu_pinned_free(kept[--kept_count]);
}

/* ---- Kernels ---- */

/* A copy from pageable memory returns when it has read the memory, and may have to wait for that. So the source is
 * page-locked while a stream is held. */
bool gpu_try_fill(void *data, size_t size, unsigned pattern, synced_mem_stream stream)
{
    const bool keep = gpu_is_held();
    void *const bytes = keep ? gpu_pinned_alloc(size) : malloc(size);
    ck_assert_ptr_nonnull(bytes);
    pattern_write(bytes, size, pattern);
    const cudaError_t code = cudaMemcpyAsync(data, bytes, size, cudaMemcpyHostToDevice, stream);
    ck_assert_int_lt(kept_count, MOST_KEPT);
    if (keep)
        kept[kept_count++] = bytes;
    else
        free(bytes);
    if (code != cudaSuccess)
        (void)cudaGetLastError();
    return code == cudaSuccess;
}

bool gpu_try_copy(void *to, const void *from, size_t size, synced_mem_stream stream)
{
    const cudaError_t code = cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
    if (code != cudaSuccess)
        (void)cudaGetLastError();
    return code == cudaSuccess;
}

static void CUDART_CB take_a_while(void *unused)
{
    (void)unused;
    (void)usleep(20000);
}

/* Host functions of different streams may wait for one another. So none is queued while a stream is held. */
void gpu_delay(synced_mem_stream stream)
{
    if (gpu_is_held())
        return;
    MUST(cudaLaunchHostFunc(stream, take_a_while, NULL));
}

bool gpu_is_busy(const synced_mem_stream *streams, int count)
{
    bool busy = false;
    for (int i = 0; i < count && !busy; i++)
        busy = !gpu_stream_is_idle(streams[i]);
    (void)cudaGetLastError();
    return busy;
}

static void CUDART_CB take_some_calls(void *unused)
{
    (void)unused;
    (void)usleep(100);
}

void gpu_pause(synced_mem_stream stream)
{
    MUST(cudaLaunchHostFunc(stream, take_some_calls, NULL));
}

struct host_fill {
    void *data;
    size_t size;
    unsigned pattern;
};

static void CUDART_CB run_host_fill(void *argument)
{
    const struct host_fill *const fill = argument;
    pattern_write(fill->data, fill->size, fill->pattern);
    free(argument);
}

void gpu_fill_host(void *data, size_t size, unsigned pattern, synced_mem_stream stream)
{
    struct host_fill *const fill = malloc(sizeof *fill);
    ck_assert_ptr_nonnull(fill);
    *fill = (struct host_fill){.data = data, .size = size, .pattern = pattern};
    MUST(cudaLaunchHostFunc(stream, run_host_fill, fill));
}

/* ---- Comparisons: contents are copied on the device at their turn, and compared when the room is used up ---- */

enum { SEEN_BYTES = 32 << 20, MOST_DEVICES = 16 };

static struct seen {
    unsigned char *data;     /* on the device */
    unsigned char *expected; /* the expected contents */
    size_t used;
} seen[MOST_DEVICES];
static pthread_mutex_t seen_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned mismatches;

static void look(struct seen *of, int device)
{
    const int before = gpu_current_device();
    unsigned char *const got = malloc(of->used + 1);
    ck_assert_ptr_nonnull(got);
    gpu_make_current(device);
    gpu_read(got, of->data, of->used);
    gpu_make_current(before);
    mismatches += memcmp(got, of->expected, of->used) != 0;
    of->used = 0;
    free(got);
}

void gpu_expect(const void *data, size_t size, const void *expected, synced_mem_stream stream)
{
    const int device = gpu_current_device();
    struct seen *const of = &seen[device];
    pthread_mutex_lock(&seen_lock);
    if (!of->data) {
        of->expected = malloc(SEEN_BYTES);
        of->data = gpu_alloc(device, SEEN_BYTES);
        ck_assert_ptr_nonnull(of->expected);
    }
    if (of->used + size > SEEN_BYTES)
        look(of, device);
    gpu_copy(of->data + of->used, data, size, stream);
    memcpy(of->expected + of->used, expected, size);
    of->used += size;
    pthread_mutex_unlock(&seen_lock);
}

unsigned gpu_mismatches(bool all)
{
    pthread_mutex_lock(&seen_lock);
    for (int i = 0; all && i < MOST_DEVICES; i++)
        if (seen[i].used > 0)
            look(&seen[i], i);
    const unsigned found = mismatches;
    pthread_mutex_unlock(&seen_lock);
    return found;
}

void gpu_read(void *to, const void *from, size_t size)
{
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(to, from, size, cudaMemcpyDeviceToHost));
}
