/* Descriptors that are closed by threads. */
#include "memory/shared/closer.h"

#include "base/mutex.h"
#include "base/process.h"
#include "system/file.h"
#include "system/thread.h"

enum {
    MOST_OPEN = 128, /* descriptors that wait or are being closed; beyond, no message is received */
    MOST_OF_MESSAGE = 256,
    MOST_THREADS = 4
};

static struct {
    struct sm_lock lock;
    int waiting[MOST_OPEN + MOST_OF_MESSAGE];
    unsigned count;   /* waiting */
    unsigned closing; /* by threads just now: each closes one */
    unsigned threads;
    unsigned generation; /* the process that has the threads */
} closer = {.lock = SM_LOCK_INITIALIZER};

/* After a fork: the child has neither the threads nor, one hopes, the use of the parent's descriptors. They stay open
 * in it, because a close() might block. */
static void forget_parent(void)
{
    if (closer.generation == sm_process_generation())
        return;
    closer.generation = sm_process_generation();
    closer.count = closer.closing = closer.threads = 0;
}

static void *close_all(void *unused)
{
    sm_lock(&closer.lock);
    while (closer.count > 0) {
        const int fd = closer.waiting[--closer.count];
        closer.closing++;
        sm_unlock(&closer.lock);
        (void)sm_file_close(fd);
        sm_lock(&closer.lock);
        closer.closing--;
    }
    closer.threads--;
    sm_unlock(&closer.lock);
    return unused;
}

bool sm_closer_has_room(void)
{
    sm_lock(&closer.lock);
    forget_parent();
    const bool has = closer.count + closer.closing < MOST_OPEN;
    sm_unlock(&closer.lock);
    return has;
}

void sm_closer_add(int fd)
{
    if (fd < 0)
        return;
    sm_lock(&closer.lock);
    forget_parent();
    if (closer.count < sizeof closer.waiting / sizeof *closer.waiting)
        closer.waiting[closer.count++] = fd;
    const bool needs_thread = closer.threads < MOST_THREADS && closer.threads == closer.closing;
    closer.threads += needs_thread;
    sm_unlock(&closer.lock);
    /* Not with the lock: a handler of a signal may fork. */
    if (needs_thread && !sm_thread_start(NULL, close_all, NULL)) {
        sm_lock(&closer.lock);
        closer.threads -= closer.threads > 0;
        sm_unlock(&closer.lock);
    }
}

bool sm_closer_is_idle(void)
{
    sm_lock(&closer.lock);
    forget_parent();
    const bool idle = closer.count + closer.closing + closer.threads == 0;
    sm_unlock(&closer.lock);
    return idle;
}
