/* Threads that do the same thing at once. */
#ifndef CROWD_H
#define CROWD_H

enum { CROWD_MOST = 256 };

struct crowd;

/* One of the threads, as its work sees it. */
struct member {
    struct crowd *crowd;
    int number; /* from 0 */
    double began, ended;
};

/* The part that counts, which each thread's work calls once: none gets past the first before all have come to it. */
void crowd_begin(struct member *member);
void crowd_end(struct member *member);

/* What a crowd's work took. */
struct crowd_times {
    double slowest;  /* the largest of the answers */
    double together; /* seconds from the first thread's beginning to the last one's end */
};

/* work answers the seconds of one of the things that it does. */
struct crowd_times crowd_run(int threads, double (*work)(void *state, struct member *member), void *state);

#endif
