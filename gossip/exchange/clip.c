#include "gossip/exchange/clip.h"

#include "base/error.h"
#include <float.h>

// The lower median: if half of the meetings are with an attacker, it is still the norm of an honest
// neighbour.
static float median(const struct gossip_clip *clip)
{
    float sorted[GOSSIP_CLIP_SAMPLES];

    for (size_t i = 0; i < clip->count; i++) {
        size_t at = i;
        for (; at > 0 && sorted[at - 1] > clip->norms[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = clip->norms[i];
    }
    return sorted[(clip->count - 1) / 2];
}

static void learn(struct gossip_clip *clip, double norm)
{
    BASE_ASSERT(clip->next < GOSSIP_CLIP_SAMPLES && clip->count <= GOSSIP_CLIP_SAMPLES);
    clip->norms[clip->next] = norm < (double)FLT_MAX ? (float)norm : FLT_MAX;
    clip->next = (clip->next + 1) % GOSSIP_CLIP_SAMPLES;
    if (clip->count < GOSSIP_CLIP_SAMPLES)
        clip->count++;
}

float gossip_clip_part(struct gossip_clip *clip, float times, double norm)
{
    double most = clip->count < GOSSIP_CLIP_MIN ? norm : (double)times * (double)median(clip);

    if (norm > 0)
        learn(clip, norm);
    return norm > most ? (float)(most / norm) : 1;
}
