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

/* Takes the task out of the queue. Returns whether it was there; the queue's hold is the caller's then. */
static bool unlink_task(struct sm_task *task)
{
    if (!task->link)
        return false;
    *task->link = task->next;
    if (task->next)
        task->next->link = task->link;
    else
        queue.end = task->link;
    task->link = NULL;
    return true;
}

/* ---- The threads ---- */

/* Waits until the task's work can begin, and marks it as ready. The thread has counted itself as watching. */
static void watch_task(struct sm_task *task)
{
    task->wait(task);
    sm_lock(&queue.lock);
    queue.watching--;
    task->ready = true;
    sm_unlock(&queue.lock);
    sm_events_add(&queue.changed);
}

/* seen: the count of changes when there was no task. poll_end: the time until which the thread polls before it
 * sleeps. */
static void wait_for_change(unsigned seen, uint64_t poll_end)
{
    while (sm_events_seen(&queue.changed) == seen && sm_now() < poll_end)
        for (int i = 0; i < POLLS && sm_events_seen(&queue.changed) == seen; i++)
            sm_pause();
    if (sm_events_seen(&queue.changed) == seen)
        sm_events_wait(&queue.changed, seen);
}

enum duty { TO_END, TO_WAIT, TO_WORK, TO_WATCH };

/* Takes the task that the thread has worked on (NULL: none) out of the queue, and drops it. Returns the next duty.
 * *task: the task to work on or to watch, held; else NULL. *seen: the count of changes before the search. */
static enum duty find_duty(struct sm_task *done, struct sm_task **task, unsigned *seen)
{
    enum duty duty = TO_END;
    *task = NULL;
    sm_lock(&queue.lock);
    const bool was_queued = done && unlink_task(done);
    *seen = sm_events_seen(&queue.changed);
    if (!queue.ending) {
        *task = find_next_task();
        duty = !*task ? TO_WAIT : (*task)->ready ? TO_WORK : TO_WATCH;
    }
    if (duty == TO_WATCH) {
        queue.watching++;
        (*task)->watched = true;
    }
    sm_unlock(&queue.lock);
    if (was_queued)
        sm_task_drop(done);
    if (done)
        sm_task_drop(done);
    return duty;
}

/* A thread takes the lock once for each task that it works on: threads contend for it when one transfer follows
 * another. */
static void *run_copy_thread(void *unused)
{
    struct sm_task *task;
    struct sm_task *done = NULL;
    uint64_t poll_end = 0;
    unsigned seen;
    enum duty duty;
    (void)unused;
    while ((duty = find_duty(done, &task, &seen)) != TO_END) {
        done = NULL;
        if (duty == TO_WAIT) {
            wait_for_change(seen, poll_end);
            continue;
        }
        if (duty == TO_WORK) {
            task->work(task);
            poll_end = sm_now() + POLL_NS;
            done = task;
        } else {
            watch_task(task);
            sm_task_drop(task);
        }
    }
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
    const bool was_queued = unlink_task(task);
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
