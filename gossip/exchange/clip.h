// Clipping: the norms of the updates that a node receives, and how much of an outlier is applied.
// An attacker can move their median only if it makes more than half of the exchanges. RESYNC blocks and
// second moments are not clipped. The corrections of the two ends may differ after a clipped update.
#ifndef GOSSIP_EXCHANGE_CLIP_H
#define GOSSIP_EXCHANGE_CLIP_H

#include <stddef.h>

#define GOSSIP_CLIP_SAMPLES 32
#define GOSSIP_CLIP_MIN     8 // updates seen before the first one may be clipped

struct gossip_clip {
    float norms[GOSSIP_CLIP_SAMPLES]; // of the latest updates, before clipping; a ring buffer
    size_t count, next;
};

// The factor in (0, 1] by which to scale an update of this norm: 1 up to `times` the median of the earlier
// norms. The norm is added to the samples unless it is zero.
float gossip_clip_part(struct gossip_clip *clip, float times, double norm);

#endif
