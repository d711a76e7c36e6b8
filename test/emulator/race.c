/*
 * The order of accesses, as vector clocks. Every stream and every separate host thread has a lane. Its operations and
 * accesses have times 1, 2, and so on. A clock has, for each lane, the last time that is ordered before it. All of this
 * follows from the order of the program's calls alone, not from when work runs.
 *
 * The lane of a stream or thread that is gone passes to the next one that is ordered after all of it. Times continue,
 * so that statements about the old owner stay right.
 */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

/* A clock that can grow. */
struct vector {
    uint64_t *times;
    unsigned count, room;
};

struct lane {
    uint64_t last;
    bool taken;
};

/* A host thread, or all of them. */
struct host {
    struct vector seen;
    unsigned lane; /* from 1 */
    struct host *next;
};

/* The number of slots for signals between host threads, chosen by address. Two addresses in one slot are ordered more
 * than in the program. That can only hide a race. */
#define SIGNALS 4096

static struct {
    bool off, separate;
    uint64_t generation; /* of host threads: state of an older one is discarded */
    struct lane *lanes;
    unsigned lane_count;
    struct host all_hosts;
    struct host *hosts;  /* when they are separate */
    struct vector ended; /* the moments that ended threads had seen */
    struct vector device[EMU_MAX_DEVICES], blocking[EMU_MAX_DEVICES];
    struct vector signals[SIGNALS];
    struct vector scratch;
    size_t bytes;
} race;

static _Thread_local struct {
    struct host *host;
    uint64_t generation;
} mine;

static pthread_key_t thread_end;
static pthread_once_t thread_end_once = PTHREAD_ONCE_INIT;

/* ---- Memory ---- */

void *emu_race_grow(void *old, size_t old_size, size_t size)
{
    void *memory = realloc(old, size);
    if (memory == NULL)
        abort();
    memset((char *)memory + old_size, 0, size - old_size);
    race.bytes += size - old_size;
    return memory;
}

void emu_race_free(void *memory, size_t size)
{
    race.bytes -= size;
    free(memory);
}

size_t emu_race_memory(void)
{
    emu_lock();
    const size_t bytes = race.bytes;
    emu_unlock();
    return bytes;
}

/* ---- Clocks ---- */

static void set_count(struct vector *vector, unsigned count)
{
    if (count > vector->room) {
        const unsigned room = count < 8 ? 8 : 2 * count;
        vector->times =
            emu_race_grow(vector->times, vector->room * sizeof *vector->times, room * sizeof *vector->times);
        vector->room = room;
    }
    while (vector->count < count)
        vector->times[vector->count++] = 0;
}

/* Writes only what has to change: in a forked child the first write to a page copies it. */
static void clear(struct vector *vector)
{
    if (!vector->times)
        return;
    emu_race_free(vector->times, vector->room * sizeof *vector->times);
    *vector = (struct vector){0};
}

static void join(struct vector *vector, const uint64_t *times, unsigned count)
{
    if (count > vector->count)
        set_count(vector, count);
    for (unsigned i = 0; i < count; i++)
        if (times[i] > vector->times[i])
            vector->times[i] = times[i];
}

static void join_vector(struct vector *vector, const struct vector *other)
{
    join(vector, other->times, other->count);
}

static void join_clock(struct vector *vector, const struct emu_clock *clock)
{
    if (clock != NULL)
        join(vector, clock->times, clock->count);
}

static size_t size_of_clock(unsigned count)
{
    return sizeof(struct emu_clock) + count * sizeof(uint64_t);
}

static struct emu_clock *snapshot(const struct vector *vector, unsigned lane)
{
    struct emu_clock *clock = emu_race_grow(NULL, 0, size_of_clock(vector->count));
    clock->refs = 1;
    clock->lane = lane;
    clock->count = vector->count;
    if (vector->count > 0)
        memcpy(clock->times, vector->times, vector->count * sizeof *vector->times);
    return clock;
}

