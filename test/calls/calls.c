/*
 * Makes typical calls of the library, once to warm up and once to be counted. calls.py reads the counts.
 *
 * Built with -finstrument-functions, this program prints which functions a call runs on its thread. Under callgrind,
 * whose options name the functions `begin_counted` and `end_counted`, the instructions of each call are dumped.
 */
#include "check_call.h"

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 64 << 10, MOST_EVENTS = 1 << 16 };

/* ---- The functions that a call runs ---- */

struct event {
    void *function;
    int depth;
};

static struct event events[MOST_EVENTS];
static int event_count;
static int depth;
static _Thread_local int is_counting;

void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

void __cyg_profile_func_enter(void *function, void *caller)
{
    (void)caller;
    if (!is_counting)
        return;
    depth++;
    if (event_count < MOST_EVENTS)
        events[event_count++] = (struct event){function, depth};
}

void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)function, (void)caller;
    if (is_counting)
        depth--;
}

/* callgrind finds both by their names. */
void begin_counted(void);
void end_counted(void);

__attribute__((noinline)) void begin_counted(void)
{
    event_count = depth = 0;
    is_counting = 1;
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void end_counted(void)
{
    is_counting = 0;
}

static void report(const char *name)
{
    printf("call %s\n", name);
    for (int i = 0; i < event_count; i++)
        printf("%zx %d\n", (size_t)((uintptr_t)events[i].function - (uintptr_t)begin_counted), events[i].depth);
}

/* ---- The calls ---- */

static synced_mem *mem;    /* page-locked */
static synced_mem *other;  /* of the same size, in one piece too */
static synced_mem *root;   /* has a view at any time, so it stays divided */
static synced_mem *view;   /* of the root */
static synced_mem *turned; /* shareable */
static synced_mem *small;  /* used on the host alone, before any device is in use */
static cudaStream_t stream;

static void finish(void)
{
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

static void be_at_cpu(void)
{
    CHECK(synced_mem_mutable_cpu_data(mem));
}

static void be_at_gpu(void)
{
    CHECK(synced_mem_mutable_gpu_data_on(mem, stream));
    finish();
}

static void be_synced(void)
{
    CHECK(synced_mem_cpu_data(mem) && synced_mem_gpu_data_on(mem, stream));
    finish();
}

static void have_no_memory(void)
{
    OK(synced_mem_release_data(mem));
}

static void have_other_at_gpu(void)
{
    CHECK(synced_mem_mutable_gpu_data_on(other, stream));
    finish();
}

static void begin_turn(void)
{
    OK(synced_mem_begin_turn(turned, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_TURN_WRITE, 0));
}

static void end_turn(void)
{
    OK(synced_mem_end_turn(turned));
}

static void have_no_view(void)
{
    OK(synced_mem_release(view));
    view = NULL;
}

static void have_view_at_gpu(void)
{
    CHECK(synced_mem_mutable_gpu_data_on(root, stream));
    finish();
    OK(synced_mem_view(&view, root, SIZE / 4, SIZE / 4, NULL));
}

static void read_host(void)
{
    CHECK(synced_mem_cpu_data(mem));
}

static void overwrite_host(void)
{
    CHECK(synced_mem_overwrite_cpu_data(mem));
}

static void push(void)
{
    OK(synced_mem_async_gpu_push(mem, stream));
}

static void pull(void)
{
    OK(synced_mem_async_cpu_pull(mem, stream));
}

static void copy(void)
{
    OK(synced_mem_async_gpu_copy(mem, other, stream));
}

static void make_view(void)
{
    OK(synced_mem_view(&view, root, SIZE / 4, SIZE / 4, NULL));
}

static void read_view(void)
{
    CHECK(synced_mem_cpu_data(view));
}

static void live_on_host(void)
{
    synced_mem *short_lived;
    OK(synced_mem_create(&short_lived, 256, NULL));
    CHECK(synced_mem_overwrite_cpu_data(short_lived));
    OK(synced_mem_release(short_lived));
}

static void make_small(void)
{
    OK(synced_mem_create(&small, 256, NULL));
    CHECK(synced_mem_overwrite_cpu_data(small));
}

static void release_small(void)
{
    OK(synced_mem_release(small));
}

static void resize_small(void)
{
    OK(synced_mem_resize_discard(small, 200));
    CHECK(synced_mem_overwrite_cpu_data(small));
}

static void clear_small(void)
{
    OK(synced_mem_clear(small));
    CHECK(synced_mem_mutable_cpu_data(small));
}

/* The call is ready when prepare has run. settle ends what it leaves. */
struct counted {
    const char *name;
    void (*prepare)(void);
    void (*call)(void);
    void (*settle)(void);
};

static const struct counted on_host_only[] = {
    {"life on the host: create, overwrite_cpu_data, release", NULL, live_on_host, NULL},
    {"resize_discard and overwrite_cpu_data, on the host", make_small, resize_small, release_small},
    {"clear and mutable_cpu_data, on the host", make_small, clear_small, release_small},
};

static const struct counted with_device[] = {
    {"cpu_data, nothing to do", be_synced, read_host, NULL},
    {"cpu_data that transfers", be_at_gpu, read_host, NULL},
    {"overwrite_cpu_data, reused memory", be_at_gpu, overwrite_host, NULL},
    {"overwrite_cpu_data, memory of the pool", have_no_memory, overwrite_host, NULL},
    {"push of one object", be_at_cpu, push, finish},
    {"pull of one object", be_at_gpu, pull, finish},
    {"copy between two objects", have_other_at_gpu, copy, finish},
    {"view", NULL, make_view, have_no_view},
    {"first read of a view", have_view_at_gpu, read_view, have_no_view},
    {"acquire", NULL, begin_turn, end_turn},
    {"end of a turn", begin_turn, end_turn, NULL},
};

static void run_one(const struct counted *counted, int is_warm)
{
    if (counted->prepare)
        counted->prepare();
    if (is_warm)
        begin_counted();
    counted->call();
    if (is_warm) {
        end_counted();
        report(counted->name);
    }
    if (counted->settle)
        counted->settle();
}

static synced_mem *make(int shareable)
{
    synced_mem *made;
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.device = 0; /* page-locked from the start */
    if (shareable)
        options.shareable = SYNCED_MEM_SHAREABLE_SAME_USER;
    OK(synced_mem_create(&made, SIZE, &options));
    CHECK(memset(synced_mem_overwrite_cpu_data(made), 1, SIZE));
    return made;
}

static void run_all(const struct counted *all, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (int round = 0; round < 3; round++)
            run_one(&all[i], round == 2);
}

int main(void)
{
    run_all(on_host_only, sizeof on_host_only / sizeof *on_host_only);
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    mem = make(0);
    other = make(0);
    root = make(0);
    turned = make(1);
    OK(synced_mem_end_turn(turned));
    synced_mem *kept;
    OK(synced_mem_view(&kept, root, 0, SIZE / 8, NULL));
    run_all(with_device, sizeof with_device / sizeof *with_device);
    OK(synced_mem_release(kept));
    OK(synced_mem_release(mem));
    OK(synced_mem_release(other));
    OK(synced_mem_release(root));
    OK(synced_mem_release(turned));
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
    return EXIT_SUCCESS;
}
