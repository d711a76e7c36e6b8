/* Device memory that another process uses too: until the process has it, and until it reads fresh contents. */
#include "bare.h"
#include "measure.h"
#include "other.h"
#include "report.h"
#include "suite.h"

#include <unistd.h>

enum { TIMEOUT_MS = 60000, A_WHILE_US = 2000, READ_BYTES = 4096, LARGE = 20, DEVICES = 2, MOST_VIEWS = 10000 };
enum job { RECEIVE = 1, RELEASE, READ, READ_BARE, COPY, COPY_BARE, USE_FEW_VIEWS, USE_MANY_VIEWS };

/* One for each device, created at first use. */
struct streams {
    synced_mem_stream of[DEVICES];
};

static synced_mem_stream get_stream(struct streams *streams, int device)
{
    if (!streams->of[device])
        streams->of[device] = bare_stream_create_on(device);
    return streams->of[device];
}

static void destroy_streams(const struct streams *streams)
{
    for (int i = 0; i < DEVICES; i++)
        if (streams->of[i]) {
            must_work(synced_mem_forget_stream(streams->of[i]) == SYNCED_MEM_OK);
            bare_stream_destroy(streams->of[i]);
        }
}

/* ---- The other process ---- */

/* It reads by copies on the device, the first kernels of their stream. For copies it has memory on device 1. */
struct reader {
    struct other_words *words;
    synced_mem *mem, *own;
    void *from, *to, *to_peer;
    size_t size;
    struct streams streams;
};

static void receive(struct reader *reader, int socket)
{
    must_work(synced_mem_receive(&reader->mem, socket, TIMEOUT_MS) == SYNCED_MEM_OK);
    must_work(synced_mem_begin_turn(reader->mem, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_TURN_READ, TIMEOUT_MS) ==
              SYNCED_MEM_OK);
    must_work(synced_mem_gpu_data_on(reader->mem, get_stream(&reader->streams, synced_mem_device(reader->mem))) !=
              NULL);
    reader->words->seconds = seconds_now();
    must_work(synced_mem_end_turn(reader->mem) == SYNCED_MEM_OK);
}

/* As a server of a model does: it gets a pointer to each tensor, and all are there already. */
static int count_views(bool many)
{
    return (many ? MOST_VIEWS : MOST_VIEWS / 10) / (suite.quick ? 100 : 1);
}

static void receive_and_view(struct reader *reader, int socket, int count)
{
    static synced_mem *views[MOST_VIEWS];
    must_work(synced_mem_receive(&reader->mem, socket, TIMEOUT_MS) == SYNCED_MEM_OK);
    must_work(synced_mem_begin_turn(reader->mem, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_TURN_READ, TIMEOUT_MS) ==
              SYNCED_MEM_OK);
    const size_t size = synced_mem_size(reader->mem) / (size_t)count;
    const synced_mem_stream stream = get_stream(&reader->streams, synced_mem_device(reader->mem));
    for (int i = 0; i < count; i++) {
        must_work(synced_mem_view(&views[i], reader->mem, (size_t)i * size, size, NULL) == SYNCED_MEM_OK);
        must_work(synced_mem_gpu_data_on(views[i], stream) != NULL);
    }
    reader->words->seconds = seconds_now();
    for (int i = 0; i < count; i++)
        must_work(synced_mem_release(views[i]) == SYNCED_MEM_OK);
    must_work(synced_mem_end_turn(reader->mem) == SYNCED_MEM_OK);
}

static void begin_reader(struct reader *reader)
{
    reader->size = suite.largest;
    reader->to = bare_device_alloc(READ_BYTES);
    reader->from = bare_device_alloc(reader->size);
}

/* Obtains the memory on device 1. */
static void begin_copies(struct reader *reader)
{
    synced_mem_options options;
    if (reader->own)
        return;
    synced_mem_options_init(&options);
    options.device = 1;
    must_work(synced_mem_create(&reader->own, reader->size, &options) == SYNCED_MEM_OK);
    reader->to_peer = bare_device_alloc_on(1, reader->size);
    bare_let_reach(0, 1);
}

static void end_reader(struct reader *reader)
{
    must_work(synced_mem_release(reader->own) == SYNCED_MEM_OK);
    if (reader->to_peer)
        bare_device_free(reader->to_peer);
    bare_device_free(reader->from);
    bare_device_free(reader->to);
    destroy_streams(&reader->streams);
}

static void read_object(struct reader *reader, bool copies)
{
    const synced_mem_stream stream = get_stream(&reader->streams, 0);
    must_work(synced_mem_begin_turn(reader->mem, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_TURN_READ, TIMEOUT_MS) ==
              SYNCED_MEM_OK);
    if (copies) {
        must_work(synced_mem_async_gpu_copy(reader->own, reader->mem, stream) == SYNCED_MEM_OK);
    } else {
        const void *const data = synced_mem_gpu_data_on(reader->mem, stream);
        must_work(data != NULL);
        bare_queue_across(reader->to, data, READ_BYTES, stream);
    }
    bare_wait(stream);
    reader->words->seconds = seconds_now();
    must_work(synced_mem_end_turn(reader->mem) == SYNCED_MEM_OK);
}

