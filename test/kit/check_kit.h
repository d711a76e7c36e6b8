/*
 * Check, whose assertions tell its runner of each line that a test has passed. They write it to a file that the forked
 * children of a test have too, under a mutex that another thread may have locked at the fork. So children of a test
 * tell nothing: one that is killed would leave half a line in the file, and one could wait for the mutex forever.
 */
#ifndef CHECK_KIT_H
#define CHECK_KIT_H

#include <check.h>

/* Called by Check's assertions. A line that a thread passes several times in a row is told once, as each time takes a
 * call of the system. */
void note_progress(const char *file, int line);
#define _mark_point(file, line) note_progress(file, line)

#endif
