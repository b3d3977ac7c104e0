// The functions of values_body.h that a path may replace, in plain C: single values to 16 bits, and whole
// blocks of KERNELS_VALUES_BLOCK entries to and from packed codes.
#ifndef KERNELS_CPU_VALUES_PLAIN_H
#define KERNELS_CPU_VALUES_PLAIN_H

#include "kernels/cpu/bits.h"
#include "kernels/int4.h"
#include "kernels/values.h"

#define BLOCK        KERNELS_VALUES_BLOCK
#define HALF_LARGEST 0x7bff      // 65504
#define ROUND_EVEN   12582912.0f // 1.5 * 2^23: adding it rounds |x| < 2^22 to an integer, ties to even

// Chooses without a branch, which would prevent vectorisation.
static inline uint32_t choose(bool first, uint32_t yes, uint32_t no)
{
    return no ^ ((yes ^ no) & -(uint32_t)first);
}

static inline uint32_t half_from(float value)
{
    uint32_t bits = bits_of(value), magnitude = bits & BITS_MAGNITUDE;
    // At least 2^-14: rebias the exponent from 127 to 15, drop 13 bits, ties to even; may carry into the
    // exponent.
    uint32_t rebased = magnitude - (112u << 23);
    uint32_t normal = (rebased + 0xfffu + (rebased >> 13 & 1)) >> 13;
    normal = choose((int32_t)normal > HALF_LARGEST, HALF_LARGEST, normal);
    // Below: a multiple of 2^-24, which is the last bit of numbers in [0.5, 1).
    uint32_t small = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    return (bits >> 16 & 0x8000u) | choose((int32_t)magnitude < 113 << 23, small, normal);
}

static inline float half_to(uint32_t half)
{
    uint32_t magnitude = half & 0x7fffu;
    uint32_t small = bits_of((float)(int32_t)magnitude * 0x1p-24f); // below 2^-14: exact in fp32
    uint32_t normal = (magnitude << 13) + (112u << 23);
    return float_of(choose(magnitude < 0x400u, small, normal) | (half & 0x8000u) << 16);
}

static inline void plain_halves_write(size_t count, float *restrict value, uint8_t *restrict out)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t half = half_from(value[i]);
        bytes_put_u16(out + 2 * i, half);
        value[i] = half_to(half);
    }
}

static inline void plain_halves_read(size_t count, const uint8_t *restrict in, float *restrict value)
{
    for (size_t i = 0; i < count; i++)
        value[i] = half_to(bytes_get_u16(in + 2 * i));
}

// The codes of value / scale, -127 to 127; value[] is replaced by the decoded values. All codes are 0 for
// scale 0: such a block is below 2^-118.
static inline void plain_int8_write(float *value, float scale, int8_t *code)
{
    float divisor = scale > 0.0f ? scale : 1.0f;
    for (size_t i = 0; i < BLOCK; i++) {
        int32_t nearest = (int32_t)(value[i] / divisor + ROUND_EVEN - ROUND_EVEN);
        nearest = nearest > 127 ? 127 : nearest;
        nearest = nearest < -127 ? -127 : nearest;
        code[i] = (int8_t)nearest;
        value[i] = scale * (float)nearest;
    }
}

// level: the values of the 16 codes, the upper half negative (kernels/int4.h). Of two entries the first is in
// the lower half of a byte. The midpoints ascend, so counting those below a magnitude needs no branch. Zero
// always has code 0, so that each value has one code.
static inline void plain_int4_write(float *value, const float *level, const float *middle, uint8_t *out)
{
    uint32_t code[BLOCK];
    for (size_t i = 0; i < BLOCK; i++) {
        float magnitude = float_of(bits_of(value[i]) & BITS_MAGNITUDE);
        uint32_t above = 0;
        for (size_t j = 0; j < KERNELS_INT4_LEVELS - 1; j++)
            above += magnitude > middle[j];
        code[i] = above | bits_of(value[i]) >> 31 << 3;
    }
    for (size_t i = 0; i < BLOCK; i++) {
        code[i] = level[code[i]] == 0.0f ? 0 : code[i];
        value[i] = level[code[i]];
    }
    for (size_t i = 0; i < BLOCK / 2; i++)
        out[i] = (uint8_t)(code[2 * i] | code[2 * i + 1] << 4);
}

static inline void plain_int4_read(const uint8_t *in, const float *level, float *value)
{
    for (size_t i = 0; i < BLOCK / 2; i++) {
        value[2 * i] = level[in[i] & 15];
        value[2 * i + 1] = level[in[i] >> 4];
    }
}

// level: the values of the codes 0 to 3. The low bit of a code is set above `split`; the high bit is the
// sign. Zero always has code 0, so that each value has one code.
static inline void plain_int2_write(float *value, float split, const float level[4], uint8_t *out)
{
    for (size_t i = 0; i < BLOCK / 4; i++) {
        unsigned byte = 0;
        for (size_t j = 0; j < 4; j++) {
            uint32_t bits = bits_of(value[4 * i + j]);
            unsigned code = bits >> 31 << 1 | (float_of(bits & BITS_MAGNITUDE) > split);
            code = level[code] == 0.0f ? 0 : code;
            value[4 * i + j] = level[code];
            byte |= code << 2 * j;
        }
        out[i] = (uint8_t)byte;
    }
}

static inline void plain_int2_read(const uint8_t *in, const float level[4], float *value)
{
    uint32_t low = bits_of(level[0]), differ = low ^ bits_of(level[1]);
    for (size_t i = 0; i < BLOCK / 4; i++)
        for (uint32_t j = 0; j < 4; j++) {
            uint32_t code = (uint32_t)in[i] >> 2 * j;
            value[4 * i + j] = float_of((low ^ (differ & -(code & 1))) | (code & 2) << 30);
        }
}

// Sets a bit for each value with a negative sign; the values become +-scale.
static inline void plain_sign_write(float *value, float scale, uint8_t *out)
{
    for (size_t i = 0; i < BLOCK / 8; i++) {
        unsigned byte = 0;
        for (size_t j = 0; j < 8; j++) {
            uint32_t sign = bits_of(value[8 * i + j]) & BITS_SIGN;
            byte |= sign >> 31 << j;
            value[8 * i + j] = float_of(bits_of(scale) | sign);
        }
        out[i] = (uint8_t)byte;
    }
}

static inline void plain_sign_read(const uint8_t *in, float scale, float *value)
{
    for (size_t i = 0; i < BLOCK / 8; i++)
        for (uint32_t j = 0; j < 8; j++)
            value[8 * i + j] = float_of(bits_of(scale) | ((uint32_t)in[i] << (31 - j) & BITS_SIGN));
}

#endif
