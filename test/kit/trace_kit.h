/* What the suites of the trace share: a trace to a file of its own, and what the file says. */
#ifndef TRACE_KIT_H
#define TRACE_KIT_H

#include "fixture.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The last is nearly what a pipe holds. */
enum { SIZE = 5000, MUCH = 3 << 20, FULL = 60000 };

/* The file's name, and what was read last. */
extern char path[64];
extern char text[16 << 20];

/* One for each process. */
void name_file(void);
const char *read_file(const char *from);
/* A trace to that file, which is read at the end, and removed. */
void start(void);
void stop(void);

#define HAS(words) ck_assert_msg(strstr(text, (words)) != NULL, "'%s' is not in:\n%s", (words), text)
#define HAS_NOT(words) ck_assert_msg(strstr(text, (words)) == NULL, "'%s' is in:\n%s", (words), text)
/* How often the words are in it. */
unsigned count_of(const char *words);

/* To the device, from what the host has written. */
void move(synced_mem *mem);
/* Of a thread: so many changes of an object's head that they are written to the file in between. */
void *write_much(void *unused);

#endif
