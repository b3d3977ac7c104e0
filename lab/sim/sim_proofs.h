// Signatures that any process of a simulation has verified. Every process that receives a record verifies
// it: for a thousand members that would be a million computations with the same results. One owner.
#ifndef LAB_SIM_PROOFS_H
#define LAB_SIM_PROOFS_H

#include "gossip/member/record.h"

struct sim_proofs {
    struct gossip_verifier verifier; // of which it is the owner
    struct sim_proof {
        uint64_t word[2]; // 128 bits of hash over id, bytes and signature; 0: free
    } * slot;
    size_t capacity, count;
};

void sim_proofs_create(struct sim_proofs *proofs);
void sim_proofs_destroy(struct sim_proofs *proofs);

#endif
