/* Other processes: parts of the suite that run apart, and programs that it calls. */
#ifndef CHILD_H
#define CHILD_H

#include <stdbool.h>
#include <stddef.h>

/* Runs the function in a process of its own, so that what others have left behind plays no part; false if it did not
 * end well. */
bool run_apart(void (*function)(void));

/* Runs a program, sought in the PATH, and takes what it prints, cut off where there is no more room. NULL ends the
 * arguments. setting: "NAME=VALUE" for its environment, or NULL. quiet: what it says on stderr is thrown away.
 * Answers its exit status; 127: it could not be started; 128 and more: a signal ended it. */
int run_program(const char *const arguments[], const char *setting, bool quiet, char *output, size_t room);

/* Whether the PATH leads to it. */
bool has_program(const char *name);

#endif
