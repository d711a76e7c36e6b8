/*
 * The simulator: how often the members of a recorded order of uses would have to be brought back, under the library's
 * policy and others'. A member is used at one moment, as if it was held and unheld at once.
 */
#ifndef SIMULATE_H
#define SIMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum algorithm { POLICY, LRU, CLOCK, BELADY, ALGORITHMS };
extern const char *const algorithm_names[ALGORITHMS];

struct use {
    uint32_t member; /* from 0 on */
    bool writes;     /* the member is dirty until it goes */
};

struct order {
    const struct use *uses;
    size_t count;
    const uint64_t *bytes; /* of each member */
    uint32_t members;
};

struct outcome {
    uint64_t misses;
    uint64_t missed_bytes;
    uint64_t written_bytes; /* of dirty members that went */
};

/* Simulates the uses with so much memory. A member larger than that misses each time and evicts nothing. BELADY: the
 * member whose next use is the latest goes, which is optimal for members of equal size. Returns false if there is no
 * memory for the simulation. */
bool simulate(const struct order *order, uint64_t capacity, enum algorithm algorithm, struct outcome *outcome);

#endif
