/* Words, by futexes of this process alone. */
#include "system/word.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static_assert(sizeof(atomic_uint) == 4, "a futex has 32 bits");

/* Calls futex() and keeps the caller's errno. */
static void call_futex(atomic_uint *word, int operation, unsigned value, const struct timespec *most)
{
    const int before = errno;
    (void)syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, most, NULL, 0);
    errno = before;
}

void sm_word_wait(atomic_uint *word, unsigned seen)
{
    call_futex(word, FUTEX_WAIT, seen, NULL);
}

void sm_word_wait_for(atomic_uint *word, unsigned seen, uint64_t nanoseconds)
{
    const struct timespec most = {.tv_sec = (time_t)(nanoseconds / 1000000000),
                                  .tv_nsec = (long)(nanoseconds % 1000000000)};
    call_futex(word, FUTEX_WAIT, seen, &most);
}

void sm_word_wake_one(atomic_uint *word)
{
    call_futex(word, FUTEX_WAKE, 1, NULL);
}

void sm_word_wake_all(atomic_uint *word)
{
    call_futex(word, FUTEX_WAKE, INT_MAX, NULL);
}
