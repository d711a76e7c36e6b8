/* Whether the address or the thread sanitizer checks the suite. Either makes the code several times as slow, and the
 * end of a process even more. So what other builds do or measure completely, these do in part. */
#ifndef SANITIZED_H
#define SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

#endif
