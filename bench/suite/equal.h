/* The least that an accessor can be: in a shared library of its own, so that the call costs what such a call costs. */
#ifndef EQUAL_H
#define EQUAL_H

#include <stdatomic.h>

struct equal {
    _Atomic(void *) ready;
};

/* One load. */
const void *equal_load(const struct equal *object);
/* What an accessor with nothing to do cannot leave out: is there an object, an acquire load, is there a pointer. */
const void *equal_access(const struct equal *object);

#endif
