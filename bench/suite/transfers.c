/*
 * Transfers of page-locked and pageable memory, one way and both ways at once. Up to 64 MiB they go round a ring of
 * objects, so that the host's memory is read and not its caches.
 */
#include "bare.h"
#include "pattern.h"
#include "report.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SLOTS = 256 };

static const size_t sizes[] = {4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB,         1 * MIB,
                               4 * MIB, 16 * MIB, 64 * MIB, (size_t)256 * MIB, (size_t)GIB};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* A slot has an object of the library's, and the same memory by the runtime's calls alone. */
struct slot {
    synced_mem *mem;
    char *host;
    void *device;
};

struct ring {
    size_t size;
    int slots;
    struct slot slot[MAX_SLOTS];
    int at[3]; /* the slot each way comes to next */
    char *pinned, *pageable;
    void *device;
    synced_mem_stream stream, other;
};

enum { OURS, LIMIT, CLASSIC };

static const struct slot *next(struct ring *ring, int way)
{
    ring->at[way] = (ring->at[way] + 1) % ring->slots;
    return &ring->slot[ring->at[way]];
}

/* ---- Making a ring ---- */

/* Whether a ring's objects borrow pageable memory. */
enum host { PINNED, PAGEABLE };

static synced_mem *make_object(const struct ring *ring, int slot, enum host host)
{
    synced_mem_options options;
    synced_mem *mem;
    synced_mem_options_init(&options);
    options.device = 0;
    must_work(synced_mem_create(&mem, ring->size, &options) == SYNCED_MEM_OK);
    if (host == PAGEABLE) {
        must_work(synced_mem_set_cpu_data(mem, ring->pageable + (size_t)slot * ring->size) == SYNCED_MEM_OK);
    } else {
        void *const data = synced_mem_overwrite_cpu_data(mem);
        must_work(data != NULL);
        pattern_fill(data, ring->size, (uint64_t)slot);
        must(synced_mem_cpu_is_pinned(mem), "the library's host memory is not page-locked");
    }
    must_work(synced_mem_gpu_data(mem) != NULL);
    return mem;
}

static int slots_for(size_t size, int fewest)
{
    const size_t slots = suite.ring / size;
    return slots > MAX_SLOTS ? MAX_SLOTS : (int)slots > fewest ? (int)slots : fewest;
}

static struct ring *make_ring(size_t size, enum host host, int fewest)
{
    struct ring *const ring = calloc(1, sizeof *ring);
    must(ring != NULL, "no memory");
    ring->size = size;
    ring->slots = slots_for(size, fewest);
    const size_t all = size * (size_t)ring->slots;
    ring->pinned = bare_host_alloc(all);
    ring->device = bare_device_alloc(all);
    ring->pageable = host == PAGEABLE ? malloc(all) : NULL;
    must(host == PINNED || ring->pageable, "no memory");
    ring->at[LIMIT] = ring->slots / 3; /* so that no way finds in a cache what another has read */
    ring->at[CLASSIC] = 2 * ring->slots / 3;
    ring->stream = bare_stream_create();
    ring->other = bare_stream_create();
    for (int i = 0; i < ring->slots; i++) {
        struct slot *const slot = &ring->slot[i];
        slot->host = ring->pinned + (size_t)i * size;
        slot->device = (char *)ring->device + (size_t)i * size;
        pattern_fill(slot->host, size, (uint64_t)i);
        if (host == PAGEABLE)
            memcpy(ring->pageable + (size_t)i * size, slot->host, size);
        bare_copy_up(slot->device, slot->host, size);
        slot->mem = make_object(ring, i, host);
    }
    return ring;
}

/* What was moved about is what it was, on either side. */
static void free_ring(struct ring *ring)
{
    for (int i = 0; i < ring->slots; i++) {
        synced_mem *const mem = ring->slot[i].mem;
        must_work(synced_mem_mutable_gpu_data(mem) != NULL);
        const void *const data = synced_mem_cpu_data(mem);
        must_work(data != NULL);
        pattern_check(data, ring->size, (uint64_t)i);
        bare_copy_down(ring->slot[i].host, ring->slot[i].device, ring->size);
        pattern_check(ring->slot[i].host, ring->size, (uint64_t)i);
        must_work(synced_mem_release(mem) == SYNCED_MEM_OK);
    }
    must_work(synced_mem_stream_done(ring->stream) == SYNCED_MEM_OK);
    must_work(synced_mem_stream_done(ring->other) == SYNCED_MEM_OK);
    bare_stream_destroy(ring->stream);
    bare_stream_destroy(ring->other);
    bare_device_free(ring->device);
    bare_host_free(ring->pinned);
    free(ring->pageable);
    free(ring);
}

