/* Counts of what a failed call may leave behind in the process. */
#ifndef LEFTOVERS_H
#define LEFTOVERS_H

#include "memory/shared/closer.h"
#include "memory/shared/errand.h"

#include "check_kit.h"
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Threads of the library may still hold, and close, what other processes have too. */
static inline int count_open_descriptors(void)
{
    for (int ms = 0; ms < 100000 && !(sm_closer_is_idle() && sm_errand_none()); ms++)
        (void)usleep(1000);
    DIR *const folder = opendir("/proc/self/fd");
    int count = 0;
    ck_assert_ptr_nonnull(folder);
    while (readdir(folder))
        count++;
    (void)closedir(folder);
    return count;
}

/* Waits for the end of the library's threads. A sanitizer does not find all that a forked child has if the parent has
 * other threads just then. */
static inline void await_threads(void)
{
    int count = 2;
    for (int ms = 0; ms < 1000 && !sm_errand_none(); ms++)
        (void)usleep(1000);
    for (int ms = 0; ms < 50 && count > 1; ms++) {
        DIR *const folder = opendir("/proc/self/task");
        ck_assert_ptr_nonnull(folder);
        for (count = -2; readdir(folder);) /* without . and .. */
            count++;
        (void)closedir(folder);
        if (count > 1)
            (void)usleep(1000);
    }
}

/* Counts the mappings of memory that processes share. */
static inline int count_shared_mappings(void)
{
    char line[512];
    int count = 0;
    for (int ms = 0; ms < 100000 && !sm_errand_none(); ms++)
        (void)usleep(1000);
    FILE *const file = fopen("/proc/self/maps", "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file))
        count += strstr(line, "memfd:synced_mem") != NULL;
    (void)fclose(file);
    return count;
}

#endif
