// The fused apply for AVX-512: eight terms of a hash at once. The rest uses the plain loops, which are
// limited by memory anyway.
#include "kernels/cpu/apply_plain.h"

#include <immintrin.h>

static inline __m512i mix8(__m512i h)
{
    h = _mm512_xor_si512(h, _mm512_srli_epi64(h, 30));
    h = _mm512_mullo_epi64(h, _mm512_set1_epi64((long long)0xbf58476d1ce4e5b9ull));
    h = _mm512_xor_si512(h, _mm512_srli_epi64(h, 27));
    h = _mm512_mullo_epi64(h, _mm512_set1_epi64((long long)0x94d049bb133111ebull));
    return _mm512_xor_si512(h, _mm512_srli_epi64(h, 31));
}

// base_hash_element of eight: places is index << 32 ^ index >> 32, value the bits as 64-bit numbers.
static inline __m512i terms8(__m512i places, __m512i value)
{
    const unsigned long long golden = 0x9e3779b97f4a7c15ull;
    __m512i low = _mm512_mul_epu32(value, _mm512_set1_epi64((long long)(golden & 0xffffffffu)));
    __m512i high = _mm512_mul_epu32(value, _mm512_set1_epi64((long long)(golden >> 32)));
    __m512i product = _mm512_add_epi64(low, _mm512_slli_epi64(high, 32));
    return mix8(_mm512_add_epi64(product, _mm512_add_epi64(places, _mm512_set1_epi64((long long)golden))));
}

static inline __m512i widen8(const void *at)
{
    return _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)at));
}

// Not _mm512_reduce_add_epi64, which adds signed numbers.
static inline uint64_t sum8(__m512i sum)
{
    uint64_t part[8], total = 0;
    _mm512_storeu_si512(part, sum);
    for (size_t i = 0; i < 8; i++)
        total += part[i];
    return total;
}

static uint64_t hash_change(size_t count, const uint32_t *index, const float *before, const float *after)
{
    __m512i sum = _mm512_setzero_si512();
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m512i places = _mm512_slli_epi64(widen8(index + i), 32);
        sum = _mm512_add_epi64(sum, terms8(places, widen8(after + i)));
        sum = _mm512_sub_epi64(sum, terms8(places, widen8(before + i)));
    }
    return sum8(sum) + plain_hash_change(count - i, index + i, before + i, after + i);
}

static uint64_t hash_run(size_t count, const float *x, size_t first, uint32_t mask)
{
    __m512i sum = _mm512_setzero_si512();
    __m512i index =
        _mm512_add_epi64(_mm512_set1_epi64((long long)first), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
    const __m512i counted = _mm512_set1_epi64(mask);
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        sum = _mm512_add_epi64(sum,
                               terms8(_mm512_rol_epi64(index, 32), _mm512_and_si512(widen8(x + i), counted)));
        index = _mm512_add_epi64(index, _mm512_set1_epi64(8));
    }
    return sum8(sum) + plain_hash_run(count - i, x + i, first + i, mask);
}

#define KERNELS_APPLY kernels_cpu_apply_avx512
#define HASH_CHANGE   hash_change
#define HASH_RUN      hash_run
#include "kernels/cpu/apply_body.h"
