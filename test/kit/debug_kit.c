#include "debug_kit.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

void use_old_pointer(void)
{
    synced_mem *const mem = make(SIZE);
    unsigned char *const data = synced_mem_mutable_cpu_data(mem);
    OK(synced_mem_resize_discard(mem, SIZE));
    touch_to_write(data);
    OK(synced_mem_release(mem));
}

/* ---- Processes ---- */

char said[16384];

int run(void (*act)(void), const char *mode)
{
    int ends[2];
    int status = 0;
    size_t used = 0;
    ssize_t got;
    ck_assert_int_eq(pipe(ends), 0);
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {.rlim_cur = 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)dup2(ends[1], STDERR_FILENO);
        (void)setenv("SYNCED_MEM_DEBUG", mode, 1);
        (void)gpu_start(fixture_schedule());
        act();
        OK(synced_mem_shutdown());
        exit(EXIT_SUCCESS);
    }
    (void)close(ends[1]);
    while ((got = read(ends[0], said + used, sizeof said - 1 - used)) > 0)
        used += (size_t)got;
    said[used] = 0;
    (void)close(ends[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return status;
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WITH_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WITH_SANITIZER
#endif

/* A sanitizer has its own handler, to which the library's handler passes the signal. Otherwise the signal ends the
 * process. */
void dies(void (*act)(void), const char *message)
{
    const int status = run(act, "1");
    ck_assert_msg(!WIFEXITED(status) || WEXITSTATUS(status) != 0, "it lives: %s", said);
#if !defined(WITH_SANITIZER)
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "status %#x: %s", (unsigned)status, said);
#endif
    SAID(message);
}

void lives(void (*act)(void))
{
    const int status = run(act, "1");
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x: %s", (unsigned)status, said);
}
