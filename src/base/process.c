/* Locks and forks. POSIX leaves a forked child with locks held by threads that the child does not have. */
#include "base/process.h"

#include "base/shard.h"
#include "base/status.h"
#include "system/process.h"

#include <assert.h>

static struct {
    struct sm_mutex mutex;
    struct sm_lock *first;
} locks;

/* The calling thread holds a library lock. Two threads that each held one and wanted the other's would deadlock. So
 * would such a thread and a fork, which takes all locks. */
static _Thread_local bool holds_one;

struct sm_process sm_process;
static _Atomic(void (*)(void)) begin_child; /* NULL: nobody watches */

/* ---- Threads that are inside an object ---- */

/*
 * A thread counts itself and then reads whether the gate is closed. A fork closes the gate and then reads the counts.
 * Both are sequentially consistent, so at least one of the two sees the other. A thread that sees the gate closed goes
 * back; a fork that sees a count waits. While the gate is closed, a thread that decrements a count signals the fork.
 */
static struct {
    struct sm_mutex mutex; /* held by the one fork that is under way */
    atomic_bool closed;
    struct sm_events opened;
    struct sm_events left;
    char apart[SM_APART]; /* all threads read the members above; each writes its own shard */
    struct shard {
        atomic_uint inside; /* threads that are inside */
        char apart[SM_APART];
    } shards[SM_SHARDS];
} gate;

_Thread_local struct sm_inside sm_inside;

static void count_thread_out(void)
{
    atomic_fetch_sub(&gate.shards[sm_shard()].inside, 1);
    if (atomic_load(&gate.closed))
        sm_events_add(&gate.left);
}

/* Counts the thread and returns true if the gate is open. Otherwise the thread is not counted. */
static bool count_thread_in(void)
{
    atomic_fetch_add(&gate.shards[sm_shard()].inside, 1);
    if (!atomic_load(&gate.closed))
        return true;
    count_thread_out();
    return false;
}

void sm_process_pass_gate(void)
{
    unsigned seen = sm_events_seen(&gate.opened);
    while (!count_thread_in()) {
        sm_events_wait(&gate.opened, seen);
        seen = sm_events_seen(&gate.opened);
    }
    sm_inside.counted = true;
}

void sm_process_leave_gate(void)
{
    sm_inside.counted = false;
    count_thread_out();
}

bool sm_process_is_inside(void)
{
    return sm_inside.depth > 0 || holds_one;
}

static unsigned count_threads_inside(void)
{
    unsigned sum = 0;
    for (int i = 0; i < SM_SHARDS; i++)
        sum += atomic_load(&gate.shards[i].inside);
    return sum;
}

/* Waits until no other thread is inside. The calling thread may be inside: a signal has interrupted it there, and the
 * handler forks. The thread's count and sm_inside.counted do not change at once. If the signal comes between the two
 * changes, the thread looks like another one, and the fork waits. */
static void close_gate(void)
{
    sm_mutex_lock(&gate.mutex);
    atomic_store(&gate.closed, true);
    for (;;) {
        const unsigned seen = sm_events_seen(&gate.left);
        if (atomic_load(&sm_process.uses_gpu) || count_threads_inside() == sm_inside.counted)
            return;
        sm_events_wait(&gate.left, seen);
    }
}

/* ---- Forks ---- */

/* Takes a lock whose release may wake nobody. */
static void take_any_lock(struct sm_mutex *mutex)
{
    if (!sm_mutex_try(mutex))
        while (!sm_mutex_lock_within(mutex, SM_MUTEX_NAP))
            continue;
}

/* Closes the gate first: a thread that is inside an object may need any of the locks taken next. */
static void lock_before_fork(void)
{
    close_gate();
    sm_mutex_lock(&locks.mutex);
    for (struct sm_lock *lock = locks.first; lock; lock = lock->next)
        take_any_lock(&lock->mutex);
}

static void unlock_after_fork(void)
{
    for (struct sm_lock *lock = locks.first; lock; lock = lock->next)
        sm_mutex_unlock(&lock->mutex);
    sm_mutex_unlock(&locks.mutex);
    atomic_store(&gate.closed, false);
    sm_events_add(&gate.opened);
    sm_mutex_unlock(&gate.mutex);
}

static void start_child(void)
{
    atomic_fetch_add_explicit(&sm_process.generation, 1, memory_order_relaxed);
    if (atomic_load_explicit(&sm_process.uses_gpu, memory_order_relaxed))
        atomic_store_explicit(&sm_process.lost_gpu, true, memory_order_relaxed);
    /* The child has only the thread that forked. */
    for (int i = 0; i < SM_SHARDS; i++)
        atomic_store(&gate.shards[i].inside, 0);
    atomic_store(&gate.shards[sm_shard()].inside, sm_inside.counted);
    unlock_after_fork();
    void (*const begin)(void) = atomic_load(&begin_child);
    if (begin)
        begin();
}

void sm_process_watch_children(void (*begin)(void))
{
    atomic_store(&begin_child, begin);
}

/* Registers when the library is loaded: a fork may come while the library's first lock is being taken. */
static __attribute__((constructor)) void watch_forks_for_locks(void)
{
    sm_watch_forks(lock_before_fork, unlock_after_fork, start_child);
}

/* ---- Locks ---- */

void sm_lock_register(struct sm_lock *lock)
{
    sm_mutex_lock(&locks.mutex);
    if (!atomic_load_explicit(&lock->known, memory_order_relaxed)) {
        lock->next = locks.first;
        locks.first = lock;
        atomic_store_explicit(&lock->known, true, memory_order_release);
    }
    sm_mutex_unlock(&locks.mutex);
}

bool sm_process_holds_lock(void)
{
    return holds_one;
}

void sm_lock(struct sm_lock *lock)
{
    assert(!holds_one);
    if (!atomic_load_explicit(&lock->known, memory_order_acquire))
        sm_lock_register(lock);
    sm_mutex_lock(&lock->mutex);
    holds_one = true;
}

void sm_unlock(struct sm_lock *lock)
{
    holds_one = false;
    sm_mutex_unlock(&lock->mutex);
}

/* ---- Forked children ---- */

/* Wakes a fork that waits for threads inside. From now on calls may block there, so the fork must not wait for them. */
void sm_process_uses_gpu(void)
{
    if (atomic_load_explicit(&sm_process.uses_gpu, memory_order_relaxed))
        return;
    atomic_store(&sm_process.uses_gpu, true);
    if (atomic_load(&gate.closed))
        sm_events_add(&gate.left);
}

synced_mem_status sm_process_check_not_forked(const char *what)
{
    if (!sm_process_lost_gpu())
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_FORKED, "%s belongs to the parent process: a forked child can't use it", what);
}
