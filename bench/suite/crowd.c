#include "crowd.h"

#include "measure.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

struct crowd {
    int threads;
    atomic_int arrived;
    double (*work)(void *state, struct member *member);
    void *state;
    struct member members[CROWD_MOST];
    double answers[CROWD_MOST];
};

/* The waiting threads keep running, so that all go on at once. A barrier would wake them one by one. */
void crowd_begin(struct member *member)
{
    struct crowd *const crowd = member->crowd;
    (void)atomic_fetch_add(&crowd->arrived, 1);
    while (atomic_load(&crowd->arrived) < crowd->threads)
        (void)sched_yield();
    member->began = seconds_now();
}

void crowd_end(struct member *member)
{
    member->ended = seconds_now();
}

static void *run_member(void *argument)
{
    struct member *const member = argument;
    struct crowd *const crowd = member->crowd;
    crowd->answers[member->number] = crowd->work(crowd->state, member);
    return NULL;
}

static struct crowd_times times_of(const struct crowd *crowd)
{
    const struct member *const members = crowd->members;
    double began = members[0].began;
    double ended = members[0].ended;
    double slowest = crowd->answers[0];
    for (int i = 1; i < crowd->threads; i++) {
        began = members[i].began < began ? members[i].began : began;
        ended = members[i].ended > ended ? members[i].ended : ended;
        slowest = crowd->answers[i] > slowest ? crowd->answers[i] : slowest;
    }
    return (struct crowd_times){slowest, ended - began};
}

struct crowd_times crowd_run(int threads, double (*work)(void *state, struct member *member), void *state)
{
    static struct crowd crowd;
    pthread_t ids[CROWD_MOST];
    must(threads > 0 && threads <= CROWD_MOST, "too many threads");
    crowd.threads = threads;
    crowd.work = work;
    crowd.state = state;
    atomic_store(&crowd.arrived, 0);
    for (int i = 0; i < threads; i++) {
        crowd.members[i] = (struct member){.crowd = &crowd, .number = i};
        must(pthread_create(&ids[i], NULL, run_member, &crowd.members[i]) == 0, "no thread");
    }
    for (int i = 0; i < threads; i++)
        must(pthread_join(ids[i], NULL) == 0, "a thread can't be joined");
    return times_of(&crowd);
}
