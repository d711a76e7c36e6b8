/* Words, by the calls that macOS has since 14.4. */
#include "system/word.h"

#include <assert.h>
#include <errno.h>
#include <os/os_sync_wait_on_address.h>

static_assert(sizeof(atomic_uint) == 4, "the system compares 4 or 8 bytes");

enum { BYTES = 4 };

void sm_word_wait(atomic_uint *word, unsigned seen)
{
    const int before = errno;
    (void)os_sync_wait_on_address(word, seen, BYTES, OS_SYNC_WAIT_ON_ADDRESS_NONE);
    errno = before;
}

/* The system refuses a time of nothing. */
void sm_word_wait_for(atomic_uint *word, unsigned seen, uint64_t nanoseconds)
{
    const int before = errno;
    if (nanoseconds > 0)
        (void)os_sync_wait_on_address_with_timeout(word, seen, BYTES, OS_SYNC_WAIT_ON_ADDRESS_NONE,
                                                   OS_CLOCK_MACH_ABSOLUTE_TIME, nanoseconds);
    errno = before;
}

void sm_word_wake_one(atomic_uint *word)
{
    const int before = errno;
    (void)os_sync_wake_by_address_any(word, BYTES, OS_SYNC_WAKE_BY_ADDRESS_NONE);
    errno = before;
}

void sm_word_wake_all(atomic_uint *word)
{
    const int before = errno;
    (void)os_sync_wake_by_address_all(word, BYTES, OS_SYNC_WAKE_BY_ADDRESS_NONE);
    errno = before;
}
