/* The environment's settings. */
#include "api/environment.h"

#include "memory/guard.h"
#include "base/once.h"
#include "copy/kernel_way.h"
#include "base/status.h"
#include "system/file.h"
#include "system/process.h"
#include "trace/trace_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns where the extension of the file's name begins; at the end if it has none. */
static const char *find_extension(const char *path)
{
    const char *const name = sm_file_name(path);
    const char *const point = strrchr(name, '.');
    return point && point != name ? point : name + strlen(name);
}

/* Completes the path in the environment with the number of the process, as the program may start others: %p becomes the
 * number. Without a %p it comes before the extension. */
static void complete_path(const char *given, char *path, size_t room)
{
    const char *const mark = strstr(given, "%p");
    const char *const at = mark ? mark : find_extension(given);
    if (!mark && sm_file_is_special(given))
        (void)snprintf(path, room, "%s", given);
    else
        (void)snprintf(path, room, "%.*s%s%ld%s", (int)(at - given), given, mark ? "" : ".", sm_process_id(),
                       mark ? mark + 2 : at);
}

static bool is_enabled(const char *variable)
{
    const char *const value = sm_environment(variable);
    return value && strcmp(value, "1") == 0;
}

/* Ignores what is no number of blocks. */
static void read_kernel_blocks(void)
{
    const char *const value = sm_environment("SYNCED_MEM_KERNEL_BLOCKS");
    char *end = NULL;
    const long blocks = value ? strtol(value, &end, 10) : 0;
    if (value && end != value && !*end && blocks >= SM_BLOCKS_BY_DEVICE && blocks <= SM_MOST_BLOCKS)
        sm_kernel_way_set((int)blocks);
}

static void read_environment(void)
{
    enum { NUMBER = 24 };
    const char *const given = sm_environment("SYNCED_MEM_TRACE");
    const bool named = given && given[0];
    const bool summary = is_enabled("SYNCED_MEM_TRACE_SUMMARY");
    read_kernel_blocks();
    if (is_enabled("SYNCED_MEM_DEBUG"))
        sm_guard_start();
    if (!named && !summary)
        return;
    /* Without memory for the completed path, the given one serves. */
    const size_t room = named ? strlen(given) + NUMBER : 1;
    char *const path = malloc(room);
    if (named && path)
        complete_path(given, path, room);
    const struct sm_detail before = sm_detail_get();
    sm_trace_start_for_process(named ? (path ? path : given) : NULL, summary);
    free(path);
    sm_detail_set(&before);
}

void sm_read_environment(void)
{
    static struct sm_once once;
    sm_once(&once, read_environment);
}
