// GPT-2 in files of Hugging Face's transformers.
#include "node/store/model_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HEAD_WIDTH 64u
#define HEAD       "lm_head.weight"

static const struct node_tensor *find(const struct node_safetensors *file, struct node_model_naming naming,
                                      const char *name)
{
    char full[LIMIT_TENSOR_NAME_BYTES + 16];
    snprintf(full, sizeof full, "%s%s", naming.prefix, name);
    return node_safetensors_find(file, full);
}

bool node_model_gpt2_there(const struct node_safetensors *file, struct node_model_naming naming)
{
    return find(file, naming, "wte.weight") || find(file, naming, "wpe.weight");
}

static enum base_error matrix(const struct node_safetensors *file, struct node_model_naming naming,
                              const char *name, const struct node_tensor **tensor, struct base_reason *why)
{
    *tensor = find(file, naming, name);
    if (!*tensor)
        return base_fail(why, BASE_EMISMATCH, "there is no tensor '%s%s' in it, which GPT-2 has",
                         naming.prefix, name);
    if ((*tensor)->n_dims != 2)
        return base_fail(why, BASE_EMISMATCH, "its tensor '%s' has %zu dimensions, expected 2",
                         (*tensor)->name, (*tensor)->n_dims);
    return BASE_OK;
}

enum base_error node_model_gpt2_infer(const struct node_safetensors *file, struct node_model_naming naming,
                                      struct train_model_spec *spec, struct base_reason *why)
{
    const struct node_tensor *words, *places;
    size_t layers = 0;
    enum base_error error = matrix(file, naming, "wte.weight", &words, why);
    if (!error)
        error = matrix(file, naming, "wpe.weight", &places, why);
    if (error)
        return error;
    for (char name[64]; layers <= LIMIT_BLOCKS; layers++) {
        snprintf(name, sizeof name, "h.%zu.ln_1.weight", layers);
        if (!find(file, naming, name))
            break;
    }
    const size_t width = words->shape[1];
    if (width % HEAD_WIDTH)
        return base_fail(
            why, BASE_EMISMATCH,
            "it does not say how many heads it has, and its width %zu is not a multiple of %u, the width "
            "of a head of GPT-2; as model.init it may have any width, since model.heads is configured",
            width, HEAD_WIDTH);
    *spec =
        (struct train_model_spec){.kind = TRAIN_GPT2,
                                  .inputs = places->shape[0],
                                  .classes = words->shape[0],
                                  .decoder = {.layers = layers, .width = width, .heads = width / HEAD_WIDTH}};
    return train_spec_check(spec, why);
}

bool node_model_gpt2_beside(struct node_model_naming naming, const char *name)
{
    const size_t prefix = strlen(naming.prefix);
    unsigned layer;
    int end = 0;
    if (!strcmp(name, HEAD))
        return true;
    if (strncmp(name, naming.prefix, prefix) != 0 ||
        sscanf(name + prefix, "h.%9u.attn.%n", &layer, &end) != 1 || !end)
        return false;
    const char *rest = name + prefix + end;
    return !strcmp(rest, "bias") || !strcmp(rest, "masked_bias");
}

static enum base_error check_head(const struct node_tensor *head, const struct node_tensor *words,
                                  struct base_reason *why)
{
    if (head->n_dims != 2 || head->shape[0] != words->shape[0] || head->shape[1] != words->shape[1])
        return base_fail(why, BASE_EMISMATCH,
                         "its tensor '" HEAD "' does not have the shape of '%s', [%zu, %zu]", words->name,
                         words->shape[0], words->shape[1]);
    for (size_t i = 0; i < words->shape[0] * words->shape[1]; i++)
        if (node_tensor_value(head, i) != node_tensor_value(words, i))
            return base_fail(why, BASE_EMISMATCH,
                             "its tensor '" HEAD
                             "' is not '%s': element %zu is %g there and %g here; only models "
                             "with a tied head can be read",
                             words->name, i, node_tensor_value(words, i), node_tensor_value(head, i));
    return BASE_OK;
}

enum base_error node_model_gpt2_check(const struct node_safetensors *file, struct node_model_naming naming,
                                      const struct train_model_spec *spec, struct base_reason *why)
{
    const char *described = node_safetensors_metadata(file, "model");
    const struct node_tensor *head = node_safetensors_find(file, HEAD);
    struct train_model_spec said;
    struct base_reason unused;
    if (described && !train_spec_parse(described, &said, &unused) && said.kind == TRAIN_GPT2 &&
        said.decoder.heads != spec->decoder.heads)
        return base_fail(why, BASE_EMISMATCH, "it has %zu heads, expected %zu", said.decoder.heads,
                         spec->decoder.heads);
    return head ? check_head(head, find(file, naming, "wte.weight"), why) : BASE_OK;
}
