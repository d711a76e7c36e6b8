/*
 * The end of the process, in the DLL. The system has ended all other threads by then, one of them perhaps inside the
 * heap, whose lock it then holds for ever. The compiler's code would free thread-locals and tables. Instead, nothing is
 * done: the process's memory goes with it.
 */
#include "system/process.h"

#include <windows.h>

BOOL WINAPI DllMainCRTStartup(HINSTANCE module, DWORD what, void *process_ends);
BOOL WINAPI __real___mingw_TLScallback(HANDLE module, DWORD what, void *process_ends);

/* The DLL's entry, in front of the C library's. */
BOOL WINAPI sm_dll_entry(HINSTANCE module, DWORD what, void *process_ends);
BOOL WINAPI sm_dll_entry(HINSTANCE module, DWORD what, void *process_ends)
{
    return (what == DLL_PROCESS_DETACH && sm_is_last_thread()) || DllMainCRTStartup(module, what, process_ends);
}

/* In front of the function that frees thread-locals. */
BOOL WINAPI __wrap___mingw_TLScallback(HANDLE module, DWORD what, void *process_ends);
BOOL WINAPI __wrap___mingw_TLScallback(HANDLE module, DWORD what, void *process_ends)
{
    return (what == DLL_PROCESS_DETACH && sm_is_last_thread()) ||
           __real___mingw_TLScallback(module, what, process_ends);
}
