#include "gossip/exchange/vector.h"

#include "base/bf16.h"
#include <string.h>

#define PIECE 1024u // elements widened at a time

bool gossip_vector_make(const struct kernels *kernels, size_t count, bool bf16, struct gossip_vector *vector)
{
    BASE_ASSERT(count > 0);
    *vector = (struct gossip_vector){0};
    if (bf16)
        vector->bf16 = kernels->alloc(count * sizeof *vector->bf16);
    else
        vector->fp32 = kernels->alloc(count * sizeof *vector->fp32);
    return gossip_vector_is(vector);
}

void gossip_vector_free(const struct kernels *kernels, struct gossip_vector *vector)
{
    BASE_ASSERT(!vector->fp32 || !vector->bf16);
    kernels->release(vector->fp32);
    kernels->release(vector->bf16);
    *vector = (struct gossip_vector){0};
}

size_t gossip_vector_bytes(const struct gossip_vector *vector, size_t count)
{
    return count * ((vector->fp32 ? sizeof *vector->fp32 : 0) + (vector->bf16 ? sizeof *vector->bf16 : 0));
}

void gossip_vector_round(const struct kernels *kernels, struct gossip_vector *vector, const float *from,
                         size_t count)
{
    BASE_ASSERT(gossip_vector_is(vector));
    if (vector->fp32)
        kernels->upload(vector->fp32, from, count * sizeof *from);
    for (size_t i = 0; vector->bf16 && i < count; i++)
        vector->bf16[i] = bf16_nearest(from[i]);
}

void gossip_vector_add(const struct kernels *kernels, const struct gossip_vector *vector, size_t count,
                       float part, float *to)
{
    if (vector->fp32)
        kernels->vectors->add(count, part, vector->fp32, to);
    for (size_t i = 0; vector->bf16 && i < count; i++)
        to[i] += part * bf16_widen(vector->bf16[i]);
}

void gossip_vector_scale(const struct kernels *kernels, struct gossip_vector *vector, size_t count,
                         float part)
{
    if (vector->fp32)
        kernels->vectors->scale(count, part, vector->fp32);
    for (size_t i = 0; vector->bf16 && i < count; i++)
        vector->bf16[i] = bf16_nearest(part * bf16_widen(vector->bf16[i]));
}

static size_t widen_piece(const uint16_t *from, size_t left, float piece[PIECE])
{
    size_t count = left < PIECE ? left : PIECE;

    for (size_t i = 0; i < count; i++)
        piece[i] = bf16_widen(from[i]);
    return count;
}

void gossip_vector_hold(const struct kernels *kernels, const struct gossip_vector *vector, size_t count,
                        float part, const float *x, float *copy, float *held)
{
    float piece[PIECE];

    BASE_ASSERT(gossip_vector_is(vector));
    if (vector->fp32)
        kernels->vectors->hold(count, part, x, vector->fp32, copy, held);
    for (size_t done = 0, n; vector->bf16 && done < count; done += n) {
        n = widen_piece(vector->bf16 + done, count - done, piece);
        kernels->vectors->hold(n, part, x + done, piece, copy ? copy + done : NULL, held + done);
    }
}

uint64_t gossip_vector_hash(const struct kernels *kernels, const struct gossip_vector *vector, size_t count,
                            bool magnitudes)
{
    const struct kernels_apply *apply = kernels->apply;
    uint64_t hash = 0; // of a vector it is the sum over its pieces
    float piece[PIECE];

    if (!vector->bf16)
        return apply->hash(vector->fp32, count, 0, magnitudes);
    for (size_t done = 0, n; done < count; done += n) {
        n = widen_piece(vector->bf16 + done, count - done, piece);
        hash += apply->hash(piece, n, done, magnitudes);
    }
    return hash;
}

bool gossip_vector_finite(const struct kernels *kernels, const struct gossip_vector *vector, size_t count)
{
    float piece[PIECE];
    bool finite = true;

    if (!vector->bf16)
        return kernels->apply->finite(vector->fp32, count);
    for (size_t done = 0, n; done < count && finite; done += n) {
        n = widen_piece(vector->bf16 + done, count - done, piece);
        finite = kernels->apply->finite(piece, n);
    }
    return finite;
}
