// The table of models, in the order of enum train_model_kind.
#include "train/models.h"

static const struct train_model_type *const models[TRAIN_MODELS] = {
    [TRAIN_SOFTMAX] = &train_model_softmax,   [TRAIN_MLP] = &train_model_mlp,
    [TRAIN_GPT2] = &train_model_gpt2,         [TRAIN_LENET] = &train_model_lenet,
    [TRAIN_CNN] = &train_model_cnn,           [TRAIN_RESNET20] = &train_model_resnet20,
    [TRAIN_LOGISTIC] = &train_model_logistic,
};

const struct train_model_type *train_model_type(enum train_model_kind kind)
{
    return (unsigned)kind < TRAIN_MODELS ? models[kind] : NULL;
}

const char *train_model_kind_name(enum train_model_kind kind)
{
    const struct train_model_type *type = train_model_type(kind);
    return type ? type->name : "?";
}
