/* Files, moved by the threads of a program without the library: each reads or writes a chunk at a time. If the bytes
 * are on the device it has two page-locked chunks, and to write a stream of its own. */
#ifndef BY_HAND_H
#define BY_HAND_H

#include <stdbool.h>
#include <stddef.h>

enum { HAND_THREADS = 16 };

struct by_hand;

/* A chunk has 2 MiB, with a small file less. */
struct by_hand *by_hand_start(bool with_device);
void by_hand_end(struct by_hand *hand);

/* Each moves size bytes, of a file from its begin on or from offset on, and returns the seconds. */
double by_hand_load(struct by_hand *hand, int file, size_t offset, size_t size, char *device);
/* The same of count blocks, one behind the other in the file. The threads begin with one when the one before it is
 * there. */
double by_hand_load_each(struct by_hand *hand, int file, size_t count, size_t size, char *const *device);
double by_hand_read(struct by_hand *hand, int file, size_t size, char *memory);
double by_hand_store(struct by_hand *hand, int file, size_t size, char *device);
/* The link alone: copies so many bytes out of the page-locked chunks, in pieces as large as all of them. */
double by_hand_copy_up(const struct by_hand *hand, size_t size, char *device);

#endif
