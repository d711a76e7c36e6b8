/*
 * The enumerator of failures in one process. Each time round the loop, the next use of something fails between
 * begin_failing() and end_failing(). The loop ends when no use is left to fail:
 *
 *     for (struct failing it = each_call("*", cudaErrorUnknown); next_failure(&it);)
 */
#ifndef EACH_FAILURE_H
#define EACH_FAILURE_H

#include "fixture.h"

enum { MOST_FAILURES = 10000 };

/* A race shows with several failures, not with one alone. So ThreadSanitizer, which is slow, sees some of many. */
#if defined(__SANITIZE_THREAD__)
enum { ALL_SPARSE = 1 };
#else
enum { ALL_SPARSE = 0 };
#endif

struct failing {
    void (*begin)(struct failing *it); /* from now on the nth use fails */
    bool (*end)(struct failing *it);   /* nothing fails any more. Returns whether something has failed */
    const char *call;                  /* of the runtime */
    int code;
    bool sparse;     /* of many uses in a row, most are left out */
    unsigned nth;    /* 0: before the first */
    unsigned before; /* failures */
    bool happened;
};

static inline bool next_failure(struct failing *it)
{
    if (it->nth > 0 && !it->happened)
        return false;
    it->nth += it->sparse || ALL_SPARSE ? 1 + it->nth / 6 : 1;
    ck_assert_uint_lt(it->nth, MOST_FAILURES);
    return true;
}

static inline void begin_failing(struct failing *it)
{
    it->begin(it);
}

/* Returns whether something has failed. */
static inline bool end_failing(struct failing *it)
{
    it->happened = it->end(it);
    return it->happened;
}

#endif
