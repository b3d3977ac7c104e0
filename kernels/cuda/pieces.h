// How a pass over a = x - r reads its vectors (device code). A vector is divided into tiles; each thread of a
// block reads 16 elements of a tile, in four quads that are a warp's width apart, so that every load is wide
// and coalesced. Elements after the end count as zeros.
#ifndef KERNELS_CUDA_PIECES_H
#define KERNELS_CUDA_PIECES_H

#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"

#define QUADS      4u
#define PER_THREAD (4 * QUADS)
#define PER_WARP   (PER_THREAD * WARP)
#define TILE       KERNELS_CUDA_TILE

struct piece {
    float a[PER_THREAD];
};

struct energies {
    double a, x;
    uint32_t largest;
};

// Element 0 of quad q of this thread, counted from the vector's first.
DEVICE size_t quad_index(size_t tile, unsigned quad)
{
    return tile * TILE + warp_index() * PER_WARP + quad * 4 * WARP + lane_index() * 4;
}

DEVICE float4 quad_load(const float *from, size_t at, size_t count)
{
    float4 quad;
    quad.x = at < count ? from[at] : 0.0f;
    quad.y = at + 1 < count ? from[at + 1] : 0.0f;
    quad.z = at + 2 < count ? from[at + 2] : 0.0f;
    quad.w = at + 3 < count ? from[at + 3] : 0.0f;
    return quad;
}

// All loads come before all uses. Loads are wide, except at the vector's end and if a vector is not aligned.
DEVICE void piece_load(const struct kernels_cuda_vector *v, size_t tile, float4 x[QUADS], float4 r[QUADS])
{
    const int wide = v->aligned && (tile + 1) * TILE <= v->count;
    const float4 none = {0.0f, 0.0f, 0.0f, 0.0f};
    for (unsigned q = 0; q < QUADS; q++) {
        const size_t at = quad_index(tile, q);
        x[q] = wide ? *(const float4 *)(v->x + at) : quad_load(v->x, at, v->count);
    }
    for (unsigned q = 0; q < QUADS; q++) {
        const size_t at = quad_index(tile, q);
        r[q] = !v->r ? none : wide ? *(const float4 *)(v->r + at) : quad_load(v->r, at, v->count);
    }
}

DEVICE void piece_read(const struct kernels_cuda_vector *v, size_t tile, struct piece *piece,
                       struct energies *energies)
{
    float4 x[QUADS], r[QUADS];
    piece_load(v, tile, x, r);
    for (unsigned q = 0; q < QUADS; q++) {
        float *a = piece->a + 4 * q;
        a[0] = x[q].x - r[q].x;
        a[1] = x[q].y - r[q].y;
        a[2] = x[q].z - r[q].z;
        a[3] = x[q].w - r[q].w;
        energies->a += (double)(a[0] * a[0] + a[1] * a[1] + (a[2] * a[2] + a[3] * a[3]));
        energies->x += (double)(x[q].x * x[q].x + x[q].y * x[q].y + (x[q].z * x[q].z + x[q].w * x[q].w));
        for (unsigned e = 0; e < 4; e++) {
            const uint32_t magnitude = magnitude_of(a[e]);
            energies->largest = magnitude > energies->largest ? magnitude : energies->largest;
        }
    }
}

// The statistics of a block go to its own place; the reduction reads the places in order.
DEVICE void energies_write(const struct energies *mine, struct kernels_cuda_seen *place)
{
    SHARED(double, a, WARPS);
    SHARED(double, x, WARPS);
    SHARED(uint32_t, largest, WARPS);
    const struct energies warp = {warp_sum_f64(mine->a), warp_sum_f64(mine->x), warp_max_u32(mine->largest)};
    if (lane_index() == 0) {
        a[warp_index()] = warp.a;
        x[warp_index()] = warp.x;
        largest[warp_index()] = warp.largest;
    }
    block_barrier();
    if (thread_index() == 0) {
        struct kernels_cuda_seen sum = {0.0, 0.0, 0};
        for (unsigned w = 0; w < WARPS; w++) {
            sum.a_energy += a[w];
            sum.x_energy += x[w];
            sum.largest = largest[w] > sum.largest ? largest[w] : sum.largest;
        }
        *place = sum;
    }
}

#endif
