/* The threads that read and write files. They start when a task needs them, and then stay. */
#include "base/file_threads.h"

#include "base/process.h"

#include "system/clock.h"
#include "system/thread.h"

#include <stdint.h>

enum { MAX_THREADS = 64 };
/* Nanoseconds that a thread waits for a task before it rests. */
enum { WAIT_AWAKE = 10000000 };

struct list {
    struct sm_file_task *first;
    struct sm_file_task **end; /* the link behind the last task */
};

struct queue {
    struct sm_events changed;
    struct list ready;   /* tasks to work on */
    struct list waiting; /* tasks whose wait() no thread has called */
    sm_file_rest *rest; /* constant while there are threads */
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
    queue->ready = (struct list){.end = &queue->ready.first};
    queue->waiting = (struct list){.end = &queue->waiting.first};
    queue->count = 0;
    queue->watching = 0;
    queue->ending = false;
}

/* Before the first use, and after a fork: the child has neither the parent's threads nor its tasks. */
static void forget_others(void)
{
    if (queues.of[0].ready.end && queues.generation == sm_process_generation())
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

static struct list *list_of(struct queue *queue, const struct sm_file_task *task)
{
    return task->ready ? &queue->ready : &queue->waiting;
}

/* A small task needs one thread, and to wake many would take longer than it does. */
static void wake_threads(struct queue *queue, const struct sm_file_task *task)
{
    if (task->is_small)
        sm_events_add_for_one(&queue->changed);
    else
        sm_events_add(&queue->changed);
}

/* Appends the task, which the queue holds. */
static void append(struct queue *queue, struct sm_file_task *task)
{
    struct list *const list = list_of(queue, task);
    task->next = NULL;
    task->link = list->end;
    *list->end = task;
    list->end = &task->next;
    wake_threads(queue, task);
}

/* Returns whether the task was queued. Threads that are ending wait for the queue to be empty. */
static bool take_out(struct queue *queue, struct sm_file_task *task)
{
    if (!task->link)
        return false;
    *task->link = task->next;
    if (task->next)
        task->next->link = task->link;
    else
        list_of(queue, task)->end = task->link;
    task->link = NULL;
    if (queue->ending)
        sm_events_add(&queue->changed);
    return true;
}

static bool may_watch(const struct queue *queue)
{
    return queue->watching == 0 || queue->watching + 1 < queue->count;
}

/* Returns the task that has been ready the longest, held. If none is, takes out the oldest task that waits. So no task
 * is held back by what another one waits for. NULL: none. */
static struct sm_file_task *find_next_task(struct queue *queue)
{
    struct sm_file_task *const waits = may_watch(queue) ? queue->waiting.first : NULL;
    struct sm_file_task *const task = queue->ready.first ? queue->ready.first : waits;
    if (!task)
        return NULL;
    if (task->ready)
        sm_file_task_hold(task);
    else
        (void)take_out(queue, task);
    return task;
}

/* ---- The threads ---- */

/* Waits until the task is ready, and appends it. The queues are locked before and after. */
static void watch_task(struct queue *queue, struct sm_file_task *task)
{
    queue->watching++;
    sm_unlock(&queues.lock);
    task->wait(task);
    sm_lock(&queues.lock);
    queue->watching--;
    task->ready = true;
    append(queue, task);
}

/* awake_until: when the thread rests, as it may have kept something; 0: it has nothing. Returns the same for the next
 * wait. Other threads may take tasks meanwhile, and wake this one or not. The queues are locked before and after. */
static uint64_t wait_for_change(struct queue *queue, uint64_t awake_until)
{
    const unsigned seen = sm_events_seen(&queue->changed);
    const uint64_t now = awake_until > 0 ? sm_now() : 0;
    sm_unlock(&queues.lock);
    if (awake_until == 0)
        sm_events_wait(&queue->changed, seen);
    else if (now < awake_until)
        sm_events_wait_for(&queue->changed, seen, awake_until - now);
    else
        awake_until = queue->rest(false) ? 0 : now + WAIT_AWAKE;
    sm_lock(&queues.lock);
    return awake_until;
}

/* Works on a task, or watches one after the thread has rested, as the watch may last. Takes and returns awake_until.
 * The queues are locked before and after. */
static uint64_t take_turn(struct queue *queue, uint64_t awake_until)
{
    if (awake_until > 0 && !queue->ready.first && queue->waiting.first && may_watch(queue)) {
        sm_unlock(&queues.lock);
        (void)queue->rest(true);
        sm_lock(&queues.lock);
    }
    struct sm_file_task *const task = find_next_task(queue);
    if (!task)
        return wait_for_change(queue, awake_until);
    if (!task->ready) {
        watch_task(queue, task);
        return 0;
    }
    sm_unlock(&queues.lock);
    task->work(task);
    sm_file_threads_remove((enum sm_file_threads)(queue - queues.of), task);
    sm_file_task_drop(task);
    sm_lock(&queues.lock);
    return sm_now() + WAIT_AWAKE;
}

static void *run_thread(void *argument)
{
    struct queue *const queue = argument;
    uint64_t awake_until = 0;
    sm_lock(&queues.lock);
    while (!queue->ending || queue->ready.first || queue->waiting.first)
        awake_until = take_turn(queue, awake_until);
    sm_unlock(&queues.lock);
    (void)queue->rest(true);
    return NULL;
}

bool sm_file_threads_start(enum sm_file_threads kind, unsigned wanted, sm_file_rest *rest)
{
    struct queue *const queue = &queues.of[kind];
    lock_queues();
    if (queue->count == 0)
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
    sm_file_task_hold(task);
    append(queue, task);
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
