/* Plays in concurrent threads. Each has objects of its own, and all read shared objects. */
#include "free.h"

#include "gpu.h"
#include "kernels.h"
#include "pattern.h"

#include <pthread.h>
#include <stdlib.h>

enum { SHARED_OBJECTS = 3, SHARED_SIZE = 300, OWN_SIZE = 500, LATEST = 6 };

struct own {
    uint64_t random;
    synced_mem *mem;
    synced_mem_stream stream;
    unsigned pattern;
    int device;
    unsigned char memory[OWN_SIZE]; /* used by the present object */
};

/* The shared objects. Some of their memory is the caller's, and pageable. */
static unsigned char common_memory[SHARED_OBJECTS][SHARED_SIZE];
static synced_mem *common[SHARED_OBJECTS];
static unsigned common_patterns[SHARED_OBJECTS];
static pthread_barrier_t together;

void must(bool so, const char *what)
{
    if (!so)
        fail("threads at the same time: %s (%s)", what, synced_mem_last_error_message());
}

/* Makes calls of the runtime fail now and then, also on the library's own threads. Changes only while there is one
 * thread. */
static bool failing;
static _Thread_local unsigned tries;

bool again(bool succeeded)
{
    enum { MOST_TRIES = 200 };
    if (succeeded)
        tries = 0;
    if (succeeded || !failing || tries == MOST_TRIES)
        return false;
    must(synced_mem_last_error() == SYNCED_MEM_ERR_CUDA, "an error that was not injected");
    tries++;
    return true;
}

void fail_sometimes(uint64_t *random)
{
    if (failing && random_below(random, 3) == 0)
        (void)gpu_fail(random_next(random), 1 + random_below(random, LATEST));
}

/* Only a GPU has calls that can fail. */
static void let_calls_fail(bool so)
{
    failing = so && machine.gpu && gpu_fail(0, LATEST);
    gpu_fail_no_more();
}

/* ---- One thread ---- */

static void expect(const void *data, size_t size, unsigned pattern, synced_mem_stream stream)
{
    unsigned char expected[OWN_SIZE];
    pattern_write(expected, size, pattern);
    gpu_expect(data, size, expected, stream);
}

/* Writes all contents, after an overwrite or a mutable access. */
static void kernel_writes(struct own *own)
{
    const bool all = random_below(&own->random, 2) == 0;
    void *data;
    do
        data = all ? synced_mem_overwrite_gpu_data_on(own->mem, own->stream)
                   : synced_mem_mutable_gpu_data_on(own->mem, own->stream);
    while (again(data != NULL));
    if (data && !all)
        expect(data, OWN_SIZE, own->pattern, own->stream);
    must(data != NULL, "no device pointer");
    own->pattern = 1 + random_below(&own->random, 250);
    gpu_fill(data, OWN_SIZE, own->pattern, own->stream);
}

static void kernel_reads(synced_mem *mem, size_t size, unsigned pattern, synced_mem_stream stream)
{
    const void *data;
    do
        data = synced_mem_gpu_data_on(mem, stream);
    while (again(data != NULL));
    must(data != NULL, "no device pointer to read");
    expect(data, size, pattern, stream);
}

static void host_writes(struct own *own)
{
    void *data;
    do
        data = synced_mem_mutable_cpu_data(own->mem);
    while (again(data != NULL));
    must(data != NULL, "no host pointer");
    own->pattern = 1 + random_below(&own->random, 250);
    gpu_note_host_write(data, OWN_SIZE);
    pattern_write(data, OWN_SIZE, own->pattern);
}

static void host_reads(synced_mem *mem, size_t size, unsigned pattern)
{
    const void *data;
    do
        data = synced_mem_cpu_data(mem);
    while (again(data != NULL));
    must(data != NULL, "no host pointer to read");
    gpu_note_host_read(data, size);
    must(pattern_is(data, size, pattern), "other contents than were written");
}

void let_go(synced_mem *mem)
{
    synced_mem_status status;
    do
        status = synced_mem_release(mem);
    while (again(status == SYNCED_MEM_OK));
    must(status == SYNCED_MEM_OK, "no release");
}

static void use_own_on_host(struct own *own)
{
    switch (random_below(&own->random, 4)) {
    case 0:
        host_writes(own);
        break;
    case 1:
        must(synced_mem_retain(own->mem) == SYNCED_MEM_OK && synced_mem_release(own->mem) == SYNCED_MEM_OK,
             "no reference");
        break;
    case 2:
        let_go(own->mem);
        must(synced_mem_create(&own->mem, OWN_SIZE, NULL) == SYNCED_MEM_OK, "no object");
        own->pattern = 0;
        break;
    default:
        host_reads(own->mem, OWN_SIZE, own->pattern);
        break;
    }
}

