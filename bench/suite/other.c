#include "other.h"

#include "measure.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const unsigned idle = 0, last = UINT_MAX;

void sleep_while(atomic_uint *word, unsigned value)
{
    while (atomic_load(word) == value)
        (void)syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

void store_and_wake(atomic_uint *word, unsigned value)
{
    atomic_store(word, value);
    (void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

unsigned other_next(struct other_words *words)
{
    sleep_while(&words->job, idle);
    const unsigned job = atomic_load(&words->job);
    return job == last ? 0 : job;
}

void other_done(struct other_words *words)
{
    store_and_wake(&words->job, idle);
}

struct other other_start(void (*be)(struct other_words *words, int socket))
{
    struct other other = {.process = -1};
    int ends[2];
    other.words = mmap(NULL, sizeof *other.words, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(other.words != MAP_FAILED, "no memory");
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "no socket");
    other.process = fork();
    must(other.process >= 0, "no process");
    (void)close(ends[other.process == 0]);
    other.socket = ends[other.process != 0];
    if (other.process == 0) {
        be(other.words, other.socket);
        must_work(synced_mem_shutdown() == SYNCED_MEM_OK); /* fails if an object is left */
        exit(EXIT_SUCCESS);
    }
    return other;
}

void other_begin(const struct other *other, unsigned job)
{
    store_and_wake(&other->words->job, job);
}

void other_wait(const struct other *other)
{
    unsigned job;
    while ((job = atomic_load(&other->words->job)) != idle)
        sleep_while(&other->words->job, job);
}

void other_end(struct other *other)
{
    int how = 0;
    store_and_wake(&other->words->job, last);
    must(waitpid(other->process, &how, 0) == other->process && how == 0, "the other process failed");
    (void)close(other->socket);
    (void)munmap(other->words, sizeof *other->words);
}
