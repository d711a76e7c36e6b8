/* Starting and stopping the trace, writing its file, and the summary. */
#include "trace/trace_writer.h"

#include "base/process.h"
#include "base/status.h"
#include "base/text.h"
#include "system/process.h"
#include "trace/trace_exit.h"
#include "trace/trace_file.h"
#include "trace/trace_timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t LAST_PATIENCE = 1000000000; /* nanoseconds */

/* Held by the user of the file. It is no library lock: writing may take a while, and a fork need not wait for that. */
static struct sm_mutex writer;

/* The trace has a file. Guarded by writer. */
static bool to_file;

/* The environment requests the summary at the end of the process. Guarded by writer. */
static bool summary_at_exit;

/* Why the trace that the environment requested could not begin; until another trace begins. Guarded by writer. */
static char refused[SM_DETAIL_BYTES + 32];

/* ---- Writing, with writer held ---- */

static void write_events(bool wait)
{
    size_t count;
    sm_timing_resolve(wait);
    const struct sm_trace_event *const events = sm_trace_take(&count);
    for (size_t i = 0; i < count; i++)
        sm_trace_file_write(&events[i]);
    sm_trace_file_flush();
}

static void end_trace_at_exit(void);

/* Begins a trace. path NULL: only the data of the summary is kept. */
static synced_mem_status begin_trace(const char *path)
{
    if (sm_trace_on())
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "there is a trace already");
    SM_TRY(path ? sm_trace_file_open(path) : SYNCED_MEM_OK);
    to_file = path != NULL;
    if (!sm_trace_open_buffer(to_file)) {
        sm_trace_file_leave();
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no address space for the trace's events");
    }
    sm_timing_forget();
    refused[0] = 0;
    sm_trace_set_exit(end_trace_at_exit);
    sm_trace_watch_exit(false);
    sm_caller_want();
    atomic_store_explicit(&sm_process.is_traced, true, memory_order_relaxed);
    return SYNCED_MEM_OK;
}

static synced_mem_status end_trace(void)
{
    struct sm_traced top[SM_TRACED_TOP];
    if (!sm_trace_on())
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "there is no trace%s%s", refused[0] ? ": " : "", refused);
    atomic_store_explicit(&sm_process.is_traced, false, memory_order_relaxed);
    write_events(true);
    sm_trace_close_buffer();
    const uint64_t lost = sm_trace_lost() + sm_timing_pending(); /* of threads that still queue transfers */
    sm_trace_free_buffer();
    sm_timing_rest();
    return to_file ? sm_trace_file_close(top, sm_trace_top(top), lost) : SYNCED_MEM_OK;
}

void sm_trace_tend(void)
{
    if (sm_trace_buffered() < SM_TRACE_MANY && !sm_timing_is_due())
        return;
    if (!sm_mutex_try(&writer))
        return;
    if (sm_trace_on())
        write_events(false);
    sm_mutex_unlock(&writer);
}

void sm_trace_rest(void)
{
    const struct sm_detail first = sm_detail_get();
    sm_mutex_lock(&writer);
    if (sm_trace_on()) {
        write_events(true);
        sm_timing_rest();
    } else {
        sm_timing_forget();
    }
    sm_mutex_unlock(&writer);
    sm_detail_set(&first);
}

/* ---- The summary ---- */

/* Prints the words, then "name in 'outer/inner'". */
static void print_cause(FILE *file, const char *words, const struct sm_by *by)
{
    if (by->function)
        (void)fprintf(file, "%s%s%s%s%s", words, by->function, by->scope[0] ? " in '" : "", by->scope,
                      by->scope[0] ? "'" : "");
}

static void print_place(FILE *file, const char *words, const struct sm_by *by)
{
    if (by->place)
        (void)fprintf(file, "        %s%s\n", words, by->place->text);
}

static void print_traced_object(FILE *file, const struct sm_traced *object)
{
    static const char *const copies[] = {"host", "device"};
    char name[SM_TRACE_NAME_BYTES];
    sm_trace_name(name, sm_name_text(object->name).text, object->id);
    (void)fprintf(file, "%-52s %7llu %8llu %10s %8llu %10s\n", name, (unsigned long long)object->turns,
                  (unsigned long long)object->transfers[1], sm_size_text(object->bytes[1]).text,
                  (unsigned long long)object->transfers[0], sm_size_text(object->bytes[0]).text);
    for (int side = 1; side >= 0; side--)
        if (object->moved_by[side].function) {
            (void)fprintf(file, "    to the %s", copies[side]);
            print_cause(file, " by ", &object->moved_by[side]);
            print_cause(file, ", stale by ", &object->stale_by[side]);
            (void)fprintf(file, "\n");
            print_place(file, "at ", &object->moved_by[side]);
            print_place(file, "stale at ", &object->stale_by[side]);
        }
}

void sm_trace_print_summary(FILE *file)
{
    struct sm_traced top[SM_TRACED_TOP];
    const size_t count = sm_trace_top(top);
    (void)fprintf(file, "process %ld\n%-52s %7s %19s %19s\n", sm_process_id(), "objects that went back and forth most",
                  "turns", "to the device", "to the host");
    for (size_t i = 0; i < count; i++)
        print_traced_object(file, &top[i]);
    if (count == 0)
        (void)fprintf(file, "(no transfers while there was a trace)\n");
}

/* ---- The process ---- */

/* Waits for writer only so long. The file may block another thread that holds it; or the exiting thread
 * itself holds it, interrupted by a signal whose handler exits. */
static void end_trace_at_exit(void)
{
    if (sm_is_last_thread() || !sm_mutex_lock_within(&writer, LAST_PATIENCE))
        return;
    if (sm_trace_on())
        (void)end_trace();
    if (summary_at_exit)
        sm_trace_print_summary(stderr);
    summary_at_exit = false;
    sm_mutex_unlock(&writer);
}

/* Ends the trace in a forked child: the file and the events are the parent's. The thread that held writer may be
 * missing here. The library's other locks may not be free yet, so the next trace cleans up what they guard. */
static void drop_trace_in_child(void)
{
    sm_mutex_init(&writer);
    summary_at_exit = false;
    atomic_store_explicit(&sm_process.is_traced, false, memory_order_relaxed);
    sm_trace_file_leave();
    sm_trace_free_buffer();
}

static __attribute__((constructor)) void watch_forks_for_trace(void)
{
    sm_watch_forks(NULL, NULL, drop_trace_in_child);
}

/* ---- Interface ---- */

synced_mem_status sm_trace_start(const char *path)
{
    sm_mutex_lock(&writer);
    const synced_mem_status status = begin_trace(path);
    sm_mutex_unlock(&writer);
    return status;
}

synced_mem_status sm_trace_stop(void)
{
    sm_mutex_lock(&writer);
    const synced_mem_status status = end_trace();
    sm_mutex_unlock(&writer);
    return status;
}

void sm_trace_start_for_process(const char *path, bool summary)
{
    sm_mutex_lock(&writer);
    summary_at_exit = summary;
    if (begin_trace(path) != SYNCED_MEM_OK) {
        (void)snprintf(refused, sizeof refused, "SYNCED_MEM_TRACE: %s", sm_detail_get().text);
        (void)fprintf(stderr, "synced_mem: %s\n", refused);
    }
    sm_mutex_unlock(&writer);
}
