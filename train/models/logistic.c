// Logistic regression: one weight per feature for two classes, softmax for more. Examples stay sparse if the
// file is sparse (LIBSVM). L1 and L2 are for this model only (train/shrink.h).
#include "train/layers.h"
#include "train/models.h"

#include <stdio.h>

static enum base_error check(const struct train_model_spec *spec, struct base_reason *why)
{
    if (spec->loss != TRAIN_CROSS_ENTROPY)
        return base_fail(why, BASE_EINVAL,
                         "logistic regression is for classes, expected the loss cross-entropy");
    return BASE_OK;
}

static void build(const struct train_model_spec *spec, struct train_plan *plan)
{
    plan->in =
        (struct train_shape){.positions = 1, .height = 1, .width = 1, .channels = spec->inputs, .rows = true};
    train_plan_add(plan, train_rows_linear(spec->classes == 2 ? 1 : spec->classes), "layers.0", "0");
}

static void describe(const struct train_model_spec *spec, char *text, size_t capacity)
{
    (void)snprintf(text, capacity, "logistic %zu-%zu", spec->inputs, spec->classes);
}

static bool parse(const char *text, struct train_model_spec *spec)
{
    int end = 0;
    return sscanf(text, " %9zu-%5zu%n", &spec->inputs, &spec->classes, &end) == 2 && text[end] == '\0';
}

const struct train_model_type train_model_logistic = {
    .name = "logistic", .check = check, .build = build, .describe = describe, .parse = parse};
