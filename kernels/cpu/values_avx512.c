// The value formats for AVX-512: the parts that compilers do not vectorise well. Codes of few bits are
// decoded by a look-up in a register: each lane shifts its code down, and the permutation reads only the low
// bits.
#include "kernels/cpu/values_plain.h"

#include <immintrin.h>

static inline __m512 half_values(__m256i half)
{
    return _mm512_cvtph_ps(half);
}

// Rounds to nearest even; infinity, which only an overflow produces, becomes the largest finite number.
static inline __m256i halves_of(__m512 value)
{
    __m256i half = _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
    __m256i magnitude = _mm256_and_si256(half, _mm256_set1_epi16(0x7fff));
    __m256i sign = _mm256_andnot_si256(_mm256_set1_epi16(0x7fff), half);
    return _mm256_or_si256(sign, _mm256_min_epu16(magnitude, _mm256_set1_epi16(HALF_LARGEST)));
}

static void halves_write(size_t count, float *value, uint8_t *out)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m256i half = halves_of(_mm512_loadu_ps(value + i));
        _mm256_storeu_si256((__m256i *)(void *)(out + 2 * i), half);
        _mm512_storeu_ps(value + i, half_values(half));
    }
    plain_halves_write(count - i, value + i, out + 2 * i);
}

static void halves_read(size_t count, const uint8_t *in, float *value)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        _mm512_storeu_ps(value + i,
                         half_values(_mm256_loadu_si256((const __m256i *)(const void *)(in + 2 * i))));
    plain_halves_read(count - i, in + 2 * i, value + i);
}

static void int8_write(float *value, float scale, int8_t *code)
{
    const __m512 factor = _mm512_set1_ps(scale), divisor = _mm512_set1_ps(scale > 0.0f ? scale : 1.0f);
    const __m512i high = _mm512_set1_epi32(127), low = _mm512_set1_epi32(-127);
    for (size_t i = 0; i < BLOCK; i += 16) {
        __m512 quotient = _mm512_div_ps(_mm512_loadu_ps(value + i), divisor);
        __m512i nearest = _mm512_cvt_roundps_epi32(quotient, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        nearest = _mm512_max_epi32(_mm512_min_epi32(nearest, high), low);
        _mm_storeu_si128((__m128i *)(void *)(code + i), _mm512_cvtepi32_epi8(nearest));
        _mm512_storeu_ps(value + i, _mm512_mul_ps(factor, _mm512_cvtepi32_ps(nearest)));
    }
}

// Packs bytes of 0 to 15 into four bits each.
static inline void int4_pack(const uint8_t *code, uint8_t *out)
{
    for (size_t i = 0; i < BLOCK; i += 64) {
        __m512i pairs = _mm512_maddubs_epi16(_mm512_loadu_si512(code + i), _mm512_set1_epi16(0x1001));
        _mm256_storeu_si256((__m256i *)(void *)(out + i / 2), _mm512_cvtepi16_epi8(pairs));
    }
}

static void int4_write(float *value, const float *level, const float *middle, uint8_t *out)
{
    const __m512 levels = _mm512_loadu_ps(level);
    const __m512i one = _mm512_set1_epi32(1);
    uint8_t code[BLOCK];
    for (size_t i = 0; i < BLOCK; i += 16) {
        const __m512 values = _mm512_loadu_ps(value + i), magnitude = _mm512_abs_ps(values);
        __m512i codes = _mm512_srli_epi32(_mm512_castps_si512(values), 31);
        codes = _mm512_slli_epi32(codes, 3);
        for (size_t j = 0; j < KERNELS_INT4_LEVELS - 1; j++) {
            __mmask16 above = _mm512_cmp_ps_mask(magnitude, _mm512_set1_ps(middle[j]), _CMP_GT_OQ);
            codes = _mm512_mask_add_epi32(codes, above, codes, one);
        }
        const __m512 decoded = _mm512_permutexvar_ps(codes, levels);
        const __mmask16 any = _mm512_cmp_ps_mask(decoded, _mm512_setzero_ps(), _CMP_NEQ_UQ);
        _mm512_storeu_ps(value + i, _mm512_maskz_mov_ps(any, decoded));
        _mm_storeu_si128((__m128i *)(void *)(code + i), _mm512_maskz_cvtepi32_epi8(any, codes));
    }
    int4_pack(code, out);
}

static void int4_read(const uint8_t *in, const float *level, float *value)
{
    const __m512i place = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    const __m512i half = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const __m512 levels = _mm512_loadu_ps(level);
    for (size_t i = 0; i < BLOCK; i += 16) {
        uint64_t codes;
        memcpy(&codes, in + i / 2, sizeof codes);
        __m512i each = _mm512_permutexvar_epi32(half, _mm512_set1_epi64((long long)codes));
        _mm512_storeu_ps(value + i, _mm512_permutexvar_ps(_mm512_srlv_epi32(each, place), levels));
    }
}

// Packs bytes of 0 to 3 into two bits each.
static inline void int2_pack(const uint8_t *code, uint8_t *out)
{
    for (size_t i = 0; i < BLOCK; i += 64) {
        __m512i pairs = _mm512_maddubs_epi16(_mm512_loadu_si512(code + i), _mm512_set1_epi16(0x0401));
        __m512i bytes = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x00100001));
        _mm_storeu_si128((__m128i *)(void *)(out + i / 4), _mm512_cvtepi32_epi8(bytes));
    }
}

