/*
 * Call places. A place is the chain of return addresses behind a call of a public function, up to eight. The library
 * keeps each place for the rest of the process. The place has its text, so that a signal's handler can print it.
 */
#ifndef SM_PLACE_H
#define SM_PLACE_H

#include <stdint.h>

/* Frames that are shown, frames of the library's that may be in front of them, and room for the text of a frame and of
 * a place. */
enum {
    SM_PLACE_DEPTH = 8,
    SM_PLACE_OWN = 2,
    SM_PLACE_FRAME = 128,
    SM_PLACE_TEXT = SM_PLACE_DEPTH * (SM_PLACE_FRAME + 3)
};

struct sm_place {
    /* Return addresses, the innermost first; 0 behind the last. */
    uintptr_t addresses[SM_PLACE_DEPTH + SM_PLACE_OWN];
    /* "inner+0x1f < outer+0x20": printable, without characters that JSON escapes */
    char text[SM_PLACE_TEXT];
};

/* The call place of the named public function, which return_address is in. The library owns it and keeps it for the
 * life of the process. NULL: the stack can't be read, or the table is full. Takes the dynamic linker's lock, so none
 * may be held. */
const struct sm_place *sm_place_of(const char *function, const void *return_address);

#endif
