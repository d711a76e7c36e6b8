/* Counts the threads that have memory in their hands. */
#include "base/hands.h"

#include "base/mutex.h"
#include "base/shard.h"
#include "system/process.h"

#include <assert.h>
#include <stddef.h>

/* More than there are threads on any system. */
#define PASS ((uint64_t)1 << 24)

/* A thread that empties its hands then reads whether any thread waits. A waiting thread announces itself and then reads
 * whether hands are full. All of this is sequentially consistent, so at least one of the two sees the other. */
static struct {
    struct sm_events passed;
    atomic_uint waiting;
    char apart[SM_APART]; /* all threads read the members above; each writes its own shard */
    struct shard {
        /* Threads with full hands, in the lower bits; above them, in steps of PASS, how often memory was passed. So one
         * addition empties the hands and counts. */
        _Atomic uint64_t state;
        char apart[SM_APART];
    } shards[SM_SHARDS];
} hands;

static _Thread_local struct {
    bool full;
    uint64_t times; /* how often this thread has passed memory */
} self;

static struct shard *get_hands_shard(void)
{
    return &hands.shards[sm_shard()];
}

/* In a forked child: only the thread that forked may have full hands, and none waits. */
static void reset_hands_in_child(void)
{
    atomic_store(&hands.waiting, 0);
    for (int i = 0; i < SM_SHARDS; i++)
        atomic_fetch_and(&hands.shards[i].state, ~(PASS - 1));
    atomic_fetch_add(&get_hands_shard()->state, self.full);
}

static __attribute__((constructor)) void watch_forks_for_hands(void)
{
    sm_watch_forks(NULL, NULL, reset_hands_in_child);
}

static void wake_waiters(void)
{
    if (atomic_load(&hands.waiting) > 0)
        sm_events_add(&hands.passed);
}

static bool has_full_hands(void)
{
    uint64_t full = 0;
    for (int i = 0; i < SM_SHARDS; i++)
        full += atomic_load(&hands.shards[i].state) % PASS;
    return full > 0;
}

void sm_hands_fill(void)
{
    assert(!self.full);
    self.full = true;
    atomic_fetch_add(&get_hands_shard()->state, 1);
}

void sm_hands_pass(void)
{
    assert(self.full);
    self.times++;
    atomic_fetch_add(&get_hands_shard()->state, PASS);
    wake_waiters();
}

void sm_hands_empty(bool passed)
{
    assert(self.full);
    self.full = false;
    self.times += passed;
    atomic_fetch_add(&get_hands_shard()->state, passed ? PASS - 1 : UINT64_MAX);
    wake_waiters();
}

uint64_t sm_hands_passed(void)
{
    uint64_t times = 0;
    for (int i = 0; i < SM_SHARDS; i++)
        times += atomic_load(&hands.shards[i].state) / PASS;
    return times - self.times;
}

bool sm_hands_wait(uint64_t since)
{
    assert(!self.full);
    atomic_fetch_add(&hands.waiting, 1);
    for (;;) {
        const unsigned seen = sm_events_seen(&hands.passed);
        if (!has_full_hands() || sm_hands_passed() != since)
            break;
        sm_events_wait(&hands.passed, seen);
    }
    atomic_fetch_sub(&hands.waiting, 1);
    return sm_hands_passed() != since;
}
