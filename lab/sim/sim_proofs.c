#include "lab/sim/sim_proofs.h"

#include "base/hash.h"
#include "lab/sim/sim_queue.h"
#include <stdlib.h>

enum { FIRST = 1024 };

static uint64_t half(uint64_t seed, const struct gossip_id *id, const uint8_t *bytes, size_t count,
                     const uint8_t *signature)
{
    uint64_t hash = base_hash_bytes(seed, id->bytes, sizeof id->bytes);

    hash = base_hash_bytes(hash, bytes, count);
    return base_hash_bytes(hash, signature, 64);
}

static struct sim_proof *place(const struct sim_proofs *proofs, const struct sim_proof *proof)
{
    size_t at = (size_t)proof->word[0] & (proofs->capacity - 1);

    for (;; at = (at + 1) & (proofs->capacity - 1)) {
        struct sim_proof *slot = &proofs->slot[at];
        if (!slot->word[0] || (slot->word[0] == proof->word[0] && slot->word[1] == proof->word[1]))
            return slot;
    }
}

static void grow(struct sim_proofs *proofs)
{
    struct sim_proofs old = *proofs;

    proofs->capacity = 2 * old.capacity;
    proofs->slot = sim_must(calloc(proofs->capacity, sizeof *proofs->slot));
    for (size_t i = 0; i < old.capacity; i++)
        if (old.slot[i].word[0])
            *place(proofs, &old.slot[i]) = old.slot[i];
    free(old.slot);
}

static bool verify(void *owner, const struct gossip_id *id, const uint8_t *bytes, size_t count,
                   const uint8_t signature[64])
{
    struct sim_proofs *proofs = owner;
    const struct sim_proof proof = {
        .word = {half(1, id, bytes, count, signature) | 1, half(2, id, bytes, count, signature)}};
    struct sim_proof *slot = place(proofs, &proof);

    if (slot->word[0])
        return true;
    if (!gossip_identity_verify(id, bytes, count, signature))
        return false;
    *slot = proof;
    if (++proofs->count * 2 > proofs->capacity)
        grow(proofs);
    return true;
}

void sim_proofs_create(struct sim_proofs *proofs)
{
    *proofs = (struct sim_proofs){.verifier = {proofs, verify}, .capacity = FIRST};
    proofs->slot = sim_must(calloc(FIRST, sizeof *proofs->slot));
}

void sim_proofs_destroy(struct sim_proofs *proofs)
{
    free(proofs->slot);
}
