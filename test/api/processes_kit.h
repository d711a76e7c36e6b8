/* Processes that share an object. Each starts the runtime itself, so a test must not have started it. */
#ifndef PROCESSES_KIT_H
#define PROCESSES_KIT_H

#include "children.h"
#include "sharing_kit.h"

#include <stdlib.h>

enum { FLAGS = 16 };

/* Memory that all processes of a test have. */
struct common {
    atomic_int flags[FLAGS];
    unsigned char object[256]; /* for the test */
};
static struct common *common;

static inline void raise_flag(int flag)
{
    atomic_fetch_add(&common->flags[flag], 1);
}

static inline void await_flag(int flag, int count)
{
    for (int i = 0; i < LONG_MS * 5 && atomic_load(&common->flags[flag]) < count; i++)
        (void)usleep(200);
    ck_assert_int_ge(atomic_load(&common->flags[flag]), count);
}

/* Runs the role in a process of its own, with its end of the socket. The process starts the runtime, and must leave
 * nothing. A role that hangs is killed. */
static inline pid_t start_role(void (*role)(int socket), int ends[2], int end)
{
    (void)fflush(NULL);
    await_threads();
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child > 0)
        return child;
    (void)alarm(500);
    if (ends) {
        (void)close(ends[1 - end]);
        (void)gpu_start(fixture_schedule());
    }
    role(ends ? ends[end] : -1);
    OK(synced_mem_shutdown());
    const synced_mem_stats stats = stats_now();
    ck_assert_uint_eq(stats.gpu_bytes + stats.retired + stats.quarantined, 0);
    ck_assert_int_eq(count_shared_mappings(), 0);
    gpu_check_nothing_left();
    exit(EXIT_SUCCESS);
}

static inline void kill_role(pid_t child)
{
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(end_child(child), KILLED + SIGKILL);
}

/* Two processes with a socket between them; [0] the maker's. */
static inline void start_two(void (*maker)(int socket), void (*receiver)(int socket), pid_t roles[2])
{
    int ends[2];
    if (!common)
        common = make_common(sizeof *common);
    memset(common, 0, sizeof *common);
    ck_assert(open_pair(SOCK_STREAM, ends));
    roles[0] = start_role(maker, ends, 0);
    roles[1] = start_role(receiver, ends, 1);
    close_pair(ends);
}

static inline void run_two(void (*maker)(int socket), void (*receiver)(int socket))
{
    pid_t roles[2];
    start_two(maker, receiver, roles);
    ck_assert_int_eq(end_child(roles[0]), 0);
    ck_assert_int_eq(end_child(roles[1]), 0);
}

/* Makes an object, gives it away, and keeps the turn. */
static inline synced_mem *make_and_share(int socket)
{
    synced_mem *const mem = make_shareable(BYTES);
    OK(synced_mem_share(mem, socket, LONG_MS));
    return mem;
}

static inline synced_mem *receive(int socket)
{
    synced_mem *mem;
    OK(synced_mem_receive(&mem, socket, LONG_MS));
    return mem;
}

#endif
