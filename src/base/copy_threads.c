/* Copy threads. They start when a task needs them, and then stay. */
#include "base/copy_threads.h"

#include "base/process.h"

#include "system/clock.h"
#include "system/thread.h"

/* A thread polls for so long after it has worked before it sleeps: waking it takes 30 to 40 microseconds, and transfers
 * often come in a row. It reads the clock after so many polls. */
enum { MAX_THREADS = 64, POLL_NS = 50000, POLLS = 16 };

static struct {
    struct sm_lock lock;
    struct sm_events changed;
    struct sm_task *first;
    struct sm_task **end; /* the link behind the last task */
    sm_thread threads[MAX_THREADS];
    unsigned count;
    unsigned watching; /* threads in a task's wait(): all but one may be, and one always may */
    bool ending;
    unsigned generation; /* the process that has the threads */
} queue = {.lock = SM_LOCK_INITIALIZER, .end = &queue.first};

void sm_task_hold(struct sm_task *task)
{
    atomic_fetch_add_explicit(&task->holders, 1, memory_order_relaxed);
}

void sm_task_drop(struct sm_task *task)
{
    if (atomic_fetch_sub_explicit(&task->holders, 1, memory_order_acq_rel) == 1)
        task->free(task);
}

/* ---- The queue, locked ---- */

/* After a fork: forgets the parent's threads, which the child does not have, and the parent's tasks. */
static void forget_parent_tasks(void)
{
    if (queue.generation == sm_process_generation())
        return;
    queue.generation = sm_process_generation();
    queue.first = NULL;
    queue.end = &queue.first;
    queue.count = 0;
    queue.watching = 0;
    queue.ending = false;
}

/* Returns the oldest task that is ready, held. If none is, returns the oldest task that no thread watches. So no task
 * is held back by another's source. NULL: none. */
static struct sm_task *find_next_task(void)
{
    struct sm_task *task = queue.first;
    while (task && !task->ready)
        task = task->next;
    if (!task && (queue.watching == 0 || queue.watching + 1 < queue.count))
        for (task = queue.first; task && task->watched;)
            task = task->next;
    if (task)
        sm_task_hold(task);
    return task;
}

/* ---- The threads ---- */

/* Waits until the task is ready. The queue is locked before and after. */
static void watch_task(struct sm_task *task)
{
    queue.watching++;
    task->watched = true;
    sm_unlock(&queue.lock);
    task->wait(task);
    sm_lock(&queue.lock);
    queue.watching--;
    task->ready = true;
    sm_events_add(&queue.changed);
}

/* poll_end: the time until which the thread polls before it sleeps. */
static void wait_for_change(uint64_t poll_end)
{
    const unsigned seen = sm_events_seen(&queue.changed);
    sm_unlock(&queue.lock);
    while (sm_events_seen(&queue.changed) == seen && sm_now() < poll_end)
        for (int i = 0; i < POLLS && sm_events_seen(&queue.changed) == seen; i++)
            sm_pause();
    if (sm_events_seen(&queue.changed) == seen)
        sm_events_wait(&queue.changed, seen);
    sm_lock(&queue.lock);
}

static void *run_copy_thread(void *unused)
{
    (void)unused;
    uint64_t poll_end = 0;
    sm_lock(&queue.lock);
    while (!queue.ending) {
        struct sm_task *const task = find_next_task();
        if (!task) {
            wait_for_change(poll_end);
            continue;
        }
        if (task->ready) {
            sm_unlock(&queue.lock);
            task->work(task);
            sm_copy_threads_remove(task);
            poll_end = sm_now() + POLL_NS;
            sm_lock(&queue.lock);
        } else {
            watch_task(task);
        }
        sm_unlock(&queue.lock);
        sm_task_drop(task);
        sm_lock(&queue.lock);
    }
    sm_unlock(&queue.lock);
    return NULL;
}

/* Starts threads up to the given number. */
static void start_threads(unsigned threads)
{
    while (queue.count < threads && queue.count < MAX_THREADS &&
           sm_thread_start(&queue.threads[queue.count], run_copy_thread, NULL))
        queue.count++;
}

void sm_copy_threads_add(struct sm_task *task, bool ready, unsigned threads)
{
    sm_lock(&queue.lock);
    forget_parent_tasks();
    task->ready = ready;
    task->next = NULL;
    task->link = queue.end;
    *queue.end = task;
    queue.end = &task->next;
    sm_task_hold(task);
    start_threads(threads);
    sm_unlock(&queue.lock);
}

void sm_copy_threads_wake(void)
{
    sm_events_add(&queue.changed);
}

void sm_copy_threads_ready(struct sm_task *task)
{
    sm_lock(&queue.lock);
    if (!task->ready) {
        task->ready = true;
        sm_events_add(&queue.changed);
    }
    sm_unlock(&queue.lock);
}

void sm_copy_threads_remove(struct sm_task *task)
{
    sm_lock(&queue.lock);
    const bool was_queued = task->link != NULL;
    if (was_queued) {
        *task->link = task->next;
        if (task->next)
            task->next->link = task->link;
        else
            queue.end = task->link;
        task->link = NULL;
    }
    sm_unlock(&queue.lock);
    if (was_queued)
        sm_task_drop(task);
}

unsigned sm_copy_threads_count(void)
{
    sm_lock(&queue.lock);
    forget_parent_tasks();
    const unsigned count = queue.count;
    sm_unlock(&queue.lock);
    return count;
}

void sm_copy_threads_end(void)
{
    sm_lock(&queue.lock);
    forget_parent_tasks();
    const unsigned count = queue.count;
    queue.ending = true;
    sm_events_add(&queue.changed);
    sm_unlock(&queue.lock);
    for (unsigned i = 0; i < count; i++)
        sm_thread_join(queue.threads[i]);
    sm_lock(&queue.lock);
    queue.count = 0;
    queue.ending = false;
    sm_unlock(&queue.lock);
}
