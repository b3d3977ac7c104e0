// The end of an exchange, compiled once for each instruction set by the file that includes it and names
// KERNELS_APPLY.
#include "base/hash.h"
#include "kernels/cpu/bits.h"
#include "kernels/cpu/cpu.h"

static inline size_t entry_index(const struct kernels_entries *entries, size_t i)
{
    return entries->index != NULL ? entries->index[i] : entries->first + i;
}

static inline void element_update(const struct kernels_exchange *e, size_t index, float mine, float theirs,
                                  uint64_t *hash)
{
    float before = e->r[index], after = before + 0.5f * (mine + theirs), force = 0.5f * (theirs - mine);
    e->r[index] = after;
    *hash += base_hash_element(index, after) - base_hash_element(index, before);
    e->x[index] += force;
    e->pending[index] += force;
    if (e->correction != NULL) {
        e->correction[index] += e->gain * force;
        e->correction_sum[index] += e->gain * force;
    }
}

static void apply_exchange(const struct kernels_exchange *e, uint64_t *hash)
{
    size_t i = 0, j = 0;
    while (i < e->mine.count || j < e->theirs.count) {
        size_t left = i < e->mine.count ? entry_index(&e->mine, i) : SIZE_MAX;
        size_t right = j < e->theirs.count ? entry_index(&e->theirs, j) : SIZE_MAX;
        size_t index = left < right ? left : right;
        float mine = left == index ? e->mine.value[i++] : 0.0f;
        float theirs = right == index ? e->theirs.value[j++] : 0.0f;
        element_update(e, index, mine, theirs, hash);
    }
}

static uint64_t apply_hash(const float *x, size_t count, size_t first, bool magnitudes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += base_hash_element(first + i, magnitudes ? float_of(bits_of(x[i]) & BITS_MAGNITUDE) : x[i]);
    return sum;
}

static bool apply_finite(const float *x, size_t count)
{
    uint32_t overflow = 0; // the top bit is set where adding one exponent step to a magnitude carries into it
    for (size_t i = 0; i < count; i++)
        overflow |= (bits_of(x[i]) & BITS_MAGNITUDE) + BITS_NORMAL;
    return overflow < BITS_SIGN;
}

const struct kernels_apply KERNELS_APPLY = {
    .exchange = apply_exchange, .hash = apply_hash, .finite = apply_finite};
