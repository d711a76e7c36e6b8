/* Many small copies or fills in one call, which a kernel of the library makes. */
#include "bare.h"
#include "kernels.h"
#include "object.h"
#include "report.h"
#include "suite.h"

#include "device/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum direction { UP, UP_PAGEABLE, DOWN, ACROSS };

/* Objects, and bare blocks of the same sizes, of which no two lie side by side. */
struct small {
    enum direction direction;
    size_t size;
    size_t count;
    synced_mem **mems, **targets;        /* in the order in which they were made; targets: of copies on the device */
    synced_mem **named, **named_targets; /* in that in which the call names them */
    char *host, *device; /* of the bare blocks; host: device memory too, if they are copied on the device */
    char *pageable;      /* of the objects, if their host memory is pageable; else NULL */
    void **to;
    const void **from;
    size_t *sizes;
    synced_mem_stream stream;
};

/* The contents of the side that is copied from are new. */
static void change(const struct small *on)
{
    for (size_t i = 0; i < on->count; i++)
        must_work((on->direction <= UP_PAGEABLE ? synced_mem_mutable_cpu_data(on->mems[i])
                                                : synced_mem_mutable_gpu_data_on(on->mems[i], on->stream)) != NULL);
    bare_wait(on->stream);
}

static synced_mem_status copy_all(const struct small *on)
{
    switch (on->direction) {
    case UP:
    case UP_PAGEABLE:
        return synced_mem_async_gpu_push_n(on->named, on->count, on->stream);
    case DOWN:
        return synced_mem_async_cpu_pull_n(on->named, on->count, on->stream);
    case ACROSS:
        break;
    }
    return synced_mem_async_gpu_copy_n(on->named_targets, on->named, on->count, on->stream);
}

static double copy_objects(void *state)
{
    const struct small *const on = state;
    change(on);
    const double begin = seconds_now();
    must_work(copy_all(on) == SYNCED_MEM_OK);
    bare_wait(on->stream);
    return seconds_now() - begin;
}

static void queue_one(const struct small *on, void *to, const void *from, size_t size)
{
    if (on->direction <= UP_PAGEABLE)
        bare_queue_up(to, from, size, on->stream);
    else if (on->direction == DOWN)
        bare_queue_down(to, from, size, on->stream);
    else
        bare_queue_across(to, from, size, on->stream);
}

static double copy_at_once(void *state)
{
    const struct small *const on = state;
    const double begin = seconds_now();
    queue_one(on, on->to[0], on->from[0], on->size * on->count);
    bare_wait(on->stream);
    return seconds_now() - begin;
}

static double copy_in_loop(void *state)
{
    const struct small *const on = state;
    const double begin = seconds_now();
    for (size_t i = 0; i < on->count; i++)
        queue_one(on, on->to[i], on->from[i], on->size);
    bare_wait(on->stream);
    return seconds_now() - begin;
}

static double copy_each_pageable(void *state)
{
    const struct small *const on = state;
    const double begin = seconds_now();
    for (size_t i = 0; i < on->count; i++)
        bare_copy_up(on->to[i], on->pageable + i * on->size, on->size);
    bare_wait_all();
    return seconds_now() - begin;
}

static double copy_in_batch(void *state)
{
    const struct small *const on = state;
    const double begin = seconds_now();
    bare_queue_batch(on->to, on->from, on->sizes, on->count, on->stream);
    bare_wait(on->stream);
    return seconds_now() - begin;
}

static void *array_of(size_t count, size_t size)
{
    void *const array = calloc(count, size);
    must(array != NULL, "no memory");
    return array;
}

