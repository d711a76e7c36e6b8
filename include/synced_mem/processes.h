/**
 * @file
 * Shareable objects: several processes of one machine use the same bytes, in turns. Linux alone. synced_mem.h has
 * the defaults that hold for every function. Details: docs/guide/processes.md.
 */
#ifndef SYNCED_MEM_PROCESSES_H
#define SYNCED_MEM_PROCESSES_H

#include "../synced_mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Other processes ---- */
/*
 * An object made with options.shareable is given to another process over a Unix socket. Each process then has an object
 * of its own with the same bytes, which in a turn is an object like any other.
 *
 * - Turns come in order of arrival: many processes read, or one writes. A turn is the process's, so all its threads may
 *   use the object. An object is made in its maker's turn to write. Without a turn the head is UNINITIALIZED, and calls
 *   that use the contents return ERR_INVALID_STATE. So do, in a turn to read, calls that write, and calls on a side
 *   that was not valid when it began. Pointers expire when the turn ends; views stay, but turns are their root's.
 * - Size and memory stay: resizes, calls that hand in memory, and releases of data return ERR_INVALID_STATE.
 * - The first transfer of each process from the host memory or to it page-locks it, and blocks meanwhile. Device memory
 *   is reserved when the object is first shared, if the object names a device or the process uses one. Without it an
 *   object can be used on the host alone.
 * - If a process ends in its turn, the others go on within 50 ms. If it was to write, the contents are lost.
 * - A process that has the object can write wrong bytes, end turns of others and keep a turn for ever. It cannot make
 *   another fault, write outside of the buffer, or wait more than 50 ms beyond its timeout.
 * - A forked child can read facts of its parent's shareable objects and release them; other calls return ERR_FORKED.
 *
 * Timeouts are in milliseconds: 0 tries once, a negative one waits for ever.
 */

/** Who may get a shareable object: values of synced_mem_options.shareable. */
enum {
    SYNCED_MEM_SHAREABLE_SAME_USER = 1, /**< processes of the user whose process made the object */
    SYNCED_MEM_SHAREABLE_ANY_USER = 2   /**< any process that a participant shares it with */
};

/** The kinds of turns. */
typedef enum synced_mem_turn {
    SYNCED_MEM_TURN_READ = 0, /**< as many processes at a time as want to */
    SYNCED_MEM_TURN_WRITE = 1 /**< one process alone, which may read too */
} synced_mem_turn;

/** Gives the object to the process at the other end of a socket, which calls synced_mem_receive(). The calling process
 * needs a turn, and keeps it. Sends one message with two or three descriptors.
 * @param socket      a connected Unix socket of type SOCK_STREAM or SOCK_SEQPACKET; its other data stay as they are.
 *                    After a failure close it, because the message may have gone in part
 * @param timeout_ms  for the socket to take the message
 * Blocking: until the socket has taken the message. Ownership: the socket and the object stay the caller's, and each
 * process releases its own object. Threads: the caller orders the messages of several threads on one socket. Errors:
 * ERR_INVALID_ARGUMENT (no such socket); ERR_INVALID_STATE (not shareable, a view, no turn); ERR_TIMEOUT; ERR_PEER (the
 * socket is closed; or the object is SYNCED_MEM_SHAREABLE_SAME_USER, and the other end is another user's, or a user's
 * without a number in this user namespace); ERR_FILE (no descriptor left, or no /proc); ERR_OUT_OF_HOST_MEMORY; when
 * device memory is reserved, GPU errors. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_share(synced_mem *mem, int socket, int timeout_ms);

/** Makes an object of what the process at the other end of a socket gives with synced_mem_share(), with one reference,
 * no turn, no name and no user pointer. All that comes is checked before it is used. Starts nothing of CUDA's.
 * @param socket      a connected Unix socket of type SOCK_STREAM or SOCK_SEQPACKET. After a failure close it, because
 *                    part of a message may be read
 * @param timeout_ms  for the whole message to come
 * Blocking: until the message is there. Ownership: the caller owns the reference until synced_mem_release(). Threads:
 * the caller orders the messages of several threads on one socket. Errors: ERR_INVALID_ARGUMENT (no such socket);
 * ERR_TIMEOUT (also if a process that has the object delays all calls of the system on its files); ERR_PEER (the socket
 * is closed, something else came, or it is of another user); ERR_INVALID_STATE (64 objects have the memory); ERR_FILE
 * (no descriptor left, no /proc, or too many of other processes' that can't be closed); ERR_OUT_OF_HOST_MEMORY.
 * @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_receive(synced_mem **out, int socket, int timeout_ms);

/** Begins a turn of the process, which synced_mem_end_turn() ends. To read, the side is made valid first if it is not:
 * this process alone transfers the contents to it, or fills it with zeros, beside those that read the other side. To
 * write, accesses move the contents as always.
 * @param side        a turn on the device needs a process that sees the device
 * @param timeout_ms  for the turn to come; the transfer may take longer
 * Blocking: until the turns in front have ended, and the contents of the side have arrived. Ownership: the process has
 * the turn until synced_mem_end_turn() or the last release; after a failure none. Errors: ERR_INVALID_ARGUMENT (no such
 * side or turn); ERR_INVALID_STATE (not shareable, a view, the process has a turn or waits for one, no device memory);
 * ERR_TIMEOUT; ERR_OWNER_DIED (told once to each process: the contents are lost, and UNINITIALIZED unless another
 * process has written new ones); ERR_PEER (another process has written impossible values); ERR_INVALID_DEVICE (the
 * process does not see the device, and the head is AT_GPU or side the device's); other GPU errors. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_begin_turn(synced_mem *mem, synced_mem_side side, synced_mem_turn turn,
                                                       int timeout_ms);

/** Ends the process's turn. Other processes then see the sides that are valid for all bytes. If none is, the contents
 * are brought to the host first. Pointers expire, and streams may use the memory no more.
 * Blocking: until all of the process's work on the object has ended, on its streams too, and the calls of other threads
 * on it. Ownership: after a failure the process keeps its turn. Errors: ERR_INVALID_STATE (not shareable, a view, no
 * turn, the memory is exported as a tensor, called in a callback of a call on a shareable object while a call on this
 * one has not ended); GPU errors: if ERR_DEVICE_LOST, release the object, which is a death in the turn. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_end_turn(synced_mem *mem);

#ifdef __cplusplus
}
#endif

#endif
