// The operations of selection on vectors that are the same for AVX2 and AVX-512 but for the names of the
// intrinsics. The including file defines the types and MM(noun), and MM_BITS(noun) for those on whole
// registers.
#ifndef KERNELS_CPU_SELECT_VECTOR_H
#define KERNELS_CPU_SELECT_VECTOR_H

#include <string.h>

static inline v_float v_zero(void)
{
    return MM(setzero_ps)();
}

static inline v_float v_load(const float *p)
{
    return MM(loadu_ps)(p);
}

static inline v_bits v_load_bits(const uint32_t *p)
{
    return MM_BITS(loadu)((const v_bits *)(const void *)p);
}

static inline v_float v_sub(v_float a, v_float b)
{
    return MM(sub_ps)(a, b);
}

static inline v_bits v_set(uint32_t bits)
{
    return MM(set1_epi32)((int32_t)bits);
}

static inline v_bits v_magnitude(v_float x)
{
    return MM_BITS(and)((v_bits)x, v_set(0x7fffffffu));
}

static inline v_bits v_max(v_bits a, v_bits b)
{
    return MM(max_epu32)(a, b);
}

static inline v_bits v_sub_bits(v_bits a, v_bits b)
{
    return MM(sub_epi32)(a, b);
}

// The bits of bf16_step, for numbers that are exact in bf16.
static inline v_bits v_bf16_step(v_float r)
{
    const v_bits exponent = MM_BITS(and)((v_bits)r, v_set(0x7f800000u));
    return MM(max_epi32)(v_sub_bits(exponent, v_set(7u << 23)), v_set(0));
}

static inline v_bits v_shift_right(v_bits a, unsigned shift)
{
    return MM(srl_epi32)(a, _mm_cvtsi32_si128((int)shift));
}

static inline void v_store_bits(uint32_t *to, v_bits a)
{
    MM_BITS(storeu)((v_bits *)(void *)to, a);
}

// Stores the first 4 lanes, or all.
static inline void v_store_some(uint32_t *index, float *value, v_bits i, v_float v, unsigned lanes)
{
    if (lanes == 4) {
        memcpy(index, &i, 4 * sizeof *index);
        memcpy(value, &v, 4 * sizeof *value);
    } else {
        v_store_bits(index, i);
        MM(storeu_ps)(value, v);
    }
}

static inline v_double v_double_zero(void)
{
    return MM(setzero_pd)();
}

#endif