static void make_small(struct small *on)
{
    const size_t stride = 2 * on->size;
    on->stream = bare_stream_create();
    on->mems = array_of(on->count, sizeof *on->mems);
    on->targets = array_of(on->count, sizeof *on->targets);
    on->named = array_of(on->count, sizeof *on->named);
    on->named_targets = array_of(on->count, sizeof *on->named_targets);
    on->to = array_of(on->count, sizeof *on->to);
    on->from = array_of(on->count, sizeof *on->from);
    on->sizes = array_of(on->count, sizeof *on->sizes);
    on->host = on->direction == ACROSS ? bare_device_alloc(on->count * stride) : bare_host_alloc(on->count * stride);
    on->device = bare_device_alloc(on->count * stride);
    on->pageable = on->direction == UP_PAGEABLE ? array_of(on->count, on->size) : NULL;
    if (on->direction != ACROSS)
        memset(on->host, 1, on->count * stride);
    for (size_t i = 0; i < on->count; i++) {
        char *const host = on->host + i * stride;
        char *const device = on->device + i * stride;
        on->to[i] = on->direction == DOWN ? host : device;
        on->from[i] = on->direction == DOWN ? device : host;
        on->sizes[i] = on->size;
        on->mems[i] = make_object(on->size);
        on->targets[i] = make_object(on->size);
        on->named[i] = on->mems[i];
        on->named_targets[i] = on->targets[i];
        if (on->pageable)
            must_work(synced_mem_set_cpu_data(on->mems[i], on->pageable + i * on->size) == SYNCED_MEM_OK);
        must_work(synced_mem_cpu_data(on->mems[i]) != NULL); /* zeros */
        must_work(synced_mem_gpu_data_on(on->mems[i], on->stream) != NULL);
    }
    /* Before the kernel is loaded, engines would copy. */
    (void)sm_device_list_processors(synced_mem_device(on->mems[0]));
    sm_device_await_lists();
}

static void swap(synced_mem **mems, size_t one, size_t other)
{
    synced_mem *const mem = mems[one];
    mems[one] = mems[other];
    mems[other] = mem;
}

/* As a program may name objects in another order than that in which it made them. They are released in that order, so
 * that later objects lie side by side again. */
static void shuffle(const struct small *on)
{
    uint64_t random = 1;
    for (size_t i = on->count - 1; i > 0; i--) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const size_t other = (size_t)(random >> 33) % (i + 1);
        swap(on->named, i, other);
        swap(on->named_targets, i, other);
    }
}

static void free_small(const struct small *on)
{
    for (size_t i = 0; i < on->count; i++) {
        release_object(on->mems[i]);
        release_object(on->targets[i]);
    }
    must_work(synced_mem_forget_stream(on->stream) == SYNCED_MEM_OK);
    bare_stream_destroy(on->stream);
    bare_device_free(on->device);
    if (on->direction == ACROSS)
        bare_device_free(on->host);
    else
        bare_host_free(on->host);
    free(on->pageable);
    free(on->mems);
    free(on->targets);
    free(on->named);
    free(on->named_targets);
    free(on->to);
    free(on->from);
    free(on->sizes);
}

struct case_of {
    size_t count, size;
    double faster, to_limit; /* targets; 0: none */
    bool any_order;
};

static void measure_case(const struct table *table, enum direction direction, const struct case_of *one)
{
    const struct way ways[] = {{"objects", copy_objects},
                               {"at once", copy_at_once},
                               {"each", direction == ACROSS        ? copy_in_loop
                                        : direction == UP_PAGEABLE ? copy_each_pageable
                                                                   : copy_in_batch}};
    const bool small = suite.quick || suite.emulated;
    struct small on = {.direction = direction, .size = one->size, .count = small && one->count > 64 ? 40 : one->count};
    struct summary results[3];
    char name[64];
    (void)snprintf(name, sizeof name, "%zu x %s%s", on.count, size_name(on.size),
                   one->any_order ? ", in any order" : "");
    struct row row = row_of(table, name, (double)on.size);
    if (one->faster > 0)
        row_target(&row, FASTER, AT_LEAST, one->faster);
    if (one->to_limit > 0)
        row_target(&row, TO_LIMIT, AT_LEAST, one->to_limit);
    if (!row_can_run(&row, true, on.size * on.count))
        return;
    if (!bare_has_batches()) {
        report_skip(&row, "runtime or driver is older than 12.8");
        return;
    }
    make_small(&on);
    if (one->any_order)
        shuffle(&on);
    compare(ways, 3, &on, results);
    report_times(&row, results, (double)(on.size * on.count));
    free_small(&on);
}

static const char limit[] = "one cudaMemcpyAsync of as many bytes, and one wait";

