/* The public functions of the trace and of scopes. */
#include "api/argument.h"
#include "api/environment.h"
#include "base/scope.h"
#include "trace/trace_writer.h"

synced_mem_status synced_mem_trace_start(const char *path)
{
    sm_read_environment();
    return sm_report(sm_trace_start(path), __func__, NULL);
}

synced_mem_status synced_mem_trace_stop(void)
{
    sm_read_environment();
    return sm_report(sm_trace_stop(), __func__, NULL);
}

synced_mem_status synced_mem_trace_summary(FILE *file)
{
    synced_mem_status status = sm_check_file(file);
    if (status != SYNCED_MEM_OK)
        return sm_report(status, __func__, NULL);
    sm_trace_print_summary(file);
    status = sm_check_printed(file);
    return sm_report(status, __func__, NULL);
}

void synced_mem_scope_begin(const char *name)
{
    sm_scope_begin(name);
}

void synced_mem_scope_end(void)
{
    sm_scope_end();
}
