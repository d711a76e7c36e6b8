/* Checks of public functions' arguments, and the usual reports. */
#ifndef SM_ARGUMENT_H
#define SM_ARGUMENT_H

#include "api/report.h"
#include "object/evictable.h"
#include "object/shareable.h"

#include <stdio.h>

/* Reports the status under the names of the public function and of the object, if there is one. */
#define SM_REPORT(status, mem) sm_report((status), __func__, (mem) ? sm_object_name(mem) : NULL)

/* Makes the call that does all of the public function, between sm_caller_begin() and the report of its status. */
#define SM_DO(call, mem) (sm_caller_begin(__func__, (mem)), SM_REPORT((call), (mem)))

/* Fails with ERR_INVALID_ARGUMENT, as the object is NULL. */
static inline synced_mem_status sm_no_object(void)
{
    return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the object is NULL");
}

/* Fails with ERR_INVALID_STATE if the size and the memory of the object cannot change: it is a view, held, or
 * shareable. */
static inline synced_mem_status sm_check_changeable(const synced_mem *mem)
{
    if (mem->record.kind == SM_VIEW)
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the object is a view: its size and its memory are its root's");
    if (!mem->extras)
        return SYNCED_MEM_OK;
    SM_TRY(sm_check_not_held(mem));
    return sm_check_not_shareable(mem);
}

/* Returns ERR_INVALID_ARGUMENT if the file is NULL. */
synced_mem_status sm_check_file(const FILE *file);
/* Flushes the file. Returns ERR_FILE if text printed to it since it was opened, or since clearerr(), could not be
 * written. */
synced_mem_status sm_check_printed(FILE *file);

#endif