void measure_small_transfers(void)
{
    static const char batch[] = "one cudaMemcpyBatchAsync, and one wait";
    static const struct table tables[] = {
        {"transfers", "push-small", "Push of many small objects, and the wait", UNIT_GB_PER_S, limit, batch},
        {"transfers", "pull-small", "Pull of many small objects, and the wait", UNIT_GB_PER_S, limit, batch}};
    enum { CASES = 4 };
    static const struct case_of cases[][CASES] = {{{64, 4 * KIB, 4, 0, false},
                                                   {10000, 4 * KIB, 6, 0, false},
                                                   {10000, 4 * KIB, 6, 0, true},
                                                   {10000, 16 * KIB, 0, 0.65, false}},
                                                  {{64, 4 * KIB, 1.5, 0, false},
                                                   {10000, 4 * KIB, 2.5, 0, false},
                                                   {10000, 4 * KIB, 2.5, 0, true},
                                                   {10000, 16 * KIB, 0, 0.65, false}}};
    static const struct table pageable = {"transfers",
                                          "push-small-pageable",
                                          "Push of many small objects of pageable memory, and the wait",
                                          UNIT_GB_PER_S,
                                          "one cudaMemcpyAsync of as many page-locked bytes, and one wait",
                                          "as many cudaMemcpy"};
    static const struct case_of one_pageable = {10000, 4 * KIB, 10, 0, false};
    for (int i = 0; i < 2; i++) {
        report_table(&tables[i]);
        for (int j = 0; j < CASES; j++)
            measure_case(&tables[i], i == 0 ? UP : DOWN, &cases[i][j]);
    }
    report_table(&pageable);
    measure_case(&pageable, UP_PAGEABLE, &one_pageable);
}

void measure_small_copies(void)
{
    static const struct table table = {
        "copies",      "copy-small", "Copies of many small objects on one device, and the wait",
        UNIT_GB_PER_S, limit,        "as many cudaMemcpyAsync, and one wait"};
    static const struct case_of cases[] = {{10000, 4 * KIB, 20, 0, false}, {10000, 4 * KIB, 20, 0, true}};
    report_table(&table);
    for (int i = 0; i < 2; i++)
        measure_case(&table, ACROSS, &cases[i]);
}

/* ---- Beside kernels ---- */

/* Kernels that leave no multiprocessor idle, on a stream of their own. */
struct busy {
    struct small small;
    struct kernels kernels;
    synced_mem_stream stream;
    atomic_bool is_over;
    double end;
};

static void *await_kernels(void *state)
{
    struct busy *const busy = state;
    bare_wait(busy->stream);
    busy->end = seconds_now();
    atomic_store(&busy->is_over, true);
    return NULL;
}

/* Returns how long the kernels take. A thread waits for them, while this one copies the objects again and again. */
static double time_kernels(struct busy *busy, bool copies)
{
    pthread_t thread;
    atomic_store(&busy->is_over, false);
    const double begin = seconds_now();
    kernels_launch(&busy->kernels, busy->stream);
    must(pthread_create(&thread, NULL, await_kernels, busy) == 0, "no thread");
    while (copies && !atomic_load(&busy->is_over))
        (void)copy_objects(&busy->small);
    must(pthread_join(thread, NULL) == 0, "no end of a thread");
    return busy->end - begin;
}

static double kernels_beside(void *state)
{
    return time_kernels(state, true);
}

static double kernels_alone(void *state)
{
    return time_kernels(state, false);
}

void measure_kernels_beside(void)
{
    static const struct table table = {"transfers",
                                       "kernels-beside",
                                       "Kernels (fills) that use the whole device, beside calls on many small objects",
                                       UNIT_MS,
                                       "the kernels alone",
                                       NULL};
    static const char *const names[] = {[UP] = "push_n", [DOWN] = "pull_n", [ACROSS] = "copies on the device"};
    static const struct way ways[] = {{"beside", kernels_beside}, {"alone", kernels_alone}};
    static const enum direction directions[] = {UP, DOWN, ACROSS};
    report_table(&table);
    for (int i = 0; i < 3; i++) {
        struct busy busy = {.small = {.direction = directions[i], .size = 4 * KIB}};
        struct summary results[3] = {unmeasured, unmeasured, unmeasured};
        char name[64];
        busy.small.count = suite.quick || suite.emulated ? 40 : 10000;
        (void)snprintf(name, sizeof name, "%s, %zu x %s", names[directions[i]], busy.small.count,
                       size_name(busy.small.size));
        struct row row = row_of(&table, name, (double)busy.small.size);
        row_target(&row, TO_LIMIT, AT_MOST, 1.07);
        if (!row_can_run(&row, true, busy.small.size * busy.small.count))
            continue;
        make_small(&busy.small);
        busy.stream = bare_stream_create();
        kernels_make(&busy.kernels, 0.05, busy.stream);
        compare(ways, 2, &busy, results);
        report_times(&row, results, 0);
        kernels_free(&busy.kernels);
        bare_stream_destroy(busy.stream);
        free_small(&busy.small);
    }
}

