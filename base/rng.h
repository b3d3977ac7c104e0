// Seeded pseudo-random numbers: xoshiro256** (Blackman, Vigna 2018), seeded through splitmix64. Not for keys.
// One owner per generator; no hidden state, so a generator can be stored in a checkpoint and continued.
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct base_rng {
    uint64_t state[4];
};

void base_rng_seed(struct base_rng *rng, uint64_t seed);
// An independent generator for (seed, stream). Every node, layer or example gets its own in this way.
void base_rng_seed_stream(struct base_rng *rng, uint64_t seed, uint64_t stream);
uint64_t base_rng_u64(struct base_rng *rng);
uint64_t base_rng_below(struct base_rng *rng, uint64_t bound); // uniform in [0, bound), bound > 0
double base_rng_uniform(struct base_rng *rng);                 // uniform in [0, 1)
double base_rng_normal(struct base_rng *rng);                  // mean 0, variance 1
double base_rng_gamma(struct base_rng *rng, double shape);     // scale 1, shape > 0 (Marsaglia, Tsang 2000)
void base_rng_shuffle(struct base_rng *rng, uint32_t *items, size_t count);

#endif