/* ---- One way, page-locked ---- */

static double push(void *state)
{
    struct ring *const ring = state;
    synced_mem *const mem = next(ring, OURS)->mem;
    must_work(synced_mem_mutable_cpu_data(mem) != NULL);
    const double begin = seconds_now();
    must_work(synced_mem_async_gpu_push(mem, ring->stream) == SYNCED_MEM_OK);
    bare_wait(ring->stream);
    return seconds_now() - begin;
}

static double pull(void *state)
{
    struct ring *const ring = state;
    synced_mem *const mem = next(ring, OURS)->mem;
    must_work(synced_mem_mutable_gpu_data_on(mem, ring->stream) != NULL);
    const double begin = seconds_now();
    must_work(synced_mem_async_cpu_pull(mem, ring->stream) == SYNCED_MEM_OK);
    bare_wait(ring->stream);
    return seconds_now() - begin;
}

static double bare_up(void *state)
{
    struct ring *const ring = state;
    const struct slot *const slot = next(ring, LIMIT);
    const double begin = seconds_now();
    bare_queue_up(slot->device, slot->host, ring->size, ring->stream);
    bare_wait(ring->stream);
    return seconds_now() - begin;
}

static double bare_down(void *state)
{
    struct ring *const ring = state;
    const struct slot *const slot = next(ring, LIMIT);
    const double begin = seconds_now();
    bare_queue_down(slot->host, slot->device, ring->size, ring->stream);
    bare_wait(ring->stream);
    return seconds_now() - begin;
}

static double classic_up(void *state)
{
    struct ring *const ring = state;
    const struct slot *const slot = next(ring, CLASSIC);
    const double begin = seconds_now();
    bare_copy_up(slot->device, slot->host, ring->size);
    return seconds_now() - begin;
}

static double classic_down(void *state)
{
    struct ring *const ring = state;
    const struct slot *const slot = next(ring, CLASSIC);
    const double begin = seconds_now();
    bare_copy_down(slot->host, slot->device, ring->size);
    return seconds_now() - begin;
}

static const struct way pushes[] = {{"push", push}, {"cudaMemcpyAsync", bare_up}, {"cudaMemcpy", classic_up}};
static const struct way pulls[] = {{"pull", pull}, {"cudaMemcpyAsync", bare_down}, {"cudaMemcpy", classic_down}};

static void pinned_target(struct row *row, size_t size)
{
    if (row->table->unit == UNIT_US && size == 4 * KIB)
        row_target(row, OVER_LIMIT, AT_MOST, 1);
    if (row->table->unit == UNIT_GB_PER_S && size >= MIB)
        row_target(row, TO_LIMIT, AT_LEAST, size < 16 * MIB ? 0.97 : 0.99);
}

/* Each object is moved once in this way before it counts: at first the device copy has been asked for without a stream. */
static void go_round(struct ring *ring, const struct way *ways)
{
    for (int i = 0; i < ring->slots; i++)
        (void)ways[OURS].run(ring);
}

static uint64_t transfers_made(void)
{
    synced_mem_stats stats = {.struct_size = sizeof stats};
    must_work(synced_mem_get_stats(&stats) == SYNCED_MEM_OK);
    return stats.h2d_transfers + stats.d2h_transfers;
}

/* objects: how many are moved at a time. */
static void measure_sizes(const struct table *table, const struct way *ways, enum host host, size_t most, int objects,
                          void (*target)(struct row *row, size_t size))
{
    report_table(table);
    for (int i = 0; i < SIZES && sizes[i] <= most; i++) {
        struct summary results[3];
        struct row row = row_of(table, size_name(sizes[i]), (double)sizes[i]);
        target(&row, sizes[i]);
        if (!row_can_run(&row, true, sizes[i]))
            continue;
        struct ring *const ring = make_ring(sizes[i], host, objects);
        go_round(ring, ways);
        const uint64_t before = transfers_made();
        compare(ways, 3, ring, results);
        must(transfers_made() - before >= (uint64_t)(objects * (results[OURS].rounds + 1)),
             "wrong result: nothing moved");
        report_times(&row, results, objects * (double)sizes[i]);
        free_ring(ring);
    }
}

static const char limit[] = "cudaMemcpyAsync from and to memory of cudaMallocHost, and cudaStreamSynchronize";

