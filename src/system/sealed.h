/*
 * Memory that processes share: files in memory whose size is sealed, so that no process can take the pages of a mapping
 * away; locks of their bytes, which end with the process whatever ends it; and words in them on which processes sleep.
 * The other processes may be hostile.
 *
 * On a system without all of this the functions return an error, and sm_sealed_check() false: objects that processes
 * share are refused there. Errors are those of file.h.
 */
#ifndef SM_SYSTEM_SEALED_H
#define SM_SYSTEM_SEALED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns 0 on a system that has all of this, else the error with which it refuses it. */
int sm_sealed_probe(void);

/* ---- Files ---- */

/* Numbers besides those of errors: another process has, or another descriptor, what can't be had now; the process's
 * limit of the size of files (RLIMIT_FSIZE) is less. */
enum { SM_SEALED_BUSY = -1, SM_SEALED_LIMIT = -2 };

/* Makes a sealed file of this size, all zeros. It has no pages yet. *fd is no standard descriptor; on failure it is -1.
 * Returns an error, or SM_SEALED_LIMIT. */
int sm_sealed_make(size_t bytes, int *fd);

/* Returns whether the descriptor is of such a file, of this size, and can be written. Does not block, whatever it is
 * of. */
bool sm_sealed_check(int fd, size_t bytes);

/* Opens the descriptor's file anew: a descriptor with locks of its own, and no standard one; on failure *fd is -1. Does
 * not block. Returns an error, or SM_SEALED_BUSY: another process has a lease on the file. */
int sm_sealed_reopen(int of, int *fd);

/* Maps the file to read and write at a multiple of alignment, a power of two. Returns an error. */
int sm_sealed_map(int fd, size_t bytes, size_t alignment, void **out);
void sm_sealed_unmap(void *data, size_t bytes);

/* Maps private memory, all zeros, over such a mapping. For a forked child. */
void sm_sealed_replace(void *data, size_t bytes);
/* Makes such a mapping of the file private: writes no longer reach the file. For a forked child. */
void sm_sealed_make_private(void *data, size_t bytes, int fd);

/* ---- Locks of bytes ---- */

/* Takes the byte's lock for the descriptor, if no other descriptor has it. Does not wait for that, but may take its
 * time if there are many locks. Returns an error, or SM_SEALED_BUSY. */
int sm_sealed_lock(int fd, unsigned byte);
void sm_sealed_unlock(int fd, unsigned byte);
/* Returns whether no other descriptor has the lock. Takes no lock meanwhile: a process that is stopped here holds up
 * nobody. */
bool sm_sealed_is_unlocked(int fd, unsigned byte);

/* ---- Words ---- */

/* Sleeps until a process wakes the word, at most so long (less than a second), or for no reason; not if the word is not
 * what was seen. */
void sm_sealed_wait(atomic_uint *word, unsigned seen, uint64_t nanoseconds);
/* Wakes all threads of all processes that sleep on the word. */
void sm_sealed_wake(atomic_uint *word);

#endif
