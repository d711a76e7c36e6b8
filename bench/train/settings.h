/* The settings of the command line. */
#ifndef TRAIN_SETTINGS_H
#define TRAIN_SETTINGS_H

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
    int batch;
    int context;
    int layers; /* hidden layers */
    int hidden; /* units of each */
    int embed;
    int sample; /* characters to generate */
    double rate;
    double decay;
    int bucket;    /* KiB of gradients that are reduced together */
    int overlap;   /* steps in a round of measuring pushes beside kernels; 0 to train */
    bool timeline; /* print the times of the last of these steps */
    bool quiet;    /* print no progress */
    bool help;
};

/* Fails for anything that is not in the help; fail() keeps the reason. */
bool settings_parse(struct settings *settings, int count, char *const arguments[]);

/* Prints the help. */
void settings_help(void);

#endif
