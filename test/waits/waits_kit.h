/* The functions that the scripts of the waits' test share. */
#ifndef WAITS_KIT_H
#define WAITS_KIT_H

#include "random.h"
#include "use_memory.h"

#include "gpu.h"
#include "pattern.h"

enum { SIZE = 4096 };

#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail("%s:%d: %s: %s", __FILE__, __LINE__, #condition, synced_mem_last_error_message());                    \
    } while (0)
#define OK(call) MUST((call) == SYNCED_MEM_OK)

static inline synced_mem *make(size_t size)
{
    synced_mem *mem = NULL;
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.device = 0;
    OK(synced_mem_create(&mem, size, &options));
    return mem;
}

static inline void host_writes(void *data, unsigned pattern)
{
    MUST(data);
    gpu_note_host_write(data, SIZE);
    pattern_write(data, SIZE, pattern);
}

static inline void host_reads(const void *data, unsigned pattern)
{
    MUST(data);
    gpu_note_host_read(data, SIZE);
    MUST(pattern_is(data, SIZE, pattern));
}

/* Two streams, memory of the caller's, and an object. */
struct things {
    synced_mem_stream one, two;
    void *device, *seen, *host;
    synced_mem *mem;
};

static inline struct things begin(void)
{
    struct things it = {gpu_stream_create(0, false), gpu_stream_create(0, false), gpu_alloc(0, SIZE),
                        gpu_alloc(0, SIZE),          gpu_pinned_alloc(SIZE),      make(SIZE)};
    return it;
}

static inline void end(struct things *it)
{
    OK(synced_mem_forget_stream(it->one));
    OK(synced_mem_forget_stream(it->two));
    gpu_stream_sync(it->one);
    gpu_stream_sync(it->two);
    if (it->mem)
        OK(synced_mem_release(it->mem));
    OK(synced_mem_shutdown());
    gpu_stream_destroy(it->one);
    gpu_stream_destroy(it->two);
    gpu_free(it->device);
    gpu_free(it->seen);
    gpu_pinned_free(it->host);
}

/* The ways to make the call. */
enum way { ONE, ARRAY_OF_ONE, ARRAY_OF_TWO, WAYS };

/* A script of waits_copies.c. */
void copy_to_another_device(enum way way);

#endif
