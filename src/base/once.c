/* Work that is done once. */
#include "base/once.h"

#include "base/process.h"
#include "system/word.h"

void sm_once_run(struct sm_once *once, void (*work)(void))
{
    const unsigned mine = SM_ONCE_BEGUN + sm_process_generation();
    unsigned seen = atomic_load(&once->state);
    while (seen != SM_ONCE_DONE) {
        if (seen == mine) {
            sm_word_wait(&once->state, seen);
            seen = atomic_load(&once->state);
        } else if (atomic_compare_exchange_weak(&once->state, &seen, mine)) {
            work();
            atomic_store(&once->state, SM_ONCE_DONE);
            sm_word_wake_all(&once->state);
            return;
        }
    }
}
