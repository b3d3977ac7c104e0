#include "lib/open.h"

#include "base/error.h"
#include "base/limits.h"
#include "lib/node.h"
#include "node/schema/schema.h"
#include "train/optimizer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum base_error lib_defaults(struct node_config *config, struct base_reason *why)
{
    enum base_error error = node_schema_defaults(&node_config_schema, config, why);
    // A program that saves its own model must know what it lacks: nothing is held back unless it asks for it.
    static const char *const defaults[] = {"train.steps=0", "average.hold=0"};
    for (size_t i = 0; !error && i < sizeof defaults / sizeof *defaults; i++)
        error = node_schema_assign(&node_config_schema, "default", defaults[i], config, why);
    return error;
}

static enum base_error read_config(struct node_config *config, const struct p2pml_options *o,
                                   struct base_reason *why)
{
    const struct node_schema *schema = &node_config_schema;
    enum base_error error = lib_defaults(config, why);
    if (!error && o->config_file)
        error = node_schema_read_file(schema, o->config_file, config, why);
    if (!error && o->config_text)
        error =
            node_schema_read_text(schema, "config_text", o->config_text, strlen(o->config_text), config, why);
    for (size_t i = 0; !error && o->settings && o->settings[i]; i++)
        error = node_schema_assign(schema, "settings", o->settings[i], config, why);
    if (!error)
        error = node_config_check(config, why);
    if (!error)
        error = node_config_check_runnable(config, why);
    if (!error)
        node_config_complete(config);
    return error;
}

static bool has_control(const char *name)
{
    for (; *name; name++)
        if ((unsigned char)*name < ' ' || *name == 0x7f)
            return true;
    return false;
}

static enum base_error copy_tensor(const struct p2pml_tensor *from, size_t at, struct train_tensor *to,
                                   struct base_reason *why)
{
    if (!from->name || strlen(from->name) >= sizeof to->name)
        return base_fail(why, BASE_EINVAL, "tensor %zu: its name is missing or has over %zu bytes", at,
                         sizeof to->name - 1);
    if (has_control(from->name)) // it reaches logs, pages and terminals
        return base_fail(why, BASE_EINVAL, "tensor %zu: its name has a control character", at);
    if (from->dims > TRAIN_DIMS || (from->dims > 0 && !from->shape))
        return base_fail(why, BASE_EINVAL, "tensor '%s': found %zu dimensions, expected 0 to %d", from->name,
                         from->dims, TRAIN_DIMS);
    strcpy(to->name, from->name);
    to->n_dims = from->dims;
    for (size_t i = 0; i < from->dims; i++)
        to->shape[i] = from->shape[i];
    return BASE_OK;
}

enum base_error lib_make_model(const p2pml_node *n, const struct kernels **kernels,
                               struct train_model **model, struct base_reason *why)
{
    enum base_error error = kernels_open("cpu", 1, kernels, why);
    if (error)
        return error;
    return train_model_create_tensors(n->tensors, n->n_tensors, *kernels, model, why);
}

static enum base_error take_tensors(p2pml_node *n, const struct lib_options *o, size_t *parameters,
                                    struct base_reason *why)
{
    const struct kernels *kernels;
    struct train_model *model;
    if (o->n_tensors > LIMIT_TENSORS)
        return base_fail(why, BASE_ELIMIT, "found %zu tensors, expected at most %u", o->n_tensors,
                         LIMIT_TENSORS);
    n->tensors = calloc(o->n_tensors + 1, sizeof *n->tensors);
    if (!n->tensors)
        return base_fail(why, BASE_ENOMEM, "out of memory for %zu tensors", o->n_tensors);
    n->n_tensors = o->n_tensors;
    for (size_t i = 0; i < o->n_tensors; i++) {
        enum base_error error = copy_tensor(&o->tensors[i], i, &n->tensors[i], why);
        if (error)
            return error;
    }
    enum base_error error = lib_make_model(n, &kernels, &model, why);
    if (error)
        return error;
    *parameters = train_model_parameters(model);
    train_model_destroy(model);
    return BASE_OK;
}

static enum base_error make_vectors(p2pml_node *n, size_t parameters, bool shared, struct base_reason *why)
{
    const struct train_optimizer *optimizer =
        train_optimizer((enum train_optimizer_kind)n->config->train.optimizer);
    const bool wanted[LIB_VECTORS] = {[P2PML_MODEL] = true,
                                      [P2PML_SECOND_MOMENT] = optimizer->shared >= 0,
                                      [P2PML_CORRECTION] = n->config->average.drift_correction,
                                      [P2PML_HELD] = node_config_hold(n->config) > 0};
    return lib_vectors_create(&n->vectors, parameters, wanted, shared, why);
}

void lib_free(p2pml_node *n)
{
    lib_vectors_destroy(&n->vectors);
    node_schema_free(&node_config_schema, &n->own);
    free(n->program.data);
    free(n->judge.seed);
    free(n->tensors);
    free(n);
}

enum base_error lib_open(const struct lib_options *o, p2pml_node **node, struct base_reason *why)
{
    p2pml_node *n = calloc(1, sizeof *n);
    if (!n)
        return base_fail(why, BASE_ENOMEM, "out of memory for a node");
    n->process = getpid();
    n->config = o->config;
    n->resume = o->resume;
    n->changes = o->changes;
    n->examples = o->examples;
    n->vectors.file = -1;
    size_t parameters = 0;
    enum base_error error = BASE_OK;
    if (o->config->average.outer_momentum > 0)
        error = base_fail(why, BASE_EINVAL,
                          "average.outer_momentum: found %g, expected 0: only the built-in trainer has it",
                          o->config->average.outer_momentum);
    if (!error)
        error = take_tensors(n, o, &parameters, why);
    if (!error)
        error = make_vectors(n, parameters, o->shared, why);
    if (!error && o->judges && !(n->judge.seed = malloc(parameters * sizeof(float))))
        error = base_fail(why, BASE_ENOMEM, "out of memory for a second model of %zu parameters", parameters);
    if (!error)
        *node = n;
    else
        lib_free(n);
    return error;
}

p2pml_node *p2pml_open(const struct p2pml_options *options, char *reason, size_t bytes)
{
    struct base_reason why = {""};
    struct node_config config = {0};
    enum base_error error = BASE_OK;
    p2pml_node *n = NULL;
    if (options->size != sizeof *options)
        error = base_fail(&why, BASE_EMISMATCH,
                          "the program was built for another version of libp2pml: options of %zu bytes, "
                          "expected %zu",
                          options->size, sizeof *options);
    if (!error)
        error = read_config(&config, options, &why);
    if (!error) {
        const struct lib_options o = {.config = &config,
                                      .tensors = options->tensors,
                                      .n_tensors = options->n_tensors,
                                      .resume = options->resume,
                                      .changes = options->changes,
                                      .examples = options->examples,
                                      .judges = options->judge != NULL};
        error = lib_open(&o, &n, &why);
    }
    if (bytes > 0)
        snprintf(reason, bytes, "%s", error ? why.text : "");
    if (error) {
        node_schema_free(&node_config_schema, &config);
        return NULL;
    }
    n->own = config;
    n->config = &n->own;
    n->judge.call = options->judge;
    n->judge.context = options->judge_context;
    return n;
}
