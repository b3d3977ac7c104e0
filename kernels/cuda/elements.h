// Device functions that several kernels share: bits of floats, the hash of an element, reductions in a fixed
// order.
#ifndef KERNELS_CUDA_ELEMENTS_H
#define KERNELS_CUDA_ELEMENTS_H

#include <string.h>

// Every element, in strides of the grid.
#define EACH(i, count)                                                                                       \
    for (size_t i = (size_t)block_index() * THREADS + thread_index(); i < (count);                           \
         i += (size_t)block_count() * THREADS)

// Number of blocks of a launch that visits every element in this way.
#define GRID_MAX 4096u
static inline unsigned grid_for(size_t count)
{
    const size_t blocks = (count + THREADS - 1) / THREADS;
    return (unsigned)(blocks < GRID_MAX ? blocks : GRID_MAX);
}

#define MAGNITUDE_BITS 0x7fffffffu

DEVICE uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

DEVICE float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// Rounds to nearest, ties to even; NaN and infinity stay.
DEVICE uint16_t bf16_of(float value)
{
    const uint32_t bits = bits_of(value);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    const int nan = (bits & MAGNITUDE_BITS) > 0x7f800000u; // rounding could make it infinite or overflow
    return (uint16_t)(nan ? bits >> 16 | 0x40u : rounded);
}

DEVICE float from_bf16(uint16_t half)
{
    return float_of((uint32_t)half << 16);
}

DEVICE uint32_t magnitude_of(float value)
{
    return bits_of(value) & MAGNITUDE_BITS;
}

// base_hash_mix and base_hash_element for the device.
DEVICE uint64_t hash_mix(uint64_t value)
{
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ value >> 27) * 0x94d049bb133111ebull;
    return value ^ value >> 31;
}

DEVICE uint64_t hash_element(uint64_t index, float value)
{
    return hash_mix((index << 32 ^ index >> 32) + 0x9e3779b97f4a7c15ull * (bits_of(value) + 1ull));
}

DEVICE unsigned lane_index(void)
{
    return thread_index() % WARP;
}

DEVICE unsigned warp_index(void)
{
    return thread_index() / WARP;
}

DEVICE uint32_t warp_sum_u32(uint32_t value)
{
    for (unsigned distance = WARP / 2; distance > 0; distance /= 2)
        value += warp_xor_u32(value, distance);
    return value;
}

DEVICE uint64_t warp_sum_u64(uint64_t value)
{
    for (unsigned distance = WARP / 2; distance > 0; distance /= 2)
        value += warp_xor_u64(value, distance);
    return value;
}

DEVICE uint32_t warp_max_u32(uint32_t value)
{
    for (unsigned distance = WARP / 2; distance > 0; distance /= 2) {
        const uint32_t other = warp_xor_u32(value, distance);
        value = other > value ? other : value;
    }
    return value;
}

DEVICE double warp_sum_f64(double value)
{
    for (unsigned distance = WARP / 2; distance > 0; distance /= 2)
        value += warp_xor_f64(value, distance);
    return value;
}

DEVICE float warp_sum_f32(float value)
{
    for (unsigned distance = WARP / 2; distance > 0; distance /= 2)
        value += warp_xor_f32(value, distance);
    return value;
}

// The sum over the block, in every thread. Ends with a barrier, so that it can be called again.
DEVICE uint64_t block_sum_u64(uint64_t value)
{
    SHARED(uint64_t, part, WARPS);
    value = warp_sum_u64(value);
    if (lane_index() == 0)
        part[warp_index()] = value;
    block_barrier();
    uint64_t sum = 0;
    for (unsigned w = 0; w < WARPS; w++)
        sum += part[w];
    block_barrier();
    return sum;
}

DEVICE float block_sum_f32(float value)
{
    SHARED(float, part, WARPS);
    value = warp_sum_f32(value);
    if (lane_index() == 0)
        part[warp_index()] = value;
    block_barrier();
    float sum = 0.0f;
    for (unsigned w = 0; w < WARPS; w++)
        sum += part[w];
    block_barrier();
    return sum;
}

#endif