/* ---- Fills ---- */

/* Every second part of the object has no contents. */
struct parts {
    size_t size; /* of a part */
    size_t count;
    synced_mem *root;
    synced_mem **views; /* 2 * count */
    char *device;
    synced_mem_stream stream;
};

static double zero_parts(void *state)
{
    const struct parts *const on = state;
    for (size_t i = 0; i < on->count; i++)
        must_work(synced_mem_clear(on->views[2 * i]) == SYNCED_MEM_OK);
    bare_wait(on->stream);
    const double begin = seconds_now();
    must_work(synced_mem_gpu_data_on(on->root, on->stream) != NULL);
    bare_wait(on->stream);
    return seconds_now() - begin;
}

static double fill_at_once(void *state)
{
    const struct parts *const on = state;
    const double begin = seconds_now();
    bare_queue_fill(on->device, 0, on->size * on->count, on->stream);
    bare_wait(on->stream);
    return seconds_now() - begin;
}

static double fill_in_loop(void *state)
{
    const struct parts *const on = state;
    const double begin = seconds_now();
    for (size_t i = 0; i < on->count; i++)
        bare_queue_fill(on->device + 2 * i * on->size, 0, on->size, on->stream);
    bare_wait(on->stream);
    return seconds_now() - begin;
}

static void make_parts(struct parts *on)
{
    const size_t bytes = 2 * on->size * on->count;
    on->stream = bare_stream_create();
    on->device = bare_device_alloc(bytes);
    on->root = make_object(bytes);
    on->views = array_of(2 * on->count, sizeof *on->views);
    void *const data = synced_mem_overwrite_gpu_data_on(on->root, on->stream);
    must_work(data != NULL);
    bare_queue_fill(data, 1, bytes, on->stream);
    for (size_t i = 0; i < 2 * on->count; i++)
        must_work(synced_mem_view(&on->views[i], on->root, i * on->size, on->size, NULL) == SYNCED_MEM_OK);
    (void)sm_device_list_processors(synced_mem_device(on->root));
    sm_device_await_lists();
}

static void free_parts(const struct parts *on)
{
    for (size_t i = 0; i < 2 * on->count; i++)
        release_object(on->views[i]);
    release_object(on->root);
    must_work(synced_mem_forget_stream(on->stream) == SYNCED_MEM_OK);
    bare_stream_destroy(on->stream);
    bare_device_free(on->device);
    free(on->views);
}

void measure_small_fills(void)
{
    static const struct table table = {"parts",
                                       "zeros",
                                       "Access to an object in which many parts have no contents, and the wait",
                                       UNIT_US,
                                       "one cudaMemsetAsync of as many bytes, and one wait",
                                       "as many cudaMemsetAsync, and one wait"};
    static const struct way ways[] = {{"zeros", zero_parts}, {"at once", fill_at_once}, {"loop", fill_in_loop}};
    struct parts on = {.size = 4 * KIB, .count = suite.quick || suite.emulated ? 40 : 10000};
    struct summary results[3];
    char name[64];
    (void)snprintf(name, sizeof name, "%zu x %s", on.count, size_name(on.size));
    struct row row = row_of(&table, name, (double)on.count);
    row_target(&row, FASTER, AT_LEAST, 20);
    report_table(&table);
    if (!row_can_run(&row, true, 2 * on.size * on.count))
        return;
    make_parts(&on);
    compare(ways, 3, &on, results);
    report_times(&row, results, 0);
    free_parts(&on);
}
