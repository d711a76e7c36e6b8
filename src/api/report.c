/* The begin and end of public functions; status names and messages, the calling thread's last error, and the process's
 * error handler. */
#include "api/report.h"

#include "memory/guard.h"
#include "device/device.h"
#include "object/object.h"
#include "base/process.h"
#include "trace/trace_writer.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct {
    synced_mem_status status;
    bool in_handler;
    char published[SM_DETAIL_BYTES + 128]; /* the recorded detail, with the names in front */
} sm_error;

static struct {
    struct sm_lock lock; /* guards the pair, so that a handler gets its own user pointer */
    synced_mem_error_handler call;
    void *user;
} sm_handler = {.lock = SM_LOCK_INITIALIZER};

/* ---- The caller ---- */

/* Not inlined: its return address is in the public function, or in one that it calls. */
__attribute__((noinline)) void sm_caller_set(const char *function, const struct synced_mem *mem)
{
    const bool wants_place = sm_trace_on() || sm_guard_on();
    sm_caller.function = function;
    sm_caller.subject = mem ? sm_subject_of(mem) : (struct sm_subject){.name = ""};
    sm_caller.place = wants_place ? sm_place_of(function, __builtin_return_address(0)) : NULL;
    sm_caller.ranged = sm_trace_on();
    if (sm_caller.ranged)
        sm_trace_range(function, &sm_caller.subject);
}

/* ---- The report ---- */

static void call_error_handler(synced_mem_status status)
{
    sm_lock(&sm_handler.lock);
    const synced_mem_error_handler call = sm_handler.call;
    void *const user = sm_handler.user;
    sm_unlock(&sm_handler.lock);
    if (!call || sm_error.in_handler)
        return;
    assert(!sm_process_is_inside());
    char message[sizeof sm_error.published]; /* a failure inside the handler publishes its own message */
    memcpy(message, sm_error.published, sizeof message);
    sm_error.in_handler = true;
    call(status, message, user);
    sm_error.in_handler = false;
}

synced_mem_status sm_report_fully(synced_mem_status status, const char *function, const char *object_name)
{
    if (status != SYNCED_MEM_OK) {
        const bool named = object_name && object_name[0];
        sm_error.status = status;
        (void)snprintf(sm_error.published, sizeof sm_error.published, "%s%s%s%s: %s", function, named ? " of '" : "",
                       named ? object_name : "", named ? "'" : "", sm_detail_get().text);
    }
    if (sm_caller_is_wanted()) {
        if (sm_caller.ranged)
            sm_device_range_end();
        sm_caller = (struct sm_caller){.function = NULL};
        if (sm_trace_on())
            sm_trace_tend();
    }
    if (status != SYNCED_MEM_OK)
        call_error_handler(status);
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
