/* Status names and messages, the calling thread's last error, and the process's error handler. */
#include "status.h"

#include "caller.h"
#include "process.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct {
    synced_mem_status status;
    bool in_handler;
    struct sm_detail recorded;             /* by sm_fail() */
    char published[SM_DETAIL_BYTES + 128]; /* by sm_report(), with the names in front */
} sm_error;

static struct {
    struct sm_lock lock; /* guards the pair, so that a handler gets its own user pointer */
    synced_mem_error_handler call;
    void *user;
} sm_handler = {.lock = SM_LOCK_INITIALIZER};

synced_mem_status sm_fail(synced_mem_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sm_error.recorded.text, sizeof sm_error.recorded.text, format, arguments);
    va_end(arguments);
    return status;
}

synced_mem_status sm_check_struct(const size_t *size, size_t known, const char *what)
{
    if (!size)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "%s is NULL", what);
    if (*size != known)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the struct_size of %s is %zu, this version knows %zu", what,
                       *size, known);
    return SYNCED_MEM_OK;
}

struct sm_detail sm_detail_get(void)
{
    return sm_error.recorded;
}

void sm_detail_set(const struct sm_detail *detail)
{
    sm_error.recorded = *detail;
}

static void call_handler(synced_mem_status status)
{
    sm_lock(&sm_handler.lock);
    const synced_mem_error_handler call = sm_handler.call;
    void *const user = sm_handler.user;
    sm_unlock(&sm_handler.lock);
    if (!call || sm_error.in_handler)
        return;
    assert(!sm_process_is_inside());
    char message[sizeof sm_error.published]; /* a failure inside the handler publishes its own */
    memcpy(message, sm_error.published, sizeof message);
    sm_error.in_handler = true;
    call(status, message, user);
    sm_error.in_handler = false;
}

static void publish(synced_mem_status status, const char *function, const char *object_name)
{
    const bool named = object_name && object_name[0];
    sm_error.status = status;
    (void)snprintf(sm_error.published, sizeof sm_error.published, "%s%s%s%s: %s", function, named ? " of '" : "",
                   named ? object_name : "", named ? "'" : "", sm_error.recorded.text);
}

synced_mem_status sm_report(synced_mem_status status, const char *function, const char *object_name)
{
    if (status != SYNCED_MEM_OK)
        publish(status, function, object_name);
    sm_caller_end();
    if (status != SYNCED_MEM_OK)
        call_handler(status);
    return status;
}

const char *synced_mem_status_name(synced_mem_status status)
{
    switch (status) {
#define CASE(number, name, message)                                                                                    \
    case SYNCED_MEM_##name:                                                                                            \
        return "SYNCED_MEM_" #name;
        SYNCED_MEM_STATUS_MAP(CASE)
#undef CASE
    case SYNCED_MEM_STATUS_FORCE_INT:
        break;
    }
    return "SYNCED_MEM_ERR_UNKNOWN";
}

const char *synced_mem_status_message(synced_mem_status status)
{
    switch (status) {
#define CASE(number, name, message)                                                                                    \
    case SYNCED_MEM_##name:                                                                                            \
        return message;
        SYNCED_MEM_STATUS_MAP(CASE)
#undef CASE
    case SYNCED_MEM_STATUS_FORCE_INT:
        break;
    }
    return "unknown status";
}

synced_mem_status synced_mem_last_error(void)
{
    return sm_error.status;
}

const char *synced_mem_last_error_message(void)
{
    return sm_error.published;
}

void synced_mem_set_error_handler(synced_mem_error_handler handler, void *user)
{
    sm_lock(&sm_handler.lock);
    sm_handler.call = handler;
    sm_handler.user = user;
    sm_unlock(&sm_handler.lock);
}
