/* Forks: POSIX leaves a child with the locks as they were held, by threads it does not have. */
#include "base/process.h"

#include "base/shard.h"

#include <assert.h>
#include <pthread.h>

static struct {
    struct sm_mutex mutex;
    struct sm_lock *first;
} locks;

/* By the calling thread, of these locks: two threads that each held one and wanted the other's, or a fork that wants
 * all, would wait for ever. */
static _Thread_local bool holds_one;

static atomic_uint generation;
static atomic_bool uses_gpu;
static atomic_bool lost_gpu;

/* ---- Calls that are inside an object ---- */

/*
 * A thread counts itself and then reads whether the gate is closed; a fork closes the gate and then reads the counts.
 * Both are sequentially consistent, so one of the two sees the other: a thread that sees the gate closed goes back, a
 * fork that sees a count waits. While the gate is closed, whoever makes a count smaller says so.
 */
static struct {
    struct sm_mutex mutex; /* held by the one fork that is under way */
    atomic_bool closed;
    struct sm_events opened;
    struct sm_events left;
    char apart[SM_CACHE_LINE]; /* all threads read the above, and each writes its shard */
    struct shard {
        atomic_uint inside; /* threads */
        char apart[SM_CACHE_LINE];
    } shards[SM_SHARDS];
} gate;

static _Thread_local struct {
    unsigned depth;
    bool counted; /* it was when the thread entered */
} self;

static void count_out(void)
{
    atomic_fetch_sub(&gate.shards[sm_shard()].inside, 1);
    if (atomic_load(&gate.closed))
        sm_events_add(&gate.left);
}

/* Whether the gate was open; else the thread is not counted. */
static bool count_in(void)
{
    atomic_fetch_add(&gate.shards[sm_shard()].inside, 1);
    if (!atomic_load(&gate.closed))
        return true;
    count_out();
    return false;
}

void sm_process_enter(void)
{
    assert(!holds_one);
    if (self.depth++ > 0 || atomic_load_explicit(&uses_gpu, memory_order_relaxed))
        return;
    unsigned seen = sm_events_seen(&gate.opened);
    while (!count_in()) {
        sm_events_wait(&gate.opened, seen);
        seen = sm_events_seen(&gate.opened);
    }
    self.counted = true;
}

void sm_process_leave(void)
{
    assert(self.depth > 0);
    if (--self.depth > 0 || !self.counted)
        return;
    self.counted = false;
    count_out();
}

bool sm_process_is_inside(void)
{
    return self.depth > 0 || holds_one;
}

static unsigned threads_inside(void)
{
    unsigned sum = 0;
    for (int i = 0; i < SM_SHARDS; i++)
        sum += atomic_load(&gate.shards[i].inside);
    return sum;
}

/* Not for the calling thread itself, which may have been interrupted inside by a signal whose handler forks. Between
 * its count and the note of that, in either order, nobody can tell the thread from another one: a fork there waits. */
static void close_gate(void)
{
    sm_mutex_lock(&gate.mutex);
    atomic_store(&gate.closed, true);
    for (;;) {
        const unsigned seen = sm_events_seen(&gate.left);
        if (atomic_load(&uses_gpu) || threads_inside() == self.counted)
            return;
        sm_events_wait(&gate.left, seen);
    }
}

static void open_gate(void)
{
    atomic_store(&gate.closed, false);
    sm_events_add(&gate.opened);
    sm_mutex_unlock(&gate.mutex);
}

/* The child has only the thread that forked. */
static void forget_others(void)
{
    for (int i = 0; i < SM_SHARDS; i++)
        atomic_store(&gate.shards[i].inside, 0);
    atomic_store(&gate.shards[sm_shard()].inside, self.counted);
}

/* ---- Forks ---- */

/* The gate comes first: nothing that a thread inside an object waits for is held here. */
static void before_fork(void)
{
    close_gate();
    sm_mutex_lock(&locks.mutex);
    for (struct sm_lock *lock = locks.first; lock; lock = lock->next)
        sm_mutex_lock(&lock->mutex);
}

static void in_parent(void)
{
    for (struct sm_lock *lock = locks.first; lock; lock = lock->next)
        sm_mutex_unlock(&lock->mutex);
    sm_mutex_unlock(&locks.mutex);
    open_gate();
}

static void in_child(void)
{
    atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
    if (atomic_load_explicit(&uses_gpu, memory_order_relaxed))
        atomic_store_explicit(&lost_gpu, true, memory_order_relaxed);
    forget_others();
    in_parent();
}

/* When the library is loaded: a fork may come while its first lock is taken. */
static __attribute__((constructor)) void watch_forks(void)
{
    (void)pthread_atfork(before_fork, in_parent, in_child);
}

/* ---- Locks ---- */

static void introduce(struct sm_lock *lock)
{
    sm_mutex_lock(&locks.mutex);
    if (!atomic_load_explicit(&lock->known, memory_order_relaxed)) {
        lock->next = locks.first;
        locks.first = lock;
        atomic_store_explicit(&lock->known, true, memory_order_release);
    }
    sm_mutex_unlock(&locks.mutex);
}

void sm_lock(struct sm_lock *lock)
{
    assert(!holds_one);
    if (!atomic_load_explicit(&lock->known, memory_order_acquire))
        introduce(lock);
    sm_mutex_lock(&lock->mutex);
    holds_one = true;
}

void sm_unlock(struct sm_lock *lock)
{
    holds_one = false;
    sm_mutex_unlock(&lock->mutex);
}

/* ---- What a child may do ---- */

unsigned sm_process_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

/* A fork that waits need not wait any longer, and must not: calls may block from now on. */
void sm_process_uses_gpu(void)
{
    if (atomic_load_explicit(&uses_gpu, memory_order_relaxed))
        return;
    atomic_store(&uses_gpu, true);
    if (atomic_load(&gate.closed))
        sm_events_add(&gate.left);
}

bool sm_process_lost_gpu(void)
{
    return atomic_load_explicit(&lost_gpu, memory_order_relaxed);
}
