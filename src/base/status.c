/* The calling thread's recorded failure. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct sm_detail recorded;

synced_mem_status sm_fail(synced_mem_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(recorded.text, sizeof recorded.text, format, arguments);
    va_end(arguments);
    return status;
}

synced_mem_status sm_check_struct(const size_t *size, size_t known, const char *what)
{
    if (!size)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "%s is NULL", what);
    if (*size != known)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                       "the struct_size of %s is %zu, but this version of the library expects %zu", what, *size, known);
    return SYNCED_MEM_OK;
}

/* Copies the text without the room behind it. */
static void copy_detail(struct sm_detail *to, const struct sm_detail *from)
{
    memcpy(to->text, from->text, strlen(from->text) + 1);
}

struct sm_detail sm_detail_get(void)
{
    struct sm_detail detail;
    copy_detail(&detail, &recorded);
    return detail;
}

void sm_detail_set(const struct sm_detail *detail)
{
    copy_detail(&recorded, detail);
}

void sm_outcome_set(struct sm_outcome *outcome, synced_mem_status status)
{
    outcome->status = status;
    if (status != SYNCED_MEM_OK)
        copy_detail(&outcome->detail, &recorded);
}

synced_mem_status sm_outcome_end(const struct sm_outcome *outcome)
{
    if (outcome->status != SYNCED_MEM_OK)
        copy_detail(&recorded, &outcome->detail);
    return outcome->status;
}
