// Whether another model may replace the trainer's: the losses of both on a small, fixed part of the trainer's
// own examples. README.md ("The probe") has the figures behind the bounds.
#ifndef TRAIN_PROBE_H
#define TRAIN_PROBE_H

#include "train/trainer.h"

#define TRAIN_PROBE_EXAMPLES 256u // at most
#define TRAIN_PROBE_TRAINED  100u // steps: fewer leave little to lose

enum train_offer {
    TRAIN_OFFER_DONORS, // the model of one other node. A refusal costs little: the next one is asked
    TRAIN_OFFER_MERGED, // the mean of all models. A refusal leaves the cluster with two models
};
enum train_probe_model { TRAIN_PROBE_NOTHING, TRAIN_PROBE_OWN, TRAIN_PROBE_OTHER, TRAIN_PROBE_MODELS };

struct train_probe {
    double nothing;    // loss of a model that knows nothing (train_loss_of_nothing); NAN: nothing is known
    double own, other; // of the trainer's model and of the other one
    double best_own, best_other; // mean losses of the best tenth of the examples; NAN: not needed
    bool trained;                // ... for long enough that there is something to lose
};
// model [parameters] in host memory. Between two steps. A trainer that holds a program's vectors has no
// examples: nothing is known.
struct train_probe train_probe(struct train_trainer *trainer, const float *model, enum train_offer offer);
// Both losses on a few examples, others with each `turn`; a probe of this kind is not judged here. At most
// TRAIN_LOOK examples.
#define TRAIN_LOOK 64u
struct train_probe train_probe_look(struct train_trainer *trainer, const float *model, uint64_t turn);
// The same from losses that a program has measured: of each model on the same `count` examples. Where the
// counts differ, or are 0, nothing is known. Of one loss, the mean of all, the best tenth is the mean.
struct train_probe_losses {
    size_t count;
    double loss[TRAIN_PROBE_EXAMPLES];
};
struct train_probe train_probe_of(const struct train_probe_losses of[TRAIN_PROBE_MODELS], bool trained);
// The other model is clearly worse. False where nothing is known.
bool train_probe_is_worse(const struct train_probe *probe, enum train_offer offer);

#endif
