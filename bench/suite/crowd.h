/* Threads that do the same work at once. */
#ifndef CROWD_H
#define CROWD_H

enum { CROWD_MOST = 256 };

struct crowd;

/* One of the threads, as passed to its work. */
struct member {
    struct crowd *crowd;
    int number; /* from 0 */
    double began, ended;
};

/* Begin and end of the part that is timed. Each thread's work calls both once. crowd_begin() returns when all threads
 * have called it. */
void crowd_begin(struct member *member);
void crowd_end(struct member *member);

/* The times of a crowd's work. */
struct crowd_times {
    double slowest;  /* the largest result of work */
    double together; /* seconds from the first thread's begin to the last one's end */
};

/* work returns the seconds of one operation. */
struct crowd_times crowd_run(int threads, double (*work)(void *state, struct member *member), void *state);

#endif