struct emu_clock *emu_clock_ref(struct emu_clock *clock)
{
    if (clock != NULL)
        clock->refs++;
    return clock;
}

void emu_clock_unref(struct emu_clock *clock)
{
    if (clock != NULL && --clock->refs == 0)
        emu_race_free(clock, size_of_clock(clock->count));
}

static uint64_t time_in(const uint64_t *times, unsigned count, unsigned lane)
{
    return lane < count ? times[lane] : 0;
}

bool emu_clock_before(const struct emu_clock *clock, const struct emu_clock *other)
{
    return time_in(other->times, other->count, clock->lane) >= clock->times[clock->lane];
}

/* ---- Lanes ---- */

static unsigned take_lane(const struct vector *seen)
{
    unsigned lane = 0;
    while (lane < race.lane_count &&
           (race.lanes[lane].taken || time_in(seen->times, seen->count, lane) < race.lanes[lane].last))
        lane++;
    if (lane == race.lane_count) {
        race.lanes = emu_race_grow(race.lanes, lane * sizeof *race.lanes, (lane + 1) * sizeof *race.lanes);
        race.lane_count++;
    }
    race.lanes[lane].taken = true;
    return lane + 1;
}

static void give_lane(unsigned lane)
{
    if (lane != 0)
        race.lanes[lane - 1].taken = false;
}

/* Returns the next moment of a lane. Takes a lane if there is none yet. */
static struct emu_clock *tick(struct vector *seen, unsigned *lane)
{
    if (*lane == 0)
        *lane = take_lane(seen);
    set_count(seen, *lane > seen->count ? *lane : seen->count);
    seen->times[*lane - 1] = ++race.lanes[*lane - 1].last;
    return snapshot(seen, *lane - 1);
}

/* ---- Host threads ---- */

static void forget_host(struct host *host)
{
    struct host **link = &race.hosts;
    while (*link != host)
        link = &(*link)->next;
    *link = host->next;
    join_vector(&race.ended, &host->seen);
    give_lane(host->lane);
    clear(&host->seen);
    emu_race_free(host, sizeof *host);
}

static void thread_ended(void *unused)
{
    (void)unused;
    emu_lock();
    if (mine.host != NULL && mine.generation == race.generation)
        forget_host(mine.host);
    mine.host = NULL;
    emu_unlock();
}

static void make_thread_end(void)
{
    if (pthread_key_create(&thread_end, thread_ended) != 0)
        abort();
}

/* Returns the calling thread's record. A new one begins with all that was ordered when threads became separate. */
static struct host *self(void)
{
    if (!race.separate)
        return &race.all_hosts;
    if (mine.host == NULL || mine.generation != race.generation) {
        struct host *host = emu_race_grow(NULL, 0, sizeof *host);
        join_vector(&host->seen, &race.all_hosts.seen);
        host->next = race.hosts;
        race.hosts = host;
        mine.host = host;
        mine.generation = race.generation;
        pthread_once(&thread_end_once, make_thread_end);
        pthread_setspecific(thread_end, &mine);
    }
    return mine.host;
}

static void forget_hosts(void)
{
    while (race.hosts != NULL)
        forget_host(race.hosts);
    race.generation++;
}

void emu_set_host_threads(enum emu_host_threads mode)
{
    emu_lock();
    forget_hosts();
    join_vector(&race.all_hosts.seen, &race.ended);
    race.separate = mode == EMU_HOST_THREADS_SEPARATE;
    emu_unlock();
}

struct emu_clock *emu_host_clock(void)
{
    struct host *host = self();
    return tick(&host->seen, &host->lane);
}

void emu_host_saw(struct emu_clock *clock)
{
    join_clock(&self()->seen, clock);
    emu_clock_unref(clock);
}

