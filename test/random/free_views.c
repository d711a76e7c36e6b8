/*
 * Plays with views of one object in concurrent threads. Each thread has a lane of the object's bytes, side by side with
 * the lanes of others, and writes it by views of any part of it. All threads read the bytes behind the lanes.
 */
#include "free.h"

#include "gpu.h"
#include "pattern.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { LANE = 150, COMMON = 100, SIZE = THREADS * LANE + COMMON, STEPS = 25, VIEWS_AT_ONCE = 3 };

struct view {
    synced_mem *mem; /* NULL: none */
    size_t begin, size;
};

struct lane {
    uint64_t random;
    synced_mem *all; /* the view of the lane's bytes and of the common ones */
    size_t begin;    /* of the lane, in the object */
    synced_mem_stream stream;
    struct view views[VIEWS_AT_ONCE];
};

/* The expected contents. Each thread writes only its lane here, too. */
static unsigned char expected[SIZE];
static unsigned char memory[SIZE];
static pthread_barrier_t together;

/* ---- Uses of one view ---- */

/* Draws new contents. */
static void invent(struct lane *lane, const struct view *view)
{
    for (size_t i = 0; i < view->size; i++)
        expected[view->begin + i] = (unsigned char)random_next(&lane->random);
}

static void *get_host(synced_mem *mem, unsigned kind)
{
    void *data;
    do
        data = kind == 0   ? (void *)synced_mem_cpu_data(mem)
               : kind == 1 ? synced_mem_mutable_cpu_data(mem)
                           : synced_mem_overwrite_cpu_data(mem);
    while (again(data != NULL));
    must(data != NULL, "no host pointer of a view");
    return data;
}

static void *get_device(synced_mem *mem, unsigned kind, synced_mem_stream stream)
{
    void *data;
    do
        data = kind == 0   ? (void *)synced_mem_gpu_data_on(mem, stream)
               : kind == 1 ? synced_mem_mutable_gpu_data_on(mem, stream)
                           : synced_mem_overwrite_gpu_data_on(mem, stream);
    while (again(data != NULL));
    must(data != NULL, "no device pointer of a view");
    return data;
}

/* Kinds of accesses: 0 read, 1 mutable, 2 overwrite. */
static void use_on_host(struct lane *lane, const struct view *view, unsigned kind)
{
    unsigned char *const data = get_host(view->mem, kind);
    if (kind < 2) {
        gpu_note_host_read(data, view->size);
        must(memcmp(data, expected + view->begin, view->size) == 0, "a view has other contents than were written");
    }
    if (kind > 0) {
        invent(lane, view);
        gpu_note_host_write(data, view->size);
        memcpy(data, expected + view->begin, view->size);
    }
}

static void use_on_device(struct lane *lane, const struct view *view, unsigned kind)
{
    unsigned char *const data = get_device(view->mem, kind, lane->stream);
    if (kind < 2 && view->size > 0)
        gpu_expect(data, view->size, expected + view->begin, lane->stream);
    if (kind > 0 && view->size > 0) {
        const unsigned pattern = 1 + random_below(&lane->random, 250);
        gpu_fill(data, view->size, pattern, lane->stream);
        pattern_write(expected + view->begin, view->size, pattern);
    }
}

/* A push or pull that has nothing to move is no failure of the test. */
static void move(struct lane *lane, const struct view *view, bool push)
{
    synced_mem_stream stream = random_below(&lane->random, 3) == 0 ? SYNCED_MEM_STREAM_LIBRARY : lane->stream;
    (void)(push ? synced_mem_async_gpu_push(view->mem, stream) : synced_mem_async_cpu_pull(view->mem, stream));
}

/* Copies common bytes without views of its own, within the object of the lane. */
static void copy_range(struct lane *lane, const struct view *view, size_t begin)
{
    const synced_mem_stream streams[] = {SYNCED_MEM_NO_STREAM, SYNCED_MEM_STREAM_LIBRARY, lane->stream};
    synced_mem_stream stream = streams[random_below(&lane->random, 3)];
    synced_mem_status status;
    do
        status = synced_mem_copy(lane->all, view->begin - lane->begin, lane->all, begin - lane->begin, view->size,
                                 machine.gpu ? stream : NULL);
    while (again(status == SYNCED_MEM_OK));
    must(status == SYNCED_MEM_OK, "a range was not copied");
    memcpy(expected + view->begin, expected + begin, view->size);
}

/* Copies some of the common bytes, which other threads read meanwhile. A copy that failed may have lost the
 * contents. */
static void copy_common(struct lane *lane, const struct view *view)
{
    if (view->size > COMMON)
        return;
    const size_t begin = THREADS * LANE + random_below(&lane->random, (uint32_t)(COMMON - view->size) + 1);
    const bool on_host = !machine.gpu || random_below(&lane->random, 2) == 0;
    if (random_below(&lane->random, 2) == 0) {
        copy_range(lane, view, begin);
        return;
    }
    synced_mem *from;
    synced_mem_status status;
    must(synced_mem_view(&from, lane->all, begin - lane->begin, view->size, NULL) == SYNCED_MEM_OK, "no view");
    do
        status =
            on_host ? synced_mem_cpu_copy(view->mem, from) : synced_mem_async_gpu_copy(view->mem, from, lane->stream);
    while (again(status == SYNCED_MEM_OK));
    must(status == SYNCED_MEM_OK, "a view was not copied");
    memcpy(expected + view->begin, expected + begin, view->size);
    let_go(from);
}

