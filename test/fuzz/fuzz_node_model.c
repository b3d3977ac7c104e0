// Any safetensors file as a model: refused with a reason, or every number of it is finite and there are as
// many as its shape says.
#include "node/store/model_file.h"
#include "node/store/safetensors.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const struct train_model_spec small = {
        .kind = TRAIN_MLP, .inputs = 3, .classes = 2, .hidden = {4}, .n_hidden = 1};
    struct node_safetensors *file;
    if (node_safetensors_parse(bytes, count, 0, &file, NULL))
        return 0;
    for (int expected = 0; expected < 2; expected++) {
        struct node_model_file model;
        struct base_reason why = {.text = ""};
        if (node_model_take(file, expected ? &small : NULL, &model, &why)) {
            BASE_ASSERT(why.text[0]);
            continue;
        }
        BASE_ASSERT(!expected || train_spec_parameters(&model.spec) == train_spec_parameters(&small));
        BASE_ASSERT(train_spec_check(&model.spec, NULL) == BASE_OK && model.about.input_divisor > 0);
        for (size_t i = 0; i < train_spec_parameters(&model.spec); i++)
            BASE_ASSERT(isfinite(model.parameters[i]));
        node_model_free(&model);
    }
    node_safetensors_free(file);
    return 0;
}
