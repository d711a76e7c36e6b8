#include "child.h"

#include "measure.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int ended_with(pid_t child)
{
    int status = 0;
    must(child > 0 && waitpid(child, &status, 0) == child, "a process could not be started");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

enum { PATIENCE_S = 240 };

bool run_apart(void (*function)(void))
{
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        (void)alarm(PATIENCE_S); /* ends a part that hangs; the others go on */
        function();
        must_work(synced_mem_shutdown() == SYNCED_MEM_OK); /* fails if an object is left */
        exit(EXIT_SUCCESS);
    }
    return ended_with(child) == EXIT_SUCCESS;
}

static void become(const char *const arguments[], const char *setting, bool quiet, int out)
{
    char *words[32];
    int count = 0;
    for (; arguments[count] && count < 31; count++)
        words[count] = strdup(arguments[count]);
    words[count] = NULL;
    if (setting)
        (void)putenv(strdup(setting));
    (void)dup2(out, STDOUT_FILENO);
    const int nowhere = quiet ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
    if (nowhere >= 0)
        (void)dup2(nowhere, STDERR_FILENO);
    (void)execvp(words[0], words);
    _exit(127);
}

/* Reads everything, also without room for it: a full pipe would block the program. */
static void read_all(int from, char *output, size_t room)
{
    char rest[4096];
    size_t length = 0;
    ssize_t got = 1;
    while (got > 0) {
        const bool full = length + 1 >= room;
        got = full ? read(from, rest, sizeof rest) : read(from, output + length, room - 1 - length);
        if (got > 0 && !full)
            length += (size_t)got;
    }
    output[length] = '\0';
}

int run_program(const char *const arguments[], const char *setting, bool quiet, char *output, size_t room)
{
    int ends[2];
    must(pipe2(ends, O_CLOEXEC) == 0, "no pipe");
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0)
        become(arguments, setting, quiet, ends[1]);
    (void)close(ends[1]);
    read_all(ends[0], output, room);
    (void)close(ends[0]);
    return ended_with(child);
}

bool has_program(const char *name)
{
    char path[4096];
    const char *from = getenv("PATH");
    while (from && *from) {
        const size_t length = strcspn(from, ":");
        (void)snprintf(path, sizeof path, "%.*s/%s", (int)length, from, name);
        if (access(path, X_OK) == 0)
            return true;
        from += length + (from[length] == ':');
    }
    return false;
}
