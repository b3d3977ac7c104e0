// Shared by all paths: the passes that touch few elements.
#include "kernels/cpu/select.h"

#define RUN 16u // neighbours in a run of samples: one cache line

// A fixed mixing of bits (the finaliser of splitmix64), so that runs have no constant stride.
static uint64_t mixed(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void kernels_cpu_select_sample(const struct kernels_difference *a, size_t samples, uint32_t *magnitude)
{
    const size_t runs = samples / RUN;
    for (size_t run = 0; run < runs; run++) {
        const size_t from = (uint64_t)run * a->count / runs;
        const size_t width = (uint64_t)(run + 1) * a->count / runs - from; // >= RUN
        const size_t shift = (size_t)((mixed(run) >> 32) * (width - RUN + 1) >> 32);
        const size_t at = (from + shift) / RUN * RUN; // whole cache lines; never past the stretch
        for (size_t i = 0; i < RUN; i++)
            magnitude[run * RUN + i] = select_magnitude(select_at(a, at + i));
    }
}

void kernels_cpu_select_pick(const struct kernels_difference *a, size_t entries, const uint32_t *index,
                             float *value)
{
    const size_t ahead = 16; // prefetch distance: the vector is far larger than the caches
    for (size_t i = 0; i < entries; i++) {
        if (i + ahead < entries) {
            __builtin_prefetch(a->x + index[i + ahead]);
            if (a->r)
                __builtin_prefetch(a->r + index[i + ahead]);
            if (a->r_bf16)
                __builtin_prefetch(a->r_bf16 + index[i + ahead]);
        }
        value[i] = select_at(a, index[i]);
    }
}
