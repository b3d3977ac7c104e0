#include "train/shrink.h"

#include "base/error.h"
#include "base/rng.h"

#include <math.h>

void train_shrink(size_t count, float t1, float t2, float *x)
{
    BASE_ASSERT(t1 >= 0.0f && t2 >= 0.0f);
    for (size_t i = 0; i < count; i++) {
        const float left = fabsf(x[i]) - t1;
        // The comparison keeps NaN, which the check at the end of the round must find.
        x[i] = left <= 0.0f ? 0.0f : copysignf(left, x[i]) / (1.0f + t2);
    }
}

void train_shrink_filter(size_t count, float t1, float *z)
{
    const float least = TRAIN_SHRINK_FILTER * t1;
    for (size_t i = 0; i < count; i++)
        z[i] = fabsf(z[i]) < least ? 0.0f : z[i];
}

struct train_block train_shrink_block(size_t features, size_t blocks, uint64_t seed, uint64_t step,
                                      uint64_t *drawn, uint32_t *order)
{
    const uint64_t pass = step / blocks;
    BASE_ASSERT(blocks >= 1 && blocks <= features);
    if (*drawn != pass) {
        struct base_rng rng;
        base_rng_seed_stream(&rng, seed, pass);
        for (size_t i = 0; i < blocks; i++)
            order[i] = (uint32_t)i;
        base_rng_shuffle(&rng, order, blocks);
        *drawn = pass;
    }
    const size_t block = order[step % blocks];
    return (struct train_block){.from = features * block / blocks, .to = features * (block + 1) / blocks};
}
