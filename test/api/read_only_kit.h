/* Shared by the suites of read-only memory: files that are mapped without the right to write, and read-only memory of
 * a device. */
#ifndef READ_ONLY_KIT_H
#define READ_ONLY_KIT_H

#include "fixture.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define READ_ONLY SYNCED_MEM_MEMORY_READ_ONLY

enum { SIZE = 5000 };

/* Maps a file of size bytes with the pattern. A write to it faults, and mprotect() cannot permit one. */
static inline void *map_file(size_t size, unsigned pattern)
{
    char name[] = "/tmp/synced_mem_read_only_XXXXXX";
    const int writable = mkstemp(name);
    const int file = open(name, O_RDONLY | O_CLOEXEC);
    unsigned char *const bytes = malloc(size);
    ck_assert(writable >= 0 && file >= 0 && bytes);
    pattern_write(bytes, size, pattern);
    ck_assert_int_eq(write(writable, bytes, size), (ssize_t)size);
    void *const data = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
    ck_assert_ptr_ne(data, MAP_FAILED);
    free(bytes);
    (void)unlink(name);
    (void)close(writable);
    (void)close(file);
    return data;
}

/* Unmaps it, and checks that the file has its contents. */
static inline void unmap_file(void *data, size_t size, unsigned pattern)
{
    ck_assert(pattern_is(data, size, pattern));
    ck_assert_int_eq(munmap(data, size), 0);
}

/* Device memory with the pattern, which nobody may write. */
static inline void *read_only_device(size_t size, unsigned pattern)
{
    void *const data = gpu_alloc(0, size);
    gpu_fill(data, size, pattern, NULL);
    gpu_sync_device(0);
    return data;
}

/* Counts the callbacks. */
static int handed_back;

static inline void count_back(void *data, void *user, synced_mem_stream stream)
{
    (void)data;
    (void)user;
    ck_assert_ptr_null(stream);
    handed_back++;
}

/* Hands a mapped file to the object as its host copy: adopted, or borrowed. */
static inline synced_mem *use_file(synced_mem *mem, void *file, bool adopted)
{
    handed_back = 0;
    OK(USE(mem, .cpu_data = file, .flags = READ_ONLY, .callback = adopted ? count_back : NULL));
    return mem;
}

static inline synced_mem *make_of_file(void *file, size_t size, bool adopted)
{
    return use_file(make_on(size, gpu_expected() ? 0 : SYNCED_MEM_DEVICE_CURRENT), file, adopted);
}

/* The same with device memory. */
static inline synced_mem *use_device_memory(synced_mem *mem, void *data, bool adopted)
{
    handed_back = 0;
    OK(USE(mem, .gpu_data = data, .flags = READ_ONLY, .callback = adopted ? count_back : NULL));
    return mem;
}

static inline synced_mem *make_of_device(void *data, size_t size, bool adopted)
{
    return use_device_memory(make_on(size, 0), data, adopted);
}

/* Makes the file stale: a kernel has written the device copy. */
static inline void write_on_device(synced_mem *mem, size_t size, unsigned pattern)
{
    gpu_fill(synced_mem_mutable_gpu_data(mem), size, pattern, NULL);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
}

/* Checks that the object's memory on the host is the library's now, and that the caller's is handed back. */
static inline void check_renewed(synced_mem *mem, const void *file, bool adopted)
{
    ck_assert_int_ne(synced_mem_cpu_source(mem), adopted ? SYNCED_MEM_SOURCE_ADOPTED : SYNCED_MEM_SOURCE_BORROWED);
    ck_assert_ptr_ne(synced_mem_cpu_data(mem), file);
    OK(synced_mem_wait(mem));
    OK(synced_mem_reap());
    ck_assert_int_eq(handed_back, adopted ? 1 : 0);
}

#endif
