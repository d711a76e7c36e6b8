/* The library's copy threads, and the queue of what they help with. */
#ifndef SM_COPY_THREADS_H
#define SM_COPY_THREADS_H

#include <stdatomic.h>
#include <stdbool.h>

/* Something that any number of threads can work on at once. */
struct sm_task {
    void (*work)(struct sm_task *task); /* until there is nothing left to take */
    void (*wait)(struct sm_task *task); /* until it can be worked on */
    void (*free)(struct sm_task *task);
    atomic_uint holders;
    /* The rest is the queue's. */
    struct sm_task *next;
    bool queued;
    bool ready;
    bool watched; /* a thread waits until it is ready */
};

void sm_task_hold(struct sm_task *task);
void sm_task_drop(struct sm_task *task);

/* Puts a task in the queue, which holds it, and starts threads up to the number, as far as the system has any. ready:
 * it can be worked on without a wait. */
void sm_copy_threads_add(struct sm_task *task, bool ready, unsigned threads);
/* It can be worked on. */
void sm_copy_threads_ready(struct sm_task *task);
/* There is nothing left to take. Threads that are at work on it go on. */
void sm_copy_threads_remove(struct sm_task *task);
/* How many there are. */
unsigned sm_copy_threads_count(void);
/* Ends all of them. The queue must be empty. */
void sm_copy_threads_end(void);

#endif
