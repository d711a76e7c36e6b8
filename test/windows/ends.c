/*
 * Programs that check what Windows does in another way than Linux: ends of programs and threads, waits, faults.
 *
 *     ends exit N      N programs end by themselves in the middle of four threads' work; nearly all of their traces are
 *                      whole, also if exit() is of another C library than the one that this program is built with
 *     ends debug       a program that uses an expired pointer says so, and ends by the fault
 *     ends fault       faults are reported, and the program's own handler goes on after them
 *     ends words       a lock that is held longer than a thread wants to wait; threads that wake each other
 *     ends threads     the ends of threads are noticed, in both rounds, and the end of the process is none
 *     ends shares      objects that processes share are refused
 */
#include "base/mutex.h"
#include "synced_mem.h"
#include "synced_mem/processes.h"
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

enum { HANGS = 1000 };

/* Starts this program with the word, and with this standard error if it is not NULL. Returns its status; HANGS: it took
 * too long, and was ended. */
static DWORD run(const char *word, HANDLE errors)
{
    char path[MAX_PATH], line[2 * MAX_PATH];
    STARTUPINFOA with = {.cb = sizeof with};
    if (errors) {
        with.dwFlags = STARTF_USESTDHANDLES;
        with.hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE);
        with.hStdError = errors;
    }
    PROCESS_INFORMATION child;
    DWORD status = 0;
    (void)GetModuleFileNameA(NULL, path, sizeof path);
    (void)snprintf(line, sizeof line, "\"%s\" %s", path, word);
    CHECK(CreateProcessA(path, line, NULL, NULL, TRUE, 0, NULL, NULL, &with, &child));
    const bool ended = WaitForSingleObject(child.hProcess, PATIENCE_MS) == WAIT_OBJECT_0;
    if (!ended)
        (void)TerminateProcess(child.hProcess, HANGS);
    (void)WaitForSingleObject(child.hProcess, INFINITE);
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

static int exit_at_work(const char *library)
{
    enum { MOST_MS = 50 };
    const HMODULE other = library ? LoadLibraryA(library) : NULL;
    const FARPROC found = other ? GetProcAddress(other, "exit") : NULL;
    void (*its_exit)(int status) = exit;
    if (found)
        memcpy(&its_exit, &found, sizeof its_exit);
    CHECK(synced_mem_trace_start("ends.json") == SYNCED_MEM_OK);
    for (int i = 0; i < THREADS; i++)
        CHECK(sm_thread_start(NULL, work, NULL));
    Sleep(GetTickCount() % MOST_MS);
    its_exit(EXIT_SUCCESS);
    return EXIT_FAILURE;
}

/* The trace is a list of objects. Here it is enough that it has an end. An exit waits a second for a thread that
 * writes; on a busy machine that may be too short. */
static bool is_whole(const char *path)
{
    char end[4] = "";
    FILE *const file = fopen(path, "rb");
    CHECK(file && fseek(file, -3, SEEK_END) == 0 && fread(end, 1, 3, file) == 3);
    (void)fclose(file);
    return strchr(end, ']') != NULL;
}

/*
 * One in some hundred programs never ends under Wine 8: the process's last thread leaves the heap's lock, and spins for
 * the lock of Wine's table of sleepers, which a thread had when it was ended. None of its frames is the library's.
 */
static int exit_often(int times)
{
    int whole = 0, hung = 0;
    for (int i = 0; i < times; i++) {
        const DWORD status = run(i % 2 ? "exits" : "exits_of_another", NULL);
        CHECK(status == EXIT_SUCCESS || status == HANGS);
        hung += status == HANGS;
        whole += is_whole("ends.json");
    }
    CHECK(hung * 10 <= times);
    CHECK(whole * 10 >= times * 9);
    return remove("ends.json");
}

/* ---- Debug mode ---- */

/* Without it the system asks the user, or starts a debugger. */
static LONG CALLBACK end_program(EXCEPTION_POINTERS *exception)
{
    (void)exception;
    return EXCEPTION_EXECUTE_HANDLER;
}

static int use_expired_pointer(void)
{
    enum { PAGES = 3 };
    synced_mem *mem;
    (void)SetUnhandledExceptionFilter(end_program);
    CHECK(synced_mem_create(&mem, PAGES * sm_page_size(), NULL) == SYNCED_MEM_OK);
    volatile char *const data = synced_mem_mutable_cpu_data(mem);
    CHECK(data && synced_mem_resize_discard(mem, BYTES) == SYNCED_MEM_OK);
    data[0] = 1;
    return EXIT_SUCCESS;
}

static int debug(void)
{
    char said[1000] = "";
    DWORD bytes = 0;
    SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
    HANDLE from, to;
    CHECK(CreatePipe(&from, &to, &inherited, 0));
    CHECK(SetEnvironmentVariableA("SYNCED_MEM_DEBUG", "1"));
    CHECK(run("debugs", to) == EXCEPTION_ACCESS_VIOLATION);
    CHECK(ReadFile(from, said, sizeof said - 1, &bytes, NULL));
    CHECK(strstr(said, "is stale since synced_mem_resize_discard;") != NULL);
    return EXIT_SUCCESS;
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

/* ---- Objects that processes share ---- */

static bool is_refused(synced_mem_status status)
{
    return status == SYNCED_MEM_ERR_FILE &&
           strstr(synced_mem_last_error_message(), "the system has no sealed memory") != NULL;
}

static int share(void)
{
    synced_mem *mem = NULL;
    synced_mem_options options = {.struct_size = sizeof options, .shareable = SYNCED_MEM_SHAREABLE_SAME_USER};
    CHECK(is_refused(synced_mem_create(&mem, BYTES, &options)) && !mem);
    CHECK(is_refused(synced_mem_receive(&mem, -1, 0)) && !mem);
    CHECK(synced_mem_create(&mem, BYTES, NULL) == SYNCED_MEM_OK);
    CHECK(synced_mem_share(mem, 0, 0) == SYNCED_MEM_ERR_INVALID_STATE);
    CHECK(synced_mem_begin_turn(mem, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_TURN_READ, 0) == SYNCED_MEM_ERR_INVALID_STATE);
    return synced_mem_release(mem) == SYNCED_MEM_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- All ---- */

int main(int count_of_words, char **words)
{
    const char *const what = count_of_words > 1 ? words[1] : "";
    if (strcmp(what, "exit") == 0)
        return exit_often(count_of_words > 2 ? atoi(words[2]) : 50);
    if (strcmp(what, "exits") == 0)
        return exit_at_work(NULL);
    if (strcmp(what, "exits_of_another") == 0)
        return exit_at_work("ucrtbase.dll");
    if (strcmp(what, "debug") == 0)
        return debug();
    if (strcmp(what, "debugs") == 0)
        return use_expired_pointer();
    if (strcmp(what, "fault") == 0)
        return fault();
    if (strcmp(what, "words") == 0)
        return use_words();
    if (strcmp(what, "shares") == 0)
        return share();
    return strcmp(what, "threads") == 0 ? end_threads() : EXIT_FAILURE;
}
