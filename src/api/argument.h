/* What public functions say of their arguments. */
#ifndef SM_ARGUMENT_H
#define SM_ARGUMENT_H

#include "api/report.h"

#include <stdio.h>

/* Publishes a failure under the name of the public function, and of the object if there is one. */
#define SM_REPORT(status, mem) sm_report((status), __func__, (mem) ? synced_mem_name(mem) : NULL)

/* As that, where the status is that of a call which does all that the public function does. */
#define SM_DO(call, mem) (sm_caller_begin(__func__, (mem)), SM_REPORT((call), (mem)))

static inline synced_mem_status sm_no_object(void)
{
    return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the object is NULL");
}

/* ERR_INVALID_ARGUMENT: it is NULL. */
synced_mem_status sm_check_file(const FILE *file);
/* ERR_FILE: what was printed to it since it was opened, or clearerr(), could not be. */
synced_mem_status sm_check_printed(FILE *file);

#endif
