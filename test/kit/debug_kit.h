/* Shared by the suites of debug mode: processes in debug mode, old pointers, and named objects. */
#ifndef DEBUG_KIT_H
#define DEBUG_KIT_H

#include "fixture.h"

#include <stddef.h>
#include <string.h>

enum { SIZE = 5000, MUCH = 3 << 20, PAGE = 4096 };

/* Volatile accesses, which no compiler removes. */
static inline void touch_to_read(const void *data)
{
    (void)*(const volatile unsigned char *)data;
}

static inline void touch_to_write(void *data)
{
    *(volatile unsigned char *)data = 1;
}

/* Gets a pointer, and writes through it after it has become invalid. */
void use_old_pointer(void);

/* ---- Processes ---- */

/* The last process's output on stderr. */
extern char said[16384];

/* Calls the function in a process of its own with this value of SYNCED_MEM_DEBUG. Returns the exit status. */
int run(void (*act)(void), const char *mode);
/* Check that the function, in debug mode, dies of an old pointer with the message; or that it succeeds. */
void dies(void (*act)(void), const char *message);
void lives(void (*act)(void));

#define SAID(words) ck_assert_msg(strstr(said, (words)) != NULL, "'%s' is not in:\n%s", (words), said)

#endif
