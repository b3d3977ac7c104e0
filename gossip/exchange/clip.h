// Clipping: how far a neighbour moves this node in a round, in terms of what learners move their models
// between two boundaries, which no neighbour can change: this node's, and those that its neighbours tell of
// (RULES.md).
#ifndef GOSSIP_EXCHANGE_CLIP_H
#define GOSSIP_EXCHANGE_CLIP_H

#include <stdint.h>

#define GOSSIP_CLIP_TIMES    3 // the usual progress, and the root of the number of edges
#define GOSSIP_CLIP_FAR      2 // an update beyond this many times the limit halves the limit of its edge
#define GOSSIP_CLIP_HALVINGS 6

struct gossip_clip {
    double energy;   // of own progress in units of the step scale: a mean over recent rounds
    uint64_t rounds; // measured so far
};

#endif
