// kernels/vectors.h on the device: launches and their results.
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/memory.h"

#include <string.h>

#define PER_BLOCK 1024u // the least elements that are worth a block

static unsigned blocks_over(size_t count)
{
    const size_t blocks = (count + PER_BLOCK - 1) / PER_BLOCK;
    const unsigned most = kernels_cuda_blocks();
    return blocks < most ? (unsigned)blocks : most;
}

static void add(size_t count, float part, const float *from, float *to)
{
    const struct kernels_cuda_add arguments = {count, part, from, to};
    if (count > 0) {
        kernels_cuda_add(&arguments, blocks_over(count));
        kernels_cuda_launched("add");
    }
}

static void scale(size_t count, float part, float *x)
{
    const struct kernels_cuda_fade arguments = {count, part, x, NULL};
    if (count > 0) {
        kernels_cuda_scale(&arguments, blocks_over(count));
        kernels_cuda_launched("scale");
    }
}

static void fade(size_t count, float part, float *x, float *sum)
{
    const struct kernels_cuda_fade arguments = {count, part, x, sum};
    if (count > 0) {
        kernels_cuda_fade(&arguments, blocks_over(count));
        kernels_cuda_launched("fade");
    }
}

static void hold(size_t count, float part, const float *x, const float *r, float *copy, float *held)
{
    const struct kernels_cuda_hold arguments = {count, part, x, r, copy, held};
    if (count > 0) {
        kernels_cuda_hold(&arguments, blocks_over(count));
        kernels_cuda_launched("hold");
    }
}

static bool give_back(size_t count, const float *held, float *x)
{
    add(count, 1, held, x);
    return kernels_cuda_apply.finite(x, count);
}

static void moments(const struct kernels_moments *m)
{
    const struct kernels_cuda_moments arguments = {m->count, m->mine, m->theirs, m->v, m->pending, m->whole};
    if (m->count > 0) {
        kernels_cuda_moments(&arguments, blocks_over(m->count));
        kernels_cuda_launched("moments");
    }
}

// The result, then a place for each block, then room for the reduction.
static struct kernels_cuda_seen *places_begin(unsigned blocks)
{
    return kernels_cuda_begin((1 + blocks + KERNELS_CUDA_REDUCED) * sizeof(struct kernels_cuda_seen));
}

static struct kernels_cuda_seen places_fetch(struct kernels_cuda_seen *places, unsigned blocks,
                                             const char *what)
{
    struct kernels_cuda_seen result;
    kernels_cuda_launched(what);
    kernels_cuda_reduce(places + 1, blocks, places);
    kernels_cuda_launched(what);
    kernels_cuda_download(&result, places, sizeof result);
    kernels_cuda_end();
    return result;
}

static float settle(size_t count, const float *pending, float *v)
{
    if (count == 0)
        return 0.0f;
    const unsigned blocks = blocks_over(count);
    struct kernels_cuda_seen *places = places_begin(blocks);
    const struct kernels_cuda_settle arguments = {count, pending, v, places + 1};
    kernels_cuda_settle(&arguments, blocks);
    const uint32_t bits = places_fetch(places, blocks, "settle").largest;
    float largest;
    memcpy(&largest, &bits, sizeof largest);
    return largest;
}

static double energy(size_t count, const float *x, const float *y)
{
    if (count == 0)
        return 0.0;
    const unsigned blocks = blocks_over(count);
    struct kernels_cuda_seen *places = places_begin(blocks);
    const struct kernels_cuda_energy arguments = {count, x, y, places + 1};
    kernels_cuda_energy(&arguments, blocks);
    return places_fetch(places, blocks, "energy").x_energy;
}

const struct kernels_vectors kernels_cuda_vectors = {.copy = kernels_cuda_copy,
                                                     .clear = kernels_cuda_clear,
                                                     .add = add,
                                                     .scale = scale,
                                                     .fade = fade,
                                                     .hold = hold,
                                                     .give_back = give_back,
                                                     .settle = settle,
                                                     .moments = moments,
                                                     .energy = energy};
