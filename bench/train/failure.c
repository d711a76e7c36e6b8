/* The message of a failed run. */
#include "failure.h"

#include "synced_mem.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of the next two, until there is a message */
static char message[512];
static bool of_peer;

static void keep_first(bool peer, const char *format, va_list arguments)
{
    pthread_mutex_lock(&mutex);
    if (message[0] == '\0') {
        vsnprintf(message, sizeof message, format, arguments);
        of_peer = peer;
    }
    pthread_mutex_unlock(&mutex);
}

bool fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    keep_first(false, format, arguments);
    va_end(arguments);
    return false;
}

bool fail_peer(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    keep_first(true, format, arguments);
    va_end(arguments);
    return false;
}

bool failure_of_peer(void)
{
    pthread_mutex_lock(&mutex);
    const bool peer = of_peer;
    pthread_mutex_unlock(&mutex);
    return peer;
}

bool fail_library(const char *what)
{
    return fail("%s: %s", what, synced_mem_last_error_message());
}

const char *failure(void)
{
    pthread_mutex_lock(&mutex); /* another thread may be writing it */
    pthread_mutex_unlock(&mutex);
    return message;
}
