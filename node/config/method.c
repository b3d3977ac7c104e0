// average.method: what it requires of other keys, what it sets itself, and where it can run.
#include "compress/compress.h"
#include "compress/select.h"
#include "node/config/private.h"
#include "node/schema/private.h"
#include "train/optimizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static enum base_error refuse(const struct node_config *config, const char *key, struct base_reason *why,
                              const char *found, const char *expected)
{
    return node_config_refuse(
        config, key, why,
        "found %s; leave the key out, or set it to %s: average.method is model-average, which sends whole models",
        found, expected);
}

static bool is_given(const struct node_config *config, const char *key)
{
    return !node_schema_is_initial(&node_config_schema, config, key);
}

// A key may be present with its default, as in a file that lists all keys; another value was meant to have an
// effect.
static enum base_error check_model_average(const struct node_config *config, struct base_reason *why)
{
    char found[64];
    if (is_given(config, "average.ratio") && config->average.ratio < 1) {
        snprintf(found, sizeof found, "%g", config->average.ratio);
        return refuse(config, "average.ratio", why, found, "1");
    }
    if (is_given(config, "average.values") && config->average.values != KERNELS_FP32)
        return refuse(config, "average.values", why,
                      compress_format_name((enum kernels_format)config->average.values), "fp32");
    if (config->average.reference != NODE_REFERENCE_FP32)
        return refuse(config, "average.reference", why, "bf16", "fp32");
    if (config->average.select_block) {
        snprintf(found, sizeof found, "%" PRIu64, config->average.select_block);
        return refuse(config, "average.select_block", why, found, "0");
    }
    if (config->average.filters.count) {
        snprintf(found, sizeof found, "%zu filters", config->average.filters.count);
        return refuse(config, "average.filters", why, found, "[]");
    }
    return BASE_OK;
}

static void warn_unused(const struct node_config *config)
{
    int method = config->average.method;
    if (method != NODE_METHOD_CHOCO)
        node_config_warn_unused(config, "average.step_size", "average.method is choco");
    if (method != NODE_METHOD_DILOCO && method != NODE_METHOD_NOLOCO && method != NODE_METHOD_SPARSELOCO) {
        node_config_warn_unused(config, "average.outer_rate",
                                "average.method is diloco, noloco or sparseloco");
        node_config_warn_unused(config, "average.outer_nesterov",
                                "average.method is diloco, noloco or sparseloco");
    }
    if (method != NODE_METHOD_EDGE_REF) {
        node_config_warn_unused(config, "average.hold", "average.method is edge-ref");
        node_config_warn_unused(config, "average.reference", "average.method is edge-ref");
    }
    if (config->average.mode == NODE_MODE_SYNC)
        node_config_warn_unused(config, "average.max_delay", "average.mode is async or bounded");
    if (method == NODE_METHOD_LOCAL)
        node_config_warn_unused(config, "train.alone", "models are averaged");
}

enum base_error node_config_check_method(const struct node_config *config, struct base_reason *why)
{
    warn_unused(config);
    return config->average.method == NODE_METHOD_MODEL_AVERAGE ? check_model_average(config, why) : BASE_OK;
}

enum base_error node_config_check_runnable_method(const struct node_config *config, struct base_reason *why)
{
    if (config->average.method < NODE_METHOD_CHOCO)
        return BASE_OK;
    char *name = node_schema_value(&node_config_schema, config, "average.method");
    const enum base_error error = node_config_refuse(
        config, "average.method", why,
        "%s is a baseline of p2pml sim; expected edge-ref, model-average or local", name ? name : "this");
    free(name);
    return error;
}

bool node_config_stops_alone(const struct node_config *config)
{
    return config->train.alone == NODE_ALONE_STOP && config->average.method != NODE_METHOD_LOCAL;
}

// Where steps are divided by a second moment, hold lets every rate learn more; with plain gradient steps it
// costs as often as it gains (gossip/exchange/MEASUREMENTS.md).
#define HOLD 0.5

double node_config_hold(const struct node_config *config)
{
    if (config->average.method != NODE_METHOD_EDGE_REF)
        return 0;
    if (config->average.hold >= 0)
        return config->average.hold;
    return train_optimizer((enum train_optimizer_kind)config->train.optimizer)->shared >= 0 ? HOLD : 0;
}

// Drops a schedule that was not configured: its steps are parts of a total that does not exist.
static void drop_schedule(struct node_config *config)
{
    struct node_texts *schedule = &config->train.schedule;
    for (size_t i = 0; i < schedule->count; i++)
        free(schedule->items[i]);
    schedule->count = 0;
}

void node_config_complete(struct node_config *config)
{
    if (config->train.steps == 0)
        drop_schedule(config);
    if (config->average.method != NODE_METHOD_MODEL_AVERAGE)
        return;
    config->average.ratio = 1;
    config->average.values = KERNELS_FP32;
    config->average.select = COMPRESS_EXACT;
    config->average.reference = NODE_REFERENCE_FP32;
    config->average.drift_correction = false;
    config->average.hold = 0; // everything is sent
}
