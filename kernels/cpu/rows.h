// Sums and exp for the loops that are compiled for each path: plain C with a fixed number of partial sums, so
// that every path gives the same bits.
#ifndef KERNELS_CPU_ROWS_H
#define KERNELS_CPU_ROWS_H

#include <stddef.h>
#include <stdint.h>

#define LANES 16u // partial results of a reduction: one AVX-512 register, two of AVX2

static inline float lanes_sum(float lane[LANES])
{
    for (size_t width = LANES / 2; width > 0; width /= 2)
        for (size_t l = 0; l < width; l++)
            lane[l] += lane[l + width];
    return lane[0];
}

static inline float row_sum(size_t count, const float *z)
{
    float lane[LANES] = {0.0f}, rest = 0.0f;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += z[i + l];
    for (; i < count; i++)
        rest += z[i];
    return lanes_sum(lane) + rest;
}

#define EXP_LOWEST (-87.3f) // e^x is a normal number for x of at least this

union float_bits {
    float f;
    uint32_t u;
};

// exp(x) for EXP_LOWEST <= x <= 0 within 2e-7 relative; NaN for NaN.
// x = n*ln2 + r with |r| <= ln2/2, then the Taylor series of e^r to the 7th power (error r^8/8! < 6e-9) times
// 2^n.
static inline float exp_bounded(float x)
{
    const float round_to_integer = 12582912.0f; // 1.5 * 2^23: adding it leaves n in the lowest bits
    const float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f; // n * ln2_high is exact for |n| <= 2^14
    union float_bits n = {.f = x * 1.44269504f + round_to_integer};
    float integer = n.f - round_to_integer;
    float r = (x - integer * ln2_high) - integer * ln2_low;
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    n.u = (n.u << 23) + 0x3f800000u; // the biased exponent: the constant's own bits are shifted out
    return p * n.f;
}

// The same for all x <= 0: 0 below EXP_LOWEST, NaN for NaN. Comparisons use the bits: gcc turns
// floating-point conditions into branches on AVX2 and then does not vectorise the loops around them.
static inline float exp_nonpositive(float x)
{
    const union float_bits from = {.f = x}, lowest = {.f = -EXP_LOWEST};
    const uint32_t magnitude = from.u & 0x7fffffffu;
    const union float_bits bounded = {.u = (magnitude < lowest.u ? magnitude : lowest.u) |
                                           (from.u & 0x80000000u)};
    const union float_bits value = {.f = exp_bounded(bounded.f)};
    const uint32_t within = 0u - (uint32_t)(magnitude <= lowest.u),
                   nan = 0u - (uint32_t)(magnitude > 0x7f800000u);
    const union float_bits result = {.u = (value.u & within) | (from.u & nan)};
    return result.f;
}

// log(1 + e) for 0 <= e <= 1 within 2e-7 relative: 2 artanh(s) with s = e / (2 + e), as a series in s^2 <=
// 1/9 (error 9^-8 / 17).
static inline float log_1_plus(float e)
{
    const float s = e / (2.0f + e), square = s * s;
    float p = 2.0f / 15.0f;
    p = p * square + 2.0f / 13.0f;
    p = p * square + 2.0f / 11.0f;
    p = p * square + 2.0f / 9.0f;
    p = p * square + 2.0f / 7.0f;
    p = p * square + 2.0f / 5.0f;
    p = p * square + 2.0f / 3.0f;
    p = p * square + 2.0f;
    return p * s;
}

#endif
