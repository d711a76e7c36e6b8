/*
 * The process: library-wide locks, forks, and what a forked child may do. The words of base/:
 *
 * - caller: the public function that a thread is in, with its call place and object (caller.h).
 * - place: the chain of return addresses behind a public call (place.h). Scope: a name for a thread's work (scope.h).
 * - library lock: a struct sm_lock. A fork takes all of them, so that the child finds whole what they guard.
 * - inside: a thread is inside while it holds or awaits an object's lock. A fork waits until no thread is inside.
 * - generation: the number of forks between the process that loaded the library and this one.
 * - detail: the text of a recorded failure (status.h). Refusal: memory for contents was refused (refusal.h).
 * - shard: one of SM_SHARDS parts of a structure that all threads use (shard.h). Counters have one array each
 *   (stats.h).
 * - slab: a pool of structs of one size; a cell is one of them (slab.h).
 * - hands: memory that a thread has taken off a list, so that no other thread finds it (hands.h).
 * - task: work that copy threads share (copy_threads.h).
 */
#ifndef SM_PROCESS_H
#define SM_PROCESS_H

#include "base/mutex.h"
#include "base/shard.h"
#include "synced_mem.h"

#include <assert.h>
#include <stddef.h>

/* A library lock. A thread that holds one takes no other. */
struct sm_lock {
    struct sm_mutex mutex;
    atomic_bool known;    /* it is in the list that a fork takes */
    struct sm_lock *next; /* in that list */
};

#define SM_LOCK_INITIALIZER                                                                                            \
    {                                                                                                                  \
        .next = NULL                                                                                                   \
    }
/* Repeat an initializer, for arrays whose members have a lock. */
#define SM_FOUR_TIMES(...) __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__
#define SM_SIXTEEN_TIMES(...)                                                                                          \
    SM_FOUR_TIMES(__VA_ARGS__), SM_FOUR_TIMES(__VA_ARGS__), SM_FOUR_TIMES(__VA_ARGS__), SM_FOUR_TIMES(__VA_ARGS__)

/* Takes the lock. Blocks while another thread holds it. The thread must hold no library lock. */
void sm_lock(struct sm_lock *lock);
void sm_unlock(struct sm_lock *lock);

/* Adds a lock to the list that a fork takes, at its first use. */
__attribute__((cold)) void sm_lock_register(struct sm_lock *lock);

/* Take and release a lock that is always held for a few instructions, during which the thread takes no other. So nobody
 * needs to know that it holds a lock, and that is not recorded. Nobody sleeps until it is released, so nobody is
 * awakened: a locked instruction is saved. Only these functions and forks take such a lock. */
static inline void sm_lock_briefly(struct sm_lock *lock)
{
    if (!atomic_load_explicit(&lock->known, memory_order_acquire))
        sm_lock_register(lock);
    if (!sm_mutex_try(&lock->mutex))
        sm_mutex_poll(&lock->mutex);
}

static inline void sm_unlock_brief(struct sm_lock *lock)
{
    atomic_store_explicit(&lock->mutex.state, SM_MUTEX_OPEN, memory_order_release);
}

/* Returns whether the calling thread holds a library lock, and so may take no other. */
bool sm_process_holds_lock(void);

/* The facts of the process that most calls read, in a cache line of their own. They seldom change. */
extern struct sm_process {
    _Alignas(SM_APART) atomic_uint generation;
    atomic_bool uses_gpu;
    atomic_bool lost_gpu;
    atomic_bool wants_caller; /* see base/caller.h */
    atomic_bool is_traced;    /* see trace/trace.h */
    atomic_bool is_guarded;   /* see memory/guard.h */
    atomic_bool uses_device;  /* see device/device.h */
    atomic_int devices;       /* the number that the GPU runtime has counted, or 0 */
} sm_process;

/* The calling thread. The next functions and process.c use it. */
extern _Thread_local struct sm_inside {
    unsigned depth; /* how often it is inside */
    bool counted;   /* it was counted when it entered */
} sm_inside;

/* The parts of sm_process_enter() and sm_process_leave() for a process that uses no GPU: count the thread in, and
 * out. */
void sm_process_pass_gate(void);
void sm_process_leave_gate(void);

/* Mark the time in which the calling thread holds or awaits locks of objects. Calls nest. sm_process_enter() blocks
 * while a fork is under way, and a fork waits until no thread is inside. So the child finds every object whole and
 * unlocked. Once the process uses a GPU, neither waits: a call inside may then block, and the child is refused the
 * objects. */
static inline void sm_process_enter(void)
{
    assert(!sm_process_holds_lock());
    if (sm_inside.depth++ == 0 && !atomic_load_explicit(&sm_process.uses_gpu, memory_order_relaxed))
        sm_process_pass_gate();
}

static inline void sm_process_leave(void)
{
    assert(sm_inside.depth > 0);
    if (--sm_inside.depth == 0 && sm_inside.counted)
        sm_process_leave_gate();
}

/* Returns whether the calling thread is inside or holds a library lock. If so, no user's callback may run in it. */
bool sm_process_is_inside(void);

/* Sets the function that a forked child calls before all else, with no lock held. There is one; it stays set. */
void sm_process_watch_children(void (*begin)(void));

/* Returns the number of forks between the process that loaded the library and this one. */
static inline unsigned sm_process_generation(void)
{
    return atomic_load_explicit(&sm_process.generation, memory_order_relaxed);
}

/* Records that the process uses a GPU from now on. Its forked children can't use one. */
void sm_process_uses_gpu(void);
/* Returns whether this process is a forked child of one that used a GPU. */
static inline bool sm_process_lost_gpu(void)
{
    return atomic_load_explicit(&sm_process.lost_gpu, memory_order_relaxed);
}
/* Fails with ERR_FORKED in such a child. what: the thing that belongs to the parent, for the detail. */
synced_mem_status sm_process_check_not_forked(const char *what);

#endif
