// From the configuration to model, trainer and exchange, for the node and for the lab.
#include "base/hash.h"
#include "node/config/private.h"
#include "node/learn/data.h"
#include "node/setup.h"

#include <stdio.h>
#include <string.h>

#define EVAL_BATCH 128u

struct node_model_about node_setup_about(const struct node_config *config, const struct train_dataset *data)
{
    struct node_model_about about = {
        .input_divisor = data->input_divisor, .first_label = data->first_label, .split = data->split};
    size_t used = 0;
    snprintf(about.kind, sizeof about.kind, "%s", node_config_data_kind(config));
    if (!data->tokens) {
        about.meaning = data->meaning;
        return about;
    }
    about.text = data->meaning->text;
    for (size_t i = 0; i < data->meaning->classes.count; i++) { // they fit: train/tokens.c bounds them
        const int bytes = snprintf(about.characters + used, sizeof about.characters - used, "%s",
                                   data->meaning->classes.items[i]);
        BASE_ASSERT(bytes > 0 && (size_t)bytes < sizeof about.characters - used);
        used += (size_t)bytes;
    }
    return about;
}

static struct train_model_spec spec_of(const struct node_config *config, const struct train_dataset *data)
{
    struct train_model_spec spec = {.kind = (enum train_model_kind)config->model.kind,
                                    .inputs = data->features,
                                    .classes = data->outputs > 0 ? data->outputs : data->classes,
                                    .loss = (enum train_loss)config->model.loss};
    if (spec.kind == TRAIN_MLP) {
        BASE_ASSERT(config->model.hidden.count <= LIMIT_LAYERS);
        spec.n_hidden = config->model.hidden.count;
        for (size_t i = 0; i < spec.n_hidden; i++)
            spec.hidden[i] = config->model.hidden.items[i];
    }
    if (spec.kind > TRAIN_GPT2 && spec.kind != TRAIN_LOGISTIC)
        spec.image = (struct train_image){data->height, data->width, data->channels};
    if (spec.kind == TRAIN_GPT2)
        spec.decoder = (struct train_decoder){.layers = config->model.layers,
                                              .width = config->model.width,
                                              .heads = config->model.heads,
                                              .dropout = (float)config->model.dropout};
    return spec;
}

static enum base_error read_start(const struct node_config *config, const struct train_model_spec *spec,
                                  struct node_model_file *file, struct base_reason *why)
{
    enum base_error error = train_spec_check(spec, why);
    if (error)
        return error;
    error = node_model_read(config->model.init, spec, file, why);
    return error ? node_config_at(config, "model.init", why, error) : BASE_OK;
}

enum base_error node_setup_check_start(const struct node_config *config, const struct train_dataset *data,
                                       struct base_reason *why)
{
    struct node_model_file file = {0};
    const struct train_model_spec spec = spec_of(config, data);
    enum base_error error = config->model.init[0] ? read_start(config, &spec, &file, why) : BASE_OK;
    node_model_free(&file);
    return error;
}

enum base_error node_setup_start(const struct node_config *config, const struct train_model *model,
                                 float *start, struct base_reason *why)
{
    struct node_model_file file;
    if (!config->model.init[0]) {
        train_model_initialise(model, config->model.seed, start);
        return BASE_OK;
    }
    enum base_error error = read_start(config, train_model_spec(model), &file, why);
    if (error)
        return error;
    memcpy(start, file.parameters, train_model_parameters(model) * sizeof *start);
    node_model_free(&file);
    return BASE_OK;
}

enum base_error node_setup_model(const struct node_config *config, const struct train_dataset *data,
                                 const struct kernels *kernels, struct train_model **model,
                                 struct base_reason *why)
{
    const struct train_model_spec spec = spec_of(config, data);
    // A window of text is many rows, so the batch of a step is large enough for an evaluation.
    const uint64_t micro = config->train.micro_batch;
    const size_t step = micro && micro < config->train.batch ? micro : config->train.batch;
    const size_t batch = step > EVAL_BATCH || data->tokens ? step : EVAL_BATCH;
    return train_model_create(&spec, kernels, batch, model, why);
}