bool emu_all_hosts_saw(const struct emu_clock *clock)
{
    const uint64_t time = clock->times[clock->lane];
    const struct vector *seen = &race.all_hosts.seen;
    if (!race.separate)
        return time_in(seen->times, seen->count, clock->lane) >= time;
    for (const struct host *host = race.hosts; host != NULL; host = host->next)
        if (time_in(host->seen.times, host->seen.count, clock->lane) < time)
            return false;
    return true;
}

/* ---- Order that the program announces ---- */

static struct vector *signal_of(const void *what)
{
    return &race.signals[((uintptr_t)what * 0x9e3779b97f4a7c15u) >> 52];
}

void emu_host_release(const void *what)
{
    emu_lock();
    const struct emu_op *function = emu_self()->function;
    if (function != NULL)
        join_clock(signal_of(what), function->clock);
    else
        join_vector(signal_of(what), &self()->seen);
    emu_unlock();
}

/* Orders the function after the signal. Work that its stream has queued already is not ordered by it. */
static void function_acquires(struct emu_op *function, const struct vector *signal)
{
    struct vector *seen = &race.scratch;
    if (function->clock == NULL)
        return;
    seen->count = 0;
    join_clock(seen, function->clock);
    join_vector(seen, signal);
    const unsigned lane = function->clock->lane;
    emu_clock_unref(function->clock);
    function->clock = snapshot(seen, lane);
}

void emu_host_acquire(const void *what)
{
    emu_lock();
    struct emu_op *function = emu_self()->function;
    if (function != NULL)
        function_acquires(function, signal_of(what));
    else
        join_vector(&self()->seen, signal_of(what));
    emu_unlock();
}

/* ---- Streams ---- */

void emu_race_queued(struct emu_op *op)
{
    struct emu_stream *stream = op->stream;
    struct vector *seen = &race.scratch;
    const struct emu_stream *legacy = &emu.devices[stream->device].legacy;
    seen->count = 0;
    join_vector(seen, &self()->seen);
    join_clock(seen, stream->clock);
    join_clock(seen, op->waits_for);
    if (stream == legacy)
        join_vector(seen, &race.blocking[stream->device]);
    else if (stream->blocking)
        join_clock(seen, legacy->clock);
    op->clock = tick(seen, &stream->lane);
    emu_clock_unref(stream->clock);
    stream->clock = emu_clock_ref(op->clock);
    join_vector(&race.device[stream->device], seen);
    if (stream->blocking)
        join_vector(&race.blocking[stream->device], seen);
    emu_clock_unref(op->waits_for);
    op->waits_for = NULL;
}

struct emu_clock *emu_device_clock(int device)
{
    return snapshot(&race.device[device], 0);
}

void emu_race_idle(const struct emu_stream *stream)
{
    struct vector *seen = &self()->seen;
    join_clock(seen, stream->clock);
    if (stream == &emu.devices[stream->device].legacy)
        join_vector(seen, &race.blocking[stream->device]);
}

void emu_race_stream_gone(struct emu_stream *stream)
{
    give_lane(stream->lane);
    stream->lane = 0;
    emu_clock_unref(stream->clock);
    stream->clock = NULL;
}

/* ---- The switch, and starting over ---- */

bool emu_race_checks(void)
{
    return !race.off && !emu.forked;
}

void emu_set_race_check(bool on)
{
    emu_lock();
    race.off = !on;
    emu_unlock();
}

/* Called after emu_race_stream_gone() for all streams but the legacy ones. */
void emu_race_reset(void)
{
    for (int device = 0; device < EMU_MAX_DEVICES; device++) {
        emu_race_stream_gone(&emu.devices[device].legacy);
        clear(&race.device[device]);
        clear(&race.blocking[device]);
    }
    forget_hosts();
    for (size_t i = 0; i < SIGNALS; i++)
        clear(&race.signals[i]);
    clear(&race.all_hosts.seen);
    clear(&race.ended);
    race.all_hosts.lane = 0;
    emu_race_free(race.lanes, race.lane_count * sizeof *race.lanes);
    race.lanes = NULL;
    race.lane_count = 0;
    race.off = race.separate = false;
}
