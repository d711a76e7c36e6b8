/* Shared by the suites of budgets for host copies. */
#ifndef HOST_BUDGET_KIT_H
#define HOST_BUDGET_KIT_H

#include "hold_kit.h"

#include <stdlib.h>

#if WITH_POSIX
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

static int behind_scratch = -1;

#if WITH_POSIX
/* Opens a file without a name in a folder. */
static inline int open_nameless(const char *folder)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/synced_mem_XXXXXX", folder);
    const int file = mkstemp(path);
    if (file >= 0)
        (void)unlink(path);
    return file;
}

/* The build's folder, and the folder for temporary files, may be in memory, where no scratch file may be. */
static inline synced_mem_file *make_scratch(void)
{
    static const char *const folders[] = {".", "/var/tmp", "/tmp"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        synced_mem_file *file = NULL;
        behind_scratch = open_nameless(folders[i]);
        if (behind_scratch < 0)
            continue;
        OK(synced_mem_file_open(&file, behind_scratch));
        if (synced_mem_cpu_set_budget(UINT64_MAX - 1, file, NULL) == SYNCED_MEM_OK) {
            OK(synced_mem_cpu_set_budget(SYNCED_MEM_NO_BUDGET, NULL, NULL));
            return file;
        }
        OK(synced_mem_file_release(file));
        (void)close(behind_scratch);
    }
    ck_abort_msg("no folder of this machine is on a disk");
    return NULL;
}

static inline uint64_t scratch_size(void)
{
    struct stat status;
    ck_assert_int_eq(fstat(behind_scratch, &status), 0);
    return (uint64_t)status.st_size;
}

/* The library keeps the file as long as it needs it. */
static inline void end_scratch(synced_mem_file *file)
{
    OK(synced_mem_file_release(file));
    (void)close(behind_scratch);
}
#endif

static inline void set_host_budget(uint64_t bytes, synced_mem_file *scratch)
{
    OK(synced_mem_cpu_set_budget(bytes, scratch, NULL));
}

static inline synced_mem_status hold_host(synced_mem *mem, synced_mem_mode mode)
{
    return synced_mem_hold(mem, SYNCED_MEM_SIDE_CPU, mode, NULL);
}

static inline synced_mem_status unhold_host(synced_mem *mem)
{
    return synced_mem_unhold(mem, SYNCED_MEM_SIDE_CPU);
}

/* Holds the object on the host, and returns whether it has the pattern there. */
static inline bool host_has(synced_mem *mem, unsigned pattern)
{
    OK(hold_host(mem, SYNCED_MEM_READ));
    const bool has = host_is(given(synced_mem_cpu_data(mem)), synced_mem_size(mem), pattern);
    OK(unhold_host(mem));
    return has;
}

/* Returns whether the object, which is held on its device, has the pattern there. */
static inline bool device_has(synced_mem *mem, unsigned pattern)
{
    const size_t size = synced_mem_size(mem);
    unsigned char *const bytes = malloc(size + 1);
    gpu_read(bytes, given(synced_mem_gpu_data(mem)), size);
    const bool has = host_is(bytes, size, pattern);
    free(bytes);
    return has;
}

static inline void host_write(synced_mem *mem, unsigned pattern)
{
    OK(hold_host(mem, SYNCED_MEM_OVERWRITE));
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), synced_mem_size(mem), pattern);
    OK(unhold_host(mem));
}

static inline bool has_host_copy(const synced_mem *mem)
{
    return synced_mem_cpu_source(mem) != SYNCED_MEM_SOURCE_NONE;
}

static inline unsigned count_host_copies(synced_mem *const *mems, unsigned count)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < count; i++)
        sum += has_host_copy(mems[i]);
    return sum;
}

#endif
