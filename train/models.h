// The models by name: the functions that train_spec_check, train_plan_create and train_spec_describe call.
// Private to train/.
#ifndef TRAIN_MODELS_H
#define TRAIN_MODELS_H

#include "train/plan.h"

struct train_model_type {
    const char *name; // of model.kind
    // Checks conditions that layers cannot see; inputs, classes and loss have been checked. BASE_EINVAL.
    // NULL: there are none.
    enum base_error (*check)(const struct train_model_spec *spec, struct base_reason *why);
    void (*build)(const struct train_model_spec *spec, struct train_plan *plan); // sets plan->in, adds layers
    void (*describe)(const struct train_model_spec *spec, char *text,
                     size_t capacity); // begins with the name
    // Parses the text that describe wrote after the name; false: the text is invalid. NULL: the spec follows
    // from the shapes of the weights (node/store/model_read.c).
    bool (*parse)(const char *text, struct train_model_spec *spec);
};

#define TRAIN_MODEL_EXTERN(constant, name) extern const struct train_model_type train_model_##name;
TRAIN_MODEL_LIST(TRAIN_MODEL_EXTERN)

const struct train_model_type *train_model_type(enum train_model_kind kind); // NULL: there is none

#endif
