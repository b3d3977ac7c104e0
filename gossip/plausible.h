// Limits for received values, relative to a node's own values: for exchanges, RESYNC blocks and snapshots.
// Pure functions.
#ifndef GOSSIP_PLAUSIBLE_H
#define GOSSIP_PLAUSIBLE_H

#include <stddef.h>
#include <stdint.h>

// No value may exceed this many times the larger of 1 and the Euclidean norm of the node's own model. The
// norm is at least the largest value of the model, so models that begin at zero, long absences and differing
// shards stay far below this bound.
#define GOSSIP_PLAUSIBLE       1e4f
#define GOSSIP_PLAUSIBLE_COUNT (UINT64_MAX >> 2) // of received rounds, epochs and sequence numbers
#define GOSSIP_PLAUSIBLE_SCALE 1e6f              // largest ratio of the step scales of two ends

float gossip_plausible_value(double norm);
double gossip_plausible_norm(const float *values, size_t count); // 0 if it is not finite
double gossip_plausible_root(double energy);                     // the norm, from the sum of squares

#endif
