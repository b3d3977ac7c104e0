// The value formats for AVX2 with F16C: the parts that compilers do not vectorise well.
#include "kernels/cpu/values_plain.h"

#include <immintrin.h>

// Rounds to nearest even; infinity, which only an overflow produces, becomes the largest finite number.
static inline __m128i halves_of(__m256 value)
{
    __m128i half = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
    __m128i magnitude = _mm_and_si128(half, _mm_set1_epi16(0x7fff));
    __m128i sign = _mm_andnot_si128(_mm_set1_epi16(0x7fff), half);
    return _mm_or_si128(sign, _mm_min_epu16(magnitude, _mm_set1_epi16(HALF_LARGEST)));
}

static void halves_write(size_t count, float *value, uint8_t *out)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m128i half = halves_of(_mm256_loadu_ps(value + i));
        _mm_storeu_si128((__m128i *)(void *)(out + 2 * i), half);
        _mm256_storeu_ps(value + i, _mm256_cvtph_ps(half));
    }
    plain_halves_write(count - i, value + i, out + 2 * i);
}

static void halves_read(size_t count, const uint8_t *in, float *value)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m128i half = _mm_loadu_si128((const __m128i *)(const void *)(in + 2 * i));
        _mm256_storeu_ps(value + i, _mm256_cvtph_ps(half));
    }
    plain_halves_read(count - i, in + 2 * i, value + i);
}

// The low bytes of 32 numbers from -128 to 127, in order.
static inline __m256i low_bytes(const __m256i part[4])
{
    __m256i first = _mm256_packs_epi32(part[0], part[1]), second = _mm256_packs_epi32(part[2], part[3]);
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(first, second),
                                       _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

static void int8_write(float *value, float scale, int8_t *code)
{
    const __m256 factor = _mm256_set1_ps(scale), divisor = _mm256_set1_ps(scale > 0.0f ? scale : 1.0f);
    const __m256i high = _mm256_set1_epi32(127), low = _mm256_set1_epi32(-127);
    for (size_t i = 0; i < BLOCK; i += 32) {
        __m256i part[4];
        for (size_t j = 0; j < 4; j++) {
            float *at = value + i + 8 * j;
            __m256i nearest = _mm256_cvtps_epi32(_mm256_div_ps(_mm256_loadu_ps(at), divisor));
            part[j] = _mm256_max_epi32(_mm256_min_epi32(nearest, high), low);
            _mm256_storeu_ps(at, _mm256_mul_ps(factor, _mm256_cvtepi32_ps(part[j])));
        }
        _mm256_storeu_si256((__m256i *)(void *)(code + i), low_bytes(part));
    }
}

// Packs numbers from 0 to 15, two per byte.
static void int4_pack(const uint8_t *code, uint8_t *out)
{
    const __m256i weights = _mm256_set1_epi16(0x1001);
    for (size_t i = 0; i < BLOCK; i += 64) {
        __m256i first = _mm256_loadu_si256((const __m256i *)(const void *)(code + i));
        __m256i second = _mm256_loadu_si256((const __m256i *)(const void *)(code + i + 32));
        first = _mm256_maddubs_epi16(first, weights);
        second = _mm256_maddubs_epi16(second, weights);
        __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(first, second), 0xd8);
        _mm256_storeu_si256((__m256i *)(void *)(out + i / 2), bytes);
    }
}

// The codes of eight values, which are replaced by the decoded ones; a value that becomes zero gets code 0.
static inline __m256i int4_codes(float *value, __m256 level, const float *middle)
{
    const __m256 values = _mm256_loadu_ps(value), sign = _mm256_and_ps(values, _mm256_set1_ps(-0.0f));
    const __m256 magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), values);
    __m256i above = _mm256_setzero_si256();
    for (size_t j = 0; j < KERNELS_INT4_LEVELS - 1; j++) {
        __m256 mask = _mm256_cmp_ps(magnitude, _mm256_set1_ps(middle[j]), _CMP_GT_OQ);
        above = _mm256_sub_epi32(above, _mm256_castps_si256(mask));
    }
    const __m256 decoded = _mm256_permutevar8x32_ps(level, above);
    const __m256 any = _mm256_cmp_ps(decoded, _mm256_setzero_ps(), _CMP_NEQ_UQ);
    _mm256_storeu_ps(value, _mm256_and_ps(_mm256_or_ps(decoded, sign), any));
    above = _mm256_or_si256(above, _mm256_srli_epi32(_mm256_castps_si256(sign), 28));
    return _mm256_and_si256(above, _mm256_castps_si256(any));
}

