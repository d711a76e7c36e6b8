/*
 * A queue of batches between a loader's process and a trainer's: a ring of shareable objects, whose slot the trainer
 * has. The loader writes a part of each batch, so that the transfer to the trainer's GPU takes most of the time. The
 * limit is the same ring in one process.
 */
#include "bare.h"
#include "measure.h"
#include "other.h"
#include "report.h"
#include "suite.h"

#include <string.h>

enum { RING = 3, OWN = 2, BATCHES = 24, QUICK_BATCHES = 4, SLOT = 0, WRITTEN = 4096, TIMEOUT_MS = 60000 };
enum job { MAKE = 1, MAKE_ON_DEVICE, LOAD, LOAD_AND_PUSH, RELEASE };

static int count_batches(void)
{
    return suite.quick ? QUICK_BATCHES : BATCHES;
}

static size_t batch_size(void)
{
    return suite.largest < 64 * (size_t)MIB ? suite.largest : 64 * (size_t)MIB;
}

static void write_batch(synced_mem *batch, bool pushes, synced_mem_stream stream)
{
    void *const data = synced_mem_mutable_cpu_data(batch);
    must_work(data != NULL);
    memset(data, 1, WRITTEN);
    if (pushes)
        must_work(synced_mem_async_gpu_push(batch, stream) == SYNCED_MEM_OK);
}

/* ---- The loader ---- */

struct loader {
    synced_mem *ring[RING];
    int next; /* the object of the next batch */
};

/* The first version has no batch: the slot is taken after it. */
static void make_ring(struct loader *loader, bool on_device, int socket)
{
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.shareable = SYNCED_MEM_SHAREABLE_SAME_USER;
    options.device = on_device ? 0 : SYNCED_MEM_DEVICE_CURRENT;
    loader->next = 0;
    for (int i = 0; i < RING; i++) {
        must_work(synced_mem_create(&loader->ring[i], batch_size(), &options) == SYNCED_MEM_OK);
        must_work(synced_mem_overwrite_cpu_data(loader->ring[i]) != NULL);
        must_work(synced_mem_share(loader->ring[i], socket, TIMEOUT_MS) == SYNCED_MEM_OK);
        must_work(synced_mem_end_turn(loader->ring[i]) == SYNCED_MEM_OK);
        must_work(synced_mem_take_slot(loader->ring[i], SLOT, NULL) == SYNCED_MEM_OK);
    }
}

static void load(struct loader *loader, bool pushes)
{
    for (int i = 0; i < count_batches(); i++) {
        synced_mem *const batch = loader->ring[loader->next];
        must_work(synced_mem_begin_consumed_turn(batch, SYNCED_MEM_SIDE_CPU, TIMEOUT_MS) == SYNCED_MEM_OK);
        write_batch(batch, pushes, SYNCED_MEM_STREAM_LIBRARY);
        must_work(synced_mem_end_turn(batch) == SYNCED_MEM_OK);
        loader->next = (loader->next + 1) % RING;
    }
}

static void be_the_loader(struct other_words *words, int socket)
{
    struct loader loader = {.next = 0};
    unsigned job;
    while ((job = other_next(words)) != 0) {
        if (job == MAKE || job == MAKE_ON_DEVICE)
            make_ring(&loader, job == MAKE_ON_DEVICE, socket);
        else if (job == RELEASE)
            for (int i = 0; i < RING; i++)
                must_work(synced_mem_release(loader.ring[i]) == SYNCED_MEM_OK);
        else
            load(&loader, job == LOAD_AND_PUSH);
        other_done(words);
    }
}

/* ---- The trainer: this process ---- */

struct queue {
    struct other other;
    bool loader_pushes;
    synced_mem *ring[RING];  /* the loader's */
    synced_mem *alone[RING]; /* of this process alone */
    synced_mem *own[OWN];
    int next;
    synced_mem_stream stream;
};

static void copy_to_own(struct queue *queue, int number, synced_mem *batch)
{
    must_work(synced_mem_async_gpu_copy(queue->own[number % OWN], batch, queue->stream) == SYNCED_MEM_OK);
}

