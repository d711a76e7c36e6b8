/* The files of rows about files: their contents are the pattern, and they have no name. */
#ifndef TEST_FILE_H
#define TEST_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* A folder whose files are in memory alone: /dev/shm. NULL: the machine has none. */
const char *folder_in_memory(void);
/* A folder whose files are on a disk, and in the system's cache: TMPDIR or /tmp. NULL: it is in memory too. */
const char *folder_on_disk(void);

/* The free bytes of the folder's file system, at most a part of the machine's free memory. */
size_t room_in_folder(const char *folder);

/* Makes a file of the folder that goes when it is closed. Returns its descriptor. */
int make_file(const char *folder, size_t size);
/* Opens the file once more, past the system's cache (O_DIRECT), once all its bytes are on the disk. Returns -1 if the
 * file system refuses. */
int open_directly(int file);
/* Checks the contents of some places of the file. */
void check_file(int file, size_t size);

#endif
