/*
 * The search for races: its reports, its memory, and waits by their place.
 */
#include "selftest.h"

#include <pthread.h>

static int reports;
static char last_report[1024];

static void take_report(const char *report, void *user)
{
    (void)user;
    reports++;
    snprintf(last_report, sizeof last_report, "%s", report);
}

static void expect_reports(void)
{
    reports = 0;
    emu_set_misuse_handler(take_report, NULL);
}

/* ---- Reports ---- */

static void test_report(void)
{
    unsigned char *memory = device_memory();
    cudaStream_t first = stream_of(cudaStreamNonBlocking), second = stream_of(cudaStreamNonBlocking);
    char range[64];
    expect_reports();
    OK(cudaMemsetAsync(memory, 1, SIZE, first));
    OK(cudaMemsetAsync(memory + 100, 2, 28, second));
    snprintf(range, sizeof range, "%p to %p", (void *)(memory + 100), (void *)(memory + 128));
    CHECK(reports == 1 && strstr(last_report, range) != NULL && strstr(last_report, "cudaMalloc in") != NULL);
    /* The call continued. */
    OK(cudaStreamSynchronize(second));
    CHECK(seed != 0 || (emu_pending() == 1 && peek(memory + 100) == 2));
    OK(cudaDeviceSynchronize());
    emu_set_race_check(false);
    OK(cudaMemsetAsync(memory, 1, SIZE, first));
    OK(cudaMemsetAsync(memory, 2, SIZE, second));
    CHECK(reports == 1);
    OK(cudaStreamDestroy(first));
    OK(cudaStreamDestroy(second));
    OK(cudaFree(memory));
}

/* A launch that names no size also touches the other half of the allocation. */
static void test_whole_ranges(void)
{
    unsigned char *memory = device_memory();
    cudaStream_t first = stream_of(cudaStreamNonBlocking), second = stream_of(cudaStreamNonBlocking);
    struct increment work = {memory, SIZE / 2, 1};
    const struct emu_range whole = {memory, EMU_WHOLE, true};
    expect_reports();
    OK(cudaMemsetAsync(memory + SIZE / 2, 1, SIZE / 2, first));
    launch_increment(second, &work);
    CHECK(reports == 0);
    OK(emu_launch(second, increment, &work, &whole, 1));
    CHECK(reports == 1);
    OK(cudaDeviceSynchronize());
    CHECK(peek(memory) == 0xCF);
    OK(cudaStreamDestroy(first));
    OK(cudaStreamDestroy(second));
    OK(cudaFree(memory));
}

/* Each byte counts by itself: a later access that covers a part replaces only that part. */
static void test_parts(void)
{
    unsigned char *memory = device_memory();
    cudaStream_t first = stream_of(cudaStreamNonBlocking), second = stream_of(cudaStreamNonBlocking);
    cudaEvent_t event = new_event();
    expect_reports();
    OK(cudaMemsetAsync(memory, 1, 100, first));
    OK(cudaEventRecord(event, first));
    OK(cudaMemsetAsync(memory, 2, 50, first));
    OK(cudaMemsetAsync(memory + 90, 2, 10, first));
    OK(cudaStreamWaitEvent(second, event, 0));
    OK(cudaMemsetAsync(memory + 50, 3, 40, second));
    CHECK(reports == 0);
    OK(cudaMemsetAsync(memory + 49, 3, 1, second));
    OK(cudaMemsetAsync(memory + 90, 3, 1, second));
    CHECK(reports == 2);
    OK(cudaFree(memory));
    CHECK(reports == 2);
    OK(cudaStreamDestroy(first));
    OK(cudaStreamDestroy(second));
    OK(cudaEventDestroy(event));
}

