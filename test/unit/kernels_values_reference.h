// What every path must give, byte for byte: the value formats written one entry at a time, in the plainest
// way. Ordinary memory.
#ifndef TEST_UNIT_KERNELS_VALUES_REFERENCE_H
#define TEST_UNIT_KERNELS_VALUES_REFERENCE_H

#include "kernels/values.h"

#include <float.h>
#include <math.h>
#include <string.h>

static inline uint32_t reference_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float reference_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// The value of a finite binary16, by its definition.
static inline float reference_half_value(unsigned half)
{
    unsigned exponent = half >> 10 & 31, fraction = half & 1023;
    double magnitude = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, (int)exponent - 25);
    return (float)(half & 0x8000 ? -magnitude : magnitude);
}

// The nearest of the codes 0 .. largest of a format whose values grow with their code; exactly in the middle,
// the even one.
static inline unsigned reference_nearest(double magnitude, unsigned largest, float (*value_of)(unsigned))
{
    unsigned low = 0, high = largest;
    if (magnitude >= (double)value_of(largest))
        return largest;
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if ((double)value_of(middle) <= magnitude)
            low = middle;
        else
            high = middle;
    }
    double down = magnitude - (double)value_of(low), up = (double)value_of(high) - magnitude;
    return down < up || (down == up && low % 2 == 0) ? low : high;
}

static inline float reference_bf16_value(unsigned upper)
{
    return reference_float((uint32_t)upper << 16);
}

static inline void reference_put(uint8_t **at, uint32_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        *(*at)++ = (uint8_t)(value >> 8 * i);
}

static inline void reference_write16(size_t count, float *value, uint8_t *out, unsigned largest,
                                     float (*value_of)(unsigned))
{
    for (size_t i = 0; i < count; i++) {
        unsigned code = reference_nearest(fabs((double)value[i]), largest, value_of);
        uint32_t sign = reference_bits(value[i]) & 0x80000000u;
        reference_put(&out, code | sign >> 16, 2);
        value[i] = reference_float(reference_bits(value_of(code)) | sign);
    }
}

static inline int32_t reference_round_even(float x)
{
    int32_t whole = (int32_t)x;
    float rest = x - (float)whole;
    int32_t odd = whole & 1;
    int32_t up = (rest > 0.5f) | ((rest == 0.5f) & odd);
    int32_t down = (rest < -0.5f) | ((rest == -0.5f) & odd);
    return whole + up - down;
}

static inline void reference_int8(size_t count, float *value, uint8_t *out)
{
    float largest = 0.0f;
    for (size_t i = 0; i < count; i++)
        largest = fmaxf(largest, fabsf(value[i]));
    float scale = largest < 127 * FLT_MIN ? 0.0f : largest / 127;
    if (isinf(127 * scale))
        scale = nextafterf(scale, 0.0f);
    reference_put(&out, reference_bits(scale), 4);
    for (size_t i = 0; i < count; i++) {
        int32_t code = scale > 0.0f ? reference_round_even(value[i] / scale) : 0;
        code = code > 127 ? 127 : code < -127 ? -127 : code;
        *out++ = (uint8_t)code;
        value[i] = scale * (float)code;
    }
}

// The level nearest to a magnitude; exactly in the middle, the lower one.
static inline unsigned reference_level(const float level[8], float magnitude)
{
    unsigned found = 0;
    while (found < 7 && magnitude > 0.5f * level[found] + 0.5f * level[found + 1])
        found++;
    return found;
}

static inline void reference_int4(size_t count, float *value, uint8_t *out)
{
    static const float places[8] = {0,           0.0517622936f, 0.12064301f, 0.21230341f,
                                    0.33427703f, 0.49658883f,   0.71257913f, 1};
    float low = INFINITY, high = 0.0f, level[8];
    for (size_t i = 0; i < count; i++) {
        low = fminf(low, fabsf(value[i]));
        high = fmaxf(high, fabsf(value[i]));
    }
    high = high < 0x1p-94f ? 0.0f : high;
    low = low < FLT_MIN ? 0.0f : fminf(low, high);
    reference_put(&out, reference_bits(low), 4);
    reference_put(&out, reference_bits(high), 4);
    memset(out, 0, (count + 1) / 2);
    for (size_t m = 0; m < 8; m++)
        level[m] = m < 7 ? low + (high - low) * places[m] : high;
    for (size_t i = 0; i < count; i++) {
        unsigned code = reference_level(level, fabsf(value[i]));
        bool minus = signbit(value[i]) && level[code] > 0.0f;
        code = level[code] > 0.0f ? code : 0;
        out[i / 2] |= (uint8_t)((code | 8u * minus) << i % 2 * 4);
        value[i] = minus ? -level[code] : level[code];
    }
}

