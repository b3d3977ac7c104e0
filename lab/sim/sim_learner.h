// The learner of a simulated process, supplied by the user of the simulation: the learner's table
// (gossip/life/learner.h), whose `which` is the host, and further callbacks. The simulator calls it when
// steps begin, when their results are needed, and after the exchange; the simulator itself computes no
// gradient.
//
// All are called by the thread that runs the world, in the order of virtual time. Between `steps` and the
// next `boundary`, or `end`, of one host another thread may compute on its vectors; results must not depend
// on the timing.
#ifndef LAB_SIM_LEARNER_H
#define LAB_SIM_LEARNER_H

#include "gossip/life/learner.h"
#include "gossip/life/rounds.h"

enum sim_origin { SIM_FROM_SEED, SIM_FROM_CHECKPOINT, SIM_FROM_SNAPSHOT };

struct sim_learner {
    struct gossip_learner learner; // its owner is also passed to the callbacks below
    const float *start;            // [parameters] the seed model: r of an edge that both ends begin from it
    // All of the following may be NULL. The vectors are complete and published. Called again when another
    // node's model replaces them.
    void (*ready)(void *owner, size_t host, enum sim_origin origin);
    // Of an attacker: the vectors are about to be given to others, at a boundary or in a merge, and may be
    // falsified here. The exchange then speaks the protocol about what it is given.
    void (*give)(void *owner, size_t host);
    // A round's exchange is over and its update is in the vectors.
    void (*done)(void *owner, size_t host, const struct gossip_rounds *rounds);
    // The last call: the other nodes have also finished, or the node leaves.
    void (*finish)(void *owner, size_t host, const struct gossip_rounds *rounds);
    // All other nodes have finished, so the node takes no more steps. NULL: it continues alone.
    void (*alone)(void *owner, size_t host);
    // The shards with a living node, ascending: from the next steps on, the node trains on its part of the
    // other shards.
    void (*shards)(void *owner, size_t host, const uint32_t *living, size_t count);
};

#endif
