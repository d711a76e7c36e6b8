/*
 * Descriptors that came from another process and are not wanted. No call on them is known to return: the last close()
 * of a socket may wait for its peer, that of a file for the process that serves the file system, and that of a large
 * file in memory takes its time. So threads of the library close them, and no caller waits for that.
 */
#ifndef SM_CLOSER_H
#define SM_CLOSER_H

#include <stdbool.h>

/* Returns whether so few descriptors wait to be closed that those of another message may be added. A peer whose
 * descriptors cannot be closed is received from no more. Does not block. */
bool sm_closer_has_room(void);

/* Closes the descriptor in a thread. Ignores -1. Does not block. If the system refuses a thread, the descriptor waits
 * for the next call. One that several threads have added beyond the room stays open. */
void sm_closer_add(int fd);

/* Returns whether all descriptors are closed. For tests. */
bool sm_closer_is_idle(void);

#endif
