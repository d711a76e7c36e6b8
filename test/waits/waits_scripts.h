/*
 * Shared by the scripts. A script is a short sequence of calls that needs a wait. Scripts cover cases that random
 * sequences reach too rarely, or not at all, because something must fail.
 */
#ifndef WAITS_SCRIPTS_H
#define WAITS_SCRIPTS_H

#include "random.h"
#include "use_memory.h"

#include "cudart_emu.h"
#include "gpu.h"
#include "pattern.h"

enum { SIZE = 4096 };

#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail("%s:%d: %s: %s", __FILE__, __LINE__, #condition, synced_mem_last_error_message());                    \
    } while (0)
#define OK(call) MUST((call) == SYNCED_MEM_OK)

/* The ways to make the call. */
enum way { ONE, ARRAY_OF_ONE, ARRAY_OF_TWO, WAYS };

struct script {
    void (*play)(enum way way);
    int ways; /* how many of the ways, from ONE on, the script is played in */
};

struct scripts {
    const struct script *of;
    int count;
};
extern const struct scripts transfer_scripts, access_scripts, failure_scripts, release_scripts, copy_scripts,
    part_scripts, read_only_scripts;

/* ---- Parts of scripts ---- */

/* Two streams, memory of the caller's, and an object. */
struct things {
    synced_mem_stream one, two;
    void *device, *seen, *host;
    synced_mem *mem;
};

struct things begin(void);
void end(struct things *it);

synced_mem *make(size_t size);
/* Push and pull the object. */
void push(struct things *it, synced_mem_stream stream, enum way way);
void pull(struct things *it, synced_mem_stream stream, enum way way);
/* Write and compare SIZE bytes. */
void host_writes(void *data, unsigned pattern);
void host_reads(const void *data, unsigned pattern);
/* A callback of adopted memory that does nothing. */
void keep(void *data, void *user, synced_mem_stream stream);

#endif
