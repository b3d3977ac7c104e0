// What a path may do in its own way, in plain C: single values to 16 bits, and codes of whole blocks of
// KERNELS_VALUES_BLOCK entries to and from their packed form.
#ifndef KERNELS_CPU_VALUES_PLAIN_H
#define KERNELS_CPU_VALUES_PLAIN_H

#include "kernels/cpu/bits.h"
#include "kernels/values.h"

#define BLOCK        KERNELS_VALUES_BLOCK
#define HALF_LARGEST 0x7bffu // 65504

static inline uint32_t half_from(float value)
{
    uint32_t bits = bits_of(value), half;
    uint32_t magnitude = bits & BITS_MAGNITUDE, exponent = magnitude >> 23;
    if (exponent >= 113) { // 2^-14 and up: normal; rebias the exponent from 127 to 15, drop 13 bits
        uint32_t rebased = magnitude - (112u << 23);
        half = (rebased + 0xfffu + (rebased >> 13 & 1)) >> 13; // ties to even; carries into the exponent
        half = half > HALF_LARGEST ? HALF_LARGEST : half;
    } else if (exponent >= 102) { // 2^-25 and up: a multiple of 2^-24
        uint32_t mantissa = (magnitude & 0x7fffffu) | BITS_NORMAL;
        uint32_t shift = 126 - exponent; // 14 to 24
        half = (mantissa + (1u << (shift - 1)) - 1 + (mantissa >> shift & 1)) >> shift;
    } else {
        half = 0;
    }
    return (bits >> 16 & 0x8000u) | half;
}

static inline float half_to(uint32_t half)
{
    uint32_t sign = (half & 0x8000u) << 16, magnitude = half & 0x7fffu;
    float small = (float)(int32_t)magnitude * 0x1p-24f; // below 2^-14: a multiple of 2^-24, exact in fp32
    uint32_t bits = magnitude < 0x400u ? bits_of(small) : (magnitude << 13) + (112u << 23);
    return float_of(bits | sign);
}

static inline void plain_halves_write(size_t count, float *value, uint8_t *out)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t half = half_from(value[i]);
        bytes_put_u16(out + 2 * i, half);
        value[i] = half_to(half);
    }
}

static inline void plain_halves_read(size_t count, const uint8_t *in, float *value)
{
    for (size_t i = 0; i < count; i++)
        value[i] = half_to(bytes_get_u16(in + 2 * i));
}

// Two's complement in four bits, the lower entry in the lower half.
static inline void plain_int4_pack(const int8_t *code, uint8_t *out)
{
    for (size_t i = 0; i < BLOCK / 2; i++)
        out[i] = (uint8_t)((code[2 * i] & 15) | code[2 * i + 1] << 4);
}

static inline void plain_int4_read(const uint8_t *in, float scale, float *value)
{
    for (size_t i = 0; i < BLOCK / 2; i++) {
        value[2 * i] = scale * (float)(((in[i] & 15) ^ 8) - 8);
        value[2 * i + 1] = scale * (float)(((in[i] >> 4) ^ 8) - 8);
    }
}

// level: what the codes 0 to 3 stand for. A code's low bit is set above `split`, its high bit is the sign.
// What becomes zero has the code 0, so that there is one way to say it.
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
    for (size_t i = 0; i < BLOCK; i++)
        value[i] = level[in[i / 4] >> 2 * (i % 4) & 3];
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
    for (size_t i = 0; i < BLOCK; i++)
        value[i] = float_of(bits_of(scale) | ((uint32_t)in[i / 8] >> i % 8 & 1) << 31);
}

#endif
