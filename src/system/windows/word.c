/* Words, by WaitOnAddress(). It may return for no reason, and sets the last error of a thread, which is restored. */
#include "system/word.h"

#include <assert.h>
#include <windows.h>

static_assert(sizeof(atomic_uint) == 4, "a word has 32 bits");

static void wait_for_milliseconds(atomic_uint *word, unsigned seen, DWORD most)
{
    const DWORD before = GetLastError();
    (void)WaitOnAddress((volatile void *)word, &seen, sizeof seen, most);
    SetLastError(before);
}

void sm_word_wait(atomic_uint *word, unsigned seen)
{
    wait_for_milliseconds(word, seen, INFINITE);
}

/* The time is rounded up, so that a caller with little time left does not poll. A longer sleep than the longest ends
 * early, for no reason. */
void sm_word_wait_for(atomic_uint *word, unsigned seen, uint64_t nanoseconds)
{
    enum { MILLISECOND = 1000000 };
    const uint64_t longest = INFINITE - 1;
    const uint64_t most = nanoseconds / MILLISECOND + (nanoseconds % MILLISECOND > 0);
    wait_for_milliseconds(word, seen, (DWORD)(most < longest ? most : longest));
}

void sm_word_wake_one(atomic_uint *word)
{
    WakeByAddressSingle(word);
}

void sm_word_wake_all(atomic_uint *word)
{
    WakeByAddressAll(word);
}
