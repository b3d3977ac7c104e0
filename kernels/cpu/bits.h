// Bits of a float, and little-endian stores that compile to one instruction. Private to kernels/cpu.
#ifndef KERNELS_CPU_BITS_H
#define KERNELS_CPU_BITS_H

#include <stdint.h>
#include <string.h>

#define BITS_SIGN      0x80000000u
#define BITS_MAGNITUDE 0x7fffffffu
#define BITS_INFINITY  0x7f800000u // a magnitude from here on is infinite or NaN
#define BITS_NORMAL    0x00800000u // a magnitude from here on is not denormal
#define BITS_LARGEST   0x7f7fffffu // the largest finite number

static inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bytes_get_u16(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8;
}

static inline void bytes_put_u16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static inline uint32_t bytes_get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline void bytes_put_u32(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
    at[2] = (uint8_t)(value >> 16);
    at[3] = (uint8_t)(value >> 24);
}

#endif
