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
#include <sys/stat.h>
#include <unistd.h>

/* One byte more than a path may have: open() refuses what is cut to it. */
enum { ROOM = PATH_MAX + 1 };

/* Returns whether the path is a pipe or a device, which no process empties. */
static bool is_special(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && !S_ISREG(facts.st_mode);
}

/* Returns where the extension of the file's name begins; at the end if it has none. */
static const char *find_extension(const char *path)
{
    const char *const slash = strrchr(path, '/');
    const char *const name = slash ? slash + 1 : path;
    const char *const point = strrchr(name, '.');
    return point && point != name ? point : name + strlen(name);
}

/* Completes the path in the environment with the number of the process, as the program may start others: %p becomes the
 * number. Without a %p it comes before the extension. */
static void complete_path(const char *given, char path[ROOM])
{
    const char *const mark = strstr(given, "%p");
    const char *const at = mark ? mark : find_extension(given);
    if (!mark && is_special(given))
        (void)snprintf(path, ROOM, "%s", given);
    else
        (void)snprintf(path, ROOM, "%.*s%s%ld%s", (int)(at - given), given, mark ? "" : ".", (long)getpid(),
                       mark ? mark + 2 : at);
}

static bool is_enabled(const char *variable)
{
    const char *const value = secure_getenv(variable);
    return value && strcmp(value, "1") == 0;
}

static void read_environment(void)
{
    char path[ROOM];
    const char *const given = secure_getenv("SYNCED_MEM_TRACE");
    const bool named = given && given[0];
    const bool summary = is_enabled("SYNCED_MEM_TRACE_SUMMARY");
    if (is_enabled("SYNCED_MEM_DEBUG"))
        sm_guard_start();
    if (!named && !summary)
        return;
    if (named)
        complete_path(given, path);
    const struct sm_detail before = sm_detail_get();
    sm_trace_start_for_process(named ? path : NULL, summary);
    sm_detail_set(&before);
}

void sm_read_environment(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, read_environment);
}
