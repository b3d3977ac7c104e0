// The built-in trainer of a node: its data, model and optimiser.
#include "base/log.h"
#include "node/config/compatibility.h"
#include "node/learn/data.h"
#include "node/setup.h"
#include "train/meaning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void describe(struct node_setup *s)
{
    struct gossip_greeting *g = &s->greeting;
    train_model_describe(s->model, g->model, sizeof g->model);
    node_greeting_data(s->train.meaning, g->model, sizeof g->model);
    // Data with another meaning make another model.
    g->schema = train_model_schema(s->model) ^ train_meaning_digest(s->train.meaning);
    node_data_advise(s->config, s->config->data.shard, &s->train, &s->test);
    base_log(BASE_LOG_INFO, "data", "%zu examples to train on, shard %llu of %llu; %zu to test on",
             s->train.examples, (unsigned long long)s->config->data.shard,
             (unsigned long long)s->config->data.shards, s->test.examples);
}

static enum base_error load_data(struct node_setup *s, struct base_reason *why)
{
    BASE_ASSERT(!s->scaling && !s->blob);
    if (!node_config_gathers(s->config))
        return node_data_load(s->config, s->config->data.shard, &s->train, &s->test, why);
    enum base_error error = node_data_load_open(s->config, &s->train, &s->test, why);
    if (!error)
        error = node_scaling_create(&s->train, &s->test, &s->scaling, why);
    if (!error)
        s->blob = &s->scaling->blob;
    return error;
}

static enum base_error open_kernels(struct node_setup *s, const struct kernels *given,
                                    struct base_reason *why)
{
    enum base_error error = BASE_OK;
    BASE_ASSERT(!s->kernels);
    s->kernels = given;
    if (!given)
        error =
            kernels_open(node_setup_device(s->config), (unsigned)s->config->device.threads, &s->kernels, why);
    if (error)
        return base_fail_context(why, error, "device.kind");
    if (s->config->device.precision == 1)
        error = kernels_take_bf16(&s->kernels, why);
    if (error)
        return base_fail_context(why, error, "device.precision");
    base_log(BASE_LOG_INFO, "backend", "%s", kernels_describe(s->kernels));
    if (!s->kernels->shares_host)
        base_log(BASE_LOG_INFO, "backend",
                 "published model, references and corrections are in the memory of the %s",
                 node_setup_lends(s->config) ? "device" : "host; whole vectors cross the bus in every round");
    if (kernels_slowed_by())
        base_log(BASE_LOG_WARN, "backend", "%s", kernels_slowed_by());
    return BASE_OK;
}

enum base_error node_setup_training(struct node_setup *s, void *context, struct base_reason *why)
{
    BASE_ASSERT(!s->model && !s->trainer && !s->start);
    enum base_error error = open_kernels(s, context, why);
    if (error)
        return error;
    error = load_data(s, why);
    if (error)
        return base_fail_context(why, error, "data");
    s->about = node_setup_about(s->config, &s->train);
    error = node_setup_model(s->config, &s->train, s->kernels, &s->model, why);
    if (error)
        return base_fail_context(why, error, "model");
    char hex[GOSSIP_ID_HEX];
    size_t d = train_model_parameters(s->model);
    s->start = malloc(d * sizeof *s->start);
    bool outer = s->config->average.outer_momentum > 0;
    if (outer) {
        s->outer = calloc(d, sizeof *s->outer);
        s->round_start = malloc(d * sizeof *s->round_start);
    }
    if (!s->start || (outer && (!s->outer || !s->round_start)))
        return base_fail(why, BASE_ENOMEM, "out of memory for a model of %zu parameters", d);
    error = node_setup_start(s->config, s->model, s->start, why);
    s->seeded = !s->config->model.init[0];
    if (error)
        return error;
    if (outer)
        memcpy(s->round_start, s->start, d * sizeof *s->round_start);
    // Where each node has a shard of its own, the name is enough, and p2pml run repeats p2pml sim bit for
    // bit.
    gossip_id_hex(&s->identity.id, hex);
    error = node_setup_trainer(s->config, s->config->data.shards > 1 ? s->name : hex, s->model, &s->train,
                               s->start, &s->trainer, why);
    if (error)
        return base_fail_context(why, error, "train");
    s->kept = malloc(node_built_in_kept(s->trainer) * sizeof *s->kept);
    if (!s->kept)
        return base_fail(why, BASE_ENOMEM, "out of memory for the last good state of %zu parameters", d);
    s->trainee = (struct node_built_in){.lends = !s->kernels->shares_host && node_setup_lends(s->config),
                                        .config = s->config,
                                        .trainer = s->trainer,
                                        .outer = s->outer,
                                        .round_start = s->round_start,
                                        .kept = s->kept,
                                        .blob = s->blob};
    describe(s);
    return BASE_OK;
}

enum base_error node_setup_model_file(struct node_setup *s, struct base_reason *why)
{
    char path[NODE_PATH_BYTES];
    struct node_model_file file = {.spec = *train_model_spec(s->model), .about = s->about};
    enum base_error error = node_place_path(s->config->node.dir, NODE_MODEL_LAST, path, why);
    if (error)
        return error;
    snprintf(file.about.origin, sizeof file.about.origin, "node %s, step %llu", s->name,
             (unsigned long long)train_trainer_steps_done(s->trainer));
    train_trainer_fetch(s->trainer);
    file.parameters = train_trainer_model(s->trainer);
    return node_model_write(path, &file, why);
}
