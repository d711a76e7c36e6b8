/* The message of a failed run. */
#include "failure.h"

#include "synced_mem.h"

#include <stdarg.h>
#include <stdio.h>

static char message[512];
static bool of_peer;

bool fail(const char *format, ...)
{
    if (message[0] == '\0') {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(message, sizeof message, format, arguments);
        va_end(arguments);
    }
    return false;
}

bool fail_peer(const char *format, ...)
{
    if (message[0] == '\0') {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(message, sizeof message, format, arguments);
        va_end(arguments);
        of_peer = true;
    }
    return false;
}

bool failure_of_peer(void)
{
    return of_peer;
}

bool fail_library(const char *what)
{
    return fail("%s: %s", what, synced_mem_last_error_message());
}

const char *failure(void)
{
    return message;
}
