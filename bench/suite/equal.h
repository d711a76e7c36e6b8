/* The least that an accessor can be. It is in a library of its own, so that a call has the cost of a library call. */
#ifndef EQUAL_H
#define EQUAL_H

#include <stdatomic.h>

struct equal {
    _Atomic(void *) ready;
};

/* One load. */
const void *equal_load(const struct equal *object);
/* The least work of an accessor with nothing to do: a NULL check of the object, an acquire load, a NULL check of the
 * pointer. */
const void *equal_access(const struct equal *object);

#endif
