/* The threads that read and write files. They start when a task needs them, and then stay. */
#include "base/file_threads.h"

#include "base/process.h"

#include "system/thread.h"

#include <stdint.h>

enum { MAX_THREADS = 64 };
/* Nanoseconds that a thread waits for a task before it rests. */
enum { WAIT_AWAKE = 10000000 };

struct queue {
    struct sm_events changed;
    struct sm_file_task *first;
    struct sm_file_task **end; /* the link behind the last task */
    sm_file_rest *rest;
    sm_thread threads[MAX_THREADS];
    unsigned count;
    unsigned watching; /* threads in a task's wait(): all but one may be, and one always may */
    bool ending;
};

static struct {
    struct sm_lock lock; /* guards the queues */
    struct queue of[SM_FILE_KINDS];
    unsigned generation; /* the process that has the threads */
} queues = {.lock = SM_LOCK_INITIALIZER};

void sm_file_task_hold(struct sm_file_task *task)
{
    atomic_fetch_add_explicit(&task->holders, 1, memory_order_relaxed);
}

void sm_file_task_drop(struct sm_file_task *task)
{
    if (atomic_fetch_sub_explicit(&task->holders, 1, memory_order_acq_rel) == 1)
        task->free(task);
}

/* ---- The queues, locked ---- */

static void reset_queue(struct queue *queue)
{
    queue->first = NULL;
    queue->end = &queue->first;
    queue->count = 0;
    queue->watching = 0;
    queue->ending = false;
}

/* Before the first use, and after a fork: the child has neither the parent's threads nor its tasks. */
static void forget_others(void)
{
    if (queues.of[0].end && queues.generation == sm_process_generation())
        return;
    queues.generation = sm_process_generation();
    for (int i = 0; i < SM_FILE_KINDS; i++)
        reset_queue(&queues.of[i]);
}

static void lock_queues(void)
{
    sm_lock(&queues.lock);
    forget_others();
}

/* Returns the oldest task that is ready, held. If none is, returns the oldest task that no thread watches. So no task
 * is held back by what another one waits for. NULL: none. */
static struct sm_file_task *find_next_task(const struct queue *queue)
{
    struct sm_file_task *task = queue->first;
    while (task && !task->ready)
        task = task->next;
    if (!task && (queue->watching == 0 || queue->watching + 1 < queue->count))
        for (task = queue->first; task && task->watched;)
            task = task->next;
    if (task)
        sm_file_task_hold(task);
    return task;
}

/* Returns whether the task was queued. */
static bool take_out(struct queue *queue, struct sm_file_task *task)
{
    if (!task->link)
        return false;
    *task->link = task->next;
    if (task->next)
        task->next->link = task->link;
    else
        queue->end = task->link;
    task->link = NULL;
    sm_events_add(&queue->changed);
    return true;
}

/* ---- The threads ---- */

/* Waits until the task is ready. The queues are locked before and after. */
static void watch_task(struct queue *queue, struct sm_file_task *task)
{
    queue->watching++;
    task->watched = true;
    sm_unlock(&queues.lock);
    task->wait(task);
    sm_lock(&queues.lock);
    queue->watching--;
    task->ready = true;
    sm_events_add(&queue->changed);
}

/* awake: the thread may have kept something. Returns whether it still may. The queues are locked before and after. */
static bool wait_for_change(struct queue *queue, bool awake)
{
    const unsigned seen = sm_events_seen(&queue->changed);
    sm_unlock(&queues.lock);
    if (awake)
        sm_events_wait_for(&queue->changed, seen, WAIT_AWAKE);
    else
        sm_events_wait(&queue->changed, seen);
    const bool rests = awake && seen == sm_events_seen(&queue->changed);
    const bool rested = rests && queue->rest(false);
    sm_lock(&queues.lock);
    return awake && !rested;
}

/* Finds a task, and works on it or watches it. Returns whether the thread may have kept something. The queues are locked
 * before and after. */
static bool take_turn(struct queue *queue, bool awake)
{
    struct sm_file_task *const task = find_next_task(queue);
    const bool watches = task && !task->ready;
    if (!task)
        return wait_for_change(queue, awake);
    if (watches && !awake)
        watch_task(queue, task);
    sm_unlock(&queues.lock);
    if (watches) {
        (void)queue->rest(true); /* first, as the watch may last */
    } else {
        task->work(task);
        sm_file_threads_remove((enum sm_file_threads)(queue - queues.of), task);
    }
    sm_file_task_drop(task);
    sm_lock(&queues.lock);
    return !watches;
}

static void *run_thread(void *argument)
{
    struct queue *const queue = argument;
    bool awake = false;
    sm_lock(&queues.lock);
    while (!queue->ending || queue->first)
        awake = take_turn(queue, awake);
    sm_unlock(&queues.lock);
    (void)queue->rest(true);
    return NULL;
}

bool sm_file_threads_start(enum sm_file_threads kind, unsigned wanted, sm_file_rest *rest)
{
    struct queue *const queue = &queues.of[kind];
    lock_queues();
    queue->rest = rest;
    while (queue->count < wanted && queue->count < MAX_THREADS &&
           sm_thread_start(&queue->threads[queue->count], run_thread, queue))
        queue->count++;
    const bool any = queue->count > 0;
    sm_unlock(&queues.lock);
    return any;
}

void sm_file_threads_add(enum sm_file_threads kind, struct sm_file_task *task)
{
    struct queue *const queue = &queues.of[kind];
    lock_queues();
    task->ready = !task->wait;
    task->next = NULL;
    task->link = queue->end;
    *queue->end = task;
    queue->end = &task->next;
    sm_file_task_hold(task);
    sm_events_add(&queue->changed);
    sm_unlock(&queues.lock);
}

void sm_file_threads_remove(enum sm_file_threads kind, struct sm_file_task *task)
{
    lock_queues();
    const bool was_queued = take_out(&queues.of[kind], task);
    sm_unlock(&queues.lock);
    if (was_queued)
        sm_file_task_drop(task);
}

void sm_file_threads_end(void)
{
    for (int i = 0; i < SM_FILE_KINDS; i++) {
        struct queue *const queue = &queues.of[i];
        lock_queues();
        const unsigned count = queue->count;
        queue->ending = true;
        sm_events_add(&queue->changed);
        sm_unlock(&queues.lock);
        for (unsigned j = 0; j < count; j++)
            sm_thread_join(queue->threads[j]);
        lock_queues();
        queue->count = 0;
        queue->ending = false;
        sm_unlock(&queues.lock);
    }
}
