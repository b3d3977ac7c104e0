// The passes of selection for processors with AVX2 and BMI2; CMake gives this file its flags.
#include <immintrin.h>
#include <stdint.h>

#define LANES         8u
#define SELECT_TABLE  kernels_cpu_select_avx2
#define MM(noun)      _mm256_##noun
#define MM_BITS(noun) _mm256_##noun##_si256

typedef __m256 v_float;
typedef __m256i v_bits;
typedef __m256d v_double;

#include "kernels/cpu/select_vector.h"

static inline v_float v_load_first(const float *p, unsigned lanes)
{
    const __m256i steps = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)lanes), steps));
}

static inline v_float v_load_bf16(const uint16_t *p)
{
    const __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

static inline v_float v_square_add(v_float sum, v_float x)
{
    return _mm256_add_ps(sum, _mm256_mul_ps(x, x));
}

// d, with zeros in the lanes whose magnitude does not exceed `bits`, except in the lanes of `all`.
static inline v_float v_keep_above(v_float d, v_bits bits, unsigned all)
{
    v_bits kept = _mm256_cmpgt_epi32(v_magnitude(d), bits);
    if (all != 0) {
        const v_bits lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        kept = _mm256_or_si256(kept, _mm256_cmpeq_epi32(_mm256_and_si256(v_set(all), lane), lane));
    }
    return _mm256_and_ps(d, _mm256_castsi256_ps(kept));
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

// The numbers of the lanes that the mask packs together, in order.
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

static inline v_double v_double_add(v_double sum, v_float a)
{
    const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(a));
    const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
    return _mm256_add_pd(sum, _mm256_add_pd(low, high));
}

#include "kernels/cpu/select_body.h"