static void int2_write(float *value, float split, const float level[4], uint8_t *out)
{
    const __m512 levels = _mm512_broadcast_f32x4(_mm_loadu_ps(level)), border = _mm512_set1_ps(split);
    uint8_t code[BLOCK];
    for (size_t i = 0; i < BLOCK; i += 16) {
        __m512 values = _mm512_loadu_ps(value + i);
        __mmask16 above = _mm512_cmp_ps_mask(_mm512_abs_ps(values), border, _CMP_GT_OQ);
        __m512i sign =
            _mm512_and_si512(_mm512_srli_epi32(_mm512_castps_si512(values), 30), _mm512_set1_epi32(2));
        __m512i codes = _mm512_mask_or_epi32(sign, above, sign, _mm512_set1_epi32(1));
        __m512 decoded = _mm512_permutexvar_ps(codes, levels);
        __mmask16 any = _mm512_cmp_ps_mask(decoded, _mm512_setzero_ps(), _CMP_NEQ_UQ);
        _mm512_storeu_ps(value + i, _mm512_maskz_mov_ps(any, decoded));
        _mm_storeu_si128((__m128i *)(void *)(code + i), _mm512_maskz_cvtepi32_epi8(any, codes));
    }
    int2_pack(code, out);
}

static void int2_read(const uint8_t *in, const float level[4], float *value)
{
    const __m512i place = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512 levels = _mm512_broadcast_f32x4(_mm_loadu_ps(level));
    for (size_t i = 0; i < BLOCK; i += 16) {
        int32_t codes;
        memcpy(&codes, in + i / 4, sizeof codes);
        __m512i each = _mm512_srlv_epi32(_mm512_set1_epi32(codes), place);
        _mm512_storeu_ps(value + i, _mm512_permutexvar_ps(each, levels));
    }
}

static void sign_write(float *value, float scale, uint8_t *out)
{
    const __m512i magnitude = _mm512_castps_si512(_mm512_set1_ps(scale));
    for (size_t i = 0; i < BLOCK; i += 16) {
        __m512i values = _mm512_loadu_si512(value + i);
        bytes_put_u16(out + i / 8, _mm512_movepi32_mask(values));
        __m512i sign = _mm512_and_si512(values, _mm512_set1_epi32((int)BITS_SIGN));
        _mm512_storeu_si512(value + i, _mm512_or_si512(sign, magnitude));
    }
}

static void sign_read(const uint8_t *in, float scale, float *value)
{
    const __m512 plus = _mm512_set1_ps(scale);
    const __m512 minus =
        _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(plus), _mm512_set1_epi32((int)BITS_SIGN)));
    for (size_t i = 0; i < BLOCK; i += 16)
        _mm512_storeu_ps(value + i, _mm512_mask_mov_ps(plus, (__mmask16)bytes_get_u16(in + i / 8), minus));
}

#define KERNELS_VALUES kernels_cpu_values_avx512
#define HALVES_WRITE   halves_write
#define HALVES_READ    halves_read
#define INT8_WRITE     int8_write
#define INT4_WRITE     int4_write
#define INT4_READ      int4_read
#define INT2_WRITE     int2_write
#define INT2_READ      int2_read
#define SIGN_WRITE     sign_write
#define SIGN_READ      sign_read
#include "kernels/cpu/values_body.h"
