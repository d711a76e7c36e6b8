/* Threads, and their ends. */
#include "system/thread.h"

#include "system/process.h"

#include <process.h>
#include <stdlib.h>
#include <windows.h>

/* ---- Threads of the library ---- */

struct start {
    void *(*run)(void *argument);
    void *argument;
};

static unsigned __stdcall run_thread(void *data)
{
    const struct start start = *(struct start *)data;
    free(data);
    (void)start.run(start.argument);
    return 0;
}

bool sm_thread_start(sm_thread *thread, void *(*run)(void *argument), void *argument)
{
    struct start *const start = malloc(sizeof *start);
    if (!start)
        return false;
    *start = (struct start){run, argument};
    const uintptr_t made = _beginthreadex(NULL, 0, run_thread, start, 0, NULL);
    if (made == 0) {
        free(start);
        return false;
    }
    if (thread)
        *thread = made;
    else
        (void)CloseHandle((HANDLE)made);
    return true;
}

void sm_thread_join(sm_thread thread)
{
    (void)WaitForSingleObject((HANDLE)thread, INFINITE);
    (void)CloseHandle((HANDLE)thread);
}

/* ---- Ends of threads ---- */

/*
 * There are two rounds. In the first the system calls the callback of each fiber-local slot, without its loader lock,
 * so that the hook may wait for other threads. The slot has the thread's number. In the second it tells the modules
 * that the thread ends; that is for hooks of the first round that have called the library. The value is in a
 * thread-local slot, which both rounds can read.
 *
 * A thread that is a fiber has the second round only: the first would come too when the fiber is deleted.
 */
static void (*end_thread)(void *value);
static DWORD value_slot = TLS_OUT_OF_INDEXES;
static DWORD round_slot = FLS_OUT_OF_INDEXES;

static void end_round(void)
{
    const DWORD before = GetLastError();
    void *const value = value_slot != TLS_OUT_OF_INDEXES ? TlsGetValue(value_slot) : NULL;
    if (value && !sm_is_last_thread()) {
        (void)TlsSetValue(value_slot, NULL);
        end_thread(value);
    }
    SetLastError(before);
}

static void CALLBACK begin_first_round(void *thread)
{
    if ((uintptr_t)thread == GetCurrentThreadId() && !IsThreadAFiber())
        end_round();
}

void sm_thread_watch_ends(void (*end)(void *value))
{
    end_thread = end;
    round_slot = FlsAlloc(begin_first_round);
    value_slot = TlsAlloc();
}

void sm_thread_set_end(void *value)
{
    (void)TlsSetValue(value_slot, value);
    if (value && round_slot != FLS_OUT_OF_INDEXES)
        (void)FlsSetValue(round_slot, (void *)(uintptr_t)GetCurrentThreadId());
}

/* ---- What the system tells the module ---- */

/* A module that is unloaded would leave threads, and hooks of threads, handlers and exits, without their code. */
static void keep_module(void)
{
    HMODULE module;
    (void)GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
                             (const wchar_t *)(uintptr_t)keep_module, &module);
}

static void CALLBACK hear(void *module, DWORD what, void *reserved)
{
    (void)module, (void)reserved;
    if (what == DLL_PROCESS_ATTACH)
        keep_module();
    else if (what == DLL_THREAD_DETACH)
        end_round();
}

/* The linker collects these pointers from programs and DLLs, in the order of the section's name. The compiler's own, at
 * "D", free thread-locals. */
extern const PIMAGE_TLS_CALLBACK sm_thread_callback;
__attribute__((section(".CRT$XLB"), used)) const PIMAGE_TLS_CALLBACK sm_thread_callback = hear;
