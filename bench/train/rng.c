/* Random numbers that are the same for the same seed everywhere. */
#include "rng.h"

struct rng rng_make(uint64_t seed, uint64_t stream)
{
    struct rng rng = {seed};
    rng.state = rng_next(&rng) ^ stream;
    rng.state = rng_next(&rng);
    return rng;
}

uint64_t rng_next(struct rng *rng)
{
    rng->state += 0x9e3779b97f4a7c15u;
    uint64_t z = rng->state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t rng_below(struct rng *rng, uint64_t limit)
{
    return rng_next(rng) % limit;
}

float rng_symmetric(struct rng *rng)
{
    /* A float holds 24 bits exactly. */
    return (float)(rng_next(rng) >> 40) * (2.0F / 16777216.0F) - 1.0F;
}
