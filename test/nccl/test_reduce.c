/*
 * The trainer's reductions on GPUs, on the emulated runtime and the stand-in for NCCL: ranks as threads, each with a
 * device. The kernels of a step compute gradients, the reductions of the buckets run beside them, and the kernels of
 * the optimizer check every sum. The emulated runtime reports work that is not ordered.
 *
 * Then the waits of streams are left out by the places in the code that they come from. The emulated runtime must
 * report those of the start of a reduction and of the wait for one. At last a device is lost; every rank must fail,
 * and none may wait for ever.
 */
#include "buckets.h"
#include "cudart_emu.h"
#include "failure.h"
#include "reduce.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PARAMETERS = 6, STEPS = 20, MOST_RANKS = 4 };

static const int lengths[PARAMETERS] = {700, 10, 5000, 64, 3000, 333};

/* ---- The ranks ---- */

struct rank;

/* A launch of a kernel on a gradient. */
struct launch {
    struct rank *rank;
    int step, parameter;
    float *grad;
};

struct rank {
    struct ranks ranks;
    struct backend backend;
    struct reduce reduce;
    struct blob all, parameters[PARAMETERS], total;
    struct buckets buckets;
    pthread_t thread;
    bool done;
    struct launch launches[STEPS][PARAMETERS][2];
};

static struct rank ranks[MOST_RANKS];
static int count;
static pthread_barrier_t barrier;
static char shared[256];
static atomic_int wrong_sums;

static int first_failed(bool failed)
{
    (void)failed;
    abort();
}

static bool broadcast(void *data, size_t size)
{
    int device = -1;
    if (size > sizeof shared || cudaGetDevice(&device) != cudaSuccess)
        abort();
    if (device == 0)
        memcpy(shared, data, size);
    pthread_barrier_wait(&barrier);
    memcpy(data, shared, size);
    pthread_barrier_wait(&barrier);
    return true;
}

/* ---- Kernels ---- */

/* Small whole numbers: their sums are exact in any order. */
static float part_of(int rank, int step, int parameter, int i)
{
    return (float)((rank + 1) * (step + 3) % 17 + parameter + i % 5);
}

static void compute_gradient(void *argument)
{
    const struct launch *const launch = argument;
    float *const grad = emu_pointer(launch->grad);
    for (int i = 0; i < lengths[launch->parameter]; ++i)
        grad[i] = part_of(launch->rank->ranks.rank, launch->step, launch->parameter, i);
}

static void check_sums(void *argument)
{
    const struct launch *const launch = argument;
    const float *const grad = emu_pointer(launch->grad);
    for (int i = 0; i < lengths[launch->parameter]; ++i) {
        float sum = 0.0F;
        for (int rank = 0; rank < count; ++rank)
            sum += part_of(rank, launch->step, launch->parameter, i);
        wrong_sums += grad[i] != sum;
    }
}

static bool launch(struct rank *rank, int step, int parameter, bool optimizer)
{
    struct launch *const launch = &rank->launches[step][parameter][optimizer];
    synced_mem *const object = rank->parameters[parameter].grad;
    const cudaStream_t stream = rank->backend.stream;
    float *const grad = optimizer ? (float *)(uintptr_t)synced_mem_gpu_data_on(object, stream)
                                  : synced_mem_overwrite_gpu_data_on(object, stream);
    if (!grad)
        return fail_library("gradient");
    *launch = (struct launch){.rank = rank, .step = step, .parameter = parameter, .grad = grad};
    const struct emu_range range = {grad, (size_t)lengths[parameter] * sizeof *grad, !optimizer};
    const cudaError_t error = emu_launch(stream, optimizer ? check_sums : compute_gradient, launch, &range, 1);
    return error == cudaSuccess || fail("kernel: %s", cudaGetErrorString(error));
}

/* ---- A rank ---- */

static bool take_step(struct rank *rank, int step)
{
    if (!rank->reduce.begin_step(&rank->reduce))
        return false;
    for (int i = 0; i < PARAMETERS; ++i) {
        if (!launch(rank, step, i, false) || !buckets_complete(&rank->buckets, i))
            return false;
    }
    for (int i = 0; i < PARAMETERS; ++i) {
        if (!buckets_wait(&rank->buckets, i) || !launch(rank, step, i, true))
            return false;
    }
    return true;
}

