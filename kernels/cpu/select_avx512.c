// The passes of selection for processors with AVX-512 F, BW, DQ and VL; CMake gives this file its flags.
#include <immintrin.h>
#include <stdint.h>

#define LANES         16u
#define SELECT_TABLE  kernels_cpu_select_avx512
#define MM(noun)      _mm512_##noun
#define MM_BITS(noun) _mm512_##noun##_si512

typedef __m512 v_float;
typedef __m512i v_bits;
typedef __m512d v_double;

#include "kernels/cpu/select_vector.h"

static inline v_float v_load_first(const float *p, unsigned lanes)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << lanes) - 1), p);
}

static inline v_float v_load_bf16(const uint16_t *p)
{
    const __m256i halves = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

// sum + x * x, for energies, which need not be the same on every path.
static inline v_float v_square_add(v_float sum, v_float x)
{
    return _mm512_fmadd_ps(x, x, sum);
}

// d, with zeros in the lanes whose magnitude does not exceed `bits`, except in the lanes of `all`.
static inline v_float v_keep_above(v_float d, v_bits bits, unsigned all)
{
    return _mm512_maskz_mov_ps((__mmask16)(_mm512_cmpgt_epu32_mask(v_magnitude(d), bits) | all), d);
}

// The value that v_reach compares with, for this floor.
static inline v_bits v_bound(uint32_t floor)
{
    return v_set(floor);
}

static inline unsigned v_reach(v_bits a, v_bits bound)
{
    return _mm512_cmpge_epu32_mask(a, bound);
}

static inline v_bits v_count(v_bits count, v_bits a, v_bits bound)
{
    return _mm512_mask_sub_epi32(count, _mm512_cmpge_epu32_mask(a, bound), count, _mm512_set1_epi32(-1));
}

static inline v_bits v_count_from(uint32_t first)
{
    const v_bits steps = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_add_epi32(v_set(first), steps);
}

// Packs the lanes of the mask together, in a register: a compressing store is slower.
static inline v_bits v_pack_bits(unsigned mask, v_bits a)
{
    return _mm512_maskz_compress_epi32((__mmask16)mask, a);
}

static inline v_float v_pack_float(unsigned mask, v_float a)
{
    return _mm512_maskz_compress_ps((__mmask16)mask, a);
}

static inline v_double v_double_add(v_double sum, v_float a)
{
    const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(a));
    const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
    return _mm512_add_pd(sum, _mm512_add_pd(low, high));
}

#include "kernels/cpu/select_body.h"
