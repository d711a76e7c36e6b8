/* Faults, by a handler in front of those of the program. */
#include "system/faults.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <windows.h>

static void (*report_fault)(uintptr_t address);

/* Handles nothing, so that the system goes on to whoever would have had the fault without it. The second parameter of
 * an access violation is the address. */
static LONG CALLBACK handle_exception(EXCEPTION_POINTERS *exception)
{
    const EXCEPTION_RECORD *const record = exception->ExceptionRecord;
    if (record->ExceptionCode == EXCEPTION_ACCESS_VIOLATION && record->NumberParameters >= 2) {
        const int error = errno;
        const DWORD last_error = GetLastError();
        report_fault(record->ExceptionInformation[1]);
        SetLastError(last_error);
        errno = error;
    }
    return EXCEPTION_CONTINUE_SEARCH;
}

void sm_faults_watch(void (*report)(uintptr_t address))
{
    enum { FIRST = 1 };
    const bool watched = report_fault != NULL;
    report_fault = report;
    if (!watched)
        (void)AddVectoredExceptionHandler(FIRST, handle_exception);
}
