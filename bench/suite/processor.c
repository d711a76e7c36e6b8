#include "processor.h"

#include "measure.h"

#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Runs two threads of a core with less than half the speed each if both have the units busy, so several chains of
 * operations, which do not depend on one another, show the other thread. */
static uint64_t run_loop(uint64_t seed)
{
    uint64_t a = seed, b = seed + 1, c = seed + 2, d = seed + 3;
    for (int i = 0; i < 2000; i++) {
        a = (a ^ (a >> 7)) + 0x9e37;
        b = (b ^ (b >> 9)) + 0x79b9;
        c = (c ^ (c >> 11)) + 0x7f4a;
        d = (d ^ (d >> 13)) + 0x7c15;
    }
    return a ^ b ^ c ^ d;
}

/* Returns the least time of several runs, so that an interrupt does not count. */
static double time_loop(void)
{
    static volatile uint64_t seed;
    double least = 1;
    for (int i = 0; i < 4; i++) {
        const double begin = seconds_now();
        seed = run_loop(seed);
        const double taken = seconds_now() - begin;
        least = taken < least ? taken : least;
    }
    return least;
}

/* Stores where the thread runs. By a system call, as musl has no such function. */
static bool find_place(unsigned *processor, unsigned *node)
{
    return syscall(SYS_getcpu, processor, node, NULL) == 0;
}

/* Moves the thread to the processor. Returns false if it may not run there, or the processor is of another node. */
static bool move_to(unsigned processor, const cpu_set_t *allowed, unsigned node)
{
    cpu_set_t only;
    unsigned now_on, its_node;
    CPU_ZERO(&only);
    CPU_SET(processor, &only);
    return CPU_ISSET(processor, allowed) && sched_setaffinity(0, sizeof only, &only) == 0 &&
           find_place(&now_on, &its_node) && its_node == node;
}

/* Tries all processors, and moves to the one with the quickest loop. Returns its time. */
static double move_to_quickest(void)
{
    cpu_set_t allowed;
    unsigned best, node;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || !find_place(&best, &node))
        return time_loop();
    double least = time_loop();
    for (unsigned i = 0; i < CPU_SETSIZE; i++) {
        const double taken = move_to(i, &allowed, node) ? time_loop() : least;
        if (taken < least) {
            least = taken;
            best = i;
        }
    }
    (void)move_to(best, &allowed, node);
    (void)sched_setaffinity(0, sizeof allowed, &allowed); /* the thread stays where it is */
    return least;
}

void find_quiet_processor(void)
{
    static const double tolerance = 1.1, pause = 0.02;
    static double quickest = 1; /* of all tries */
    static double last_search;
    const double now = seconds_now();
    if (time_loop() <= tolerance * quickest && quickest < 1)
        return;
    if (now - last_search < pause)
        return;
    last_search = now;
    const double least = move_to_quickest();
    quickest = least < quickest ? least : quickest;
}
