#include "node/learn/verdict.h"

#include <math.h>

enum train_offer node_verdict_offer(enum gossip_learner_offer offer)
{
    return offer == GOSSIP_LEARNER_MERGED ? TRAIN_OFFER_MERGED : TRAIN_OFFER_DONORS;
}

struct gossip_learner_verdict node_verdict(const struct train_probe *probe, enum gossip_learner_offer offer)
{
    return (struct gossip_learner_verdict){.accepts = !train_probe_is_worse(probe, node_verdict_offer(offer)),
                                           .own = probe->own,
                                           .other = probe->other,
                                           .nothing = probe->nothing};
}

struct gossip_learner_verdict node_verdict_none(void)
{
    return (struct gossip_learner_verdict){true, NAN, NAN, NAN};
}
