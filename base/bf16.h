// bf16: the upper half of an fp32 number. For vectors that are stored in 2 bytes per element.
#ifndef BASE_BF16_H
#define BASE_BF16_H

#include "base/bits.h"

#define BF16_LARGEST 0x7f7fu // magnitude of the largest finite number

static inline float bf16_widen(uint16_t value)
{
    return float_of((uint32_t)value << 16);
}

static inline uint16_t bf16_of_magnitude(uint32_t bits, uint32_t upper)
{
    return (uint16_t)((bits >> 16 & 0x8000u) | (upper > BF16_LARGEST ? BF16_LARGEST : upper));
}

// Rounds to nearest, ties to even; a number that is too large (and NaN) becomes the largest finite number.
// The function is odd: bf16_nearest(-x) is -bf16_nearest(x), bit for bit, and so is bf16_stochastic.
static inline uint16_t bf16_nearest(float value)
{
    uint32_t bits = bits_of(value), magnitude = bits & BITS_MAGNITUDE;
    return bf16_of_magnitude(bits, (magnitude + 0x7fffu + (magnitude >> 16 & 1)) >> 16);
}

// Rounds up or down at random: the mean over all values of `random`, 0 to 65,535, is the exact value,
// except above the largest finite bf16 number, which it never exceeds.
static inline uint16_t bf16_stochastic(float value, uint32_t random)
{
    uint32_t bits = bits_of(value), magnitude = bits & BITS_MAGNITUDE;
    return bf16_of_magnitude(bits, (magnitude + random) >> 16);
}

// The bits of the distance between adjacent bf16 numbers in the binade of a number; 0 if it would be
// denormal.
static inline uint32_t bf16_step(uint16_t value)
{
    uint32_t exponent = (uint32_t)(value & 0x7f80u) << 16;
    return exponent > 7u << 23 ? exponent - (7u << 23) : 0;
}

#endif
