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
 * - Without a turn the head is UNINITIALIZED, and calls that use the contents fail with ERR_INVALID_STATE. So do, in a
 *   turn to read, calls that write, and calls on a side that was not valid when the turn began; and, at any time, calls
 *   that resize, hand in or release memory.
 * - The last release in a turn ends it too, and blocks as long. If a process ends in its turn, the others go on within
 *   50 ms; if the turn was to write, the contents are lost. synced_mem_abandon_turn() ends a turn in the same way. A
 *   process is not told of lost contents if exactly 65,536 writers have died or abandoned since its last turn.
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

/** Gives the object to the process at the other end of a socket, in a turn, which goes on. The object's device memory
 * is made by then, if it names a device or the process has used one, or never.
 * Blocking: until the socket has the message. Errors: ERR_INVALID_STATE (also no turn); ERR_PEER (also if
 * SYNCED_MEM_SHAREABLE_SAME_USER refuses the user at the other end). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_share(synced_mem *mem, int socket, int timeout_ms);

/** Makes an object with the memory of the one that the process at the other end of a socket gives by
 * synced_mem_share(). It has no turn.
 * Blocking: until the message is there. Ownership: the caller owns its one reference until synced_mem_release().
 * Errors: ERR_INVALID_STATE (64 objects have the memory); ERR_PEER (also another user's). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_receive(synced_mem **out, int socket, int timeout_ms);

/** Begins a turn of the process, until synced_mem_end_turn(). A turn to read first transfers the contents to the side,
 * if they are not there; one to write transfers nothing, and accesses may use both sides.
 * @param timeout_ms  for the turn to come; the transfer may take longer
 * Blocking: until the turns in front have ended, and the contents have arrived. Errors: ERR_INVALID_STATE (also if the
 * process has a turn or waits for one, or the object was shared without device memory); ERR_OWNER_DIED (once to each
 * process: the contents are lost); ERR_INVALID_DEVICE (the process does not see the device). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_begin_turn(synced_mem *mem, synced_mem_side side, synced_mem_turn turn,
                                                       int timeout_ms);

/** Ends the process's turn, of whichever call; its pointers expire, also on streams. The end of a turn to write makes
 * the next version, that of a turn for a slot consumes the version. After a failure the turn goes on.
 * Blocking: until the process's calls and work on the object have ended. Errors: ERR_INVALID_STATE (also no turn,
 * memory exported as a tensor, a callback while a call on the object goes on); ERR_DEVICE_LOST (written contents, or
 * what the turn for a slot has used them for, may be lost with a device: abandon the turn). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_end_turn(synced_mem *mem);

/** Ends the process's turn, of whichever call, for nothing: as the end of the process would, if something has failed. A
 * turn to read consumes nothing, so its slot's next turn reads the contents again. What a turn to write has written is
 * lost, and the version stays; each other process is told once by ERR_OWNER_DIED, this one is not. The process's
 * pointers expire, also on streams. After a failure the turn goes on, and the last release abandons it.
 * Blocking: until the process's calls and work on the object have ended. Errors: ERR_INVALID_STATE (also no turn,
 * memory exported as a tensor, a callback while a call on the object goes on); GPU errors (nobody can tell when work on
 * the memory ends), but not ERR_DEVICE_LOST. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_abandon_turn(synced_mem *mem);

/* ---- Versions and slots: a queue between processes ---- */
/*
 * The version of the contents is the number of turns to write that have ended. A reader that must miss none takes a
 * slot, which has the version that the reader has consumed; a writer can wait until every slot has consumed the present
 * version. A ring of such objects is a queue: docs/guide/processes.md.
 *
 * - A slot is a number, the same for all processes, and belongs to none: any may take it for another, read for it, and
 *   end it. A slot stays when processes end or release their objects; writers wait for it until it is ended.
 * - A turn to read for a slot consumes the version when it ends. A process that ends in the turn, or abandons it, has
 *   not consumed it: the next turn for the slot reads it again.
 * - Every slot gets every version, if writers wait for slots. A program that divides versions among readers gives each
 *   reader objects of its own.
 * - The version stays if a process ends in its turn to write, or abandons it. The contents are lost, each process is
 *   told once by ERR_OWNER_DIED, and no turn reads them as new. The next turn to write waits for no slot.
 * - A turn of synced_mem_begin_turn() ignores versions: to write, it may overwrite contents that a slot has not
 *   consumed, but makes a version too; to read, it consumes nothing.
 *
 * Errors: as above. Source: the replication slots of PostgreSQL.
 */