static void read_bare(struct reader *reader, bool copies)
{
    const synced_mem_stream stream = get_stream(&reader->streams, 0);
    sleep_while(&reader->words->ball, 0);
    if (copies)
        bare_queue_peer(reader->to_peer, 1, reader->from, 0, reader->size, stream);
    else
        bare_queue_across(reader->to, reader->from, READ_BYTES, stream);
    bare_wait(stream);
    reader->words->seconds = seconds_now();
    atomic_store(&reader->words->ball, 0);
}

static void be_the_reader(struct other_words *words, int socket)
{
    struct reader reader = {.words = words};
    unsigned job;
    while ((job = other_next(words)) != 0) {
        if (!reader.to)
            begin_reader(&reader);
        if (job == COPY || job == COPY_BARE)
            begin_copies(&reader);
        if (job == RECEIVE)
            receive(&reader, socket);
        else if (job == USE_FEW_VIEWS || job == USE_MANY_VIEWS)
            receive_and_view(&reader, socket, count_views(job == USE_MANY_VIEWS));
        else if (job == RELEASE)
            must_work(synced_mem_release(reader.mem) == SYNCED_MEM_OK);
        else if (job == READ || job == COPY)
            read_object(&reader, job == COPY);
        else
            read_bare(&reader, job == COPY_BARE);
        other_done(words);
    }
    if (reader.to)
        end_reader(&reader);
}

/* ---- This process ---- */

struct shared {
    struct other other;
    size_t size;
    int device;
    synced_mem *mem;
    void *own;       /* device memory that is not shared */
    bool many_views; /* that the other process makes */
    struct streams streams;
};

static void create(struct shared *shared)
{
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.shareable = SYNCED_MEM_SHAREABLE_SAME_USER;
    options.device = shared->device;
    must_work(synced_mem_create(&shared->mem, shared->size, &options) == SYNCED_MEM_OK);
}

static void write_contents(struct shared *shared)
{
    const synced_mem_stream stream = get_stream(&shared->streams, 0);
    void *const data = synced_mem_overwrite_gpu_data_on(shared->mem, stream);
    must_work(data != NULL);
    bare_queue_fill(data, 1, READ_BYTES, stream);
    bare_wait(stream);
}

/* Returns the seconds until the other process has its pointer. */
static double share(struct shared *shared)
{
    const synced_mem_stream stream = get_stream(&shared->streams, shared->device);
    other_begin(&shared->other, RECEIVE);
    const double begin = seconds_now();
    must_work(synced_mem_share(shared->mem, shared->other.socket, TIMEOUT_MS) == SYNCED_MEM_OK);
    must_work(synced_mem_overwrite_gpu_data_on(shared->mem, stream) != NULL);
    must_work(synced_mem_end_turn(shared->mem) == SYNCED_MEM_OK);
    other_wait(&shared->other);
    return shared->other.words->seconds - begin;
}

static void release(const struct shared *shared)
{
    other_begin(&shared->other, RELEASE);
    other_wait(&shared->other);
    must_work(synced_mem_release(shared->mem) == SYNCED_MEM_OK);
}

static double share_new_object(void *state)
{
    struct shared *const shared = state;
    create(shared);
    const double took = share(shared);
    release(shared);
    return took;
}

/* This process has a turn to read, as a keeper of weights has. */
static double share_to_server(void *state)
{
    struct shared *const shared = state;
    create(shared);
    must_work(synced_mem_overwrite_gpu_data_on(shared->mem, get_stream(&shared->streams, shared->device)) != NULL);
    must_work(synced_mem_end_turn(shared->mem) == SYNCED_MEM_OK);
    must_work(synced_mem_begin_turn(shared->mem, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_TURN_READ, TIMEOUT_MS) ==
              SYNCED_MEM_OK);
    other_begin(&shared->other, shared->many_views ? USE_MANY_VIEWS : USE_FEW_VIEWS);
    const double begin = seconds_now();
    must_work(synced_mem_share(shared->mem, shared->other.socket, TIMEOUT_MS) == SYNCED_MEM_OK);
    other_wait(&shared->other);
    release(shared);
    return shared->other.words->seconds - begin;
}

/* The other process waits for its turn by then. */
static double publish(struct shared *shared, enum job job)
{
    must_work(synced_mem_begin_turn(shared->mem, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_TURN_WRITE, TIMEOUT_MS) ==
              SYNCED_MEM_OK);
    write_contents(shared);
    other_begin(&shared->other, job);
    (void)usleep(A_WHILE_US);
    const double begin = seconds_now();
    must_work(synced_mem_end_turn(shared->mem) == SYNCED_MEM_OK);
    other_wait(&shared->other);
    return shared->other.words->seconds - begin;
}

