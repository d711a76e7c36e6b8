/* Another process, which does jobs beside the suite's. */
#ifndef OTHER_H
#define OTHER_H

#include <stdatomic.h>
#include <sys/types.h>

/* The words that both processes map. */
struct other_words {
    _Alignas(64) atomic_uint job; /* of the other process; 0: none */
    _Alignas(64) atomic_uint ball;
    double seconds; /* a time of seconds_now(), which both processes read alike; written before a job ends */
};

struct other {
    struct other_words *words;
    pid_t process;
    int socket; /* connected with the other process */
};

/* Starts the process, in which be() is called. Call it before the process uses a GPU. */
struct other other_start(void (*be)(struct other_words *words, int socket));
/* Ends the other process, after its job. */
void other_end(struct other *other);

void other_begin(const struct other *other, unsigned job); /* job: not 0 */
void other_wait(const struct other *other);                /* until the job has ended */

/* In the other process: waits for the next job. Returns 0 if there is none any more. */
unsigned other_next(struct other_words *words);
void other_done(struct other_words *words);

/* Waits for a word by a futex, and stores one. */
void sleep_while(atomic_uint *word, unsigned value);
void store_and_wake(atomic_uint *word, unsigned value);

#endif
