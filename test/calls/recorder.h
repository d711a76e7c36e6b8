/*
 * Counts how often cache lines move between threads, in functions compiled with -fsanitize=thread, whose runtime this
 * replaces. A line moves to a thread that reads what another has written, or writes what another has.
 */
#ifndef RECORDER_H
#define RECORDER_H

/* The accesses of the calling thread are recorded from now on, until recorder_end(). One thread at a time. */
enum { RECORDED_THREADS = 4 };
void recorder_begin(int thread);
void recorder_end(void);

/* Forgets all. */
void recorder_clear(void);

/* Returns the number of moves. visit gets each place of the program to which lines moved, and how often. */
long recorder_visit_moves(void (*visit)(const void *place, long moves));

#endif
