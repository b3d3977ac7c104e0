// The arithmetic at the end of an exchange, and hashes of whole vectors (kernels/apply.h). Sums of hashes are
// sums of integers, so the order of the blocks does not matter.
#include "kernels/cuda/device.h"

#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"

#define LOADS 4u // elements that a thread reads before it uses the first

DEVICE size_t index_of(const struct kernels_cuda_entries *e, size_t i)
{
    return e->index ? e->index[i] : e->first + i;
}

// The first entry of [from, end) whose index is at least `index`.
DEVICE size_t lower_bound(const struct kernels_cuda_entries *e, size_t from, size_t end, size_t index)
{
    while (from < end) {
        const size_t middle = from + (end - from) / 2;
        if (index_of(e, middle) < index)
            from = middle + 1;
        else
            end = middle;
    }
    return from;
}

// One element; returns the change of the hash.
DEVICE uint64_t exchange_element(const struct kernels_cuda_exchange *e, size_t i, float mine, float theirs)
{
    const float force = e->weight * (theirs - mine);
    if (e->x)
        e->x[i] += force;
    if (e->pending)
        e->pending[i] += force;
    if (e->correction)
        e->correction[i] += e->gain * force;
    if (e->correction_sum)
        e->correction_sum[i] += e->gain * force;
    if (!e->r)
        return 0;
    const float before = e->r[i], after = before + 0.5f * (mine + theirs);
    e->r[i] = after;
    return hash_element(i, after) - hash_element(i, before);
}

// A block has THREADS adjacent entries of one list, and searches the other list between the bounds of its
// first and its last entry. An index in both lists belongs to the thread that has it from `mine`.
DEVICE uint64_t exchange_entries(const struct kernels_cuda_exchange *e,
                                 const struct kernels_cuda_entries *own,
                                 const struct kernels_cuda_entries *other, size_t from, int is_mine)
{
    SHARED(size_t, bound, 2);
    const size_t last = own->count - from < THREADS ? own->count - 1 : from + THREADS - 1;
    if (thread_index() < 2) {
        const size_t index = thread_index() == 0 ? index_of(own, from) : index_of(own, last) + 1;
        bound[thread_index()] = lower_bound(other, 0, other->count, index);
    }
    block_barrier();
    const size_t i = from + thread_index();
    if (i > last)
        return 0;
    const size_t index = index_of(own, i), at = lower_bound(other, bound[0], bound[1], index);
    const int both = at < bound[1] && index_of(other, at) == index;
    if (both && !is_mine)
        return 0;
    const float value = own->value[i], answer = both ? other->value[at] : 0.0f;
    return exchange_element(e, index, is_mine ? value : answer, is_mine ? answer : value);
}

KERNEL(exchange_kernel, struct kernels_cuda_exchange, e)
{
    const size_t of_mine = (e.mine.count + THREADS - 1) / THREADS;
    const int is_mine = block_index() < of_mine;
    const struct kernels_cuda_entries own = is_mine ? e.mine : e.theirs, other = is_mine ? e.theirs : e.mine;
    const size_t from = (block_index() - (is_mine ? 0 : of_mine)) * THREADS;
    const uint64_t grown = block_sum_u64(exchange_entries(&e, &own, &other, from, is_mine));
    if (thread_index() == 0)
        atomic_add_u64(e.hash, grown);
}

KERNEL(hash_kernel, struct kernels_cuda_hash, h)
{
    const uint32_t mask = h.magnitudes ? MAGNITUDE_BITS : UINT32_MAX;
    uint64_t sum = 0;
    for (size_t from = (size_t)block_index() * LOADS * THREADS; from < h.count;
         from += (size_t)block_count() * LOADS * THREADS) {
        float x[LOADS];
        for (unsigned l = 0; l < LOADS; l++) {
            const size_t i = from + l * THREADS + thread_index();
            x[l] = i < h.count ? h.x[i] : 0.0f;
        }
        for (unsigned l = 0; l < LOADS; l++) {
            const size_t i = from + l * THREADS + thread_index();
            sum += i < h.count ? hash_element(h.first + i, float_of(bits_of(x[l]) & mask)) : 0;
        }
    }
    sum = block_sum_u64(sum);
    if (thread_index() == 0)
        atomic_add_u64(h.hash, sum);
}

KERNEL(largest_kernel, struct kernels_cuda_hash, h)
{
    uint32_t largest = 0;
    for (size_t from = (size_t)block_index() * LOADS * THREADS; from < h.count;
         from += (size_t)block_count() * LOADS * THREADS) {
        for (unsigned l = 0; l < LOADS; l++) {
            const size_t i = from + l * THREADS + thread_index();
            const uint32_t magnitude = i < h.count ? magnitude_of(h.x[i]) : 0;
            largest = magnitude > largest ? magnitude : largest;
        }
    }
    largest = warp_max_u32(largest);
    if (lane_index() == 0)
        atomic_max_u32(h.largest, largest);
}

void kernels_cuda_exchange(const struct kernels_cuda_exchange *exchange)
{
    const size_t mine = (exchange->mine.count + THREADS - 1) / THREADS;
    const size_t theirs = (exchange->theirs.count + THREADS - 1) / THREADS;
    LAUNCH(exchange_kernel, (unsigned)(mine + theirs), *exchange);
}

void kernels_cuda_hash(const struct kernels_cuda_hash *hash, unsigned blocks)
{
    LAUNCH(hash_kernel, blocks, *hash);
}

void kernels_cuda_largest(const struct kernels_cuda_hash *hash, unsigned blocks)
{
    LAUNCH(largest_kernel, blocks, *hash);
}
