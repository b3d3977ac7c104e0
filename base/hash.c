#include "base/hash.h"

static const uint64_t golden = 0x9e3779b97f4a7c15ull;

// Up to 8 bytes as a little-endian number, on every machine.
static uint64_t word(const uint8_t *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

// Each step is a bijection of the state for a given word, and the length is in the first state: two inputs of
// the same length that differ in only one word never collide.
uint64_t base_hash_bytes(uint64_t seed, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    uint64_t state = base_hash_mix(base_hash_mix(seed + golden) ^ (uint64_t)bytes);
    for (; bytes >= 8; bytes -= 8, at += 8)
        state = base_hash_mix(state ^ word(at, 8)) + golden;
    if (bytes)
        state = base_hash_mix(state ^ word(at, bytes)) + golden;
    return base_hash_mix(state);
}

void base_hash_bytes_two(const uint64_t seed[2], const void *data, size_t bytes, uint64_t hash[2])
{
    const uint8_t *at = data;
    uint64_t a = base_hash_mix(base_hash_mix(seed[0] + golden) ^ (uint64_t)bytes);
    uint64_t b = base_hash_mix(base_hash_mix(seed[1] + golden) ^ (uint64_t)bytes);
    for (; bytes > 0; bytes -= bytes < 8 ? bytes : 8, at += 8) {
        const uint64_t next = word(at, bytes < 8 ? bytes : 8);
        a = base_hash_mix(a ^ next) + golden;
        b = base_hash_mix(b ^ next) + golden;
    }
    hash[0] = base_hash_mix(a);
    hash[1] = base_hash_mix(b);
}

uint64_t base_hash_vector(const float *values, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += base_hash_element(i, values[i]);
    return sum;
}