enum reference_side { REFERENCE_ALL, REFERENCE_LOW, REFERENCE_HIGH };

// The mean of the magnitudes on one side of the split, in 16 partial sums that meet pairwise.
static inline float reference_mean(size_t count, const float *value, enum reference_side side, float split)
{
    float lane[16] = {0};
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        float magnitude = fabsf(value[i]);
        if (side != REFERENCE_ALL && (magnitude > split) != (side == REFERENCE_HIGH))
            continue;
        lane[i % 16] += magnitude / 256.0f;
        n++;
    }
    for (size_t width = 8; width > 0; width /= 2)
        for (size_t l = 0; l < width; l++)
            lane[l] += lane[l + width];
    if (n == 0)
        return 0.0f;
    float mean = lane[0] * (256.0f / (float)(uint32_t)n);
    return mean < FLT_MIN ? 0.0f : fminf(mean, FLT_MAX);
}

static inline void reference_int2(size_t count, float *value, uint8_t *out)
{
    float smallest = INFINITY;
    for (size_t i = 0; i < count; i++)
        smallest = fminf(smallest, fabsf(value[i]));
    float split = smallest + 1.5f * (reference_mean(count, value, REFERENCE_ALL, 0) - smallest);
    split = fmaxf(split, smallest);
    float low = reference_mean(count, value, REFERENCE_LOW, split);
    float high = fmaxf(low, reference_mean(count, value, REFERENCE_HIGH, split));
    reference_put(&out, reference_bits(low), 4);
    reference_put(&out, reference_bits(high), 4);
    memset(out, 0, (count + 3) / 4);
    for (size_t i = 0; i < count; i++) {
        bool above = fabsf(value[i]) > split, minus = signbit(value[i]);
        float level = above ? high : low;
        if (level == 0.0f)
            above = minus = false;
        out[i / 4] |= (uint8_t)((above + 2u * minus) << i % 4 * 2);
        value[i] = minus ? -level : level;
    }
}

static inline void reference_sign(size_t count, float *value, uint8_t *out)
{
    float scale = reference_mean(count, value, REFERENCE_ALL, 0);
    reference_put(&out, reference_bits(scale), 4);
    memset(out, 0, (count + 7) / 8);
    for (size_t i = 0; i < count; i++) {
        bool minus = scale > 0.0f && signbit(value[i]);
        out[i / 8] |= (uint8_t)((unsigned)minus << i % 8);
        value[i] = minus ? -scale : scale;
    }
}

static inline void reference_block(enum kernels_format format, size_t count, float *value, uint8_t *out)
{
    switch (format) {
    case KERNELS_INT8:
        reference_int8(count, value, out);
        break;
    case KERNELS_INT4:
        reference_int4(count, value, out);
        break;
    case KERNELS_INT2:
        reference_int2(count, value, out);
        break;
    default:
        reference_sign(count, value, out);
    }
}

static inline void reference_write(enum kernels_format format, size_t count, float *value, uint8_t *out)
{
    switch (format) {
    case KERNELS_FP32:
        memcpy(out, value, count * sizeof *value);
        break;
    case KERNELS_FP16:
        reference_write16(count, value, out, 0x7bff, reference_half_value);
        break;
    case KERNELS_BF16:
        reference_write16(count, value, out, 0x7f7f, reference_bf16_value);
        break;
    default:
        for (size_t i = 0; i < count; i += KERNELS_VALUES_BLOCK) {
            size_t length = count - i < KERNELS_VALUES_BLOCK ? count - i : KERNELS_VALUES_BLOCK;
            reference_block(format, length, value + i, out);
            out += kernels_section_bytes(format, length);
        }
    }
}

#endif