static void int4_write(float *value, const float *level, const float *middle, uint8_t *out)
{
    const __m256 levels = _mm256_loadu_ps(level);
    uint8_t code[BLOCK];
    for (size_t i = 0; i < BLOCK; i += 32) {
        __m256i part[4];
        for (size_t j = 0; j < 4; j++)
            part[j] = int4_codes(value + i + 8 * j, levels, middle);
        _mm256_storeu_si256((__m256i *)(void *)(code + i), low_bytes(part));
    }
    int4_pack(code, out);
}

static void int4_read(const uint8_t *in, const float *level, float *value)
{
    const __m256i place = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    const __m256 levels = _mm256_loadu_ps(level), minus = _mm256_set1_ps(-0.0f);
    for (size_t i = 0; i < BLOCK; i += 8) {
        __m256i each = _mm256_srlv_epi32(_mm256_set1_epi32((int)bytes_get_u32(in + i / 2)), place);
        __m256 sign = _mm256_and_ps(_mm256_castsi256_ps(_mm256_slli_epi32(each, 28)), minus);
        _mm256_storeu_ps(value + i, _mm256_xor_ps(_mm256_permutevar8x32_ps(levels, each), sign));
    }
}

// The four levels twice, because a permutation reads three bits of an index.
static inline __m256 levels_of(const float level[4])
{
    return _mm256_broadcast_ps((const __m128 *)(const void *)level);
}

// The codes of eight values, which are replaced by the decoded ones; a value that becomes zero gets code 0.
static inline __m256i int2_codes(float *value, __m256 border, __m256 levels)
{
    __m256 values = _mm256_loadu_ps(value);
    __m256 magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), values);
    __m256i above = _mm256_castps_si256(_mm256_cmp_ps(magnitude, border, _CMP_GT_OQ));
    __m256i sign = _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(values), 30), _mm256_set1_epi32(2));
    __m256i codes = _mm256_or_si256(sign, _mm256_srli_epi32(above, 31));
    __m256 decoded = _mm256_permutevar8x32_ps(levels, codes);
    __m256 any = _mm256_cmp_ps(decoded, _mm256_setzero_ps(), _CMP_NEQ_UQ);
    _mm256_storeu_ps(value, _mm256_and_ps(decoded, any));
    return _mm256_and_si256(codes, _mm256_castps_si256(any));
}

static void int2_write(float *value, float split, const float level[4], uint8_t *out)
{
    const __m256 levels = levels_of(level), border = _mm256_set1_ps(split);
    for (size_t i = 0; i < BLOCK; i += 32) {
        __m256i part[4];
        for (size_t j = 0; j < 4; j++)
            part[j] = int2_codes(value + i + 8 * j, border, levels);
        __m256i pairs = _mm256_maddubs_epi16(low_bytes(part), _mm256_set1_epi16(0x0401));
        __m256i bytes = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x00100001)); // a byte in each lane
        __m256i words = _mm256_packus_epi32(bytes, bytes);
        __m256i low = _mm256_packus_epi16(words, words);
        uint32_t first = (uint32_t)_mm256_extract_epi32(low, 0),
                 second = (uint32_t)_mm256_extract_epi32(low, 4);
        bytes_put_u32(out + i / 4, first);
        bytes_put_u32(out + i / 4 + 4, second);
    }
}

static void int2_read(const uint8_t *in, const float level[4], float *value)
{
    const __m256i place = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    const __m256 levels = levels_of(level);
    for (size_t i = 0; i < BLOCK; i += 8) {
        __m256i each = _mm256_srlv_epi32(_mm256_set1_epi32((int)bytes_get_u16(in + i / 4)), place);
        _mm256_storeu_ps(value + i, _mm256_permutevar8x32_ps(levels, each));
    }
}

static void sign_write(float *value, float scale, uint8_t *out)
{
    const __m256 magnitude = _mm256_set1_ps(scale), sign = _mm256_set1_ps(-0.0f);
    for (size_t i = 0; i < BLOCK; i += 8) {
        __m256 values = _mm256_loadu_ps(value + i);
        out[i / 8] = (uint8_t)_mm256_movemask_ps(values);
        _mm256_storeu_ps(value + i, _mm256_or_ps(_mm256_and_ps(values, sign), magnitude));
    }
}

static void sign_read(const uint8_t *in, float scale, float *value)
{
    const __m256i place = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
    const __m256 magnitude = _mm256_set1_ps(scale), sign = _mm256_set1_ps(-0.0f);
    for (size_t i = 0; i < BLOCK; i += 8) {
        __m256i each = _mm256_sllv_epi32(_mm256_set1_epi32(in[i / 8]), place);
        _mm256_storeu_ps(value + i, _mm256_or_ps(_mm256_and_ps(_mm256_castsi256_ps(each), sign), magnitude));
    }
}

#define KERNELS_VALUES kernels_cpu_values_avx2
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
