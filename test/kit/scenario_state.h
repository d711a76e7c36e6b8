/* The state that the files of the scenarios share. */
#ifndef SCENARIO_STATE_H
#define SCENARIO_STATE_H

#include "scenario.h"
#include "slots.h"

#include <stdio.h>
#include <stdlib.h>

/* Objects that are pushed and pulled together with the one of the scenario. */
enum { COMPANIONS = 2, COMPANION_SIZE = 1000, COMPANION_PATTERN = 101 };

/* The expected state of a scenario's one object. */
struct scenario_now {
    size_t usual;   /* size */
    size_t largest; /* the largest size that the object has had */
    synced_mem *mem;
    unsigned references;
    size_t size;
    size_t filled;    /* this much has the pattern, and the rest is zeros */
    unsigned pattern; /* of the contents */
    unsigned fresh;   /* the last pattern that was used */
    const void *host; /* the host's address of the contents, or NULL */
    int caller_on;    /* the caller's current device */
    bool given_up;    /* the device is lost */
    bool staged;      /* contents may be lost after the call that was to move them */
    bool compares;    /* kernels compare the contents that they read */
    int owed, called; /* callbacks */
    synced_mem *companions[COMPANIONS];
    synced_mem *others[2];
    synced_mem *view;
    unsigned others_pattern; /* of the first other object's contents */
    bool out_of_sight;       /* a step was left out, as its memory has work that cannot be waited for */
    bool unsure;             /* a call for several objects has failed, so the contents may be the other object's */
    const char *doing;
};
extern struct scenario_now now;

/* The caller's own memory and streams. */
struct scenario_mine {
    void *host, *host_of_both, *adopted_host,
        *locked_host; /* all different, so that none is written while the object uses it */
    void *hosts_of_others[2];
    void *device, *device_of_both, *adopted_device;
    void *device_memory;              /* the memory that contains these three */
    void *seen;                       /* the target of kernels that read */
    synced_mem_stream stream, second; /* for pushes and kernels */
    synced_mem_stream kernels;        /* a blocking stream, for kernels whose stream the library does not get */
    int devices;
    struct slots cpu_slots, gpu_slots; /* of the allocators */
    void *gpu_slots_memory;
};
extern struct scenario_mine mine;

#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "%s:%d: at %s, failed: %s; last error: %s\n", __FILE__, __LINE__, now.doing,         \
                          #condition, synced_mem_last_error_message());                                                \
            exit(EXIT_FAILURE);                                                                                        \
        }                                                                                                              \
    } while (0)

/* The device of all objects, and of the caller's streams and memory. */
static inline int home(void)
{
    return mine.devices > 0 ? mine.devices - 1 : 0;
}

static inline void note_written(unsigned pattern)
{
    now.pattern = pattern;
    now.filled = now.size;
    now.unsure = false;
}

/* ---- Steps of scenario_copies.c ---- */

synced_mem_status scenario_make_others(synced_mem_placement_kind placement, bool pageable);
synced_mem_status scenario_write_other(bool on_device);
synced_mem_status scenario_copy(bool to_host, bool both, synced_mem_stream stream);
synced_mem_status scenario_clear(void);
synced_mem_status scenario_release_others(void);

/* ---- Steps of scenario_views.c ---- */

synced_mem_status scenario_divide(void);
synced_mem_status scenario_unite(void);
synced_mem_status scenario_read_view_on(void);

#endif
