// Passes over a = x - r that need no order among the elements: histogram, count, sample, pick
// (kernels/select.h).
#include "kernels/cuda/device.h"

#include "kernels/cuda/pieces.h"

// Block b reduces `each` places, from b * each on, to place b of `to`.
struct reduction {
    const struct kernels_cuda_seen *from;
    size_t count, each;
    struct kernels_cuda_seen *to;
};

KERNEL(reduce_kernel, struct reduction, r)
{
    const size_t first = block_index() * r.each, end = first + r.each < r.count ? first + r.each : r.count;
    struct energies sum = {0.0, 0.0, 0};
    for (size_t i = first + thread_index(); i < end; i += THREADS) {
        sum.a += r.from[i].a_energy;
        sum.x += r.from[i].x_energy;
        sum.largest = r.from[i].largest > sum.largest ? r.from[i].largest : sum.largest;
    }
    energies_write(&sum, r.to + block_index());
}

// --- histogram ---

// Each block has its own bins in shared memory; if a whole warp falls into one bin, as with constant vectors,
// one thread adds for all.
KERNEL(histogram_kernel, struct kernels_cuda_histogram, h)
{
    SHARED(uint32_t, own, KERNELS_CUDA_BINS);
    for (unsigned b = thread_index(); b < KERNELS_CUDA_BINS; b += THREADS)
        own[b] = 0;
    block_barrier();
    struct energies energies = {0.0, 0.0, 0};
    for (size_t tile = block_index(); tile < h.tiles; tile += block_count()) {
        struct piece piece;
        piece_read(&h.vector, tile, &piece, &energies);
        for (unsigned e = 0; e < PER_THREAD; e++) {
            const uint32_t magnitude = magnitude_of(piece.a[e]);
            const uint32_t wide = magnitude >= h.floor ? (magnitude - h.floor) >> h.shift : KERNELS_CUDA_BINS;
            const uint32_t last = wide < KERNELS_CUDA_BINS ? wide : KERNELS_CUDA_BINS - 1;
            const uint32_t bin = magnitude >= h.floor ? last : KERNELS_CUDA_BINS; // BINS: none
            if (warp_ballot(bin != warp_from_u32(bin, 0)) == 0) {
                if (lane_index() == 0 && bin < KERNELS_CUDA_BINS)
                    (void)atomic_add_u32(own + bin, WARP);
            } else if (bin < KERNELS_CUDA_BINS) {
                (void)atomic_add_u32(own + bin, 1);
            }
        }
    }
    block_barrier();
    for (unsigned b = thread_index(); b < KERNELS_CUDA_BINS; b += THREADS)
        if (own[b] != 0)
            atomic_add_u64(h.bins + b, own[b]);
    energies_write(&energies, h.seen + block_index());
}

// --- count ---

KERNEL(count_kernel, struct kernels_cuda_count, c)
{
    uint32_t above[KERNELS_CUDA_FLOORS];
    for (unsigned f = 0; f < KERNELS_CUDA_FLOORS; f++)
        above[f] = 0;
    struct energies energies = {0.0, 0.0, 0};
    for (size_t tile = block_index(); tile < c.tiles; tile += block_count()) {
        struct piece piece;
        piece_read(&c.vector, tile, &piece, &energies);
        for (unsigned e = 0; e < PER_THREAD; e++) {
            const uint32_t magnitude = magnitude_of(piece.a[e]);
            for (unsigned f = 0; f < KERNELS_CUDA_FLOORS; f++)
                above[f] += magnitude >= c.floors[f];
        }
    }
    for (unsigned f = 0; f < KERNELS_CUDA_FLOORS; f++) {
        const uint64_t sum = block_sum_u64(above[f]);
        if (thread_index() == 0)
            atomic_add_u64(c.counts + f, sum);
    }
    energies_write(&energies, c.seen + block_index());
}

// --- known entries ---

DEVICE float element_of(const struct kernels_cuda_vector *v, size_t i)
{
    return v->r ? v->x[i] - v->r[i] : v->x[i];
}

KERNEL(pick_kernel, struct kernels_cuda_pick, p)
{
    EACH(i, p.entries)
    {
        p.value[i] = element_of(&p.vector, p.index[i]);
    }
}

// Run i is at a pseudo-random place in the i-th of equal stretches, as on the CPU.
KERNEL(sample_kernel, struct kernels_cuda_sample, s)
{
    const uint64_t runs = s.samples / KERNELS_CUDA_RUN;
    EACH(i, s.samples)
    {
        const uint64_t run = i / KERNELS_CUDA_RUN, count = s.vector.count;
        const uint64_t from = run * count / runs, width = (run + 1) * count / runs - from;
        const uint64_t mixed = hash_mix(run + 0x9e3779b97f4a7c15ull) >> 32;
        const uint64_t at = from + (mixed * (width - KERNELS_CUDA_RUN + 1) >> 32);
        const uint64_t start = at / KERNELS_CUDA_RUN * KERNELS_CUDA_RUN;
        s.magnitude[i] = magnitude_of(element_of(&s.vector, (size_t)(start + i % KERNELS_CUDA_RUN)));
    }
}

// --- launches ---

static unsigned grid_of(size_t threads)
{
    const size_t blocks = (threads + THREADS - 1) / THREADS;
    return (unsigned)(blocks < 4096 ? blocks : 4096);
}

void kernels_cuda_reduce(struct kernels_cuda_seen *places, size_t count, struct kernels_cuda_seen *result)
{
    struct reduction r = {places, count, count, result};
    if (count >
        KERNELS_CUDA_REDUCED * THREADS) { // two steps: one block alone would take longer than the pass
        r.each = (count + KERNELS_CUDA_REDUCED - 1) / KERNELS_CUDA_REDUCED;
        r.to = places + count;
        LAUNCH(reduce_kernel, KERNELS_CUDA_REDUCED, r);
        const struct reduction last = {places + count, KERNELS_CUDA_REDUCED, KERNELS_CUDA_REDUCED, result};
        LAUNCH(reduce_kernel, 1, last);
        return;
    }
    LAUNCH(reduce_kernel, 1, r);
}

void kernels_cuda_histogram(const struct kernels_cuda_histogram *histogram, unsigned blocks)
{
    LAUNCH(histogram_kernel, blocks, *histogram);
}

void kernels_cuda_count(const struct kernels_cuda_count *count, unsigned blocks)
{
    LAUNCH(count_kernel, blocks, *count);
}

void kernels_cuda_pick(const struct kernels_cuda_pick *pick)
{
    LAUNCH(pick_kernel, grid_of(pick->entries), *pick);
}

void kernels_cuda_sample(const struct kernels_cuda_sample *sample)
{
    LAUNCH(sample_kernel, grid_of(sample->samples), *sample);
}
