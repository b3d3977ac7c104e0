// What losses say about a model of others: one rule (train/probe.h) for all learners.
#ifndef NODE_LEARN_VERDICT_H
#define NODE_LEARN_VERDICT_H

#include "gossip/life/learner.h"
#include "train/probe.h"

enum train_offer node_verdict_offer(enum gossip_learner_offer offer);
struct gossip_learner_verdict node_verdict(const struct train_probe *probe, enum gossip_learner_offer offer);
// Nothing is known: the model is taken as it comes.
struct gossip_learner_verdict node_verdict_none(void);

#endif
