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
 * An object in a file has its contents there, besides those that its copies have. If the head is UNINITIALIZED the file
 * alone has them: an access or transfer then reads them straight to its side, one to the device without a host copy. A
 * view reads its own bytes alone.
 *
 * - The object stays in the file until a call writes: a mutable access or overwrite, a copy to it, a clear, a resize,
 *   memory that is handed in. Of an object with views only the bytes that are written leave the file.
 * - A release of a side moves nothing: the contents are in the file. synced_mem_release_data() leaves them there too.
 * - A read that fails, or that the end of the file cuts short, is an ERR_FILE of the call that waits for it. The object
 *   is as before.
 * - A push, pull, copy or access that reads the file blocks until the bytes have been read, also on a stream.
 * - Contents are what each read returned. Whether others change the file is not noticed.
 * - In a forked child calls that read or write a file that its parent opened return ERR_FORKED.
 *
 * Errors: ERR_FILE (the system refuses; the message has its reason).
 */

/** A file, for any number of objects. If a file is opened twice, calls on one synced_mem_file do not notice the objects
 * in the other one, nor its writes. */
typedef struct synced_mem_file synced_mem_file;

/** Opens the file of a descriptor once more; the descriptor stays the caller's, and may be closed. With O_DIRECT, reads
 * and writes go past the system's cache, in whole blocks. When the file is closed at the end, POSIX locks of the
 * process on it are lost.
 * @param fd  of a file or, on Linux, a block device, open to read, and to write if it is to be written
 * Ownership: the caller owns its one reference until synced_mem_file_release(). Errors: ERR_INVALID_ARGUMENT (also a
 * pipe, socket, terminal or folder; no permission to read; O_APPEND). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_file_open(synced_mem_file **out, int fd);

/** Adds a reference of the caller's. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_file_retain(synced_mem_file *file);

/** Gives up a reference. Objects in the file, and writes that go on, keep it open. Ignores NULL. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_file_release(synced_mem_file *file);

/** Makes the bytes of the file from the offset on the object's contents: it is in the file, and the head becomes
 * UNINITIALIZED. Memory stays. Nothing is read yet.
 * Errors: ERR_FILE (also a file that is too short); ERR_INVALID_STATE (a shareable object, unified placement, memory of
 * the caller's). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_use_file(synced_mem *mem, synced_mem_file *file, uint64_t offset);

/** Returns 1 if all bytes are in a file, else 0. @since 0.2 */
SYNCED_MEM_API int synced_mem_in_file(const synced_mem *mem);

/* ---- Writes to files ---- */
/*
 * A write goes on after the call: until its last byte is written, calls that change the contents wait for it, and
 * synced_mem_wait() and synced_mem_query() include it. Pointers to write expire. It does not put the object into the
 * file. Writes that overlap go in the order of the calls. Nothing is flushed to the disk. synced_mem_shutdown() waits
 * for writes; a program that ends without it may lose them.
 *
 * The host copy is written if it is valid, else the device copy, without a host copy. Contents that are in a file alone
 * are read to the host first, behind the call. What fails after the call is returned by synced_mem_file_wait().
 *
 * Errors: GPU errors, of contents that only the device has; ERR_FILE (no thread is left); ERR_INVALID_ARGUMENT (also a
 * file that can't be written); ERR_INVALID_STATE (no contents; unified placement; bytes of the file that a living
 * object is in, or, for another object, that one synced_mem_use_file() gave it with others that it is still in).
 */

/** Writes the contents to the file, from the offset on.
 * @param stream  whose order counts if the device alone has the contents; SYNCED_MEM_NO_STREAM: after all work on them.
 *                Else it is ignored @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_async_write_file(synced_mem *mem, synced_mem_file *file, uint64_t offset,
                                                             synced_mem_stream stream);

/** Writes the contents of count objects to the file, those of mems[i] from offsets[i] on.
 * @param stream  whose order counts if the device alone has contents; SYNCED_MEM_NO_STREAM: after all work on them
 * Errors: ERR_INVALID_ARGUMENT (also two objects that would overlap in the file). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_async_write_file_n(synced_mem *const *mems, synced_mem_file *file,
                                                               const uint64_t *offsets, size_t count,
                                                               synced_mem_stream stream);

/** Waits for the writes to the file that were begun before, and returns why the first one failed, once.
 * Blocking: until they have ended. Errors: ERR_FILE (also no space on the disk); GPU errors. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_file_wait(synced_mem_file *file);

#ifdef __cplusplus
}
#endif

#endif
