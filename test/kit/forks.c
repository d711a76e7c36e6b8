/* Processes, and the run of all tests: each is a forked child. */
#include "fixture.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Processes ---- */

static bool sleeps(const char *thread)
{
    char path[64];
    char text[256] = "";
    (void)snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", thread);
    FILE *const file = fopen(path, "r");
    if (!file)
        return true;
    const char *const line = fgets(text, sizeof text, file);
    const char *const name_end = line ? strrchr(text, ')') : NULL;
    (void)fclose(file);
    return name_end && strncmp(name_end, ") S", 3) == 0;
}

static bool look_whether_others_sleep(void)
{
    bool all = true;
    DIR *const threads = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(threads);
    for (const struct dirent *entry; (entry = readdir(threads)) != NULL;)
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != gettid() && !sleeps(entry->d_name))
            all = false;
    (void)closedir(threads);
    return all;
}

bool others_sleep(void)
{
    enum { LOOK_US = 1000, IN_A_ROW = 3 };
    int slept = 0;
    while (slept < IN_A_ROW && look_whether_others_sleep()) {
        slept++;
        (void)usleep(LOOK_US);
    }
    return slept == IN_A_ROW;
}

void let_others_sleep(void)
{
    while (SANITIZED && !others_sleep())
        continue;
}

bool in_a_child(void (*function)(const void *argument), const void *argument)
{
    int status = 0;
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        function(argument);
        exit(EXIT_SUCCESS);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}

/* ---- The run ---- */

/* A runtime that was started in a process does not work in its children. So a child looks for the devices. */
static bool found_devices(void)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0)
        _exit(gpu_start(0) > 0 ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* A test is a child of the runner, or the runner itself if it does not fork. */
static bool is_test;

static void notice_fork(void)
{
    is_child_of_test = is_test;
    is_test = true;
}

static bool run_schedule(int number)
{
    SRunner *const runner = srunner_create(fixture_suite(number));
    if (tests_share_process())
        srunner_set_fork_status(runner, CK_NOFORK);
    is_test = srunner_fork_status(runner) == CK_NOFORK;
    (void)pthread_atfork(NULL, NULL, notice_fork);
    srunner_run_all(runner, number == 0 ? CK_ENV : CK_SILENT);
    const int failed = srunner_ntests_failed(runner);
    if (failed > 0 && number > 0)
        srunner_print(runner, CK_NORMAL);
    srunner_free(runner);
    if (failed > 0)
        fixture_print_schedule();
    return failed == 0;
}

static void run_schedule_in_child(const void *number)
{
    if (!run_schedule(*(const int *)number))
        exit(EXIT_FAILURE);
}

int run_all_tests(void)
{
    if (gpu_expected() && !found_devices()) {
        (void)fprintf(stderr, "no device was found\n");
        return SUITE_SKIPPED;
    }
    /* Each of several schedules has a process of its own, in case its tests share it. */
    const int schedules = fixture_schedules();
    for (int i = 0; i < schedules; i++)
        if (!(schedules > 1 ? in_a_child(run_schedule_in_child, &i) : run_schedule(i)))
            return EXIT_FAILURE;
    return EXIT_SUCCESS;
}
