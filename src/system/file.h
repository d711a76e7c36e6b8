/*
 * Files, without stdio. A file is a descriptor, which no program that this one starts inherits.
 *
 * A function that returns an error returns 0 if it is done, else a number that strerror() puts into words.
 */
#ifndef SM_SYSTEM_FILE_H
#define SM_SYSTEM_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* The standard descriptors are 0 to this one. */
enum { SM_STDERR = 2 };

/* Creates the file, or empties it, and opens it to write. *file is no standard descriptor: a program that has closed
 * one may still print to it, or open it again. On failure it is -1. Returns an error. */
int sm_file_create(const char *path, int *file);

/* Writes all of the bytes. Blocks. Returns an error. On failure a part may be written. Safe in a signal handler. */
int sm_file_write(int file, const void *data, size_t bytes);

/* Closes the file. It is closed even on failure. Returns an error, which an earlier write may have had. */
int sm_file_close(int file);

/* Lets no program that this one starts inherit a descriptor that somebody else has made. */
void sm_file_close_on_exec(int file);

/* Makes a second descriptor for the file, which is no standard one; on failure *out is -1. Returns an error. */
int sm_file_copy_up(int file, int *out);

/* Moves the descriptor above the standard ones. Closes the old one if it has moved, or on failure, when *file is -1.
 * Returns an error. */
int sm_file_move_up(int *file);

/* Returns whether the path is a pipe or a device, which no process empties. */
bool sm_file_is_special(const char *path);

/* Returns the part of the path behind its folders. */
const char *sm_file_name(const char *path);

/* Returns whether the error means that there is no memory, or no room for it. */
bool sm_is_out_of_memory(int error);

#endif
