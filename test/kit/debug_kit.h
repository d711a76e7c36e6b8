/* What the suites of debug mode share: processes that are in it, old pointers, and objects with names. */
#ifndef DEBUG_KIT_H
#define DEBUG_KIT_H

#include "fixture.h"

#include <stddef.h>
#include <string.h>

enum { SIZE = 5000, MUCH = 3 << 20, PAGE = 4096 };

/* Instructions that no compiler leaves out. */
static inline void touch_to_read(const void *data)
{
    (void)*(const volatile unsigned char *)data;
}

static inline void touch_to_write(void *data)
{
    *(volatile unsigned char *)data = 1;
}

/* Makes a pointer, and writes through it when it has expired. */
void use_old_pointer(void);

/* ---- Processes ---- */

/* What the last one has said on stderr. */
extern char said[16384];

/* Acts in a process of its own with that in SYNCED_MEM_DEBUG; its status. */
int run(void (*act)(void), const char *mode);
/* In debug mode it has to die of an old pointer, with the message; to go well. */
void dies(void (*act)(void), const char *message);
void lives(void (*act)(void));

#define SAID(words) ck_assert_msg(strstr(said, (words)) != NULL, "'%s' is not in:\n%s", (words), said)

#endif
