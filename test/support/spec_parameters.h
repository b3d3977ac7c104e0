// The number of parameters of a model that a spec describes.
#ifndef TEST_SPEC_PARAMETERS_H
#define TEST_SPEC_PARAMETERS_H

#include "train/plan.h"

static inline size_t spec_parameters(const struct train_model_spec *spec)
{
    struct train_plan plan;
    const enum base_error error = train_plan_create(spec, &plan, NULL);
    const size_t parameters = plan.parameters;
    BASE_ASSERT(!error);
    train_plan_destroy(&plan);
    return parameters;
}

#endif
