/* Checks of options and sizes. */
#ifndef SM_OPTIONS_H
#define SM_OPTIONS_H

#include "synced_mem.h"

/* Returns ERR_INVALID_ARGUMENT if an option is not valid. */
synced_mem_status sm_check_options(const synced_mem_options *options);

/* Returns ERR_INVALID_ARGUMENT if no buffer can have so many bytes. */
synced_mem_status sm_check_size(size_t size);

#endif
