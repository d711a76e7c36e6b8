/**
 * @file
 * Files: contents in a file besides, or instead of, on the host and on the device. Defaults: synced_mem.h. Details:
 * docs/guide/files.md.
 */
#ifndef SYNCED_MEM_FILES_H
#define SYNCED_MEM_FILES_H

#include "../synced_mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Contents in files ---- */
/*
 * The contents of an object in a file are there, and also in its valid copies. If the head is UNINITIALIZED, the file
 * alone has them: an access or transfer reads them straight to its side, to the device without a host copy. A view
 * reads its own bytes alone. Offsets are in bytes.
 *
 * - The object stays in the file until a call changes the contents: a mutable access or overwrite, a copy to it, a
 *   clear, a resize, memory that is handed in. Of an object with views only the bytes of that call leave the file.
 * - A release of memory transfers nothing, and leaves the contents in the file.
 * - A read that fails, or that the end of the file cuts short, is an ERR_FILE of the call that waits for it. The object
 *   is as before.
 * - A call that reads the file blocks until the bytes have been read, also a push, pull, copy or access on a stream,
 *   but not a hold (synced_mem/budget.h).
 * - Contents are those that each read returned. The library does not notice if others change the file.
 * - In a forked child, calls that read, write, use or wait for a file that its parent opened return ERR_FORKED.
 *
 * Errors: ERR_FILE (the system refuses; the message has its reason).
 */

/** A file, for any number of objects. If a file is opened twice, calls on one synced_mem_file notice neither the
 * objects nor the writes of the other one. */
typedef struct synced_mem_file synced_mem_file;

/** Opens the file of a descriptor once more; the descriptor stays the caller's, and may be closed. With O_DIRECT, reads
 * and writes go past the system's cache, for any offset, size and memory. When the library closes the file, the process
 * loses its POSIX locks on it.
 * @param fd  of a file or, on Linux, a block device, open to read, and to write if it is to be written
 * Ownership: the caller owns its one reference until synced_mem_file_release(). Errors: ERR_INVALID_ARGUMENT (also a
 * pipe, socket, terminal or folder; no permission to read; O_APPEND). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_file_open(synced_mem_file **out, int fd);

/** Adds a reference of the caller's. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_file_retain(synced_mem_file *file);

/** Gives up a reference. Objects in the file, and writes that go on, keep it open. Ignores NULL. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_file_release(synced_mem_file *file);

/** Gives up the contents, and makes the bytes of the file from the offset on the new ones: the object is in the file,
 * and the head becomes UNINITIALIZED. Memory stays. Nothing is read yet.
 * Ownership: the object keeps the file open. Errors: ERR_FILE (also a file that is too short); ERR_INVALID_STATE (a
 * shareable object, unified placement, memory of the caller's; an object that is held). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_use_file(synced_mem *mem, synced_mem_file *file, uint64_t offset);

/** Returns 1 if all bytes are in a file, else 0. @since 0.2 */
SYNCED_MEM_API int synced_mem_in_file(const synced_mem *mem);

/* ---- Writes to files ---- */
/*
 * A write goes on after the call: until its last byte is written, calls that change the contents wait for it, and
 * synced_mem_wait() and synced_mem_query() include it. Pointers to write expire. Writes that overlap go in the order of
 * the calls. Nothing is flushed to the disk. synced_mem_shutdown() waits for writes; a program that ends without it may
 * lose them.
 *
 * A store is a write that also puts the object into the file. It is there once all bytes of the call are written,
 * unless a call has changed its contents since, or has stored them in another place. Until then, and after a failure,
 * the contents are where they were. synced_mem_in_file() returns 1 once synced_mem_file_wait() has succeeded. What is
 * at its place in the file already is not written again. A release of memory that alone has the contents waits for the
 * store, and gives them up if it has failed: before synced_mem_release_data(), synced_mem_file_wait() tells.
 *
 * The host copy is written if it is valid, else the device copy, without a host copy. Contents that are in a file alone
 * are first read to the host, behind the call. synced_mem_file_wait() returns failures after the call.
 *
 * Errors: GPU errors, of contents that only the device has; ERR_FILE (no thread is left); ERR_INVALID_ARGUMENT (also a
 * file that can't be written); ERR_INVALID_STATE (no contents; unified placement; bytes of the file that are contents
 * of a living object, or that another object has got by a synced_mem_use_file() or a store of which other bytes are
 * still in the file; of a store also a shareable object, memory of the caller's, and the object's present place while a
 * store to another is pending).
 */

/** Begins to write the contents to the file, from the offset on.
 * @param stream  in whose order the device copy is read, or SYNCED_MEM_NO_STREAM: after all work on it. Ignored if the
 *                host copy is valid @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_async_write_file(synced_mem *mem, synced_mem_file *file, uint64_t offset,
                                                             synced_mem_stream stream);

/** Begins to write the contents of count objects to the file, those of mems[i] from offsets[i] on.
 * @param stream  in whose order device copies are read, or SYNCED_MEM_NO_STREAM: after all work on them. Ignored if no
 *                device copy is
 * Errors: ERR_INVALID_ARGUMENT (also two objects that would overlap in the file). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_async_write_file_n(synced_mem *const *mems, synced_mem_file *file,
                                                               const uint64_t *offsets, size_t count,
                                                               synced_mem_stream stream);

/** Begins to write the contents to the file, from the offset on, and to put the object into the file by that.
 * @param stream  in whose order the device copy is read, or SYNCED_MEM_NO_STREAM: after all work on it. Ignored if
 *                the host copy is valid
 * Ownership: the object keeps the file open. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_async_store_in_file(synced_mem *mem, synced_mem_file *file, uint64_t offset,
                                                                synced_mem_stream stream);

/** Begins to write the contents of count objects to the file, those of mems[i] from offsets[i] on, and to put them into
 * the file by that.
 * @param stream  in whose order device copies are read, or SYNCED_MEM_NO_STREAM: after all work on them. Ignored if no
 *                device copy is
 * Ownership: the objects keep the file open. Errors: ERR_INVALID_ARGUMENT (also two objects that would overlap in the
 * file). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_async_store_in_file_n(synced_mem *const *mems, synced_mem_file *file,
                                                                  const uint64_t *offsets, size_t count,
                                                                  synced_mem_stream stream);

/** Waits for the writes and stores to the file that were begun before, and returns the first failure among them, once.
 * Blocking: until they have ended. Errors: ERR_FILE (also no space on the disk); GPU errors. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_file_wait(synced_mem_file *file);

#ifdef __cplusplus
}
#endif

#endif
