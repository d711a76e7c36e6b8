/*
 * What Windows does in another way than Linux: a program that ends while its threads work, a thread that ends, a wait
 * with a time, and a fault in debug mode. Each is a program of its own, which this one starts:
 *
 *     ends exit N      N programs end by themselves in the middle of four threads' work; nearly all
 *                      of their traces are whole
 *     ends fault       the use of an expired pointer is reported, and then ends the program
 *     ends words       a lock that is held longer than a thread wants to wait; threads that wake each other
 */
#include "base/mutex.h"
#include "synced_mem.h"
#include "synced_mem/report.h"
#include "system/clock.h"
#include "system/faults.h"
#include "system/pages.h"
#include "system/process.h"
#include "system/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

enum { THREADS = 4, BYTES = 5000, PATIENCE_MS = 20000 };

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                              \
            exit(EXIT_FAILURE);                                                                                        \
        }                                                                                                              \
    } while (0)

/* Starts this program with the word. Returns its status; it is ended if it takes too long. */
static DWORD run(const char *word)
{
    char path[MAX_PATH], line[2 * MAX_PATH];
    STARTUPINFOA with = {.cb = sizeof with};
    PROCESS_INFORMATION child;
    DWORD status = 0;
    (void)GetModuleFileNameA(NULL, path, sizeof path);
    (void)snprintf(line, sizeof line, "\"%s\" %s", path, word);
    CHECK(CreateProcessA(path, line, NULL, NULL, TRUE, 0, NULL, NULL, &with, &child));
    const bool ended = WaitForSingleObject(child.hProcess, PATIENCE_MS) == WAIT_OBJECT_0;
    if (!ended)
        (void)TerminateProcess(child.hProcess, EXIT_FAILURE);
    CHECK(ended);
    (void)GetExitCodeProcess(child.hProcess, &status);
    (void)CloseHandle(child.hProcess);
    (void)CloseHandle(child.hThread);
    return status;
}

/* ---- Exit ---- */

static void *work(void *unused)
{
    for (;;) {
        synced_mem *mem;
        CHECK(synced_mem_create(&mem, BYTES, NULL) == SYNCED_MEM_OK);
        CHECK(synced_mem_mutable_cpu_data(mem) != NULL);
        CHECK(synced_mem_resize(mem, 2 * BYTES) == SYNCED_MEM_OK);
        CHECK(synced_mem_release(mem) == SYNCED_MEM_OK);
    }
    return unused;
}

static int exit_at_work(void)
{
    enum { MOST_MS = 50 };
    CHECK(synced_mem_trace_start("ends.json") == SYNCED_MEM_OK);
    for (int i = 0; i < THREADS; i++)
        CHECK(sm_thread_start(NULL, work, NULL));
    Sleep(GetTickCount() % MOST_MS);
    return EXIT_SUCCESS;
}

/* The trace is a list of objects. Here it is enough that it has an end. An exit waits a second for a thread that writes;
 * on a busy machine that may be too short. */
static bool is_whole(const char *path)
{
    char end[4] = "";
    FILE *const file = fopen(path, "rb");
    CHECK(file && fseek(file, -3, SEEK_END) == 0 && fread(end, 1, 3, file) == 3);
    (void)fclose(file);
    return strchr(end, ']') != NULL;
}

static int exit_often(int times)
{
    int whole = 0;
    for (int i = 0; i < times; i++) {
        CHECK(run("exits") == EXIT_SUCCESS);
        whole += is_whole("ends.json");
    }
    CHECK(whole * 10 >= times * 9);
    return remove("ends.json");
}

/* ---- Faults ---- */

static atomic_uintptr_t reported;

static void report(uintptr_t address)
{
    atomic_store(&reported, address);
    errno = EIO;
    SetLastError(1);
}

static LONG CALLBACK open_page(EXCEPTION_POINTERS *exception)
{
    const uintptr_t address = exception->ExceptionRecord->ExceptionInformation[1];
    const size_t page = sm_page_size();
    return sm_pages_protect((void *)(address / page * page), page, SM_PROTECT_NOTHING) ? EXCEPTION_CONTINUE_EXECUTION
                                                                                       : EXCEPTION_CONTINUE_SEARCH;
}