/* Each turn ends one batch later. */
static double train_from_other(void *state)
{
    struct queue *const queue = state;
    const synced_mem_side side = queue->loader_pushes ? SYNCED_MEM_SIDE_GPU : SYNCED_MEM_SIDE_CPU;
    synced_mem *before = NULL;
    const double begin = seconds_now();
    other_begin(&queue->other, queue->loader_pushes ? LOAD_AND_PUSH : LOAD);
    for (int i = 0; i < count_batches(); i++) {
        synced_mem *const batch = queue->ring[queue->next];
        queue->next = (queue->next + 1) % RING;
        must_work(synced_mem_begin_slot_turn(batch, side, SLOT, TIMEOUT_MS) == SYNCED_MEM_OK);
        copy_to_own(queue, i, batch);
        if (before)
            must_work(synced_mem_end_turn(before) == SYNCED_MEM_OK);
        before = batch;
    }
    must_work(synced_mem_end_turn(before) == SYNCED_MEM_OK);
    const double end = seconds_now();
    other_wait(&queue->other);
    return (end - begin) / count_batches();
}

/* A write waits for the copy of the batch that was there before. */
static double train_alone(void *state)
{
    struct queue *const queue = state;
    const double begin = seconds_now();
    for (int i = 0; i < count_batches(); i++) {
        synced_mem *const batch = queue->alone[i % RING];
        write_batch(batch, queue->loader_pushes, queue->stream);
        copy_to_own(queue, i, batch);
    }
    bare_wait(queue->stream);
    return (seconds_now() - begin) / count_batches();
}

static synced_mem *make_own(void)
{
    synced_mem *mem;
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.device = 0;
    must_work(synced_mem_create(&mem, batch_size(), &options) == SYNCED_MEM_OK);
    return mem;
}

static void begin_queue(struct queue *queue)
{
    other_begin(&queue->other, queue->loader_pushes ? MAKE_ON_DEVICE : MAKE);
    for (int i = 0; i < RING; i++)
        must_work(synced_mem_receive(&queue->ring[i], queue->other.socket, TIMEOUT_MS) == SYNCED_MEM_OK);
    other_wait(&queue->other);
    for (int i = 0; i < RING; i++)
        queue->alone[i] = make_own();
    for (int i = 0; i < OWN; i++)
        queue->own[i] = make_own();
    queue->next = 0;
    queue->stream = bare_stream_create();
}

static void end_queue(struct queue *queue)
{
    other_begin(&queue->other, RELEASE);
    other_wait(&queue->other);
    for (int i = 0; i < RING; i++) {
        must_work(synced_mem_release(queue->ring[i]) == SYNCED_MEM_OK);
        must_work(synced_mem_release(queue->alone[i]) == SYNCED_MEM_OK);
    }
    for (int i = 0; i < OWN; i++)
        must_work(synced_mem_release(queue->own[i]) == SYNCED_MEM_OK);
    must_work(synced_mem_forget_stream(queue->stream) == SYNCED_MEM_OK);
    bare_stream_destroy(queue->stream);
}

/* ---- Rows ---- */

static void measure_way(const struct table *table, struct queue *queue, bool loader_pushes)
{
    static const struct way ways[] = {{"synced_mem", train_from_other}, {"one process", train_alone}};
    struct summary results[3] = {unmeasured, unmeasured, unmeasured};
    struct row row = row_of(table, size_name(batch_size()), (double)batch_size());
    report_table(table);
    row_target(&row, TO_LIMIT, AT_LEAST, 0.95);
    if (!row_can_run(&row, true, 0))
        return;
    queue->loader_pushes = loader_pushes;
    begin_queue(queue);
    compare(ways, 2, queue, results);
    report_times(&row, results, (double)batch_size());
    end_queue(queue);
}

void measure_queue(void)
{
    static const struct table copies = {"queue",
                                        "copied",
                                        "Batches of a loader without a GPU, which the trainer copies to its GPU",
                                        UNIT_GB_PER_S,
                                        "the same ring in one process",
                                        NULL};
    static const struct table pushes = {"queue",
                                        "pushed",
                                        "Batches that a loader pushes in its turn; the trainer copies on its GPU",
                                        UNIT_GB_PER_S,
                                        "the same ring in one process",
                                        NULL};
    struct queue queue = {.other = other_start(be_the_loader)};
    measure_way(&copies, &queue, false);
    measure_way(&pushes, &queue, true);
    other_end(&queue.other);
}
