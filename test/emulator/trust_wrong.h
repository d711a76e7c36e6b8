/*
 * The ways in which wrong programs are caught.
 */
#ifndef TRUST_WRONG_H
#define TRUST_WRONG_H

#include "trust.h"

enum end {
    ABORTS, /* with a report that contains both words */
    RACES,  /* the same, and the report calls it a race */
    FAULTS, /* ends by a stray access */
    TELLS,  /* the program itself finds the wrong result */
    LEAKS   /* with a report at exit that contains both words */
};

/* Programs whose result depends on late work run with seed 0 only. */
enum { SEEDS = 20, RACE_SEEDS = 50 };

struct wrong {
    struct program program;
    enum end end;
    int seeds;
    const char *words[2];
};

/* Tables of programs. Each ends with a row without a name. */
extern const struct wrong wrong_capture_programs[];
extern const struct wrong wrong_mapping_programs[];
extern const struct wrong wrong_list_programs[];
extern const struct program wrong_capture_by_code_programs[];
extern const struct program wrong_capture_by_bytes_programs[];

#endif
