// Clipping: the norms of the updates that a node receives, and how much of an outlier is applied (README.md).
#ifndef GOSSIP_EXCHANGE_CLIP_H
#define GOSSIP_EXCHANGE_CLIP_H

#include <stddef.h>

#define GOSSIP_CLIP_SAMPLES 32
#define GOSSIP_CLIP_MIN     8 // forces that must have been seen before one is cut

struct gossip_clip {
    float norms[GOSSIP_CLIP_SAMPLES]; // of the latest forces, before they were cut: a ring
    size_t count, next;
};

// The part of a force of this norm that is taken, in (0, 1]: all of it up to `times` the median of those
// before it. The norm is added to the samples unless it is zero.
float gossip_clip_part(struct gossip_clip *clip, float times, double norm);

#endif
