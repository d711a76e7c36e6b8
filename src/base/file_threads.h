/*
 * The threads that read and write files. They are others than the copy threads, since a slow disk would otherwise hold
 * up transfers. Those that write are others than those that read, for the same reason.
 */
#ifndef SM_FILE_THREADS_H
#define SM_FILE_THREADS_H

#include <stdatomic.h>
#include <stdbool.h>

enum sm_file_threads { SM_FILE_READERS, SM_FILE_WRITERS, SM_FILE_KINDS };

/* A task: work that any number of threads can do together. Who holds it keeps it alive. */
struct sm_file_task {
    void (*work)(struct sm_file_task *task); /* works until no chunk is left to take */
    void (*wait)(struct sm_file_task *task); /* blocks until the work can begin; NULL: it can at once */
    void (*free)(struct sm_file_task *task);
    atomic_uint holders;
    bool is_small; /* one thread does all of it */
    /* The queue uses the rest. */
    struct sm_file_task *next;
    struct sm_file_task **link; /* the link to this task; NULL: it is not queued, or a thread is in its wait() */
    bool ready;
};

void sm_file_task_hold(struct sm_file_task *task);
/* Removes a holder. The last one calls free(). */
void sm_file_task_drop(struct sm_file_task *task);

/* Gives up what the calling thread has kept from its tasks. waits: blocks until nothing is in use any more; else gives
 * up what is not. Returns whether nothing is left. */
typedef bool sm_file_rest(bool waits);

/* Starts threads of the kind until there are as many as wanted, or the system refuses one. A thread rests when it finds
 * no task for some milliseconds, before it waits for a task, and at its end. Returns whether there are any threads. */
bool sm_file_threads_start(enum sm_file_threads kind, unsigned wanted, sm_file_rest *rest);
/* Appends the task to the queue, which holds it. There must be threads. Does not wait for the task. */
void sm_file_threads_add(enum sm_file_threads kind, struct sm_file_task *task);
/* Removes the task from the queue, which drops it. For a task with no chunk left to take. Threads already in work() go
 * on. No effect if the task is not queued. */
void sm_file_threads_remove(enum sm_file_threads kind, struct sm_file_task *task);
/* Ends all threads, once the queues are empty, and waits for them. */
void sm_file_threads_end(void);

#endif
