// Checks of train.* and average.*, and the parsing of their keys that have a syntax.
#include "base/log.h"
#include "compress/filter.h"
#include "node/config/private.h"
#include "node/schema/private.h"
#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define FRESH_LEAST 0.01 // of the model, in an exchange
#define AUTO_LEAST  (1.0 / 32)

static enum base_error parse_step(const char *text, double *at, double *factor, struct base_reason *why)
{
    char found[SCHEMA_FOUND_BYTES];
    const char *colon = strchr(text, ':');
    if (colon && node_schema_parse_real(text, (size_t)(colon - text), at) && *at >= 0 && *at <= 1 &&
        node_schema_parse_real(colon + 1, strlen(colon + 1), factor) && *factor >= 0 && *factor <= 1000)
        return BASE_OK;
    node_schema_found(text, strlen(text), found);
    return base_fail(
        why, BASE_EINVAL,
        "found %s, expected at:factor, the first from 0 to 1, the second from 0 to 1000, such as 0.6:0.3",
        found);
}

enum base_error node_config_schedule(const struct node_config *config, struct train_schedule *schedule,
                                     struct base_reason *why)
{
    static const char key[] = "train.schedule";
    const struct node_texts *texts = &config->train.schedule;
    struct train_schedule parsed = {.count = texts->count};
    if (texts->count > TRAIN_SCHEDULE_STEPS)
        return node_config_fail(config, key, BASE_ELIMIT, why, "found %zu steps, expected at most %d",
                                texts->count, TRAIN_SCHEDULE_STEPS);
    for (size_t i = 0; i < texts->count; i++) {
        enum base_error error = parse_step(texts->items[i], &parsed.at[i], &parsed.factor[i], why);
        if (!error && i && parsed.at[i] <= parsed.at[i - 1])
            error =
                base_fail(why, BASE_EINVAL, "found \"%s\" after \"%s\", expected steps in ascending order",
                          texts->items[i], texts->items[i - 1]);
        if (error)
            return node_config_at(config, key, why, error);
    }
    parsed.decay = (enum train_decay)config->train.decay;
    if (parsed.decay == TRAIN_DECAY_COSINE)
        parsed.count = 0; // train.schedule has a default, which does not count here
    parsed.warmup = config->train.warmup;
    parsed.floor = config->train.floor;
    *schedule = parsed;
    return BASE_OK;
}

// Names the optimisers that use a key; `use` 0: those that share a second moment.
static void warn_of_optimizers(const struct node_config *config, const char *key, unsigned use)
{
    char text[128] = "train.optimizer is ";
    const size_t begin = strlen(text);
    for (int kind = 0; kind < TRAIN_OPTIMIZERS; kind++) {
        const struct train_optimizer *one = train_optimizer((enum train_optimizer_kind)kind);
        const size_t used = strlen(text);
        if (use ? one->uses & use : one->shared >= 0)
            snprintf(text + used, sizeof text - used, "%s%s", used > begin ? " or " : "", one->name);
    }
    node_config_warn_unused(config, key, text);
}

// Warns of keys that this optimiser does not use, and of a high rate.
static void warn_optimizer(const struct node_config *config)
{
    static const struct {
        const char *key;
        unsigned use;
    } keys[] = {{"train.momentum", TRAIN_USES_MOMENTUM},
                {"train.beta1", TRAIN_USES_BETAS},
                {"train.beta2", TRAIN_USES_BETAS},
                {"train.epsilon", TRAIN_USES_EPSILON}};
    const struct train_optimizer *optimizer =
        train_optimizer((enum train_optimizer_kind)config->train.optimizer);
    char text[80];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!(optimizer->uses & keys[i].use))
            warn_of_optimizers(config, keys[i].key, keys[i].use);
    if (optimizer->shared < 0)
        warn_of_optimizers(config, "average.share_second_moment", 0);
    snprintf(text, sizeof text, "is high for %s; about %g is usual", optimizer->name, optimizer->rate_usual);
    if (config->train.rate > optimizer->rate_high)
        node_config_say(BASE_LOG_WARN, config, "train.rate", "%s", text);
}

static enum base_error check_shrink(const struct node_config *config, struct base_reason *why)
{
    const struct {
        const char *key;
        bool used;
    } keys[] = {{"train.l1", config->train.l1 > 0},
                {"train.l2", config->train.l2 > 0},
                {"train.blocks", config->train.blocks > 1}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys && config->model.kind != TRAIN_LOGISTIC; i++)
        if (keys[i].used)
            return node_config_refuse(config, keys[i].key, why,
                                      "found a value for model.kind %s, expected model.kind logistic",
                                      train_model_kind_name((enum train_model_kind)config->model.kind));
    if (!(config->train.l1 > 0 || config->train.l2 > 0))
        return BASE_OK;
    if (config->train.optimizer != TRAIN_SGD)
        return node_config_refuse(config, "train.optimizer", why,
                                  "found %s with train.l1 or train.l2, expected sgd",
                                  train_optimizer((enum train_optimizer_kind)config->train.optimizer)->name);
    if (config->average.outer_momentum > 0)
        return node_config_refuse(
            config, "average.outer_momentum", why,
            "found a value with train.l1 or train.l2, expected 0: it moves weights that are 0");
    if (config->train.scale_rate)
        return node_config_refuse(config, "train.scale_rate", why,
                                  "found true with train.l1 or train.l2, expected false: their steps must "
                                  "have the same length on all nodes");
    return BASE_OK;
}