/* A push or pull that has nothing to move is no failure of the test. */
static void use_own_on_device(struct own *own)
{
    switch (random_below(&own->random, 6)) {
    case 0:
    case 1:
        kernel_writes(own);
        break;
    case 2:
        kernel_reads(own->mem, OWN_SIZE, own->pattern, own->stream);
        break;
    case 3:
        (void)synced_mem_async_gpu_push(own->mem, own->stream);
        break;
    case 4:
        (void)synced_mem_async_cpu_pull(own->mem, own->stream);
        break;
    default:
        while (again(synced_mem_gpu_data(own->mem) != NULL))
            continue;
        must(tries == 0, "no device pointer");
        break;
    }
}

/* Any thread may be the first to read the object, on the host or on a stream. */
static void use_common(struct own *own)
{
    const uint32_t which = random_below(&own->random, SHARED_OBJECTS);
    if (machine.gpu && random_below(&own->random, 2) == 0)
        kernel_reads(common[which], SHARED_SIZE, common_patterns[which], own->stream);
    else
        host_reads(common[which], SHARED_SIZE, common_patterns[which]);
}

void end_stream(synced_mem_stream stream)
{
    if (!machine.gpu)
        return;
    while (again(synced_mem_forget_stream(stream) == SYNCED_MEM_OK))
        continue;
    must(tries == 0, "the stream is not done");
    gpu_stream_destroy(stream);
}

enum { STEPS = 20 };

static void *thread_of(void *argument)
{
    struct own *const own = argument;
    if (machine.gpu) {
        gpu_make_current(0);
        own->stream = gpu_stream_create(0, random_below(&own->random, 2) == 0);
    }
    must(synced_mem_create(&own->mem, OWN_SIZE, NULL) == SYNCED_MEM_OK, "no object");
    if (random_below(&own->random, 2) == 0)
        must(synced_mem_set_cpu_data(own->mem, own->memory) == SYNCED_MEM_OK, "the memory was not taken");
    (void)pthread_barrier_wait(&together);
    for (int i = 0; i < STEPS; i++) {
        fail_sometimes(&own->random);
        use_common(own);
        if (machine.gpu && random_below(&own->random, 3) > 0)
            use_own_on_device(own);
        else
            use_own_on_host(own);
    }
    let_go(own->mem);
    end_stream(own->stream);
    return NULL;
}

/* ---- All ---- */

/* Stages every transfer of pageable memory, or only pushes of more than a buffer. */
static void stage(uint64_t seed)
{
    const synced_mem_staging staging = {.struct_size = sizeof staging,
                                        .threads = seed % 4,
                                        .buffer_bytes = 65536,
                                        .minimum_bytes = seed / 4 % 4 != 0 ? 1 : SIZE_MAX};
    must(synced_mem_set_staging(&staging) == SYNCED_MEM_OK, "no staging");
}

/* Creates the shared objects. They are written here, and then only read until all threads have ended. */
static void make_common(uint64_t *random)
{
    for (int i = 0; i < SHARED_OBJECTS; i++) {
        const bool at_gpu = machine.gpu && random_below(random, 2) == 0;
        must(synced_mem_create(&common[i], SHARED_SIZE, NULL) == SYNCED_MEM_OK, "no object");
        if (random_below(random, 2) == 0)
            must(synced_mem_set_cpu_data(common[i], common_memory[i]) == SYNCED_MEM_OK, "the memory was not taken");
        void *const data = at_gpu ? synced_mem_overwrite_gpu_data(common[i]) : synced_mem_overwrite_cpu_data(common[i]);
        must(data != NULL, "no pointer");
        common_patterns[i] = 1 + random_below(random, 250);
        if (at_gpu) {
            gpu_fill(data, SHARED_SIZE, common_patterns[i], NULL);
        } else {
            gpu_note_host_write(data, SHARED_SIZE);
            pattern_write(data, SHARED_SIZE, common_patterns[i]);
        }
    }
}

static void play_round(uint64_t *random)
{
    pthread_t threads[THREADS];
    struct own owns[THREADS];
    make_common(random);
    (void)pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        owns[i] = (struct own){.random = random_next(random)};
        must(pthread_create(&threads[i], NULL, thread_of, &owns[i]) == 0, "no thread");
    }
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    (void)pthread_barrier_destroy(&together);
    gpu_fail_no_more();
    for (int i = 0; i < SHARED_OBJECTS; i++)
        must(synced_mem_release(common[i]) == SYNCED_MEM_OK, "no release");
}

void play_freely(uint64_t seed, int rounds)
{
    use_kernels_if_asked(gpu_start((unsigned)seed));
    if (machine.gpu)
        gpu_make_current(0);
    stage(seed);
    for (int i = 0; i < rounds; i++) {
        let_calls_fail(i % 2 != 0);
        play_round(&seed);
        play_views_freely(&seed);
    }
    if (machine.gpu)
        gpu_sync_device(0);
    must(gpu_mismatches(true) == 0, "a kernel read other contents than were written");
    must(synced_mem_shutdown() == SYNCED_MEM_OK, "no shutdown");
    gpu_check_nothing_left();
}
