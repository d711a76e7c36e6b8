/* The functions that hot.c and hot.cpp define, in C and by synced_mem.hpp. */
#ifndef HOT_H
#define HOT_H

#include <synced_mem.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An owner has the handle as its only member. */
struct owner;

const float *hot_read(const struct owner *owner);
float *hot_write_on(struct owner *owner, synced_mem_stream stream);
float hot_first(const struct owner *owner);
void hot_push(const struct owner *owner, synced_mem_stream stream);

#ifdef __cplusplus
}
#endif

#endif
