/* Other processes: parts of the suite that run in one of their own, and programs that the suite runs. */
#ifndef CHILD_H
#define CHILD_H

#include <stdbool.h>
#include <stddef.h>

/* Runs the function in a process of its own, so that earlier parts have no effect on it. Returns false if the process
 * did not end well. */
bool run_apart(void (*function)(void));

/* Runs a program from the PATH and stores its output, cut to the room. NULL ends the arguments. setting: "NAME=VALUE"
 * for its environment, or NULL. quiet: discards its stderr. Returns its exit status; 127: the program could not be
 * started; 128 and more: a signal ended it. */
int run_program(const char *const arguments[], const char *setting, bool quiet, char *output, size_t room);

/* Returns whether the program is in the PATH. */
bool has_program(const char *name);

#endif