/* The program's own handler follows, and the access goes on. */
static int fault(void)
{
    enum { PAGES = 3 };
    const size_t page = sm_page_size();
    (void)AddVectoredExceptionHandler(1, open_page);
    sm_faults_watch(report);
    for (int protection = SM_PROTECT_WRITES; protection <= SM_PROTECT_ALL; protection++) {
        volatile char *const memory = sm_pages_map(PAGES * page);
        CHECK(memory != NULL);
        memory[page + 7] = 3;
        CHECK(sm_pages_protect((void *)memory, PAGES * page, (enum sm_protection)protection));
        errno = 0;
        if (protection == SM_PROTECT_ALL)
            CHECK(memory[page + 7] == 3);
        else
            memory[page + 7] = 4;
        CHECK(errno == 0);
        CHECK(atomic_exchange(&reported, 0) == (uintptr_t)memory + page + 7);
        sm_pages_unmap((void *)memory, PAGES * page);
    }
    return EXIT_SUCCESS;
}

/* ---- Words ---- */

static struct sm_mutex mutex;
static unsigned long counted;

static void *count(void *unused)
{
    enum { TIMES = 100000 };
    for (int i = 0; i < TIMES; i++) {
        sm_mutex_lock(&mutex);
        counted++;
        sm_mutex_unlock(&mutex);
        if (i % 64 == 0)
            sm_yield();
    }
    return unused;
}

static atomic_uint ping;

/* Waits for its turn, with nothing but the word to wake it. */
static void *pong(void *unused)
{
    enum { TIMES = 2000 };
    for (unsigned turn = 1; turn < 2 * TIMES; turn += 2) {
        unsigned seen;
        while ((seen = atomic_load(&ping)) != turn)
            sm_word_wait(&ping, seen);
        atomic_store(&ping, turn + 1);
        sm_word_wake_one(&ping);
    }
    return unused;
}

static void take_turns(void)
{
    enum { TIMES = 2000 };
    sm_thread thread;
    CHECK(sm_thread_start(&thread, pong, NULL));
    for (unsigned turn = 0; turn < 2 * TIMES; turn += 2) {
        unsigned seen;
        while ((seen = atomic_load(&ping)) != turn)
            sm_word_wait(&ping, seen);
        atomic_store(&ping, turn + 1);
        sm_word_wake_all(&ping);
    }
    sm_thread_join(thread);
}

static int use_words(void)
{
    enum { SHORT_NS = 30000000 };
    sm_thread threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(sm_thread_start(&threads[i], count, NULL));
    for (int i = 0; i < THREADS; i++)
        sm_thread_join(threads[i]);
    CHECK(counted == THREADS * 100000ul);
    take_turns();
    sm_mutex_lock(&mutex);
    const uint64_t start = sm_now();
    errno = EINTR;
    SetLastError(77);
    CHECK(!sm_mutex_lock_within(&mutex, SHORT_NS));
    CHECK(GetLastError() == 77 && errno == EINTR);
    CHECK(sm_now() - start >= SHORT_NS);
    sm_mutex_unlock(&mutex);
    CHECK(sm_mutex_lock_within(&mutex, SHORT_NS));
    return EXIT_SUCCESS;
}

/* ---- Ends of threads ---- */

static atomic_uint ends;
static DWORD late_slot;

static void note_end(void *value)
{
    atomic_fetch_add(&ends, (unsigned)(uintptr_t)value);
}

/* A hook of the program that is called after the library's. */
static void CALLBACK set_again(void *unused)
{
    (void)unused;
    sm_thread_set_end((void *)16);
}

static void *set(void *late)
{
    sm_thread_set_end((void *)1);
    if (late)
        (void)FlsSetValue(late_slot, late);
    return NULL;
}

static void *set_nothing(void *unused)
{
    sm_thread_set_end((void *)1);
    sm_thread_set_end(NULL);
    return unused;
}

static unsigned count_ends(void *(*begin)(void *argument), void *argument)
{
    sm_thread thread;
    atomic_store(&ends, 0);
    CHECK(sm_thread_start(&thread, begin, argument));
    sm_thread_join(thread);
    return atomic_load(&ends);
}

static int end_threads(void)
{
    sm_thread_watch_ends(note_end);
    late_slot = FlsAlloc(set_again);
    CHECK(count_ends(set, NULL) == 1);
    CHECK(count_ends(set_nothing, NULL) == 0);
    CHECK(count_ends(set, &ends) == 17);
    sm_thread_set_end((void *)1);
    return EXIT_SUCCESS; /* the end of the process is the end of no thread */
}

/* ---- All ---- */

int main(int count_of_words, char **words)
{
    const char *const what = count_of_words > 1 ? words[1] : "";
    if (strcmp(what, "exit") == 0)
        return exit_often(count_of_words > 2 ? atoi(words[2]) : 50);
    if (strcmp(what, "exits") == 0)
        return exit_at_work();
    if (strcmp(what, "fault") == 0)
        return fault();
    if (strcmp(what, "words") == 0)
        return use_words();
    return strcmp(what, "threads") == 0 ? end_threads() : EXIT_FAILURE;
}