/* As the trainer reads the loss. */
static bool read_total(struct rank *rank, double expected)
{
    const struct timespec pause = {.tv_nsec = 100000};
    struct reduce *const reduce = &rank->reduce;
    synced_mem *const total = rank->total.data;
    int pending = 1;
    double *const own = synced_mem_mutable_cpu_data(total);
    if (!own)
        return fail_library("total");
    *own = 1.5;
    if (!reduce->start(reduce, total, 1, REDUCE_DOUBLE) ||
        synced_mem_async_cpu_pull(total, rank->backend.stream) != SYNCED_MEM_OK)
        return fail_library("total");
    while (reduce->check(reduce) && synced_mem_query(total, &pending) == SYNCED_MEM_OK && pending)
        nanosleep(&pause, NULL);
    const double *const sum = pending ? NULL : synced_mem_cpu_data(total);
    return sum && (*sum == expected || fail("the total is %g instead of %g", *sum, expected));
}

static bool make_blobs(struct rank *rank)
{
    int first[PARAMETERS], end = 0;
    for (int i = 0; i < PARAMETERS; ++i) {
        first[i] = end;
        end = (end + lengths[i] + 63) / 64 * 64;
        rank->parameters[i] = blob_make("parameter", rank->backend.device);
    }
    rank->all = blob_make("all", rank->backend.device);
    rank->all.gpu_allocator = reduce_nccl_allocator();
    rank->total = blob_make("total", rank->backend.device);
    if (!blob_vector(&rank->all, end) || !blob_vector(&rank->total, 2))
        return false;
    for (int i = 0; i < PARAMETERS; ++i) {
        if (!blob_view(&rank->parameters[i], &rank->all, first[i], 1, &lengths[i]))
            return false;
    }
    return rank->reduce.attach(&rank->reduce, rank->all.grad) &&
           buckets_make(&rank->buckets, &rank->reduce, &rank->all, rank->parameters, PARAMETERS, 8192);
}

static void free_blobs(struct rank *rank)
{
    buckets_free(&rank->buckets);
    for (int i = 0; i < PARAMETERS; ++i)
        blob_free(&rank->parameters[i]);
    blob_free(&rank->all);
    blob_free(&rank->total);
}

static bool take_steps(struct rank *rank)
{
    for (int step = 0; step < STEPS; ++step) {
        if (!take_step(rank, step))
            return false;
        if (step % 8 == 7 && !read_total(rank, 1.5 * count))
            return false;
    }
    return read_total(rank, 1.5 * count);
}

/* Reductions that are timed are as others: three multiply by the number of ranks three times. */
static bool take_times(struct rank *rank)
{
    enum { NUMBERS = 300, TIMES = 2 };
    struct reduce *const reduce = &rank->reduce;
    struct blob blob = blob_make("timed", rank->backend.device);
    double seconds[3] = {-1.0, -1.0, -1.0};
    float *const own = blob_vector(&blob, NUMBERS) ? synced_mem_overwrite_cpu_data(blob.data) : NULL;
    if (!own)
        return fail_library("timed numbers");
    for (int i = 0; i < NUMBERS; ++i)
        own[i] = 1.0F;
    /* Memory that the library does not manage, then more of it. */
    const bool done = reduce->time(reduce, NULL, 10, 1, &seconds[0]) &&
                      reduce->time(reduce, blob.data, NUMBERS, TIMES, &seconds[1]) &&
                      reduce->time(reduce, NULL, NUMBERS, TIMES, &seconds[2]);
    const float *const sums = done ? synced_mem_cpu_data(blob.data) : NULL;
    const float expected = (float)(count * count * count);
    const bool right = sums && sums[0] == expected && sums[NUMBERS - 1] == expected;
    blob_free(&blob);
    for (int i = 0; i < 3; ++i) {
        if (done && !(seconds[i] >= 0.0 && seconds[i] < 10.0))
            return fail("a reduction took %g s", seconds[i]);
    }
    return done && (right || fail("timed reductions give no %g", (double)expected));
}

