/**
 * @file
 * Shareable objects: several processes of one machine use the same bytes, in turns. Linux alone. synced_mem.h has the
 * defaults that hold for every function. Details: docs/guide/processes.md.
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
 * - Turns come in order of arrival: many processes read, or one writes. A turn is the process's, for all of its
 *   threads. An object is made in its maker's turn to write. Without a turn the head is UNINITIALIZED, and calls that
 *   use the contents return ERR_INVALID_STATE. In a turn to read, so do calls that write, and calls on a side that was
 *   not valid when it began.
 * - Resizes, calls that hand in memory, and releases of data return ERR_INVALID_STATE. Turns of views are their root's.
 * - Device memory is reserved when the object is first shared, if it names a device or the process uses one.
 * - If a process ends in its turn, the others go on within 50 ms. If it was to write, the contents are lost.
 * - A forked child can read facts of its parent's shareable objects and release them; other calls return ERR_FORKED.
 * - Timeouts are in milliseconds: 0 tries once, a negative one waits for ever.
 * - The caller orders the messages of several threads on one socket, and closes the socket after a failure.
 */

/** Who may get a shareable object: values of synced_mem_options.shareable. */
enum {
    SYNCED_MEM_SHAREABLE_SAME_USER = 1, /**< processes of the maker's user */
    SYNCED_MEM_SHAREABLE_ANY_USER = 2   /**< any process */
};

/** The kinds of turns. */
typedef enum synced_mem_turn {
    SYNCED_MEM_TURN_READ = 0, /**< as many processes at a time as want to */
    SYNCED_MEM_TURN_WRITE = 1 /**< one process alone, which may read too */
} synced_mem_turn;

/** Gives the object to the process at the other end of a socket. The calling process needs a turn, and keeps it.
 * Blocking: until the socket has taken the message. Errors: ERR_INVALID_ARGUMENT (no such socket); ERR_INVALID_STATE
 * (not shareable, a view, no turn); ERR_TIMEOUT; ERR_PEER (the socket is closed, or SYNCED_MEM_SHAREABLE_SAME_USER
 * refuses the user at its other end); ERR_FILE (no descriptor left, or no /proc); ERR_OUT_OF_HOST_MEMORY; when device
 * memory is reserved, GPU errors. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_share(synced_mem *mem, int socket, int timeout_ms);

/** Makes an object of what the process at the other end of a socket gives with synced_mem_share(), with one reference
 * and no turn.
 * Blocking: until the whole message is there. Ownership: the caller owns the reference until synced_mem_release().
 * Errors: ERR_INVALID_ARGUMENT (no such socket); ERR_TIMEOUT; ERR_PEER (the socket is closed, something else came, or
 * it is of another user); ERR_INVALID_STATE (64 objects have the memory); ERR_FILE (no descriptor left, no /proc, or
 * too many refused ones that can't be closed); ERR_OUT_OF_HOST_MEMORY. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_receive(synced_mem **out, int socket, int timeout_ms);

/** Begins a turn of the process, which synced_mem_end_turn() ends. To read, the contents are first moved to the side if
 * they are not there.
 * @param timeout_ms  for the turn to come; the transfer may take longer
 * Blocking: until the turns in front have ended, and the contents of the side have arrived. Ownership: the process has
 * the turn until synced_mem_end_turn() or the last release. Errors: ERR_INVALID_ARGUMENT (no such side or turn);
 * ERR_INVALID_STATE (not shareable, a view, the process has a turn or waits for one, no device memory); ERR_TIMEOUT;
 * ERR_OWNER_DIED (once to each process: the contents are lost); ERR_PEER (another process has written impossible
 * values); ERR_INVALID_DEVICE (the process does not see the device that is needed); other GPU errors. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_begin_turn(synced_mem *mem, synced_mem_side side, synced_mem_turn turn,
                                                       int timeout_ms);

/** Ends the process's turn. Pointers expire, and streams may use the memory no more.
 * Blocking: until the process's work and calls on the object have ended, on its streams too. Ownership: after a failure
 * the process keeps its turn. Errors: ERR_INVALID_STATE (not shareable, a view, no turn, the memory is exported as a
 * tensor, called in a callback of a call on a shareable object while a call on this one has not ended); GPU errors: if
 * ERR_DEVICE_LOST, release the object, which is a death in the turn. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_end_turn(synced_mem *mem);

#ifdef __cplusplus
}
#endif

#endif