void measure_pinned_transfers(void)
{
    static const struct table up = {"transfers",   "push", "Push of page-locked memory",
                                    UNIT_GB_PER_S, limit,  "cudaMemcpy, as Caffe's gpu_data()"};
    static const struct table down = {"transfers",   "pull", "Pull into page-locked memory",
                                      UNIT_GB_PER_S, limit,  "cudaMemcpy, as Caffe's cpu_data()"};
    static const struct table small_up = {"transfers", "push-latency", "A small push, and the wait for it",
                                          UNIT_US,     limit,          "cudaMemcpy, as Caffe's gpu_data()"};
    static const struct table small_down = {"transfers", "pull-latency", "A small pull, and the wait for it",
                                            UNIT_US,     limit,          "cudaMemcpy, as Caffe's cpu_data()"};
    measure_sizes(&small_up, pushes, PINNED, 64 * KIB, 1, pinned_target);
    measure_sizes(&small_down, pulls, PINNED, 64 * KIB, 1, pinned_target);
    measure_sizes(&up, pushes, PINNED, GIB, 1, pinned_target);
    measure_sizes(&down, pulls, PINNED, GIB, 1, pinned_target);
}

/* ---- Both ways at once ---- */

static double both(void *state)
{
    struct ring *const ring = state;
    synced_mem *const up = next(ring, OURS)->mem;
    synced_mem *const down = next(ring, OURS)->mem;
    must_work(synced_mem_mutable_cpu_data(up) != NULL);
    must_work(synced_mem_mutable_gpu_data_on(down, ring->other) != NULL);
    const double begin = seconds_now();
    must_work(synced_mem_async_gpu_push(up, ring->stream) == SYNCED_MEM_OK);
    must_work(synced_mem_async_cpu_pull(down, ring->other) == SYNCED_MEM_OK);
    bare_wait(ring->stream);
    bare_wait(ring->other);
    return seconds_now() - begin;
}

static double bare_both(void *state)
{
    struct ring *const ring = state;
    const struct slot *const up = next(ring, LIMIT);
    const struct slot *const down = next(ring, LIMIT);
    const double begin = seconds_now();
    bare_queue_up(up->device, up->host, ring->size, ring->stream);
    bare_queue_down(down->host, down->device, ring->size, ring->other);
    bare_wait(ring->stream);
    bare_wait(ring->other);
    return seconds_now() - begin;
}

static double classic_both(void *state)
{
    struct ring *const ring = state;
    const struct slot *const up = next(ring, CLASSIC);
    const struct slot *const down = next(ring, CLASSIC);
    const double begin = seconds_now();
    bare_copy_up(up->device, up->host, ring->size);
    bare_copy_down(down->host, down->device, ring->size);
    return seconds_now() - begin;
}

static void both_target(struct row *row, size_t size)
{
    if (size >= MIB)
        row_target(row, TO_LIMIT, AT_LEAST, 0.95);
}

void measure_both_directions(void)
{
    static const struct table table = {"transfers",
                                       "both",
                                       "A push and a pull of different objects at once, page-locked, bytes of both",
                                       UNIT_GB_PER_S,
                                       "cudaMemcpyAsync on two streams",
                                       "two cudaMemcpy, one after the other"};
    static const struct way ways[] = {
        {"push and pull", both}, {"cudaMemcpyAsync", bare_both}, {"cudaMemcpy", classic_both}};
    measure_sizes(&table, ways, PINNED, GIB, 2, both_target);
}

/* ---- Pageable ---- */

static double access_gpu(void *state)
{
    struct ring *const ring = state;
    synced_mem *const mem = next(ring, OURS)->mem;
    must_work(synced_mem_mutable_cpu_data(mem) != NULL);
    const double begin = seconds_now();
    must_work(synced_mem_gpu_data(mem) != NULL);
    return seconds_now() - begin;
}

static double access_cpu(void *state)
{
    struct ring *const ring = state;
    synced_mem *const mem = next(ring, OURS)->mem;
    must_work(synced_mem_mutable_gpu_data(mem) != NULL);
    const double begin = seconds_now();
    must_work(synced_mem_cpu_data(mem) != NULL);
    return seconds_now() - begin;
}

/* The object's own pageable memory. */
static char *pageable_of(const struct ring *ring, const struct slot *slot)
{
    return ring->pageable + (slot - ring->slot) * (ptrdiff_t)ring->size;
}

