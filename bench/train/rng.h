/* Random numbers that are the same for the same seed everywhere: the splitmix64 generator of Steele, Lea and Flood. */
#ifndef TRAIN_RNG_H
#define TRAIN_RNG_H

#include <stdint.h>

struct rng {
    uint64_t state;
};

/* The uses of a seed. */
enum { RNG_WEIGHTS, RNG_BATCHES, RNG_SAMPLE };

/* Returns a generator for one use of the seed. Each use has a stream of its own, so that more numbers for one do not
 * change the others. */
struct rng rng_make(uint64_t seed, uint64_t stream);

uint64_t rng_next(struct rng *rng);

/* Returns a number below limit, which must be positive. The bias is under limit / 2^64. */
uint64_t rng_below(struct rng *rng, uint64_t limit);

/* Returns a number of [-1, 1). */
float rng_symmetric(struct rng *rng);

#endif
