// The fused apply for AVX2: four terms of a hash at once, with 64-bit products computed from 32-bit halves.
#include "kernels/cpu/apply_plain.h"

#include <immintrin.h>

static inline __m256i times4(__m256i a, uint64_t factor)
{
    const __m256i low = _mm256_set1_epi64x((long long)(factor & 0xffffffffu));
    const __m256i high = _mm256_set1_epi64x((long long)(factor >> 32));
    __m256i cross =
        _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(a, 32), low), _mm256_mul_epu32(a, high));
    return _mm256_add_epi64(_mm256_mul_epu32(a, low), _mm256_slli_epi64(cross, 32));
}

static inline __m256i mix4(__m256i h)
{
    h = times4(_mm256_xor_si256(h, _mm256_srli_epi64(h, 30)), 0xbf58476d1ce4e5b9ull);
    h = times4(_mm256_xor_si256(h, _mm256_srli_epi64(h, 27)), 0x94d049bb133111ebull);
    return _mm256_xor_si256(h, _mm256_srli_epi64(h, 31));
}

// base_hash_element of four: places is index << 32 ^ index >> 32, value the bits as 64-bit numbers.
static inline __m256i terms4(__m256i places, __m256i value)
{
    const uint64_t golden = 0x9e3779b97f4a7c15ull;
    __m256i low = _mm256_mul_epu32(value, _mm256_set1_epi64x((long long)(golden & 0xffffffffu)));
    __m256i high = _mm256_mul_epu32(value, _mm256_set1_epi64x((long long)(golden >> 32)));
    __m256i product = _mm256_add_epi64(low, _mm256_slli_epi64(high, 32));
    return mix4(_mm256_add_epi64(product, _mm256_add_epi64(places, _mm256_set1_epi64x((long long)golden))));
}

static inline __m256i widen4(const void *at)
{
    return _mm256_cvtepu32_epi64(_mm_loadu_si128((const __m128i *)at));
}

static inline uint64_t sum4(__m256i sum)
{
    __m128i two = _mm_add_epi64(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    return (uint64_t)_mm_cvtsi128_si64(two) + (uint64_t)_mm_extract_epi64(two, 1);
}

static uint64_t hash_change(size_t count, const uint32_t *index, const float *before, const float *after)
{
    __m256i sum = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        __m256i places = _mm256_slli_epi64(widen4(index + i), 32);
        sum = _mm256_add_epi64(sum, terms4(places, widen4(after + i)));
        sum = _mm256_sub_epi64(sum, terms4(places, widen4(before + i)));
    }
    return sum4(sum) + plain_hash_change(count - i, index + i, before + i, after + i);
}

static uint64_t hash_run(size_t count, const float *x, size_t first, uint32_t mask)
{
    __m256i sum = _mm256_setzero_si256();
    __m256i index = _mm256_add_epi64(_mm256_set1_epi64x((long long)first), _mm256_setr_epi64x(0, 1, 2, 3));
    const __m256i counted = _mm256_set1_epi64x(mask);
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        __m256i places = _mm256_shuffle_epi32(index, 0xb1); // swaps the halves
        sum = _mm256_add_epi64(sum, terms4(places, _mm256_and_si256(widen4(x + i), counted)));
        index = _mm256_add_epi64(index, _mm256_set1_epi64x(4));
    }
    return sum4(sum) + plain_hash_run(count - i, x + i, first + i, mask);
}

#define KERNELS_APPLY kernels_cpu_apply_avx2
#define HASH_CHANGE   hash_change
#define HASH_RUN      hash_run
#include "kernels/cpu/apply_body.h"
