// Group normalisation: a block has one group of one image. Sums are made in two steps, first in each thread
// or lane, then over these, in a fixed order.
#include "kernels/cuda/device.h"

#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"

#include <math.h>

struct group_norm {
    struct kernels_group_norm n;
    const float *x, *gamma, *beta;
    float *keep; // [images, 2, groups]: mean and 1 / deviation; backward reads `kept`
    float *to;   // y or dx
    const float *dy, *kept;
    float *parts; // [images, 2, channels]
};

// A group of an image: `width` channels from `first` on, of the pixels from `at` on.
struct group {
    size_t image, index, width, first, at;
};

DEVICE struct group group_of(const struct kernels_group_norm *n)
{
    struct group g;
    g.image = block_index() / n->groups;
    g.index = block_index() % n->groups;
    g.width = n->channels / n->groups;
    g.first = g.index * g.width;
    g.at = g.image * n->pixels * n->channels + g.first;
    return g;
}

// The place of number i of a group.
DEVICE size_t group_place(const struct kernels_group_norm *n, const struct group *g, uint32_t i)
{
    const uint32_t width = (uint32_t)g->width;
    return g->at + i / width * n->channels + i % width;
}

KERNEL(group_norm_kernel, struct group_norm, a)
{
    const struct group g = group_of(&a.n);
    const uint32_t count = (uint32_t)(g.width * a.n.pixels);
    float sum = 0.0f, squares = 0.0f;
    for (uint32_t i = thread_index(); i < count; i += THREADS)
        sum += a.x[group_place(&a.n, &g, i)];
    const float mean = block_sum_f32(sum) / (float)count;
    for (uint32_t i = thread_index(); i < count; i += THREADS) {
        const float d = a.x[group_place(&a.n, &g, i)] - mean;
        squares += d * d;
    }
    const float scale = 1.0f / sqrtf(block_sum_f32(squares) / (float)count + a.n.epsilon);
    for (uint32_t i = thread_index(); i < count; i += THREADS) {
        const size_t at = group_place(&a.n, &g, i), c = g.first + i % (uint32_t)g.width;
        const float value = (a.x[at] - mean) * scale * a.gamma[c] + a.beta[c];
        a.to[at] = a.n.relu && 0.0f > value ? 0.0f : value;
    }
    if (thread_index() == 0) {
        a.keep[2 * g.image * a.n.groups + g.index] = mean;
        a.keep[(2 * g.image + 1) * a.n.groups + g.index] = scale;
    }
}

// Sums over the pixels, of each channel by one warp: of dy times the normalised x, and of dy.
DEVICE void channel_sums(const struct group_norm *a, const struct group *g, float mean, float scale,
                         float *with_x, float *plain)
{
    for (size_t c = warp_index(); c < g->width; c += WARPS) {
        float product = 0.0f, sum = 0.0f;
        for (size_t p = lane_index(); p < a->n.pixels; p += WARP) {
            const size_t at = g->at + p * a->n.channels + c;
            product += a->dy[at] * ((a->x[at] - mean) * scale);
            sum += a->dy[at];
        }
        product = warp_sum_f32(product);
        sum = warp_sum_f32(sum);
        if (lane_index() == 0) {
            with_x[g->first + c] = product;
            plain[g->first + c] = sum;
        }
    }
}

// dx = scale (gamma dy - mean(gamma dy) - h mean(gamma dy h)), h the normalised x, means over the group.
KERNEL(group_norm_backward_kernel, struct group_norm, a)
{
    const struct group g = group_of(&a.n);
    const uint32_t count = (uint32_t)(g.width * a.n.pixels);
    const float mean = a.kept[2 * g.image * a.n.groups + g.index];
    const float scale = a.kept[(2 * g.image + 1) * a.n.groups + g.index];
    float *with_x = a.parts + 2 * g.image * a.n.channels, *plain = with_x + a.n.channels;
    float sum_x = 0.0f, sum = 0.0f;
    channel_sums(&a, &g, mean, scale, with_x, plain);
    block_barrier();
    if (!a.to)
        return;
    for (size_t c = g.first + thread_index(); c < g.first + g.width; c += THREADS) {
        sum_x += a.gamma[c] * with_x[c];
        sum += a.gamma[c] * plain[c];
    }
    const float mean_x = block_sum_f32(sum_x) / (float)count, level = block_sum_f32(sum) / (float)count;
    for (uint32_t i = thread_index(); i < count; i += THREADS) {
        const size_t at = group_place(&a.n, &g, i), c = g.first + i % (uint32_t)g.width;
        const float h = (a.x[at] - mean) * scale;
        a.to[at] = scale * (a.gamma[c] * a.dy[at] - level - h * mean_x);
    }
}

void kernels_cuda_group_norm(const struct kernels_group_norm *n, const float *x, const float *gamma,
                             const float *beta, float *kept, float *y)
{
    const struct group_norm a = {*n, x, gamma, beta, kept, y, NULL, NULL, NULL};
    LAUNCH(group_norm_kernel, (unsigned)(n->images * n->groups), a);
}

void kernels_cuda_group_norm_backward(const struct kernels_group_norm *n, const float *x, const float *gamma,
                                      const float *kept, const float *dy, float *parts, float *dx)
{
    const struct group_norm a = {*n, x, gamma, NULL, NULL, dx, dy, kept, parts};
    LAUNCH(group_norm_backward_kernel, (unsigned)(n->images * n->groups), a);
}
