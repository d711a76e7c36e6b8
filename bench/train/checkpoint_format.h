/* The file of a checkpoint: its header, and its checksums. */
#ifndef TRAIN_CHECKPOINT_FORMAT_H
#define TRAIN_CHECKPOINT_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The words of the header. */
enum {
    MAGIC,
    VERSION,
    LENGTH, /* of the file, in bytes */
    VOCABULARY,
    CONTEXT,
    EMBED,
    HIDDEN,
    LAYERS,
    SYMBOLS, /* checksum of the text's characters */
    SEED,
    BATCHES,
    STEP,
    HEADER_SUM, /* checksum of all before it */
    HEADER_WORDS
};

#define CHECKPOINT_MAGIC UINT64_C(0x31656c6974706d73) /* its bytes show whether the byte order is the same */
#define CHECKPOINT_VERSION UINT64_C(1)

/* The checksum at the end of the file. */
typedef uint64_t file_sum;

/* Returns the checksum of bytes that follow others with the checksum before. */
uint64_t checkpoint_sum(uint64_t before, const void *data, size_t size);

/* Returns the length of a file with so many parameters. */
size_t checkpoint_length(size_t parameters);

/* Fails with the system's reason in errno. */
bool checkpoint_fail(const char *path, const char *what);

#endif
