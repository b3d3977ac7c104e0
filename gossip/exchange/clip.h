// Clipping: how far a neighbour moves this node in a round, in terms of what learners move their models
// between two boundaries, which no neighbour can change: this node's, and those that its neighbours tell of
// (RULES.md).
#ifndef GOSSIP_EXCHANGE_CLIP_H
#define GOSSIP_EXCHANGE_CLIP_H

#include <stdint.h>

#define GOSSIP_CLIP_TIMES     3     // the usual progress, and the root of the number of edges
#define GOSSIP_CLIP_FAR       2     // an update beyond this many times the reach halves the limit of its edge
#define GOSSIP_CLIP_DOUBLINGS 6     // of the reach at most, and halvings
#define GOSSIP_CLIP_MOST      0.125 // of the norm of the model: the limit, however often it has doubled
#define GOSSIP_CLIP_LONG      16    // times the exchanges that send every entry once: then looks say nothing
#define GOSSIP_CLIP_BOUND     1.5   // usual progress: what the correction of an edge moves a node in a round
#define GOSSIP_CLIP_KEEP      0.5f  // of a correction: at least, where it is longer; where an update is cut

struct gossip_clip {
    double energy;   // of own progress in units of the step scale: a mean over recent rounds
    uint64_t rounds; // measured so far
    double highest;  // usual progress of late, in units of the step scale
};

#endif
