// Matrix products for processors with AVX2 and FMA; CMake gives this file its flags.
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define LANES      8u
#define TILE_ROWS  6u // with two vectors: 12 accumulators, two of B, one of A: 15 of the 16 registers
#define GEMM(noun) kernels_cpu_##noun##_avx2
#define MM(noun)   _mm256_##noun
#define INLINE     static inline __attribute__((always_inline))

typedef __m256 vec;

INLINE __m256i first(size_t count)
{
    static const int32_t edge[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(edge + 8 - count));
}

// count < LANES; the other lanes are 0.
INLINE vec load_some(const float *p, size_t count)
{
    return _mm256_maskload_ps(p, first(count));
}

INLINE void store_some(float *p, vec value, size_t count)
{
    _mm256_maskstore_ps(p, first(count), value);
}

INLINE void transpose(vec block[LANES])
{
    vec half[LANES];
    for (size_t i = 0; i < LANES; i += 4) {
        const vec low = _mm256_unpacklo_ps(block[i], block[i + 1]),
                  high = _mm256_unpackhi_ps(block[i], block[i + 1]),
                  low2 = _mm256_unpacklo_ps(block[i + 2], block[i + 3]),
                  high2 = _mm256_unpackhi_ps(block[i + 2], block[i + 3]);
        half[i] = _mm256_shuffle_ps(low, low2, 0x44);
        half[i + 1] = _mm256_shuffle_ps(low, low2, 0xee);
        half[i + 2] = _mm256_shuffle_ps(high, high2, 0x44);
        half[i + 3] = _mm256_shuffle_ps(high, high2, 0xee);
    }
    for (size_t i = 0; i < 4; i++) {
        block[i] = _mm256_permute2f128_ps(half[i], half[i + 4], 0x20);
        block[i + 4] = _mm256_permute2f128_ps(half[i], half[i + 4], 0x31);
    }
}

#include "kernels/cpu/gemm_body.h"