enum base_error node_setup_parameters(const struct node_config *config, const struct train_dataset *data,
                                      const struct kernels *host, size_t *parameters, struct base_reason *why)
{
    const struct train_model_spec spec = spec_of(config, data);
    struct train_model *model;
    enum base_error error = train_model_create(&spec, host, 1, &model, why);
    if (error)
        return error;
    *parameters = train_model_parameters(model);
    train_model_destroy(model);
    return BASE_OK;
}

const char *node_setup_device(const struct node_config *config)
{
    static const char *const devices[] = {
        [NODE_DEVICE_CPU] = "cpu", [NODE_DEVICE_CUDA] = "cuda", [NODE_DEVICE_AUTO] = "auto"};
    _Static_assert(sizeof devices / sizeof *devices == NODE_DEVICES, "every device has a name");
    return devices[config->device.kind];
}

// Outer momentum is taken on the host, and references in bf16 are there only.
bool node_setup_lends(const struct node_config *config)
{
    const bool host = config->average.outer_momentum > 0 || config->average.reference == NODE_REFERENCE_BF16;
    return config->device.exchange == NODE_EXCHANGE_DEVICE ||
           (config->device.exchange == NODE_EXCHANGE_AUTO && !host);
}

enum base_error node_setup_trainer(const struct node_config *config, const char *self,
                                   struct train_model *model, const struct train_dataset *data,
                                   const float *start, struct train_trainer **trainer,
                                   struct base_reason *why)
{
    struct train_options options = {
        .optimizer = (enum train_optimizer_kind)config->train.optimizer,
        .rate = config->train.rate,
        .momentum = config->train.momentum,
        .weight_decay = config->train.weight_decay,
        .beta1 = config->train.beta1,
        .beta2 = config->train.beta2,
        .epsilon = config->train.epsilon,
        .steps = config->train.steps,
        .batch = config->train.batch,
        .micro_batch = config->train.micro_batch,
        .clip_norm = config->train.clip_norm,
        .proximal = config->train.proximal,
        .augment = {.crop = config->data.crop, .flip = config->data.flip},
        .holds_back = node_config_hold(config) > 0,
        .uncorrected = !config->average.drift_correction,
        .l1 = config->train.l1,
        .l2 = config->train.l2,
        .blocks = config->train.blocks,
        .block_seed = config->model.seed,
        .weight = node_data_weight(config, data, config->data.shards),
        // nodes that share a shard must not see it in the same order, even if they have one configuration
        .seed = base_hash_bytes(config->train.seed, self, strlen(self)),
    };
    enum base_error error = node_config_schedule(config, &options.schedule, why);
    if (error)
        return error;
    return train_trainer_create(&options, model, data, start, trainer, why);
}

// Of one step each: a neighbour's correction acts at full strength for 8 rounds per edge.
#define OVERLAP_ROUNDS 16u

enum base_error node_setup_exchange_options(const struct node_config *c,
                                            struct gossip_exchange_options *options, struct base_reason *why)
{
    struct compress_filters filters;
    enum base_error error = node_config_filters(c, &filters, why);
    if (error)
        return error;
    bool moments = train_optimizer((enum train_optimizer_kind)c->train.optimizer)->shared >= 0;
    *options = (struct gossip_exchange_options){
        .ratio = (float)c->average.ratio,
        .values = (enum kernels_format)c->average.values,
        .selection = {.method = (enum compress_method)c->average.select,
                      .block = (size_t)c->average.select_block},
        .filters = filters,
        .sync = c->average.mode == NODE_MODE_SYNC,
        .bounded = c->average.mode == NODE_MODE_BOUNDED,
        .max_delay = c->average.max_delay,
        .hold = (float)node_config_hold(c),
        .overlap = c->average.local_steps == 1 ? OVERLAP_ROUNDS : 0,
        .robust = (enum gossip_robust)c->average.robust,
        .on_death = (enum gossip_on_death)c->average.on_death,
        .fade_rounds = (unsigned)c->average.fade_rounds,
        .reference_bf16 = c->average.reference == NODE_REFERENCE_BF16,
        .drift_correction = c->average.drift_correction,
        .drift_gain = (float)c->average.drift_gain,
        .drift_limit = (float)c->average.drift_limit,
        .share_second_moment = moments ? (unsigned)c->average.share_second_moment : 0,
        .deadline_floor_ns = c->average.deadline_floor_ns,
        .deadline_ceiling_ns = c->average.deadline_ceiling_ns,
    };
    return BASE_OK;
}