static void *run_rank(void *argument)
{
    struct rank *const rank = argument;
    cudaStream_t stream = NULL;
    if (cudaSetDevice(rank->ranks.rank) != cudaSuccess ||
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess)
        abort();
    rank->backend = (struct backend){.device = rank->ranks.rank, .on_gpu = true, .stream = stream};
    if (!reduce_open_nccl(&rank->reduce, &rank->ranks, &rank->backend, 4))
        return NULL;
    rank->done = make_blobs(rank) && take_steps(rank) && take_times(rank);
    if (!rank->done)
        rank->reduce.abort(&rank->reduce);
    /* On the device the last optimizer may still run. */
    cudaStreamSynchronize(stream);
    rank->reduce.close(&rank->reduce);
    free_blobs(rank);
    synced_mem_forget_stream(stream);
    cudaStreamDestroy(stream);
    return NULL;
}

/* Runs the ranks on a machine that has just been reset. Returns how many of them were done. */
static int run(int wanted)
{
    int done = 0;
    count = wanted;
    wrong_sums = 0;
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    for (int i = 0; i < count; ++i) {
        ranks[i] =
            (struct rank){.ranks = {.rank = i, .count = count, .first_failed = first_failed, .broadcast = broadcast}};
        if (pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]) != 0)
            abort();
    }
    for (int i = 0; i < count; ++i) {
        pthread_join(ranks[i].thread, NULL);
        done += ranks[i].done;
    }
    pthread_barrier_destroy(&barrier);
    return done;
}

/* ---- The tests ---- */

static int failures;

static void expect(bool condition, const char *what, int number)
{
    if (condition)
        return;
    printf("FAIL: %s (%d): %s\n", what, number, failure());
    failures++;
}

static void test_sums(int seeds)
{
    for (int seed = 0; seed < seeds; ++seed) {
        for (int wanted = 2; wanted <= MOST_RANKS; wanted += 2) {
            emu_reset((uint64_t)seed);
            expect(run(wanted) == wanted, "every rank is done, seed", seed);
            expect(wrong_sums == 0, "every sum is right, seed", seed);
            expect(synced_mem_shutdown() == SYNCED_MEM_OK, "shutdown, seed", seed);
        }
    }
}

static atomic_int reports;

static void count_report(const char *report, void *user)
{
    (void)report, (void)user;
    reports++;
}

/* Return addresses on the way to waits. */
enum { MOST_PLACES = 256 };
static struct emu_place places[MOST_PLACES];
static int place_count;

static void note_place(const struct emu_wait_place *wait, void *user)
{
    (void)user;
    for (unsigned i = 0; i < wait->depth; ++i) {
        int known = 0;
        while (known < place_count && places[known].offset != wait->chain[i].offset)
            ++known;
        if (known == place_count && place_count < MOST_PLACES)
            places[place_count++] = wait->chain[i];
    }
}

static void test_dropped_waits(void)
{
    emu_reset(1);
    emu_note_waits(true);
    expect(run(2) == 2, "every rank is done", 0);
    emu_each_wait(note_place, NULL);
    synced_mem_shutdown();
    int missed = 0;
    for (int i = 0; i < place_count; ++i) {
        emu_reset(1);
        emu_set_misuse_handler(count_report, NULL);
        emu_drop_waits_at(&places[i]);
        reports = 0;
        run(2);
        missed += reports >= STEPS;
        synced_mem_shutdown(); /* frees what comes after the waits that were left out */
        emu_set_misuse_handler(NULL, NULL);
    }
    printf("of %d places in the code that waits come from, %d were missed in every step when left out\n", place_count,
           missed);
    /* The accesses of nccl_start() and nccl_wait(), their callers, and the functions of the library that both call. */
    expect(missed >= 4, "places that are missed", missed);
}

/* In a process of its own, because failure() keeps the first message of a process. */
static void test_lost_device(void)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(10);
        emu_reset(3);
        emu_fail("cudaStreamQuery", 2, cudaErrorECCUncorrectable, true);
        const int done = run(2);
        printf("after the loss of a device: %s\n", failure());
        fflush(stdout);
        _exit(done == 0 && (strstr(failure(), "ECC") || strstr(failure(), "NCCL")) ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    expect(status == 0, "every rank fails within 10 s after the loss of a device; status", status);
}

int main(void)
{
    const char *const asked = getenv("SYNCED_MEM_TEST_SEEDS");
    test_lost_device();
    test_sums(asked ? atoi(asked) : 8);
    test_dropped_waits();
    return failures > 0;
}
