// GPT-2 (Radford, Wu, Child, Luan, Amodei, Sutskever 2019) with the names and layouts of Hugging Face's
// transformers.
#include "train/layers.h"
#include "train/models.h"

#include <stdio.h>

static void describe(const struct train_model_spec *spec, char *text, size_t capacity)
{
    const struct train_decoder *d = &spec->decoder;
    (void)snprintf(text, capacity, "gpt2 %zu layers, %zu wide, %zu heads, context %zu, vocabulary %zu",
                   d->layers, d->width, d->heads, spec->inputs, spec->classes);
}

static enum base_error check(const struct train_model_spec *spec, struct base_reason *why)
{
    const struct train_decoder *d = &spec->decoder;
    if (spec->loss != TRAIN_CROSS_ENTROPY)
        return base_fail(why, BASE_EINVAL, "gpt2 supports only the loss cross-entropy");
    if (d->layers == 0 || d->layers > LIMIT_BLOCKS)
        return base_fail(why, BASE_EINVAL, "gpt2 has %zu layers; expected 1 to %u", d->layers, LIMIT_BLOCKS);
    if (d->width == 0 || d->heads == 0 || d->width % d->heads != 0)
        return base_fail(why, BASE_EINVAL,
                         "gpt2 is %zu wide with %zu heads; expected heads that divide the width", d->width,
                         d->heads);
    if (!(d->dropout >= 0.0f && d->dropout < 1.0f))
        return base_fail(why, BASE_EINVAL, "gpt2 has a dropout of %g; expected 0 to below 1",
                         (double)d->dropout);
    return BASE_OK;
}

static void build(const struct train_model_spec *spec, struct train_plan *plan)
{
    const struct train_decoder *d = &spec->decoder;
    plan->in = (struct train_shape){.positions = spec->inputs,
                                    .height = 1,
                                    .width = 1,
                                    .channels = 1,
                                    .ids = true,
                                    .vocabulary = spec->classes};
    train_plan_add(plan, train_embedding(d->width, d->dropout), "", "");
    for (size_t i = 0; i < d->layers; i++) {
        char name[LIMIT_TENSOR_NAME_BYTES / 2];
        (void)snprintf(name, sizeof name, "h.%zu", i);
        train_plan_add(plan, train_block(d->heads, d->layers, d->dropout), name, name);
    }
    train_plan_add(plan, train_tied_head(spec->classes), "ln_f", "ln_f");
}

static bool parse(const char *text, struct train_model_spec *spec)
{
    int end = 0;
    const int found = sscanf(text, " %9zu layers, %9zu wide, %9zu heads, context %9zu, vocabulary %9zu%n",
                             &spec->decoder.layers, &spec->decoder.width, &spec->decoder.heads, &spec->inputs,
                             &spec->classes, &end);
    return found == 5 && text[end] == 0;
}

const struct train_model_type train_model_gpt2 = {
    .name = "gpt2", .check = check, .build = build, .describe = describe, .parse = parse};