enum {
    SYNCED_MEM_SLOTS = 64,   /**< slots of an object: 0 to 63 */
    SYNCED_MEM_ANY_SLOT = -1 /**< the lowest that is free */
};

/** Stores the version of the contents, with or without a turn: 0 before the maker's turn has ended, at most 2^44 - 1.
 * In a turn to write it is that of the contents before the turn. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_contents_version(const synced_mem *mem, uint64_t *version);

/** Takes a slot, with or without a turn. Its version is the present one, so it reads the next that is written.
 * @param wanted  its number, or SYNCED_MEM_ANY_SLOT
 * @param slot    gets the number; or NULL
 * Errors: ERR_INVALID_STATE (also: it is taken, or all are). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_take_slot(synced_mem *mem, int wanted, int *slot);

/** Stores the version that a slot has consumed, so that a reader that starts again finds its place.
 * Errors: ERR_INVALID_STATE (also: the slot is not taken). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_slot_version(const synced_mem *mem, int slot, uint64_t *version);

/** Ends a slot, with or without a turn, also in a turn that reads for it. Writers wait for it no more.
 * Errors: ERR_INVALID_STATE (also: it is not taken). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_end_slot(synced_mem *mem, int slot);

/** Begins a turn to read contents that are newer than a version, until synced_mem_end_turn(), and first transfers them
 * to the side.
 * @param timeout_ms  for the contents and the turn to come; the transfer may take longer
 * Blocking: until the contents are written, the turns in front have ended, and the contents have arrived. Errors:
 * ERR_INVALID_STATE (also if the process has a turn or waits for one, or the object was shared without device memory);
 * ERR_OWNER_DIED (once to each process: the contents are lost); ERR_INVALID_DEVICE (the process does not see the
 * device). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_begin_newer_turn(synced_mem *mem, synced_mem_side side, uint64_t version,
                                                             int timeout_ms);

/** Begins a turn to read contents that a slot has not consumed, and first transfers them to the side.
 * synced_mem_end_turn() consumes them. Processes that read for one slot at the same time get the same version.
 * @param timeout_ms  for the contents and the turn to come; the transfer may take longer
 * Blocking: until the contents are written, the turns in front have ended, and the contents have arrived. Errors:
 * ERR_INVALID_STATE (also if the slot is not taken, the process has a turn or waits for one, or the object was shared
 * without device memory); ERR_OWNER_DIED (once to each process: the contents are lost); ERR_INVALID_DEVICE (the process
 * does not see the device). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_begin_slot_turn(synced_mem *mem, synced_mem_side side, int slot,
                                                            int timeout_ms);

/** Begins a turn to write the next contents, once every slot has consumed the present ones, until
 * synced_mem_end_turn(). If no slot is taken, it waits only for turns. It transfers nothing, and accesses may use both
 * sides.
 * @param timeout_ms  for the readers and the turn to come
 * Blocking: until the contents are consumed and the turns in front have ended. Errors: ERR_INVALID_STATE (also if the
 * process has a turn or waits for one, or the object was shared without device memory); ERR_OWNER_DIED (once to each
 * process: the contents are lost); ERR_INVALID_DEVICE (the process does not see the device). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_begin_consumed_turn(synced_mem *mem, synced_mem_side side, int timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
