/* Text for people: words for states and sources, and numbers of bytes. */
#ifndef SM_PRINT_H
#define SM_PRINT_H

#include "synced_mem.h"

const char *sm_source_name(unsigned source);
const char *sm_head_name(unsigned head);

/* "1.5 MiB"; below 1 KiB "17 B". */
struct sm_size_text {
    char text[16];
};
struct sm_size_text sm_size_text(uint64_t bytes);

/* A name on one line: what would break it is '?'. */
struct sm_name_text {
    char text[48];
};
struct sm_name_text sm_name_text(const char *name);

/* ERR_FILE: what was printed to it since it was opened, or clearerr(), could not be. */
synced_mem_status sm_check_printed(FILE *file);
/* ERR_INVALID_ARGUMENT: it is NULL. */
synced_mem_status sm_check_file(const FILE *file);

#endif
