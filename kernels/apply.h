// The arithmetic at the end of an exchange, fused: every touched element of the model, of the reference, of
// their hash and of the drift correction in one visit. And whole-vector hashes.
//
// Vectors are in the backend's memory; *hash is the caller's. One owner for all vectors of a call.
#ifndef KERNELS_APPLY_H
#define KERNELS_APPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Entries: index ascending and unique. index == NULL: the elements first, first + 1, ...
struct kernels_entries {
    const uint32_t *index;
    const float *value;
    size_t count, first;
};

// For every i in mine or theirs, with q = 0 where it is missing (DESIGN: averaging), rounded as written:
//     force = weight * (q_theirs - q_mine)      r' = r[i] + 0.5 * (q_mine + q_theirs)
//     x[i] += force    pending[i] += force      hash += h(i, r') - h(i, r)     r[i] = r'
//     correction[i] += gain * force             correction_sum[i] += gain * force
// r == NULL: neither r nor the hash, x and the others alone. x == NULL: not x, the others alone.
// With r_bf16: r[i] is stored as bf16, r' rounded to it (bf16_nearest); with correction_bf16: correction[i]
// likewise, by bf16_stochastic with 16 bits of `rounding` and i, so that what is opposite before is opposite
// after. There is no correction_sum then.
// h is base_hash_element. Both ends of an edge get the same r' and hash, bit for bit.
struct kernels_exchange {
    float *x, *r;                       // one of them may be NULL
    uint16_t *r_bf16;                   // in place of r, or NULL; CPU only
    float *pending;                     // may be NULL
    float *correction, *correction_sum; // either may be NULL
    uint16_t *correction_bf16;          // in place of both, or NULL; CPU only
    uint64_t rounding;                  // of correction_bf16: the same number at both ends
    float weight;                       // 0.5: both ends meet in the middle
    float gain;
    struct kernels_entries mine, theirs;
};

struct kernels_apply {
    void (*exchange)(const struct kernels_exchange *e, uint64_t *hash);
    // base_hash_vector of `count` elements that stand at first, first + 1, ... of a longer vector; magnitudes
    // only where told (|x|, the sign bit cleared).
    uint64_t (*hash)(const float *x, size_t count, size_t first, bool magnitudes);
    bool (*finite)(const float *x, size_t count);
};

#endif
