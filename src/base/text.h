/* Text for people: names of sources and heads, sizes, names of objects. */
#ifndef SM_TEXT_H
#define SM_TEXT_H

#include "synced_mem.h"

const char *sm_source_name(unsigned source);
const char *sm_head_name(unsigned head);

/* A number of bytes: "1.5 MiB"; below 1 KiB "17 B". */
struct sm_size_text {
    char text[16];
};
struct sm_size_text sm_size_text(uint64_t bytes);

/* An object's name on one line: control characters become '?'. */
struct sm_name_text {
    char text[48];
};
struct sm_name_text sm_name_text(const char *name);

#endif
