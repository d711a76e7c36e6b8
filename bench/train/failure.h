/* The message of a failed run. */
#ifndef TRAIN_FAILURE_H
#define TRAIN_FAILURE_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Keeps the message of the first failure, which is the cause of later ones. Always returns false, so that a function
 * can fail with "return fail(...)". */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
bool fail(const char *format, ...);

/* The same for a call of synced_mem that has just failed in this thread. what: the operation. */
bool fail_library(const char *what);

/* The same for a call of MPI or NCCL. Its failure is often the consequence of another rank's end. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
bool fail_peer(const char *format, ...);

/* Returns whether the kept message is of fail_peer(). */
bool failure_of_peer(void);

/* Returns the kept message, "" if nothing failed. */
const char *failure(void);

#ifdef __cplusplus
}
#endif

#endif
