/*
 * Call places: where in the program a public function was called, and where that was called from. Each place that was
 * ever seen is kept for the rest of the process, with its text, so that a signal's handler can print it.
 */
#ifndef SM_PLACE_H
#define SM_PLACE_H

#include <stdint.h>

/* Call places that are shown, the frames of the library's that may be in front of them, and the room for what is said of
 * one. */
enum {
    SM_PLACE_DEPTH = 8,
    SM_PLACE_OWN = 2,
    SM_PLACE_FRAME = 128,
    SM_PLACE_TEXT = SM_PLACE_DEPTH * (SM_PLACE_FRAME + 3)
};

struct sm_place {
    /* What calls return to, the innermost first; 0 behind the last. */
    uintptr_t addresses[SM_PLACE_DEPTH + SM_PLACE_OWN];
    /* "inner+0x1f < outer+0x20": printable, and nothing in it is to be escaped */
    char text[SM_PLACE_TEXT];
};

/* Where the public function was called that the return address is in, of the call that asks. NULL: the stack can't be
 * read, or there are too many places. Takes the dynamic linker's lock, so none may be held. */
const struct sm_place *sm_place_of(const char *function, const void *return_address);

#endif
