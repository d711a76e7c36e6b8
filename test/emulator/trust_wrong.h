/*
 * How wrong programs are to be caught.
 */
#ifndef TRUST_WRONG_H
#define TRUST_WRONG_H

#include "trust.h"

enum end {
    ABORTS, /* with a report that holds both words */
    RACES,  /* the same, and the report says that it is a race */
    FAULTS, /* dies of a stray access */
    TELLS,  /* the program itself sees that it is wrong */
    LEAKS   /* with a report at exit that holds both words */
};

/* What depends on how late work runs is tried with seed 0 only. */
enum { SEEDS = 20, RACE_SEEDS = 50 };

struct wrong {
    struct program program;
    enum end end;
    int seeds;
    const char *words[2];
};

/* Tables in files of their own; each ends with a row without a name. */
extern const struct wrong wrong_capture_programs[];
extern const struct program wrong_capture_by_code_programs[];
extern const struct program wrong_capture_by_bytes_programs[];

#endif
