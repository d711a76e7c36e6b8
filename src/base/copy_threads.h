/* Copy threads: worker threads of the library, and the queue of tasks that they share. */
#ifndef SM_COPY_THREADS_H
#define SM_COPY_THREADS_H

#include <stdatomic.h>
#include <stdbool.h>

/* A task: work that any number of threads can do together. Who holds it keeps it alive. */
struct sm_task {
    /* Works until nothing is left to take, or returns at once if enough threads do so. */
    void (*work)(struct sm_task *task);
    void (*wait)(struct sm_task *task); /* blocks until the work can begin; NULL: it can at once */
    void (*free)(struct sm_task *task);
    atomic_uint holders;
    /* The queue uses the rest. */
    struct sm_task *next;
    struct sm_task **link; /* the link to this task; NULL: it is not queued */
    bool ready;
    bool watched; /* a copy thread calls wait(), or has called it */
};

/* Adds a holder. */
void sm_task_hold(struct sm_task *task);
/* Removes a holder. The last one calls free(). */
void sm_task_drop(struct sm_task *task);

/* Appends the task to the queue, which holds it. Starts copy threads until there are as many as given, or until the
 * system refuses one. ready: the work can begin without a wait. Threads that sleep go on sleeping. */
void sm_copy_threads_add(struct sm_task *task, bool ready, unsigned threads);
/* Wakes all copy threads, which look for tasks. */
void sm_copy_threads_wake(void);
/* Marks the task as ready: its work can begin. */
void sm_copy_threads_ready(struct sm_task *task);
/* Removes the task from the queue, which drops it. For a task that needs no other thread: threads already in work() go
 * on until its end. No effect if the task is not queued. */
void sm_copy_threads_remove(struct sm_task *task);
/* Returns the number of copy threads. */
unsigned sm_copy_threads_count(void);
/* Ends all copy threads and waits for them. The queue must be empty. */
void sm_copy_threads_end(void);

#endif
