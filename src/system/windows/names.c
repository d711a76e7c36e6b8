/* Names of addresses, by the unwind tables and the exports of modules. Functions that a module does not export have no
 * names in memory. */
#include "system/names.h"

#include <stddef.h>
#include <string.h>
#include <windows.h>

unsigned sm_backtrace(uintptr_t behind, uintptr_t *addresses, unsigned most)
{
    enum { DEEPEST = 512 };
    void *frames[DEEPEST];
    const unsigned depth = RtlCaptureStackBackTrace(0, DEEPEST, frames, NULL);
    unsigned count = 0;
    bool reached = false;
    for (unsigned i = 0; i < depth && count < most; i++) {
        if (reached)
            addresses[count++] = (uintptr_t)frames[i];
        reached = reached || (uintptr_t)frames[i] == behind;
    }
    return count;
}

/* The offset of the function that has the address from the start of its module. 0: not known. */
static DWORD find_function(uintptr_t address, const char *module)
{
    DWORD64 base;
    const RUNTIME_FUNCTION *const function = RtlLookupFunctionEntry(address, &base, NULL);
    return function && base == (uintptr_t)module ? function->BeginAddress : 0;
}

static const IMAGE_EXPORT_DIRECTORY *get_exports(const char *module)
{
    const IMAGE_DOS_HEADER *const first = (const void *)module;
    const IMAGE_NT_HEADERS *const headers = (const void *)(module + first->e_lfanew);
    const IMAGE_DATA_DIRECTORY *const exports = &headers->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_EXPORT];
    return exports->Size > 0 ? (const void *)(module + exports->VirtualAddress) : NULL;
}

/* Returns the name under which the module exports the function. NULL: it does not. */
static const char *find_export(const char *module, DWORD function)
{
    const IMAGE_EXPORT_DIRECTORY *const exports = get_exports(module);
    if (!exports || function == 0)
        return NULL;
    const DWORD *const functions = (const void *)(module + exports->AddressOfFunctions);
    const DWORD *const names = (const void *)(module + exports->AddressOfNames);
    const WORD *const indices = (const void *)(module + exports->AddressOfNameOrdinals);
    for (DWORD i = 0; i < exports->NumberOfNames; i++)
        if (functions[indices[i]] == function)
            return module + names[i];
    return NULL;
}

/* Returns the module's path, in memory of the thread. "": it is too long. */
static const char *get_path(HMODULE module)
{
    enum { LONGEST = 1024 };
    static _Thread_local char path[3 * LONGEST];
    wchar_t wide[LONGEST];
    const DWORD length = GetModuleFileNameW(module, wide, LONGEST);
    if (length == 0 || length == LONGEST ||
        WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, sizeof path, NULL, NULL) == 0)
        path[0] = 0;
    return path;
}

struct sm_name sm_name_of(uintptr_t address)
{
    HMODULE module;
    if (!GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                            (const wchar_t *)address, &module))
        return (struct sm_name){.text = ""};
    const char *const start = (const char *)module;
    const DWORD function = find_function(address, start);
    const char *const symbol = find_export(start, function);
    if (symbol)
        return (struct sm_name){.text = symbol, .start = (uintptr_t)start + function, .is_symbol = true};
    return (struct sm_name){.text = get_path(module), .start = (uintptr_t)start};
}
