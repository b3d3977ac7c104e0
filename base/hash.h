// A 64-bit mixing hash: fast, seeded, not cryptographic. Used for orders (topology), fingerprints of schemas,
// and the incremental hash of an edge reference. Unauthenticated peers never control its input. Pure
// functions; any thread.
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

// Bijective finaliser of splitmix64 (Steele, Lea, Flood 2014).
static inline uint64_t base_hash_mix(uint64_t value)
{
    value ^= value >> 30;
    value *= 0xbf58476d1ce4e5b9ull;
    value ^= value >> 27;
    value *= 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

// Hash of `bytes` bytes at `data` under `seed`; the same on every machine.
uint64_t base_hash_bytes(uint64_t seed, const void *data, size_t bytes);
// hash[i] = base_hash_bytes(seed[i], data, bytes), in one pass, at the cost of one hash.
void base_hash_bytes_two(const uint64_t seed[2], const void *data, size_t bytes, uint64_t hash[2]);

// Hash of a vector as the sum (mod 2^64) of one mixed term per element, so that changing element i needs only
// `hash += base_hash_element(i, new) - base_hash_element(i, old)`. -0.0 and 0.0 count as different.
static inline uint64_t base_hash_element(size_t index, float value)
{
    union {
        float f;
        uint32_t u;
    } bits = {.f = value};
    return base_hash_mix(((uint64_t)index << 32 ^ (uint64_t)index >> 32) +
                         0x9e3779b97f4a7c15ull * (bits.u + 1ull));
}

uint64_t base_hash_vector(const float *values, size_t count);

#endif
