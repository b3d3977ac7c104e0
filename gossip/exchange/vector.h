// A vector of an edge, r or c: fp32 or, with options.reference_bf16, bf16 (2 bytes per element). The other
// pointer is NULL; both are NULL if the edge has no such vector. In the kernels' memory; bf16 exists only
// where that is the host's.
#ifndef GOSSIP_EXCHANGE_VECTOR_H
#define GOSSIP_EXCHANGE_VECTOR_H

#include "kernels/kernels.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gossip_vector {
    float *fp32;
    uint16_t *bf16;
};

static inline bool gossip_vector_is(const struct gossip_vector *vector)
{
    return vector->fp32 || vector->bf16;
}

// `count` zeros; false: out of memory.
bool gossip_vector_make(const struct kernels *kernels, size_t count, bool bf16, struct gossip_vector *vector);
void gossip_vector_free(const struct kernels *kernels, struct gossip_vector *vector);
void gossip_vector_clear(const struct kernels *kernels, struct gossip_vector *vector, size_t count);
// Copies `from`, in ordinary memory, rounding each element to the nearest number of the vector's format.
void gossip_vector_round(const struct kernels *kernels, struct gossip_vector *vector, const float *from,
                         size_t count);
// to[i] += part * vector[i]
void gossip_vector_add(const struct kernels *kernels, const struct gossip_vector *vector, size_t count,
                       float part, float *to);
// vector[i] *= part
void gossip_vector_scale(const struct kernels *kernels, struct gossip_vector *vector, size_t count,
                         float part);
// Hash of the values that the elements represent, as kernels_apply.hash.
uint64_t gossip_vector_hash(const struct kernels *kernels, const struct gossip_vector *vector, size_t count,
                            bool magnitudes);
bool gossip_vector_finite(const struct kernels *kernels, const struct gossip_vector *vector, size_t count);
size_t gossip_vector_bytes(const struct gossip_vector *vector, size_t count);

#endif
