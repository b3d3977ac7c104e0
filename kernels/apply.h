// The arithmetic at the end of an exchange, fused: each touched element of the model, the reference, its hash
// and the drift correction is visited once. Also hashes of whole vectors.
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

// For every i in mine or theirs, with q = 0 in a list that lacks i (DESIGN: averaging), rounded as written:
//     force = weight * (q_theirs - q_mine)      r' = r[i] + 0.5 * (q_mine + q_theirs)
//     x[i] += force    pending[i] += force      hash += h(i, r') - h(i, r)     r[i] = r'
//     correction[i] += gain * force             correction_sum[i] += gain * force
// r == NULL: r and the hash are left out. x == NULL: x is left out. With r_bf16, r[i] is stored as bf16,
// rounded by bf16_nearest. With correction_bf16, correction[i] is stored as bf16, rounded by bf16_stochastic
// with 16 bits of a hash of `rounding` and i, so that opposite values stay opposite; then there is no
// correction_sum. h is base_hash_element. Both ends of an edge get the same r' and hash, bit for bit.
struct kernels_exchange {
    float *x, *r;                       // one of them may be NULL
    uint16_t *r_bf16;                   // used instead of r, or NULL; CPU only
    float *pending;                     // may be NULL
    float *correction, *correction_sum; // either may be NULL
    uint16_t *correction_bf16;          // used instead of both, or NULL; CPU only
    uint64_t rounding;                  // for correction_bf16: the same number at both ends
    float weight;                       // 0.5: both ends move to the mean
    float gain;
    struct kernels_entries mine, theirs;
};

struct kernels_apply {
    void (*exchange)(const struct kernels_exchange *e, uint64_t *hash);
    // base_hash_vector of `count` elements at first, first + 1, ... of a longer vector. With `magnitudes`, of
    // |x| (the sign bit cleared).
    uint64_t (*hash)(const float *x, size_t count, size_t first, bool magnitudes);
    bool (*finite)(const float *x, size_t count);
};

#endif
