/* The machine that the suite runs on. */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct machine {
    char cpu[128];
    int cores;     /* usable by this process */
    double memory; /* bytes */
    char kernel[160];
    char compiler[128];
    char library[128];
    char version[32];
    const char *commit; /* of the library; in a source archive the library's version */
    char date[32];      /* now, UTC */
    bool has_gpu, is_emulated;
    char gpu[160];
    char driver[160];
    char cuda[64];
    char link[160];
};

/* Fills machine. The process must be allowed to use the GPU. */
void machine_read(struct machine *machine);
void machine_print(const struct machine *machine);
void machine_write_json(const struct machine *machine, FILE *json);

#endif