/* A device that changes from one process to the other takes its time, so this process works on it here too. */
static double publish_bare(struct shared *shared, enum job job)
{
    const synced_mem_stream stream = get_stream(&shared->streams, 0);
    bare_queue_fill(shared->own, 1, READ_BYTES, stream);
    bare_wait(stream);
    other_begin(&shared->other, job);
    (void)usleep(A_WHILE_US);
    const double begin = seconds_now();
    store_and_wake(&shared->other.words->ball, 1);
    other_wait(&shared->other);
    return shared->other.words->seconds - begin;
}

static double publish_to_reader(void *state)
{
    return publish(state, READ);
}

static double publish_to_copier(void *state)
{
    return publish(state, COPY);
}

static double wake_reader(void *state)
{
    return publish_bare(state, READ_BARE);
}

static double wake_copier(void *state)
{
    return publish_bare(state, COPY_BARE);
}

/* ---- Rows ---- */

static bool can_run(struct row *row, const struct shared *shared)
{
    if (!row_can_run(row, true, 0))
        return false;
    if (shared->device > 0 && synced_mem_device_count() < 2)
        report_skip(row, "there is one GPU");
    else if (shared->size + 3 * suite.largest > bare_device_room())
        report_skip(row, "the device has too little memory");
    else
        return true;
    return false;
}

static void measure_share(const struct table *table, struct shared *shared, size_t size, int device, double target)
{
    static const struct way ways[] = {{"synced_mem", share_new_object}};
    char name[64];
    struct summary results[3] = {unmeasured, unmeasured, unmeasured};
    (void)snprintf(name, sizeof name, "%s%s", size_name(size), device > 0 ? ", on device 1" : "");
    struct row row = row_of(table, name, (double)size);
    shared->size = size;
    shared->device = device;
    row_target(&row, VALUE, AT_MOST, target);
    if (!can_run(&row, shared))
        return;
    compare(ways, 1, shared, results);
    report_times(&row, results, 0);
}

static void measure_shares(struct shared *shared)
{
    static const struct table table = {
        "shared", "share", "Device memory for another process: share, receive, its first pointer", UNIT_MS, NULL, NULL};
    report_table(&table);
    measure_share(&table, shared, suite.largest, 0, 3);
    measure_share(&table, shared, LARGE * suite.largest, 0, 10);
    measure_share(&table, shared, suite.largest, 1, 15);
    measure_share(&table, shared, LARGE * suite.largest, 1, 15);
}

static void measure_views(struct shared *shared)
{
    static const struct table table = {
        "shared", "served", "Weights for another process: share, receive, a pointer of each view", UNIT_MS, NULL, NULL};
    static const struct way ways[] = {{"synced_mem", share_to_server}};
    report_table(&table);
    for (int many = 0; many < 2; many++) {
        struct summary results[3] = {unmeasured, unmeasured, unmeasured};
        char name[64];
        (void)snprintf(name, sizeof name, "%s in %d views", size_name(LARGE * suite.largest), count_views(many));
        struct row row = row_of(&table, name, count_views(many));
        shared->size = LARGE * suite.largest;
        shared->device = 0;
        shared->many_views = many;
        row_target(&row, VALUE, AT_MOST, many ? 20 : 10);
        if (!can_run(&row, shared))
            continue;
        compare(ways, 1, shared, results);
        report_times(&row, results, 0);
    }
}

static void measure_fresh(const struct table *table, struct shared *shared, bool copies)
{
    const struct way ways[] = {{"synced_mem", copies ? publish_to_copier : publish_to_reader},
                               {"futex", copies ? wake_copier : wake_reader}};
    struct summary results[3] = {unmeasured, unmeasured, unmeasured};
    struct row row = row_of(table, size_name(suite.largest), (double)suite.largest);
    shared->size = suite.largest;
    shared->device = copies; /* that of the copy, for now */
    if (copies)
        row_target(&row, TO_LIMIT, AT_LEAST, 0.9);
    else
        row_target(&row, VALUE, AT_MOST, 50);
    if (!can_run(&row, shared))
        return;
    shared->device = 0;
    shared->own = bare_device_alloc(READ_BYTES);
    create(shared);
    (void)share(shared);
    compare(ways, 2, shared, results);
    report_times(&row, results, (double)shared->size);
    release(shared);
    bare_device_free(shared->own);
}

static void measure_fresh_contents(struct shared *shared)
{
    static const struct table reads = {"shared",
                                       "fresh",
                                       "From a hand over to the end of the other process's first kernel",
                                       UNIT_US,
                                       "a kernel of each process on memory of its own, and a futex between them",
                                       NULL};
    static const struct table copies = {"shared",
                                        "fresh-copy",
                                        "From a hand over to the end of the other process's copy to device 1",
                                        UNIT_GB_PER_S,
                                        "a kernel, a futex, and cudaMemcpyPeerAsync of the other process's own memory",
                                        NULL};
    report_table(&reads);
    measure_fresh(&reads, shared, false);
    report_table(&copies);
    measure_fresh(&copies, shared, true);
}

void measure_shared(void)
{
    struct shared shared = {.other = other_start(be_the_reader)};
    measure_shares(&shared);
    measure_views(&shared);
    measure_fresh_contents(&shared);
    destroy_streams(&shared.streams);
    other_end(&shared.other);
}
