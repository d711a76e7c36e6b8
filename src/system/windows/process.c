/* The process. */
#include "system/process.h"

#include "system/windows/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <windows.h>

long sm_process_id(void)
{
    return (long)GetCurrentProcessId();
}

uint64_t sm_thread_id(void)
{
    return GetCurrentThreadId();
}

unsigned sm_processors(void)
{
    const DWORD count = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return count > 0 ? count : 1;
}

/* ---- The environment ---- */

/* The values that were asked for. They stay, since callers keep them. */
static struct value {
    struct value *next;
    char *text;
} * values;
static SRWLOCK values_lock = SRWLOCK_INIT;

/* Returns the variable's value, to be freed. Another thread may change it meanwhile. */
static wchar_t *read_variable(const wchar_t *name)
{
    wchar_t *text = NULL;
    DWORD room = 0, length = GetEnvironmentVariableW(name, NULL, 0);
    while (length > room) {
        free(text);
        room = length;
        text = malloc(room * sizeof *text);
        if (!text)
            return NULL;
        length = GetEnvironmentVariableW(name, text, room);
    }
    if (length == 0 && room == 0)
        return NULL;
    text[length] = 0;
    return text;
}

/* Takes the text over. Returns one that stays, or NULL. */
static const char *keep_value(char *text)
{
    AcquireSRWLockExclusive(&values_lock);
    struct value *value = values;
    while (value && strcmp(value->text, text) != 0)
        value = value->next;
    if (!value && (value = malloc(sizeof *value)) != NULL) {
        *value = (struct value){values, text};
        values = value;
        text = NULL;
    }
    ReleaseSRWLockExclusive(&values_lock);
    free(text);
    return value ? value->text : NULL;
}

/* The C library's copy of the environment lacks what other libraries have set, and is not UTF-8. */
const char *sm_environment(const char *name)
{
    wchar_t *const wide_name = sm_utf8_widen(name);
    wchar_t *const wide = wide_name ? read_variable(wide_name) : NULL;
    char *const text = wide ? sm_utf8_narrow(wide) : NULL;
    free(wide);
    free(wide_name);
    return text ? keep_value(text) : NULL;
}

/* ---- Forks and the end ---- */

void sm_watch_forks(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    (void)before, (void)in_parent, (void)in_child;
}

/* The system ends the other threads, and then tells the modules that the process ends. */
bool sm_is_last_thread(void)
{
    const HMODULE system = GetModuleHandleW(L"ntdll.dll");
    BOOLEAN(WINAPI * is_ending)(void) = NULL;
    const FARPROC found = system ? GetProcAddress(system, "RtlDllShutdownInProgress") : NULL;
    memcpy(&is_ending, &found, sizeof is_ending);
    return is_ending && is_ending();
}

static void call_at_exit_of(const wchar_t *library, const char *name, void (*function)(void))
{
    const HMODULE loaded = GetModuleHandleW(library);
    const FARPROC found = loaded ? GetProcAddress(loaded, name) : NULL;
    void *(*do_register)(void (*function)(void)) = NULL;
    memcpy(&do_register, &found, sizeof do_register);
    if (do_register)
        (void)do_register(function);
}

/* A module that is not the program has an atexit() of its own, whose functions are called when the other threads have
 * ended. A C library that the program shares has a table of what exit() calls before that. It need not be the library's
 * own C library, so each that is loaded gets the function. */
void sm_watch_exit(void (*function)(void))
{
    call_at_exit_of(L"ucrtbase.dll", "_crt_atexit", function);
    call_at_exit_of(L"msvcrt.dll", "_onexit", function);
}
