/*
 * Records the cache lines that threads use in functions compiled with -fsanitize=thread, whose runtime this replaces.
 */
#ifndef RECORDER_H
#define RECORDER_H

/* A thread from 0 to RECORDED_THREADS - 1 begins and ends its record. What others do is not recorded. */
enum { RECORDED_THREADS = 4 };
void recorder_begin(int thread);
void recorder_end(void);

/* Forgets all. */
void recorder_clear(void);

/* Returns how often threads wrote or read lines that another thread had changed or would change, at most. visit, with
 * no thread recording, gets each place of the program that used such a line, and how often. */
long recorder_count_shared(void (*visit)(const void *place, long times));

#endif
