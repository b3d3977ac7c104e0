#include "train/models.h"

#define TYPE(constant, name) [TRAIN_##constant] = &train_model_##name,
static const struct train_model_type *const models[TRAIN_MODELS] = {TRAIN_MODEL_LIST(TYPE)};

const struct train_model_type *train_model_type(enum train_model_kind kind)
{
    return (unsigned)kind < TRAIN_MODELS ? models[kind] : NULL;
}

const char *train_model_kind_name(enum train_model_kind kind)
{
    const struct train_model_type *type = train_model_type(kind);
    return type ? type->name : "?";
}
