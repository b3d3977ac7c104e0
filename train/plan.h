// A model without values: its layers, checked against each other, and its tensors. Immutable once made.
#ifndef TRAIN_PLAN_H
#define TRAIN_PLAN_H

#include "train/layer.h"
#include "train/model.h"

struct train_plan {
    struct train_shape in, out; // out: of the last layer
    struct train_layer *layers;
    size_t n_layers;
    struct train_tensor *tensors;
    size_t n_tensors;
    size_t parameters; // elements of the flat vector
    bool full;         // there was no memory for a layer
};

// For `build` of models: adds a layer on top. `name` and `abroad` are formats for the number of the layer
// ("layers.%zu"). train_plan_create reports failures.
void train_plan_add(struct train_plan *plan, struct train_layer layer, const char *name, const char *abroad);

// Checks that the layers added on top of plan->in fit each other, and fills in everything else. Errors as
// train_plan_create; destroy the plan in either case.
enum base_error train_plan_fill(struct train_plan *plan, struct base_reason *why) BASE_CHECK;

// Makes a plan from a spec, which need not have been checked. BASE_EINVAL: the spec, or layers that do not
// fit; BASE_ELIMIT: LIMIT_TENSORS, LIMIT_PARAMETERS; BASE_ENOMEM.
enum base_error train_plan_create(const struct train_model_spec *spec, struct train_plan *plan,
                                  struct base_reason *why) BASE_CHECK;
// Gives the tensors of a plan without layers their counts and offsets. BASE_EINVAL: an empty or repeated
// name, an empty tensor, over LIMIT_PARAMETERS elements; nothing is to be used then.
enum base_error train_plan_lay_out(struct train_plan *plan, struct base_reason *why) BASE_CHECK;
void train_plan_destroy(struct train_plan *plan); // leaves {0}

// Walks over the elements of a tensor in the order of files for other programs: each call of `next` returns
// the place, in our tensor, of the next element of the file.
struct train_abroad_walk {
    size_t at[TRAIN_DIMS], extent[TRAIN_DIMS], stride[TRAIN_DIMS], n_dims, place;
};
void train_abroad_begin(const struct train_tensor *tensor, struct train_abroad_walk *walk);
size_t train_abroad_next(struct train_abroad_walk *walk);

#endif