static void use(struct lane *lane, const struct view *view)
{
    int pending;
    switch (random_below(&lane->random, machine.gpu ? 15 : 5)) {
    case 0:
    case 1:
    case 2:
        use_on_host(lane, view, random_below(&lane->random, 3));
        break;
    case 3:
        must(synced_mem_clear(view->mem) == SYNCED_MEM_OK, "a view was not cleared");
        memset(expected + view->begin, 0, view->size);
        break;
    case 4:
        copy_common(lane, view);
        break;
    case 5:
    case 6:
    case 7:
    case 14:
        use_on_device(lane, view, random_below(&lane->random, 3));
        break;
    case 8:
        while (again(synced_mem_gpu_data(view->mem) != NULL))
            continue;
        break;
    case 9:
    case 10:
        move(lane, view, true);
        break;
    case 11:
    case 12:
        move(lane, view, false);
        break;
    default:
        while (again(synced_mem_query(view->mem, &pending) == SYNCED_MEM_OK))
            continue;
        while (again(synced_mem_wait(view->mem) == SYNCED_MEM_OK))
            continue;
        break;
    }
}

/* ---- One thread ---- */

static void make_view(struct lane *lane, struct view *view)
{
    const size_t begin = random_below(&lane->random, LANE);
    const size_t size = random_below(&lane->random, (uint32_t)(LANE - begin) + 1);
    *view = (struct view){.begin = lane->begin + begin, .size = size};
    synced_mem *const of = random_below(&lane->random, 2) == 0 ? lane->all : synced_mem_root(lane->all);
    const size_t offset = of == lane->all ? begin : view->begin;
    must(synced_mem_view(&view->mem, of, offset, size, NULL) == SYNCED_MEM_OK, "no view");
}

/* Any thread may be the first to read the common bytes. */
static void read_common(struct lane *lane)
{
    struct view view = {.begin = THREADS * LANE + random_below(&lane->random, COMMON)};
    view.size = random_below(&lane->random, (uint32_t)(SIZE - view.begin) + 1);
    must(synced_mem_view(&view.mem, lane->all, view.begin - lane->begin, view.size, NULL) == SYNCED_MEM_OK, "no view");
    if (machine.gpu && random_below(&lane->random, 2) == 0)
        use_on_device(lane, &view, 0);
    else
        use_on_host(lane, &view, 0);
    let_go(view.mem);
}

/* Other threads change the object's parts meanwhile. */
static void ask_root(const struct lane *lane)
{
    int pending, arrived;
    synced_mem *const root = synced_mem_root(lane->all);
    must((unsigned)synced_mem_head(root) <= SYNCED_MEM_MIXED, "no head");
    while (again(synced_mem_query(root, &pending) == SYNCED_MEM_OK))
        continue;
    while (again(synced_mem_has_arrived(root, SYNCED_MEM_SIDE_CPU, &arrived) == SYNCED_MEM_OK))
        continue;
}

static void *thread_of(void *argument)
{
    struct lane *const lane = argument;
    if (machine.gpu) {
        gpu_make_current(0);
        lane->stream = gpu_stream_create(0, random_below(&lane->random, 2) == 0);
    }
    (void)pthread_barrier_wait(&together);
    for (int i = 0; i < STEPS; i++) {
        struct view *const view = &lane->views[random_below(&lane->random, VIEWS_AT_ONCE)];
        fail_sometimes(&lane->random);
        if (!view->mem)
            make_view(lane, view);
        use(lane, view);
        if (random_below(&lane->random, 4) == 0)
            read_common(lane);
        if (random_below(&lane->random, 8) == 0)
            ask_root(lane);
        if (random_below(&lane->random, 3) == 0) {
            let_go(view->mem);
            view->mem = NULL;
        }
    }
    struct view whole = {.begin = lane->begin, .size = LANE};
    must(synced_mem_view(&whole.mem, lane->all, 0, LANE, NULL) == SYNCED_MEM_OK, "no view");
    use_on_host(lane, &whole, 0);
    let_go(whole.mem);
    for (int i = 0; i < VIEWS_AT_ONCE; i++)
        if (lane->views[i].mem)
            let_go(lane->views[i].mem);
    let_go(lane->all);
    end_stream(lane->stream);
    return NULL;
}

/* ---- All ---- */

static synced_mem *make_root(uint64_t *random)
{
    synced_mem *root;
    must(synced_mem_create(&root, SIZE, NULL) == SYNCED_MEM_OK, "no object");
    if (random_below(random, 2) == 0)
        must(synced_mem_set_cpu_data(root, memory) == SYNCED_MEM_OK, "the memory was not taken");
    unsigned char *const data = get_host(root, 2);
    for (size_t i = 0; i < SIZE; i++)
        expected[i] = (unsigned char)random_next(random);
    gpu_note_host_write(data, SIZE);
    memcpy(data, expected, SIZE);
    return root;
}

/* The object may end with its last view. */
void play_views_freely(uint64_t *random)
{
    pthread_t threads[THREADS];
    struct lane lanes[THREADS];
    synced_mem *const root = make_root(random);
    const bool keep = random_below(random, 2) == 0;
    (void)pthread_barrier_init(&together, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++) {
        lanes[i] = (struct lane){.random = random_next(random), .begin = i * LANE};
        must(synced_mem_view(&lanes[i].all, root, i * LANE, SIZE - i * LANE, NULL) == SYNCED_MEM_OK, "no view");
    }
    if (!keep)
        let_go(root);
    for (int i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, thread_of, &lanes[i]) == 0, "no thread");
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    (void)pthread_barrier_destroy(&together);
    gpu_fail_no_more();
    if (keep) {
        const unsigned char *const data = get_host(root, 0);
        must(memcmp(data, expected, SIZE) == 0, "an object has other contents than its views");
        let_go(root);
    }
}
