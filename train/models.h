// The models by name: what train_spec_check, train_plan_create and describing ask of each. Only train/
// includes this.
#ifndef TRAIN_MODELS_H
#define TRAIN_MODELS_H

#include "train/plan.h"

struct train_model_type {
    const char *name; // of model.kind
    // What layers cannot see; inputs, classes and loss have been checked. BASE_EINVAL. NULL: nothing.
    enum base_error (*check)(const struct train_model_spec *spec, struct base_reason *why);
    void (*build)(const struct train_model_spec *spec, struct train_plan *plan); // sets plan->in, adds layers
    void (*describe)(const struct train_model_spec *spec, char *text, size_t capacity); // its name first
    // What describe wrote behind the name, back; false: it can't be that. NULL: the shapes of the weights
    // tell it (node/store/model_read.c).
    bool (*parse)(const char *text, struct train_model_spec *spec);
};

extern const struct train_model_type train_model_softmax, train_model_mlp, train_model_gpt2,
    train_model_lenet, train_model_cnn, train_model_resnet20, train_model_logistic;

const struct train_model_type *train_model_type(enum train_model_kind kind); // NULL: there is none

#endif
