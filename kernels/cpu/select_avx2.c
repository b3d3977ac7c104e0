// The passes of selection for processors with AVX2 and BMI2; CMake gives this file its flags.
#include <immintrin.h>
#include <stdint.h>

#define LANES        8u
#define SELECT_TABLE kernels_cpu_select_avx2

typedef __m256 v_float;
typedef __m256i v_bits;
typedef __m256d v_double;

static inline v_float v_zero(void)
{
    return _mm256_setzero_ps();
}

static inline v_float v_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

static inline v_float v_load_first(const float *p, unsigned lanes)
{
    const __m256i steps = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)lanes), steps));
}

static inline v_bits v_load_bits(const uint32_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

static inline v_float v_load_bf16(const uint16_t *p)
{
    const __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

static inline v_float v_sub(v_float a, v_float b)
{
    return _mm256_sub_ps(a, b);
}

static inline v_float v_square_add(v_float sum, v_float x)
{
    return _mm256_add_ps(sum, _mm256_mul_ps(x, x));
}

static inline v_bits v_set(uint32_t bits)
{
    return _mm256_set1_epi32((int32_t)bits);
}

static inline v_bits v_magnitude(v_float x)
{
    return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
}

static inline v_bits v_max(v_bits a, v_bits b)
{
    return _mm256_max_epu32(a, b);
}

// The bits of bf16_step, for numbers that are exact in bf16.
static inline v_bits v_bf16_step(v_float r)
{
    const v_bits exponent = _mm256_and_si256(_mm256_castps_si256(r), v_set(0x7f800000u));
    return _mm256_max_epi32(_mm256_sub_epi32(exponent, v_set(7u << 23)), _mm256_setzero_si256());
}

// Zero in lanes whose magnitude does not exceed `bits`, except in the lanes of `all`.
static inline v_float v_keep_above(v_float d, v_bits bits, unsigned all)
{
    v_bits kept = _mm256_cmpgt_epi32(v_magnitude(d), bits);
    if (all != 0) {
        const v_bits lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        kept = _mm256_or_si256(kept, _mm256_cmpeq_epi32(_mm256_and_si256(v_set(all), lane), lane));
    }
    return _mm256_and_ps(d, _mm256_castsi256_ps(kept));
}

static inline v_bits v_sub_bits(v_bits a, v_bits b)
{
    return _mm256_sub_epi32(a, b);
}

static inline v_bits v_shift_right(v_bits a, unsigned shift)
{
    return _mm256_srl_epi32(a, _mm_cvtsi32_si128((int)shift));
}

// Magnitudes and floors, which are at least 1, are compared as signed numbers: a >= floor is a > floor - 1.
static inline v_bits v_bound(uint32_t floor)
{
    return v_set(floor > 0x7fffffffu ? 0x7fffffffu : floor - 1);
}

static inline unsigned v_reach(v_bits a, v_bits bound)
{
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(a, bound)));
}

static inline v_bits v_count(v_bits count, v_bits a, v_bits bound)
{
    return _mm256_sub_epi32(count, _mm256_cmpgt_epi32(a, bound));
}

static inline v_bits v_count_from(uint32_t first)
{
    return _mm256_add_epi32(v_set(first), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// The numbers of the lanes that the mask packs together, a byte each.
static inline v_bits v_order(unsigned mask)
{
    const uint64_t bytes = _pdep_u64(mask, 0x0101010101010101u) * 0xffu;
    const uint64_t order = _pext_u64(0x0706050403020100u, bytes);
    return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)order));
}

static inline v_bits v_pack_bits(unsigned mask, v_bits a)
{
    return _mm256_permutevar8x32_epi32(a, v_order(mask));
}

static inline v_float v_pack_float(unsigned mask, v_float a)
{
    return _mm256_permutevar8x32_ps(a, v_order(mask));
}

static inline void v_store_bits(uint32_t *to, v_bits a)
{
    _mm256_storeu_si256((__m256i *)(void *)to, a);
}

// Stores the first 4 lanes, or all.
static inline void v_store_some(uint32_t *index, float *value, v_bits i, v_float v, unsigned lanes)
{
    if (lanes == 4) {
        _mm_storeu_si128((__m128i *)(void *)index, _mm256_castsi256_si128(i));
        _mm_storeu_ps(value, _mm256_castps256_ps128(v));
    } else {
        _mm256_storeu_si256((__m256i *)(void *)index, i);
        _mm256_storeu_ps(value, v);
    }
}

static inline v_double v_double_zero(void)
{
    return _mm256_setzero_pd();
}

static inline v_double v_double_add(v_double sum, v_float a)
{
    const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(a));
    const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
    return _mm256_add_pd(sum, _mm256_add_pd(low, high));
}

#include "kernels/cpu/select_body.h"
