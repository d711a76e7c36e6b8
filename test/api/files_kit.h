/*
 * The functions that the suites of files share: a file with known bytes, and checks of objects against them.
 */
#ifndef FILES_KIT_H
#define FILES_KIT_H

#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#if WITH_POSIX
#include <unistd.h>
#define file_number fileno
#else
#include <io.h>
#define file_number _fileno
#endif

/* Larger than two of the chunks that a large file is read in, and no multiple of a block. */
enum { FILE_BYTES = 1500001 };

/* No file is larger. */
enum { MOST_FILE_BYTES = 17 * 262144 };

/* The expected bytes of the file. */
static unsigned char in_file[MOST_FILE_BYTES];
static FILE *behind;

/* Makes a file of so many bytes, which the test may write. The pattern has no period that divides a chunk. */
static inline synced_mem_file *make_file(size_t size, unsigned pattern)
{
    synced_mem_file *file = NULL;
    pattern_write(in_file, size, pattern);
    behind = tmpfile();
    ck_assert_ptr_nonnull(behind);
    ck_assert_uint_eq(fwrite(in_file, 1, size, behind), size);
    ck_assert_int_eq(fflush(behind), 0);
    OK(synced_mem_file_open(&file, file_number(behind)));
    ck_assert_ptr_nonnull(file);
    return file;
}

/* Closes the program's own descriptor. */
static inline void close_behind(void)
{
    if (behind)
        (void)fclose(behind);
    behind = NULL;
}

/* Gives up the file. */
static inline void end_file(synced_mem_file *file)
{
    OK(synced_mem_file_release(file));
    close_behind();
}

/* Returns whether the file has the expected bytes. */
static inline bool file_is_right(size_t size)
{
    unsigned char *const bytes = malloc(size + 1);
    rewind(behind);
    const bool right = fread(bytes, 1, size + 1, behind) == size && memcmp(bytes, in_file, size) == 0;
    free(bytes);
    return right;
}

static inline synced_mem *make_in_file(size_t size, synced_mem_file *file, uint64_t offset)
{
    synced_mem *const mem = make(size);
    OK(synced_mem_use_file(mem, file, offset));
    return mem;
}

#define HEAD(mem, head) ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_##head)
/* Checks the head, and whether the object is in a file. */
#define STATE(mem, head, in)                                                                                           \
    do {                                                                                                               \
        HEAD(mem, head);                                                                                               \
        ck_assert_int_eq(synced_mem_in_file(mem), (in));                                                               \
    } while (0)

/* Return whether bytes, or the object as an access returns it, are those of the file from the offset on. */
static inline bool bytes_are_of_file(const void *data, size_t size, uint64_t offset)
{
    gpu_note_host_read(data, size);
    return memcmp(data, in_file + offset, size) == 0;
}

static inline bool host_has(synced_mem *mem, uint64_t offset)
{
    return bytes_are_of_file(given(synced_mem_cpu_data(mem)), synced_mem_size(mem), offset);
}

static inline bool device_has(synced_mem *mem, uint64_t offset)
{
    const size_t size = synced_mem_size(mem);
    unsigned char *const bytes = malloc(size + 1);
    gpu_read(bytes, given(synced_mem_gpu_data(mem)), size);
    const bool right = memcmp(bytes, in_file + offset, size) == 0;
    free(bytes);
    return right;
}

#endif