enum base_error node_config_check_train(const struct node_config *config, struct base_reason *why)
{
    struct train_schedule schedule;
    enum base_error error = node_config_schedule(config, &schedule, why);
    if (error)
        return error;
    if (config->train.steps == 0 && schedule.count > 0 &&
        node_schema_is_set(&node_config_schema, config, "train.schedule"))
        return node_config_refuse(config, "train.schedule", why,
                                  "found parts of all steps, but train.steps is 0, which trains until it is "
                                  "stopped; expected train.schedule: [] or train.steps above 0");
    if (config->train.steps > 0 && config->average.local_steps > config->train.steps)
        return node_config_refuse(config, "average.local_steps", why,
                                  "found %" PRIu64 ", expected at most train.steps, which is %" PRIu64,
                                  config->average.local_steps, config->train.steps);
    error = check_shrink(config, why);
    if (error)
        return error;
    warn_optimizer(config);
    node_config_warn_unused(
        config, config->train.decay == TRAIN_DECAY_COSINE ? "train.schedule" : "train.floor",
        config->train.decay == TRAIN_DECAY_COSINE ? "train.decay is steps" : "train.decay is cosine");
    if (config->train.scale_rate && config->average.drift_correction)
        node_config_say(
            BASE_LOG_WARN, config, "train.scale_rate",
            "is for runs without average.drift_correction, which by itself makes slow nodes count");
    return BASE_OK;
}

enum base_error node_config_filters(const struct node_config *config, struct compress_filters *filters,
                                    struct base_reason *why)
{
    const struct node_texts *texts = &config->average.filters;
    struct compress_filters chain = {0};
    for (size_t i = 0; i < texts->count; i++) {
        struct compress_filters item;
        enum base_error error = compress_filters_parse(texts->items[i], &item, why);
        for (size_t j = 0; !error && j < item.count; j++)
            error = compress_filters_add(&chain, item.chain[j].filter->name, item.chain[j].number, why);
        if (error)
            return node_config_at(config, "average.filters", why, error);
    }
    *filters = chain;
    return BASE_OK;
}

// auto: what a large model gets; the size of this one is not known yet.
static double least_ratio(const struct node_config *config)
{
    return config->average.ratio > 0 ? config->average.ratio : AUTO_LEAST;
}

// Below this part, models of nodes with uneven data fall apart, whether it is the ratio or a filter that
// makes it so small.
static void warn_of_few_fresh(const struct node_config *config, const struct compress_filters *filters)
{
    const double ratio = least_ratio(config), fresh = compress_filters_fresh(filters, ratio);
    if (filters->count && fresh < FRESH_LEAST && fresh < ratio)
        node_config_say(
            BASE_LOG_WARN, config, "average.filters",
            "with average.ratio 1/%.0f, an exchange sends only 1/%.0f of the model anew: the filters drop the "
            "rest, or send the same positions again. That is as little as a ratio of 1/%.0f, and nodes with "
            "uneven data may end far apart; use fewer repetitions (same-keys), or a larger ratio",
            1 / ratio, 1 / fresh, 1 / fresh);
}

enum base_error node_config_check_average(const struct node_config *config, struct base_reason *why)
{
    char floor[SCHEMA_REAL_BYTES], ceiling[SCHEMA_REAL_BYTES];
    if (config->average.deadline_floor_ns > config->average.deadline_ceiling_ns) {
        node_schema_print_duration(config->average.deadline_floor_ns, floor);
        node_schema_print_duration(config->average.deadline_ceiling_ns, ceiling);
        return node_config_refuse(config, "average.deadline_floor", why,
                                  "found %s, expected at most average.deadline_ceiling, which is %s", floor,
                                  ceiling);
    }
    if (config->average.select_block && (double)config->average.select_block * least_ratio(config) < 1)
        return node_config_refuse(
            config, "average.select_block", why,
            "found %" PRIu64
            ", expected at least 1 / average.ratio, which is %.0f: each block must have a value to send",
            config->average.select_block, ceil(1 / least_ratio(config)));
    struct compress_filters filters;
    enum base_error error = node_config_filters(config, &filters, why);
    if (error)
        return error;
    warn_of_few_fresh(config, &filters);
    if (config->average.outer_momentum > 0 && config->average.drift_correction)
        node_config_say(BASE_LOG_WARN, config, "average.outer_momentum",
                        "adds nothing to average.drift_correction; use one of the two");
    return BASE_OK;
}
