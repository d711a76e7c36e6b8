/* The facts of a run that the groups of the suite use, and the functions of the groups. */
#ifndef SUITE_H
#define SUITE_H

#include <stdbool.h>
#include <stddef.h>

struct suite {
    bool quick;         /* few rounds, small sizes: checks only that everything works */
    bool gpu;           /* there is a GPU */
    bool emulated;      /* the GPU is emulated */
    int cores;          /* usable by the process */
    double memory;      /* bytes, of the machine */
    size_t largest;     /* the largest transfer or allocation */
    size_t ring;        /* bytes of a ring of transfers, more than a cache holds */
    size_t objects;     /* the most objects on the host */
    size_t gpu_objects; /* the most objects that also go to the device */
    double spell;       /* the least seconds for which threads measured together work */
    /* The folder of emulated accessor programs whose instructions are counted; NULL: this program's own folder. */
    const char *counted;
    const char *runtime; /* the GPU runtime of this build; part of the accessor programs' names */
    char folder[4096];   /* of this program */
};
extern struct suite suite;

enum { KIB = 1024, MIB = 1024 * 1024, GIB = 1024 * 1024 * 1024 };

/* The parts of the groups. Each runs in a process of its own. */
void measure_accessors(void);
void measure_accessor_threads(void);
void measure_common_reads(void);
void measure_instructions(void);
void measure_first_reads(void);
void measure_pinned_transfers(void);
void measure_both_directions(void);
void measure_groups(void);
void measure_batches(void);
void measure_small_transfers(void);
void measure_kernels_beside(void);
void measure_urgent(void);
void measure_small_copies(void);
void measure_small_fills(void);
void measure_pageable_transfers(void);
void measure_pageable_by_hand(void);
void measure_pageable_on_stream(void);
void measure_pageable_both(void);
void measure_pageable_latency(void);
void measure_device_copies(void);
void measure_peer_copies(void);
void measure_view_accesses(void);
void measure_many_views(void);
void measure_view_memory(void);
void measure_changed_parts(void);
void measure_reads_beside_kernels(void);
void measure_first_allocations(void);
void measure_pinned_releases(void);
void measure_reused_allocations(void);
void measure_device_allocations(void);
void measure_device_threads(void);
void measure_traces(void);
void measure_tensors(void);
void measure_turns(void);
void measure_shared(void);
void measure_queue(void);
void measure_lives(void);
void measure_nets(void);
void measure_host_resizes(void);
void measure_device_resizes(void);
void measure_overlap(void);
void measure_trainer_overlap(void);
void measure_many(void);
void measure_life_threads(void);
void measure_many_on_device(void);
void measure_resident(void);
void measure_training(void);
void measure_loads_from_memory(void);
void measure_loads_from_cache(void);
void measure_loads_from_disk(void);
void measure_reads_from_memory(void);
void measure_reads_from_cache(void);
void measure_stores(void);
void measure_load_memory(void);
void measure_checkpoint(void);
void measure_holds(void);
void measure_sweeps_read(void);
void measure_sweeps_of_files(void);
void measure_sweeps_of_files_ahead(void);
void measure_sweeps_written(void);
void measure_sweeps_written_ahead(void);
void measure_layers(void);
void measure_staging(void);

#endif
