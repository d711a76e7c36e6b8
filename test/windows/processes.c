/* Processes of tests on Windows, and the run of all tests: a process each, as the system has no forks. The linker lets
 * this file stand in front of Check's function that adds a test: it counts the tests, or adds one of them. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#define CHOICE "SYNCED_MEM_TEST_NUMBER"
enum { LONGEST_MS = 120000, NONE = -1 };

static int chosen = NONE;
static int tests; /* that were added so far */
static int left_out;

void __real__tcase_add_test(TCase *to, const TTest *test, int signal, int status, int begin, int end);
void __wrap__tcase_add_test(TCase *to, const TTest *test, int signal, int status, int begin, int end);

/* A test that must end with a signal or a status has no process that could watch it. */
void __wrap__tcase_add_test(TCase *to, const TTest *test, int signal, int status, int begin, int end)
{
    for (int i = begin; i < end; i++)
        if (signal != 0 || status != 0)
            left_out++;
        else if (tests++ == chosen)
            __real__tcase_add_test(to, test, signal, status, i, i + 1);
}

bool others_sleep(void)
{
    enum { LONG_ENOUGH_MS = 20 };
    Sleep(LONG_ENOUGH_MS);
    return true;
}

void let_others_sleep(void)
{
}

/* A test that forks is left out here, which its process says by its status. */
bool in_a_child(void (*function)(const void *argument), const void *argument)
{
    (void)function, (void)argument;
    (void)fflush(NULL);
    _exit(SUITE_SKIPPED);
}

/* See fork_kit.h. */
bool child_succeeds(void (*function)(const void *argument), const void *argument);
bool child_succeeds(void (*function)(const void *argument), const void *argument)
{
    return in_a_child(function, argument);
}

/* ---- The run ---- */

/* The compiler makes a thread's table of thread-locals by calloc(), and ends the process without memory for it. So the
 * table is made before a test refuses memory. */
static _Thread_local volatile bool has_table;

static int run_chosen(void)
{
    has_table = true;
    SRunner *const runner = srunner_create(fixture_suite(0));
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_SILENT);
    const int failed = srunner_ntests_failed(runner);
    if (failed > 0)
        srunner_print(runner, CK_NORMAL);
    (void)fflush(NULL);
    srunner_free(runner);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Starts this program again for the test with this number. Wine 8 fails to start one in some thousand, by
 * ERROR_INTERNAL_ERROR. */
static bool passes_alone(int number)
{
    enum { TRIES = 3 };
    char path[MAX_PATH];
    char text[16];
    STARTUPINFOA with = {.cb = sizeof with};
    PROCESS_INFORMATION child;
    DWORD status = 1;
    (void)snprintf(text, sizeof text, "%d", number);
    (void)SetEnvironmentVariableA(CHOICE, text);
    (void)GetModuleFileNameA(NULL, path, sizeof path);
    bool started = false;
    for (int i = 0; i < TRIES && !started; i++)
        started = CreateProcessA(path, NULL, NULL, NULL, TRUE, 0, NULL, NULL, &with, &child);
    if (!started) {
        (void)printf("test %d: no process, error %lu\n", number, GetLastError());
        return false;
    }
    if (WaitForSingleObject(child.hProcess, LONGEST_MS) == WAIT_TIMEOUT) {
        (void)printf("test %d takes too long\n", number);
        (void)TerminateProcess(child.hProcess, EXIT_FAILURE);
        (void)WaitForSingleObject(child.hProcess, INFINITE);
    }
    (void)GetExitCodeProcess(child.hProcess, &status);
    (void)CloseHandle(child.hThread);
    (void)CloseHandle(child.hProcess);
    left_out += status == SUITE_SKIPPED;
    const bool passed = status == EXIT_SUCCESS || status == SUITE_SKIPPED;
    if (!passed)
        (void)printf("test %d: %lx\n", number, status);
    (void)fflush(stdout);
    return passed;
}

static int count_tests(int schedule)
{
    tests = 0;
    left_out = 0;
    SRunner *const runner = srunner_create(fixture_suite(schedule));
    srunner_free(runner);
    return tests;
}

/* Runs each test of a schedule. Returns how many failed. */
static int run_schedule(int schedule, unsigned seed)
{
    const int count = count_tests(schedule);
    char text[16];
    int failed = 0;
    (void)snprintf(text, sizeof text, "%u", seed);
    (void)SetEnvironmentVariableA("SYNCED_MEM_EMU_SEED", text);
    for (int i = 0; i < count; i++)
        failed += !passes_alone(i);
    (void)printf("%d tests: %d failed, %d left out\n", count, failed, left_out);
    if (failed > 0)
        fixture_print_schedule();
    return failed;
}

int run_all_tests(void)
{
    const char *const choice = getenv(CHOICE);
    if (choice) {
        chosen = atoi(choice);
        return run_chosen();
    }
    const char *const first = getenv("SYNCED_MEM_EMU_SEED");
    const unsigned seed = first ? (unsigned)strtoul(first, NULL, 0) : 0;
    int failed = 0;
    for (int i = 0; i < fixture_schedules(); i++)
        failed += run_schedule(i, seed + (unsigned)i);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
