// Private to kernels/cpu: the tables of kernels/select.h, one for each instruction set, and the functions
// that they share.
#ifndef KERNELS_CPU_SELECT_H
#define KERNELS_CPU_SELECT_H

#include "base/bf16.h"
#include "kernels/select.h"

#include <stdbool.h>
#include <string.h>

extern const struct kernels_select kernels_cpu_select_scalar, kernels_cpu_select_avx2,
    kernels_cpu_select_avx512;

#define SELECT_MAGNITUDE 0x7fffffffu

void kernels_cpu_select_sample(const struct kernels_difference *a, size_t samples, uint32_t *magnitude);
void kernels_cpu_select_pick(const struct kernels_difference *a, size_t entries, const uint32_t *index,
                             float *value);

// The kind of reference that is subtracted.
enum select_reference { SELECT_NONE = 0, SELECT_FP32, SELECT_BF16 };

static inline enum select_reference select_reference(const struct kernels_difference *a)
{
    return a->r_bf16 ? SELECT_BF16 : a->r ? SELECT_FP32 : SELECT_NONE;
}

static inline float select_far(const struct kernels_difference *a, size_t i, float d)
{
    const bool open = i - a->open_first < a->open_count;
    return open || (bits_of(d) & BITS_MAGNITUDE) > bf16_step(a->r_bf16[i]) ? d : 0.0f;
}

static inline float select_at(const struct kernels_difference *a, size_t i)
{
    switch (select_reference(a)) {
    case SELECT_BF16:
        return select_far(a, i, a->x[i] - bf16_widen(a->r_bf16[i]));
    case SELECT_FP32:
        return a->x[i] - a->r[i];
    case SELECT_NONE:
        break;
    }
    return a->x[i];
}

static inline uint32_t select_magnitude(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & SELECT_MAGNITUDE;
}

#endif
