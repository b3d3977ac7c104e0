// The fused apply for AVX2: four terms of a hash at once, with 64-bit products computed from 32-bit halves.
#include "kernels/cpu/apply_plain.h"

#include <immintrin.h>

typedef __m256i vec;

static inline vec spread(int64_t value)
{
    return _mm256_set1_epi64x(value);
}

static inline vec times(vec a, uint64_t factor)
{
    const vec low = spread((int64_t)(factor & 0xffffffffu));
    const vec high = spread((int64_t)(factor >> 32));
    vec cross = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(a, 32), low), _mm256_mul_epu32(a, high));
    return _mm256_add_epi64(_mm256_mul_epu32(a, low), _mm256_slli_epi64(cross, 32));
}

static inline vec widen(const void *at)
{
    return _mm256_cvtepu32_epi64(_mm_loadu_si128((const __m128i *)at));
}

static inline uint64_t sum_of(vec sum)
{
    __m128i two = _mm_add_epi64(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    return (uint64_t)_mm_cvtsi128_si64(two) + (uint64_t)_mm_extract_epi64(two, 1);
}

static inline vec numbers(void)
{
    return _mm256_setr_epi64x(0, 1, 2, 3);
}

static inline vec swap_halves(vec index)
{
    return _mm256_shuffle_epi32(index, 0xb1);
}

#define LANES         4u
#define MM(noun)      _mm256_##noun
#define MM_BITS(noun) _mm256_##noun##_si256
#include "kernels/cpu/apply_hash.h"

#define KERNELS_APPLY kernels_cpu_apply_avx2
#define HASH_CHANGE   hash_change
#define HASH_RUN      hash_run
#include "kernels/cpu/apply_body.h"
