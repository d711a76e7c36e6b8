/* Checks of the programs that make calls, which end them with a message. */
#ifndef CHECK_CALL_H
#define CHECK_CALL_H

#include "synced_mem.h"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, synced_mem_last_error_message());               \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define OK(call) CHECK((call) == SYNCED_MEM_OK)

#endif
