/* Functions of the threads that play at the same time. */
#ifndef FREE_H
#define FREE_H

#include "random.h"

/* Fails the test unless it is so. */
void must(bool so, const char *what);
/* Returns whether to repeat a failed call. Injected failures run out after some calls. */
bool again(bool succeeded);
/* Makes calls of the runtime fail now and then, if they may fail. */
void fail_sometimes(uint64_t *random);
void let_go(synced_mem *mem);
/* Forgets and destroys the stream. */
void end_stream(synced_mem_stream stream);

/* Plays one round with views of one object. */
void play_views_freely(uint64_t *random);

#endif
