#include "node/config/compatibility.h"
#include "base/hash.h"
#include "gossip/links/links.h"
#include "topology/topology.h"
#include "train/meaning.h"
#include "train/optimizer.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_MAX 128u // longer values are told by their hash
#define SEPARATOR "; "

static bool is_random(const struct node_config *config)
{
    return config->topology.kind == TOPOLOGY_RANDOM;
}

static bool is_base(const struct node_config *config)
{
    return config->topology.kind == TOPOLOGY_BASE;
}

static bool corrects(const struct node_config *config)
{
    return config->average.drift_correction;
}

static bool has_moments(const struct node_config *config)
{
    return train_optimizer((enum train_optimizer_kind)config->train.optimizer)->shared >= 0;
}

// In this order: where two nodes have not the same keys here, an earlier one differs.
static const struct {
    const char *key;
    bool (*counts)(const struct node_config *config); // NULL: always
} shared[] = {
    {"train.steps", NULL},
    {"train.schedule", NULL},
    {"train.optimizer", NULL},
    {"average.local_steps", NULL},
    {"average.method", NULL},
    {"average.drift_correction", NULL},
    {"average.drift_gain", corrects},
    {"average.drift_limit", corrects},
    {"average.outer_momentum", NULL},
    {"average.share_second_moment", has_moments},
    {"average.clip", NULL},
    {"model.seed", NULL},
    {"data.seed", NULL},
    {"cluster.profile", NULL},
    {"topology.kind", NULL},
    {"topology.seed", NULL},
    {"topology.rings", is_random},
    {"topology.base_k", is_base},
};

static void put(char rules[LIMIT_RULES_BYTES], const char *key, const char *value)
{
    const size_t used = strlen(rules), length = strlen(value);
    const size_t left = LIMIT_RULES_BYTES - used;
    int put;

    if (length <= VALUE_MAX)
        put = snprintf(rules + used, left, "%s%s: %s", used ? SEPARATOR : "", key, value);
    else
        put = snprintf(rules + used, left, "%s%s: %.16s... (hash %016" PRIx64 ")", used ? SEPARATOR : "", key,
                       value, base_hash_bytes(0, value, length));
    BASE_ASSERT(put > 0 && (size_t)put < left);
}

enum base_error node_greeting_rules(const struct node_config *config, uint64_t graph, uint64_t start,
                                    char rules[LIMIT_RULES_BYTES])
{
    char hash[17];

    rules[0] = '\0';
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        if (shared[i].counts && !shared[i].counts(config))
            continue;
        char *value = node_schema_value(&node_config_schema, config, shared[i].key);
        if (!value)
            return BASE_ENOMEM;
        put(rules, shared[i].key, value);
        free(value);
    }
    snprintf(hash, sizeof hash, "%016" PRIx64, start);
    put(rules, "model.init", config->model.init[0] ? hash : "none");
    put(rules, "average.mode", config->average.mode == NODE_MODE_BOUNDED ? "bounded" : "sync or async");
    snprintf(hash, sizeof hash, "%016" PRIx64, graph);
    if (config->topology.kind == TOPOLOGY_FILE)
        put(rules, "topology.file", hash);
    return BASE_OK;
}

static size_t length_of(const char *rule)
{
    const char *end = strstr(rule, SEPARATOR);
    return end ? (size_t)(end - rule) : strlen(rule);
}

static const char *next_of(const char *rule)
{
    rule += length_of(rule);
    return *rule ? rule + strlen(SEPARATOR) : rule;
}

// The first rule that differs, with both values.
static enum base_error tell_rule(const char *ours, const char *theirs, struct base_reason *why)
{
    while (*ours && *theirs && length_of(ours) == length_of(theirs) &&
           memcmp(ours, theirs, length_of(ours)) == 0) {
        ours = next_of(ours);
        theirs = next_of(theirs);
    }
    const size_t key = strcspn(ours, ":");
    if (key == strcspn(theirs, ":") && memcmp(ours, theirs, key) == 0 && ours[key])
        return base_fail(why, BASE_EMISMATCH, "its %.*s, here it is%.*s; make it the same on all nodes",
                         (int)length_of(theirs), theirs, (int)(length_of(ours) - key - 1), ours + key + 1);
    return base_fail(why, BASE_EMISMATCH,
                     "its settings differ in what all nodes must share: \"%.*s\" there, \"%.*s\" here",
                     (int)length_of(theirs), theirs, (int)length_of(ours), ours);
}

void node_greeting_data(const struct train_meaning *meaning, char *model, size_t capacity)
{
    const size_t used = strlen(model);
    if (meaning && used < capacity)
        snprintf(model + used, capacity - used, ", data %08" PRIx32,
                 (uint32_t)(train_meaning_digest(meaning) >> 32));
}

// Both describe the same model up to its data.
static bool differ_in_data(const struct gossip_greeting *ours, const struct gossip_greeting *theirs)
{
    const char *a = strstr(ours->model, ", data "), *b = strstr(theirs->model, ", data ");
    const size_t bytes = a ? (size_t)(a - ours->model) : strlen(ours->model);
    return ours->parameters == theirs->parameters && (a || b) &&
           bytes == (b ? (size_t)(b - theirs->model) : strlen(theirs->model)) &&
           memcmp(ours->model, theirs->model, bytes) == 0;
}

enum base_error node_greeting_compare(const struct gossip_greeting *ours,
                                      const struct gossip_greeting *theirs, struct base_reason *why)
{
    switch (gossip_links_compare(ours, theirs)) {
    case GOSSIP_CLOSE_OTHER_PROTOCOL:
        return base_fail(why, BASE_EMISMATCH,
                         "it speaks protocol %" PRIu32 " (version %s), this node protocol %" PRIu32
                         " (version %s); run the same version on both",
                         theirs->protocol, theirs->version, ours->protocol, ours->version);
    case GOSSIP_CLOSE_OTHER_MODEL:
        if (differ_in_data(ours, theirs))
            return base_fail(
                why, BASE_EMISMATCH,
                "its data mean something else: %s there, %s here; columns, categories, classes and the "
                "statistics of data.scale must be the same on all nodes: write them once with 'p2pml data "
                "info FILE --stats STATS', copy STATS to every node and name it in data.scale_from",
                theirs->model, ours->model);
        return base_fail(why, BASE_EMISMATCH,
                         "it trains another model: %s (%" PRIu64 " parameters) there, %s (%" PRIu64
                         " parameters) here; make model.* and the shape of the data the same",
                         theirs->model, theirs->parameters, ours->model, ours->parameters);
    case GOSSIP_CLOSE_OTHER_RULES:
        return tell_rule(ours->rules, theirs->rules, why);
    default:
        return BASE_OK;
    }
}
