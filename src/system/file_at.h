/*
 * Files that are read and written at offsets. Descriptors are those of file.h. A function that returns an error returns
 * 0 if it is done, else a number that strerror() puts into words.
 */
#ifndef SM_SYSTEM_FILE_AT_H
#define SM_SYSTEM_FILE_AT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The largest offset behind the last byte of a file. */
#define SM_LARGEST_FILE ((uint64_t)INT64_MAX)

struct sm_file_facts {
    bool is_file; /* bytes at offsets can be read: no pipe, socket, terminal or folder */
    bool reads;   /* the descriptor allows it */
    bool writes;
    bool appends;     /* writes go to the end of the file, whatever the offset */
    bool direct;      /* past the system's cache: offsets, sizes and memory have to be multiples of alignment */
    bool has_end;     /* sm_file_size() finds the size */
    bool in_memory;   /* its file system keeps it there, as far as is known */
    size_t alignment; /* 1 if not direct */
};

/* Finds out what the descriptor can do. Returns an error, such as that no file is open there. */
int sm_file_examine(int file, struct sm_file_facts *facts);

/* Opens the file once more, so that no setting of the descriptor is shared with the first one, where the system allows
 * that; else makes a second descriptor. No program that this one starts inherits it. cached: not past the system's
 * cache, which fails where the system can't open the file once more. On failure *out is -1. Returns an error. */
int sm_file_reopen(int file, const struct sm_file_facts *facts, bool cached, int *out);

/* Has the file system keep room for the bytes at the offset, so that a write there finds it, and makes the file as
 * long. Without effect where the system or the file system can't. Blocks. Returns an error, such as that the disk is
 * full. */
int sm_file_allocate(int file, uint64_t offset, uint64_t bytes);

/* Stores the size. Returns an error. */
int sm_file_size(int file, uint64_t *size);

/* Reads up to so many bytes at the offset. *done: how many; fewer only at the end of the file, or, past the system's
 * cache, in its last block. Blocks. Returns an error. */
int sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done);

/* Writes all of the bytes at the offset. Blocks. On failure some may be written. Returns an error. */
int sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset);

#endif
