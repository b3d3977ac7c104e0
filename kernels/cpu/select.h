// Private to kernels/cpu: the tables of kernels/select.h, one for each instruction set, and what they share.
#ifndef KERNELS_CPU_SELECT_H
#define KERNELS_CPU_SELECT_H

#include "kernels/select.h"

#include <string.h>

extern const struct kernels_select kernels_cpu_select_scalar, kernels_cpu_select_avx2,
    kernels_cpu_select_avx512;

#define SELECT_MAGNITUDE 0x7fffffffu

void kernels_cpu_select_sample(const struct kernels_difference *a, size_t samples, uint32_t *magnitude);
void kernels_cpu_select_pick(const struct kernels_difference *a, size_t entries, const uint32_t *index,
                             float *value);

static inline float select_at(const struct kernels_difference *a, size_t i)
{
    return a->r != NULL ? a->x[i] - a->r[i] : a->x[i];
}

static inline uint32_t select_magnitude(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & SELECT_MAGNITUDE;
}

#endif
