/**
 * @file
 * Shareable objects: several processes of one machine use the same bytes, in turns. On Linux alone. Defaults:
 * synced_mem.h. Details: docs/guide/processes.md.
 */
#ifndef SYNCED_MEM_PROCESSES_H
#define SYNCED_MEM_PROCESSES_H

#include "../synced_mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Other processes ---- */
/*
 * An object made with options.shareable is given to another process over a connected Unix socket (SOCK_STREAM or
 * SOCK_SEQPACKET). Each process then has an object of its own with the same bytes.
 *
 * - Turns come in order of arrival: many processes read, or one writes. A turn is of the whole object, for all threads
 *   of a process. An object is made in its maker's turn to write.
 * - Without a turn the head is UNINITIALIZED, and calls that use the contents return ERR_INVALID_STATE. So do, in a
 *   turn to read, calls that write, and calls on a side that was not valid when it began; and, in any turn, calls that
 *   resize, hand in or release memory.
 * - The last release in a turn ends it too, and may block. If a process ends in its turn, the others go on within
 *   50 ms; if it was to write, the contents are lost.
 * - In a forked child all calls on its parent's shareable objects but facts and releases return ERR_FORKED.
 * - Timeouts are in milliseconds: 0 tries once, a negative one waits for ever.
 * - Close a socket after a failed call with it.
 *
 * Errors: ERR_INVALID_ARGUMENT (also no such socket); ERR_INVALID_STATE (not shareable, a view); ERR_TIMEOUT; ERR_PEER
 * (the socket is closed, or another process has sent or written impossible values); ERR_FILE (no descriptor left, no
 * /proc); GPU errors. On a system without sealed memory, which all but Linux are, synced_mem_create() of a shareable
 * object and synced_mem_receive() return ERR_FILE.
 */

/** Who may get an object: values of synced_mem_options.shareable. */
enum {
    SYNCED_MEM_SHAREABLE_SAME_USER = 1, /**< processes of the maker's user */
    SYNCED_MEM_SHAREABLE_ANY_USER = 2   /**< any process */
};

/** The kinds of turns. */
typedef enum synced_mem_turn {
    SYNCED_MEM_TURN_READ = 0, /**< many processes at a time */
    SYNCED_MEM_TURN_WRITE = 1 /**< one process alone, which may read too */
} synced_mem_turn;

/** Gives the object to the process at the other end of a socket, in a turn, which goes on.
 * Blocking: until the socket has the message. Errors: ERR_INVALID_STATE (also no turn); ERR_PEER (also if
 * SYNCED_MEM_SHAREABLE_SAME_USER refuses the user at the other end). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_share(synced_mem *mem, int socket, int timeout_ms);

/** Makes an object, without a turn, of what the process at the other end of a socket gives by synced_mem_share().
 * Blocking: until the message is there. Ownership: the caller owns its one reference until synced_mem_release().
 * Errors: ERR_INVALID_STATE (64 objects have the memory); ERR_PEER (also another user's). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_receive(synced_mem **out, int socket, int timeout_ms);

/** Begins a turn of the process, until synced_mem_end_turn(). To read, the contents are first moved to the side.
 * @param timeout_ms  for the turn to come; the transfer may take longer
 * Blocking: until the turns in front have ended, and the contents have arrived. Errors: ERR_INVALID_STATE (also if the
 * process has a turn or waits for one, or the object was shared without device memory); ERR_OWNER_DIED (once to each
 * process: the contents are lost); ERR_INVALID_DEVICE (the process does not see the device). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_begin_turn(synced_mem *mem, synced_mem_side side, synced_mem_turn turn,
                                                       int timeout_ms);

/** Ends the process's turn; its pointers expire, also on streams. After a failure the turn goes on.
 * Blocking: until the process's calls and work on the object have ended. Errors: ERR_INVALID_STATE (also no turn,
 * memory exported as a tensor, a callback while a call on the object goes on); ERR_DEVICE_LOST (release the object:
 * that is a death in the turn). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_end_turn(synced_mem *mem);

#ifdef __cplusplus
}
#endif

#endif