static double pageable_up(void *state)
{
    struct ring *const ring = state;
    const struct slot *const slot = next(ring, CLASSIC);
    const double begin = seconds_now();
    bare_copy_up(slot->device, pageable_of(ring, slot), ring->size);
    bare_wait(NULL); /* it may return before the last bytes have left the runtime's buffer */
    return seconds_now() - begin;
}

static double pageable_down(void *state)
{
    struct ring *const ring = state;
    const struct slot *const slot = next(ring, CLASSIC);
    const double begin = seconds_now();
    bare_copy_down(pageable_of(ring, slot), slot->device, ring->size);
    return seconds_now() - begin;
}

static void pageable_up_target(struct row *row, size_t size)
{
    if (size < (size_t)256 * MIB)
        return;
    row_target(row, VALUE, AT_LEAST, 40);
    row_target(row, FASTER, AT_LEAST, 5);
}

static void pageable_down_target(struct row *row, size_t size)
{
    if (size >= (size_t)256 * MIB)
        row_target(row, TO_LIMIT, AT_LEAST, 0.7);
}

void measure_pageable_transfers(void)
{
    static const struct table up = {"transfers",
                                    "pageable-up",
                                    "gpu_data of the caller's pageable memory",
                                    UNIT_GB_PER_S,
                                    "cudaMemcpyAsync from page-locked memory",
                                    "cudaMemcpy"};
    static const struct table down = {"transfers",
                                      "pageable-down",
                                      "cpu_data into the caller's pageable memory",
                                      UNIT_GB_PER_S,
                                      "cudaMemcpyAsync into page-locked memory",
                                      "cudaMemcpy"};
    static const struct way ups[] = {
        {"gpu_data", access_gpu}, {"cudaMemcpyAsync", bare_up}, {"cudaMemcpy", pageable_up}};
    static const struct way downs[] = {
        {"cpu_data", access_cpu}, {"cudaMemcpyAsync", bare_down}, {"cudaMemcpy", pageable_down}};
    measure_sizes(&up, ups, PAGEABLE, GIB, 1, pageable_up_target);
    measure_sizes(&down, downs, PAGEABLE, GIB, 1, pageable_down_target);
}

/* ---- How staged transfers are set ---- */

static void sweep(const struct table *table, const struct way *ways)
{
    static const unsigned threads[] = {2, 4, 8, 15};
    static const size_t buffers[] = {512 * KIB, 1 * MIB, 2 * MIB, 4 * MIB};
    const size_t size = suite.largest < (size_t)256 * MIB ? suite.largest : (size_t)256 * MIB;
    report_table(table);
    for (int i = 0; i < 16; i++) {
        char name[64];
        struct summary results[3];
        const synced_mem_staging staging = {.struct_size = sizeof staging,
                                            .threads = threads[i / 4],
                                            .buffer_bytes = buffers[i % 4],
                                            .minimum_bytes = 64 * KIB};
        (void)snprintf(name, sizeof name, "%u copy threads, %s", staging.threads, size_name(staging.buffer_bytes));
        struct row row = row_of(table, name, (double)staging.buffer_bytes);
        if (!row_can_run(&row, true, size))
            continue;
        must_work(synced_mem_set_staging(&staging) == SYNCED_MEM_OK);
        struct ring *const ring = make_ring(size, PAGEABLE, 1);
        compare(ways, 3, ring, results);
        report_times(&row, results, (double)size);
        free_ring(ring);
        must_work(synced_mem_shutdown() == SYNCED_MEM_OK); /* so that the threads start anew */
    }
}

void measure_staging(void)
{
    static const struct table up = {"staging",
                                    "up",
                                    "gpu_data of 256 MiB of pageable memory, by how it is staged",
                                    UNIT_GB_PER_S,
                                    "cudaMemcpyAsync from page-locked memory",
                                    "cudaMemcpy"};
    static const struct table down = {"staging",
                                      "down",
                                      "cpu_data into 256 MiB of pageable memory, by how it is staged",
                                      UNIT_GB_PER_S,
                                      "cudaMemcpyAsync into page-locked memory",
                                      "cudaMemcpy"};
    static const struct way ups[] = {
        {"gpu_data", access_gpu}, {"cudaMemcpyAsync", bare_up}, {"cudaMemcpy", pageable_up}};
    static const struct way downs[] = {
        {"cpu_data", access_cpu}, {"cudaMemcpyAsync", bare_down}, {"cudaMemcpy", pageable_down}};
    sweep(&up, ups);
    sweep(&down, downs);
}