/* A wait that fails orders nothing for the host. A broken device runs nothing any more. */
static void test_failed_waits(void)
{
    unsigned char *host = pinned(0);
    cudaStream_t stream = stream_of(cudaStreamNonBlocking);
    expect_reports();
    OK(cudaMemsetAsync(host, 1, SIZE, stream));
    emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    GIVES(cudaStreamSynchronize(stream), cudaErrorUnknown);
    emu_host_read(host, 1);
    CHECK(reports == 1);
    emu_break_device(0, cudaErrorIllegalAddress);
    OK(cudaMemsetAsync(host, 1, SIZE, stream));
    GIVES(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
    emu_host_write(host, SIZE);
    CHECK(reports == 1);
}

/* ---- Host threads ---- */

struct baton {
    unsigned char *memory;
    bool announced;
};

static void *pass_on(void *argument)
{
    struct baton *baton = argument;
    if (baton->announced)
        emu_host_acquire(baton);
    emu_host_write(baton->memory, SIZE);
    if (baton->announced)
        emu_host_release(baton);
    return NULL;
}

static int reports_of_threads(enum emu_host_threads mode, bool announced)
{
    struct baton baton = {pinned(0), announced};
    pthread_t thread;
    expect_reports();
    emu_set_host_threads(mode);
    for (int i = 0; i < 3; i++) {
        emu_host_release(&baton);
        CHECK(pthread_create(&thread, NULL, pass_on, &baton) == 0 && pthread_join(thread, NULL) == 0);
        emu_host_acquire(&baton);
    }
    emu_set_host_threads(EMU_HOST_THREADS_ORDERED);
    OK(cudaFreeHost(baton.memory));
    return reports;
}

static void test_threads(void)
{
    CHECK(reports_of_threads(EMU_HOST_THREADS_ORDERED, false) == 0);
    CHECK(reports_of_threads(EMU_HOST_THREADS_SEPARATE, true) == 0);
    CHECK(reports_of_threads(EMU_HOST_THREADS_SEPARATE, false) == 2);
}

/* ---- Memory of the search ---- */

enum { STREAMS = 6, OPERATIONS = 200000, PIECE = 8 };

static uint64_t number;

static unsigned next(unsigned limit)
{
    number = number * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(number >> 33) % limit;
}

/* Each stream writes its part of the memory, and now and then hands it to the next. One stream reads everywhere. */
static void work(unsigned char *memory, cudaStream_t *streams, cudaEvent_t event, int i)
{
    const size_t part = SIZE / STREAMS / PIECE * PIECE;
    const unsigned one = next(STREAMS);
    unsigned char *start = memory + one * part + next((unsigned)part - PIECE);
    OK(cudaMemsetAsync(start, i, 1 + next(PIECE), streams[one]));
    if (i % 64 == 0) {
        OK(cudaEventRecord(event, streams[one]));
        OK(cudaStreamWaitEvent(streams[(one + 1) % STREAMS], event, 0));
    }
    if (i % 1000 == 0) {
        OK(cudaStreamSynchronize(streams[0]));
        OK(cudaStreamDestroy(streams[0]));
        streams[0] = stream_of(cudaStreamNonBlocking);
    }
}

static void test_bounded(void)
{
    unsigned char *memory = device_memory();
    cudaStream_t streams[STREAMS];
    cudaEvent_t event = new_event();
    size_t early = 0;
    for (int i = 0; i < STREAMS; i++)
        streams[i] = stream_of(i < STREAMS / 2 ? cudaStreamNonBlocking : cudaStreamDefault);
    for (int i = 0; i < OPERATIONS; i++) {
        void *pooled;
        work(memory, streams, event, i);
        if (i % 16 == 0) {
            OK(cudaMallocAsync(&pooled, SIZE, streams[i % STREAMS]));
            OK(cudaFreeAsync(pooled, streams[i % STREAMS]));
        }
        if (i % 5000 == 4999)
            emu_run_all(); /* without any wait, so that all queued work has to be remembered */
        if (i == OPERATIONS / 10)
            early = emu_race_memory();
    }
    emu_run_all();
    CHECK(emu_race_memory() < 2 * early && emu_race_memory() < (1u << 18));
    for (int i = 0; i < STREAMS; i++)
        OK(cudaStreamDestroy(streams[i]));
    OK(cudaFree(memory));
    OK(cudaEventDestroy(event));
    emu_reset(seed);
    CHECK(emu_race_memory() < (1u << 10));
}

/* ---- Waits by their place ---- */

static __attribute__((noinline)) void wait_here(cudaStream_t stream)
{
    OK(cudaStreamSynchronize(stream));
    OK(cudaGetLastError()); /* so that the call before is not the function's last */
}

static __attribute__((noinline)) void call_twice(cudaStream_t stream)
{
    wait_here(stream);
    wait_here(stream);
}

struct places {
    struct emu_wait_place waits[8];
    size_t count;
};

static void take_place(const struct emu_wait_place *wait, void *user)
{
    struct places *places = user;
    CHECK(places->count < 8 && wait->depth > 2 && strcmp(wait->call, "cudaStreamSynchronize") == 0);
    places->waits[places->count++] = *wait;
}

/* Must not be unrolled, or each round would be a place of its own. */
static __attribute__((noinline)) void find_places(struct places *places)
{
    emu_note_waits(true);
    for (volatile int i = 0; i < 3; i++)
        call_twice(NULL);
    emu_note_waits(false);
    wait_here(NULL);
    *places = (struct places){.count = 0};
    emu_each_wait(take_place, places);
}

static void test_places(void)
{
    static struct places places, again;
    find_places(&places);
    CHECK(places.count == 2 && places.waits[0].count == 3 && places.waits[1].count == 3);
    CHECK(places.waits[0].chain[0].offset == places.waits[1].chain[0].offset);
    CHECK(places.waits[0].chain[1].offset != places.waits[1].chain[1].offset);
    emu_reset(seed);
    find_places(&again);
    CHECK(again.count == 2 && again.waits[1].chain[1].offset == places.waits[1].chain[1].offset);
}

static void test_dropped_places(void)
{
    static struct places places;
    unsigned char *host = pinned(0);
    emu_note_waits(true);
    for (volatile unsigned round = 0; round < 3; round++) {
        /* The second of two the first time, then both. */
        call_twice(NULL);
        CHECK(emu_dropped_waits() == (round == 0 ? 0 : round == 1 ? 1 : 3));
        emu_each_wait(take_place, &places);
        if (round == 0)
            emu_drop_wait_from(&places.waits[1]);
        else
            emu_drop_waits_at(&places.waits[0].chain[0]);
        places.count = 0;
    }
    OK(cudaStreamSynchronize(NULL));
    CHECK(emu_dropped_waits() == 3);
    expect_reports();
    OK(cudaMemsetAsync(host, 1, SIZE, NULL));
    wait_here(NULL);
    emu_host_read(host, 1);
    CHECK(reports == 1);
    OK(cudaFreeHost(host));
}

void (*const race_tests[])(void) = {test_report, test_whole_ranges, test_parts, test_failed_waits, NULL};
void (*const race_tests_once[])(void) = {test_threads, test_bounded, test_places, test_dropped_places, NULL};
