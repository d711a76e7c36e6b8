/* Shared by the suites of the trace: a trace to a file of its own, and the file's contents. */
#ifndef TRACE_KIT_H
#define TRACE_KIT_H

#include "fixture.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* FULL is almost as much as a pipe holds. */
enum { SIZE = 5000, MUCH = 3 << 20, FULL = 60000 };

/* The file's name, and the text that was read last. */
extern char path[64];
extern char text[16 << 20];

/* Makes a file name for each process. */
void name_file(void);
const char *read_file(const char *from);
/* Reads the summary of the transfers back and forth. */
const char *summary(void);
/* Start a trace to that file, and stop it. stop() reads the file and removes it. */
void start(void);
void stop(void);

#define HAS(words) ck_assert_msg(strstr(text, (words)) != NULL, "'%s' is not in:\n%.3000s", (words), text)
#define HAS_NOT(words) ck_assert_msg(strstr(text, (words)) == NULL, "'%s' is in:\n%.3000s", (words), text)
/* Returns how often the words occur in the text. */
unsigned count_of(const char *words);

/* Transfers contents that the host has written to the device. */
void move(synced_mem *mem);
/* A thread's function. It changes an object's head so often that the trace is written to the file in between. */
void *write_much(void *unused);

#endif
