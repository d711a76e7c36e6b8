/* The environment's settings. */
#include "api/environment.h"

#include "memory/guard.h"
#include "base/status.h"
#include "trace/trace_writer.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Completes the path in the environment: %p becomes the number of the process, as programs may start others. */
static void complete_path(const char *given, char *path, size_t room)
{
    const char *const mark = strstr(given, "%p");
    if (mark)
        (void)snprintf(path, room, "%.*s%ld%s", (int)(mark - given), given, (long)getpid(), mark + 2);
    else
        (void)snprintf(path, room, "%s", given);
}

static bool is_enabled(const char *variable)
{
    const char *const value = secure_getenv(variable);
    return value && strcmp(value, "1") == 0;
}

static void read_environment(void)
{
    char path[PATH_MAX];
    const char *const given = secure_getenv("SYNCED_MEM_TRACE");
    const bool named = given && given[0];
    const bool summary = is_enabled("SYNCED_MEM_TRACE_SUMMARY");
    if (is_enabled("SYNCED_MEM_DEBUG"))
        sm_guard_start();
    if (!named && !summary)
        return;
    if (named)
        complete_path(given, path, sizeof path);
    const struct sm_detail before = sm_detail_get();
    sm_trace_start_for_process(named ? path : NULL, summary);
    sm_detail_set(&before);
}

void sm_read_environment(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, read_environment);
}
