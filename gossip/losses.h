// What a learner says of another model: the losses on a few of its own examples.
#ifndef GOSSIP_LOSSES_H
#define GOSSIP_LOSSES_H

struct gossip_losses {
    double nothing; // of a model that knows nothing of them; NAN: not known
    double own, other;
};

#endif
