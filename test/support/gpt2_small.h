// A GPT-2 small enough for central differences.
#ifndef TEST_SUPPORT_GPT2_SMALL_H
#define TEST_SUPPORT_GPT2_SMALL_H

#include "train/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { LAYERS = 2, WIDTH = 8, HEADS = 2, CONTEXT = 5, WORDS = 7, BATCH = 3, ROWS = BATCH * CONTEXT };

static const struct kernels *kernels;

static inline struct train_model_spec spec_of(float dropout)
{
    return (struct train_model_spec){
        .kind = TRAIN_GPT2, .inputs = CONTEXT, .classes = WORDS, .decoder = {LAYERS, WIDTH, HEADS, dropout}};
}

static inline struct train_model *make(const struct train_model_spec *spec, size_t batch)
{
    struct train_model *model = NULL;
    struct base_reason why = {""};
    if (train_model_create(spec, kernels, batch, &model, &why)) {
        fail_msg("%s", why.text);
    }
    return model;
}

static inline void close_to(const char *what, size_t i, double found, double expected, double bound)
{
    if (!(fabs(found - expected) <= bound)) {
        fail_msg("%s %zu: found %.9g, expected %.9g", what, i, found, expected);
    }
}

#endif
