#include "compress/bytes.h"
#include "compress/values.h"

#define HALF_LARGEST 0x7bffu // 65504

uint16_t compress_half_from(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t magnitude = bits & BITS_MAGNITUDE, half;
    uint32_t exponent = magnitude >> 23;
    if (exponent >= 113) { // 2^-14 and up: normal; rebias the exponent from 127 to 15, drop 13 bits
        uint32_t rebased = magnitude - (112u << 23);
        half = (rebased + 0xfffu + (rebased >> 13 & 1)) >>
               13; // to nearest, ties to even; carries into the exponent
        if (half > HALF_LARGEST)
            half = HALF_LARGEST;
    } else if (exponent >= 102) { // 2^-25 and up: a multiple of 2^-24
        uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
        uint32_t shift = 126 - exponent; // 14 to 24
        half = (mantissa + (1u << (shift - 1)) - 1 + (mantissa >> shift & 1)) >> shift;
    } else {
        half = 0;
    }
    return (uint16_t)(bits >> 16 & 0x8000u) | (uint16_t)half;
}

float compress_half_to(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t magnitude = half & 0x7fffu;
    if (magnitude < 0x400u) { // a multiple of 2^-24, exact in fp32
        float value = (float)magnitude * 0x1p-24f;
        return float_of(bits_of(value) | sign);
    }
    return float_of(((magnitude << 13) + (112u << 23)) | sign);
}
