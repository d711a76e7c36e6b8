/* Words, by FreeBSD's calls for them. */
#include "system/word.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <time.h>

#include <sys/types.h>
#include <sys/umtx.h>

static_assert(sizeof(atomic_uint) == sizeof(u_int), "the system compares a u_int");

void sm_word_wait(atomic_uint *word, unsigned seen)
{
    const int before = errno;
    (void)_umtx_op(word, UMTX_OP_WAIT_UINT_PRIVATE, seen, NULL, NULL);
    errno = before;
}

void sm_word_wait_for(atomic_uint *word, unsigned seen, uint64_t nanoseconds)
{
    const int before = errno;
    struct _umtx_time most = {
        ._timeout = {.tv_sec = (time_t)(nanoseconds / 1000000000), .tv_nsec = (long)(nanoseconds % 1000000000)},
        ._clockid = CLOCK_MONOTONIC};
    (void)_umtx_op(word, UMTX_OP_WAIT_UINT_PRIVATE, seen, (void *)sizeof most, &most);
    errno = before;
}

static void wake(atomic_uint *word, unsigned long most)
{
    const int before = errno;
    (void)_umtx_op(word, UMTX_OP_WAKE_PRIVATE, most, NULL, NULL);
    errno = before;
}

void sm_word_wake_one(atomic_uint *word)
{
    wake(word, 1);
}

void sm_word_wake_all(atomic_uint *word)
{
    wake(word, INT_MAX);
}
