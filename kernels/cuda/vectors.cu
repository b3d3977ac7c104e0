// kernels/vectors.h on the device. Memory limits these kernels, so each thread takes one element at a time,
// in strides of the grid. Reductions use the places of pieces.h, in their order.
#include "kernels/cuda/device.h"

#include "kernels/cuda/pieces.h"

KERNEL(add_kernel, struct kernels_cuda_add, a)
{
    EACH(i, a.count)
    {
        a.to[i] += a.part * a.from[i];
    }
}

KERNEL(scale_kernel, struct kernels_cuda_fade, f)
{
    EACH(i, f.count)
    {
        f.x[i] *= f.part;
    }
}

KERNEL(fade_kernel, struct kernels_cuda_fade, f)
{
    EACH(i, f.count)
    {
        const float left = f.part * f.x[i];
        f.sum[i] += left - f.x[i];
        f.x[i] = left;
    }
}

KERNEL(hold_kernel, struct kernels_cuda_hold, h)
{
    EACH(i, h.count)
    {
        const float now = h.x[i];
        if (h.copy)
            h.copy[i] = now;
        h.held[i] = h.part * (now - h.r[i]);
    }
}

KERNEL(settle_kernel, struct kernels_cuda_settle, s)
{
    struct energies largest = {0.0, 0.0, 0};
    EACH(i, s.count)
    {
        const float sum = s.pending ? s.v[i] + s.pending[i] : s.v[i];
        const float least = s.v[i] > 0.0f ? 0.25f * s.v[i] : 0.0f;
        const float v = sum > least ? sum : least;
        s.v[i] = v;
        largest.largest = bits_of(v) > largest.largest ? bits_of(v) : largest.largest;
    }
    energies_write(&largest, &s.seen[block_index()]);
}

KERNEL(moments_kernel, struct kernels_cuda_moments, m)
{
    EACH(i, m.count)
    {
        const float force = 0.5f * (m.theirs[i] - m.mine[i]), before = m.v[i];
        const float least = before > 0.0f ? 0.25f * before : 0.0f;
        const float after = before + force > least ? before + force : least;
        m.v[i] = after;
        if (m.pending)
            m.pending[i] += m.whole ? force : after - before;
    }
}

KERNEL(energy_kernel, struct kernels_cuda_energy, e)
{
    struct energies sum = {0.0, 0.0, 0};
    EACH(i, e.count)
    {
        const double x = (double)e.x[i], rest = e.y ? x - (double)e.y[i] : 0.0;
        sum.x += x * x - rest * rest;
    }
    energies_write(&sum, &e.seen[block_index()]);
}

void kernels_cuda_add(const struct kernels_cuda_add *add, unsigned blocks)
{
    LAUNCH(add_kernel, blocks, *add);
}

void kernels_cuda_scale(const struct kernels_cuda_fade *fade, unsigned blocks)
{
    LAUNCH(scale_kernel, blocks, *fade);
}

void kernels_cuda_fade(const struct kernels_cuda_fade *fade, unsigned blocks)
{
    LAUNCH(fade_kernel, blocks, *fade);
}

void kernels_cuda_hold(const struct kernels_cuda_hold *hold, unsigned blocks)
{
    LAUNCH(hold_kernel, blocks, *hold);
}

void kernels_cuda_settle(const struct kernels_cuda_settle *settle, unsigned blocks)
{
    LAUNCH(settle_kernel, blocks, *settle);
}

void kernels_cuda_moments(const struct kernels_cuda_moments *moments, unsigned blocks)
{
    LAUNCH(moments_kernel, blocks, *moments);
}

void kernels_cuda_energy(const struct kernels_cuda_energy *energy, unsigned blocks)
{
    LAUNCH(energy_kernel, blocks, *energy);
}
