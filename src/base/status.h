/*
 * Errors. sm_fail() records a failure where it is first known. The public function that fails because of it publishes
 * it, see report.h. A failure that the library recovers from is recorded and never published.
 */
#ifndef SM_STATUS_H
#define SM_STATUS_H

#include "synced_mem.h"

#define SM_DETAIL_BYTES 896

/* The compiler checks the arguments from first on by the format, which is the argument with that number, as C99 has it.
 * On some systems GCC's "printf" stands for an older format. */
#if defined(__GNUC__) && !defined(__clang__)
#define SM_LIKE_PRINTF(number, first) __attribute__((format(gnu_printf, number, first)))
#else
#define SM_LIKE_PRINTF(number, first) __attribute__((format(printf, number, first)))
#endif

/* Records the failure for the calling thread: the status, with its detail as for printf(). Returns the status. */
__attribute__((cold)) SM_LIKE_PRINTF(2, 3) synced_mem_status sm_fail(synced_mem_status status, const char *format, ...);

/* Checks the first member of a struct, its own size. what: the struct's name in the detail. ERR_INVALID_ARGUMENT: the
 * pointer is NULL, or the size is not the one this version knows. No other size exists yet. */
#define SM_CHECK_STRUCT(given, what) sm_check_struct((given) ? &(given)->struct_size : NULL, sizeof *(given), (what))
synced_mem_status sm_check_struct(const size_t *size, size_t known, const char *what);

/* Not done yet: the caller waits, with nothing locked, and calls again. No function of the API returns it. What to wait
 * for is in the call's struct sm_waits; if that is empty, the lock was released meanwhile. The call has queued nothing
 * that was not entered, and undoes nothing. */
#define SM_AGAIN ((synced_mem_status)0x7fff)

/* Returns the status from the calling function if the call is not done. Only where nothing has to be undone. */
#define SM_TRY(call)                                                                                                   \
    do {                                                                                                               \
        const synced_mem_status tried_ = (call);                                                                       \
        if (tried_ != SYNCED_MEM_OK)                                                                                   \
            return tried_;                                                                                             \
    } while (0)

/* The recorded detail. Cleaning up after a failure may fail too: the caller saves and restores the first detail. */
struct sm_detail {
    char text[SM_DETAIL_BYTES];
};
struct sm_detail sm_detail_get(void);
void sm_detail_set(const struct sm_detail *detail);

/* A status that a call returns later, after other calls that may fail too. */
struct sm_outcome {
    synced_mem_status status;
    struct sm_detail detail; /* valid if status is a failure */
};
/* Stores the status, and the recorded detail if it is a failure. */
void sm_outcome_set(struct sm_outcome *outcome, synced_mem_status status);
/* Restores the detail of a failure. Returns the status. */
synced_mem_status sm_outcome_end(const struct sm_outcome *outcome);

#endif
