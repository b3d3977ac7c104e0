// The fused apply for AVX-512: eight terms of a hash at once. The rest uses the plain loops, which are
// limited by memory anyway.
#include "kernels/cpu/apply_plain.h"

#include <immintrin.h>

typedef __m512i vec;

static inline vec spread(int64_t value)
{
    return _mm512_set1_epi64(value);
}

static inline vec times(vec a, uint64_t factor)
{
    return _mm512_mullo_epi64(a, spread((int64_t)factor));
}

static inline vec widen(const void *at)
{
    return _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)at));
}

// Not _mm512_reduce_add_epi64: it adds signed numbers, whose overflow is undefined.
static inline uint64_t sum_of(vec sum)
{
    uint64_t part[8], total = 0;
    _mm512_storeu_si512(part, sum);
    for (size_t i = 0; i < 8; i++)
        total += part[i];
    return total;
}

static inline vec numbers(void)
{
    return _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
}

static inline vec swap_halves(vec index)
{
    return _mm512_rol_epi64(index, 32);
}

#define LANES         8u
#define MM(noun)      _mm512_##noun
#define MM_BITS(noun) _mm512_##noun##_si512
#include "kernels/cpu/apply_hash.h"

#define KERNELS_APPLY kernels_cpu_apply_avx512
#define HASH_CHANGE   hash_change
#define HASH_RUN      hash_run
#include "kernels/cpu/apply_body.h"
