/* The settings of the command line. */
#ifndef TRAIN_SETTINGS_H
#define TRAIN_SETTINGS_H

#include "model.h"

#include <stdbool.h>
#include <stdint.h>

enum settings_device {
    SETTINGS_DEVICE_ANY = -3, /* a GPU if there is one, else the CPU */
    SETTINGS_DEVICE_CPU = -2,
    SETTINGS_DEVICE_GPU = -1 /* the first GPU; numbers from 0 name one */
};

struct settings {
    const char *path; /* of the text; NULL: none was given */
    int device;
    uint64_t seed;
    int steps;
    int stop;         /* the steps after which this run ends; 0: all */
    int save_every;   /* steps; 0: only at the end */
    const char *save; /* path of the checkpoint to write; NULL: none */
    const char *load; /* path of the checkpoint to go on from; NULL: none */
    int batch;
    int context;
    int layers; /* hidden layers */
    int hidden; /* units of each */
    int embed;
    int sample;      /* characters to generate */
    uint64_t budget; /* bytes of device memory; SYNCED_MEM_NO_BUDGET: no limit, and nothing is evicted */
    double rate;
    double decay;
    int bucket;          /* KiB of gradients that are reduced together */
    int reduce_blocks;   /* the most thread blocks of a reduction on a GPU; 0: NCCL decides */
    int overlap;         /* steps in a round of measuring pushes beside kernels; 0 to train */
    const char *profile; /* path of the file for the measured parts of a step; NULL: train */
    bool timeline;       /* print the times of the last of these steps */
    bool quiet;          /* print no progress */
    bool help;
};

/* Fails for anything that is not in the help; fail() keeps the reason. */
bool settings_parse(struct settings *settings, int count, char *const arguments[]);

/* Returns the shape of the model for a text of so many distinct characters. */
struct model_shape settings_shape(const struct settings *settings, int vocabulary);

/* Prints the help. */
void settings_help(void);

#endif
