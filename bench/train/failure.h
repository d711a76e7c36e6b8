/* The one message that a failed run ends with. */
#ifndef TRAIN_FAILURE_H
#define TRAIN_FAILURE_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Keeps the message unless there is one already: the first failure is the cause, what follows from it is not. Always
 * false, so that a function can fail with "return fail(...)". */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
bool fail(const char *format, ...);

/* The same for a call of synced_mem that failed just now in this thread, during what. */
bool fail_library(const char *what);

/* What was kept; "" when nothing failed. */
const char *failure(void);

#ifdef __cplusplus
}
#endif

#endif
