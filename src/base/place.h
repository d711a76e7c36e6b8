/*
 * Call places. A place is the chain of up to eight return addresses behind a call of a public function. The library
 * keeps each place for the rest of the process. A place includes its text, so that a signal handler can print it.
 */
#ifndef SM_PLACE_H
#define SM_PLACE_H

#include <stdint.h>

/* SM_PLACE_DEPTH: frames shown. SM_PLACE_OWN: frames of the library that may precede them. SM_PLACE_FRAME and
 * SM_PLACE_TEXT: bytes for the text of a frame and of a place. */
enum {
    SM_PLACE_DEPTH = 8,
    SM_PLACE_OWN = 2,
    SM_PLACE_FRAME = 128,
    SM_PLACE_TEXT = SM_PLACE_DEPTH * (SM_PLACE_FRAME + 3)
};

struct sm_place {
    /* Return addresses, innermost first. The unused ones at the end are 0. */
    uintptr_t addresses[SM_PLACE_DEPTH + SM_PLACE_OWN];
    /* "inner+0x1f < outer+0x20". Printable, without characters that JSON escapes. */
    char text[SM_PLACE_TEXT];
};

/* Returns the call place of the named public function. return_address lies in that function, or in one of the library
 * that it calls. NULL: the stack can't be
 * read, or the table is full. The library owns the place and keeps it for the life of the process. The call takes the
 * dynamic linker's lock, so the thread must hold no lock of the library. */
const struct sm_place *sm_place_of(const char *function, const void *return_address);

#endif
