// Matrix products for processors with AVX-512 F, BW, DQ and VL; CMake gives this file its flags.
#include <immintrin.h>
#include <stddef.h>

#define LANES      16u
#define TILE_ROWS  14u // with two vectors: 28 accumulators, two of B, one of A: 31 of the 32 registers
#define GEMM(noun) kernels_cpu_##noun##_avx512
#define MM(noun)   _mm512_##noun
#define INLINE     static inline __attribute__((always_inline))

typedef __m512 vec;

INLINE __mmask16 first(size_t count)
{
    return (__mmask16)((1u << count) - 1u);
}

// count < LANES; the other lanes are 0.
INLINE vec load_some(const float *p, size_t count)
{
    return _mm512_maskz_loadu_ps(first(count), p);
}

INLINE void store_some(float *p, vec value, size_t count)
{
    _mm512_mask_storeu_ps(p, first(count), value);
}

// Transposes the 4 by 4 blocks within each quarter of the vectors, then the quarters.
INLINE void transpose(vec block[LANES])
{
    vec half[LANES];
    for (size_t i = 0; i < LANES; i += 4) {
        const vec low = _mm512_unpacklo_ps(block[i], block[i + 1]),
                  high = _mm512_unpackhi_ps(block[i], block[i + 1]),
                  low2 = _mm512_unpacklo_ps(block[i + 2], block[i + 3]),
                  high2 = _mm512_unpackhi_ps(block[i + 2], block[i + 3]);
        half[i] = _mm512_shuffle_ps(low, low2, 0x44);
        half[i + 1] = _mm512_shuffle_ps(low, low2, 0xee);
        half[i + 2] = _mm512_shuffle_ps(high, high2, 0x44);
        half[i + 3] = _mm512_shuffle_ps(high, high2, 0xee);
    }
    for (size_t i = 0; i < 4; i++) {
        const vec even = _mm512_shuffle_f32x4(half[i], half[i + 4], 0x88),
                  odd = _mm512_shuffle_f32x4(half[i], half[i + 4], 0xdd),
                  even2 = _mm512_shuffle_f32x4(half[i + 8], half[i + 12], 0x88),
                  odd2 = _mm512_shuffle_f32x4(half[i + 8], half[i + 12], 0xdd);
        block[i] = _mm512_shuffle_f32x4(even, even2, 0x88);
        block[i + 8] = _mm512_shuffle_f32x4(even, even2, 0xdd);
        block[i + 4] = _mm512_shuffle_f32x4(odd, odd2, 0x88);
        block[i + 12] = _mm512_shuffle_f32x4(odd, odd2, 0xdd);
    }
}

#include "kernels/cpu/gemm_body.h"
