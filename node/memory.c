#include "node/memory.h"

#include "base/log.h"
#include "node/setup.h"

#include <stdio.h>
#include <string.h>

static void add(char *names, size_t capacity, const char *name)
{
    const size_t used = strlen(names);
    snprintf(names + used, capacity - used, "%s%s", used ? ", " : "", name);
}

static void add_vectors(struct node_memory_side *side, const char *name, uint64_t count, uint64_t vector)
{
    if (count == 0)
        return;
    add(side->vectors, sizeof side->vectors, name);
    side->bytes += count * vector;
}

static uint64_t states_of(const struct node_config *config)
{
    const struct train_options options = {.momentum = config->train.momentum};
    const struct train_optimizer *optimizer =
        train_optimizer((enum train_optimizer_kind)config->train.optimizer);
    uint64_t states = 0;
    for (size_t i = 0; i < TRAIN_STATES; i++)
        states += optimizer->state[i] && (!optimizer->needs || optimizer->needs(&options, i));
    return states;
}

static void add_trainer(const struct node_config *config, uint64_t vector, bool on_device,
                        struct node_memory *memory)
{
    struct node_memory_side *side = on_device ? &memory->device : &memory->host;
    const uint64_t states = states_of(config), corrections = config->average.drift_correction,
                   held = node_config_hold(config) > 0;
    add_vectors(side, "model", 1, vector);
    add_vectors(side, on_device ? "gradient" : "gradient (none where it is used in pieces)", 1, vector);
    add_vectors(side, "sum of corrections", corrections, vector);
    add_vectors(side, "what is held back", held, vector);
    add_vectors(side, "state of the optimiser", states, vector);
    add_vectors(side, "start of the round", config->train.proximal > 0, vector);
    const struct train_optimizer *optimizer =
        train_optimizer((enum train_optimizer_kind)config->train.optimizer);
    add_vectors(&memory->host, "last good state", 1 + (optimizer->shared >= 0), vector);
    if (on_device)
        add_vectors(&memory->host, "copies of the trainer's vectors", 1 + corrections + held + states,
                    vector);
}

static void add_exchange(const struct node_config *config, uint64_t vector, struct node_memory_side *side)
{
    const struct train_optimizer *optimizer =
        train_optimizer((enum train_optimizer_kind)config->train.optimizer);
    const bool halves = config->average.reference == NODE_REFERENCE_BF16;
    add_vectors(side, "published model", 1, vector);
    if (config->average.share_second_moment > 0 && optimizer->shared >= 0)
        add_vectors(side, "shared second moments", 2, vector);
    add(side->edge, sizeof side->edge, "reference");
    side->edge_bytes = halves ? vector / 2 : vector;
    if (!config->average.drift_correction)
        return;
    add(side->edge, sizeof side->edge, "correction");
    side->edge_bytes *= 2;
}

void node_memory_of(const struct node_config *config, uint64_t parameters, bool on_device, bool lends,
                    struct node_memory *memory)
{
    const uint64_t vector = parameters * sizeof(float);
    *memory = (struct node_memory){0};
    add_trainer(config, vector, on_device, memory);
    if (on_device && !lends)
        add_vectors(&memory->device, "model to evaluate", 1, vector);
    add_vectors(&memory->host, "outer momentum and its start", config->average.outer_momentum > 0 ? 2 : 0,
                vector);
    add_vectors(&memory->host, "first model", config->model.init[0] != '\0', vector);
    add_exchange(config, vector, on_device && lends ? &memory->device : &memory->host);
}

static void say(const char *place, const struct node_memory_side *side)
{
    const double mib = 1024.0 * 1024.0;
    if (side->edge_bytes > 0)
        base_log(BASE_LOG_INFO, "memory", "%s: %.1f MiB: %s; and %.1f MiB for each neighbour: %s", place,
                 (double)side->bytes / mib, side->vectors, (double)side->edge_bytes / mib, side->edge);
    else if (side->bytes > 0)
        base_log(BASE_LOG_INFO, "memory", "%s: %.1f MiB: %s", place, (double)side->bytes / mib,
                 side->vectors);
}

// The kernels that a node would train with, and those of the host, which always answer.
static enum base_error open_tables(const struct node_config *config, const struct kernels **table,
                                   bool *answers, struct base_reason *why)
{
    struct base_reason unanswered = {""};
    *answers = !kernels_open(node_setup_device(config), 1, table, &unanswered);
    if (*answers)
        return BASE_OK;
    base_log(BASE_LOG_WARN, "memory", "device.kind: %s; what it would hold:", unanswered.text);
    return kernels_open("cpu", 1, table, why);
}

enum base_error node_memory_check(const struct node_config *config, const struct train_dataset *data,
                                  struct base_reason *why)
{
    const struct kernels *table;
    struct node_memory memory;
    bool answers;
    size_t parameters;
    enum base_error error = open_tables(config, &table, &answers, why);
    if (!error)
        error = node_setup_parameters(config, data, table->host, &parameters, why);
    if (error)
        return error;
    const bool on_device = !answers || !table->shares_host;
    node_memory_of(config, parameters, on_device, on_device && node_setup_lends(config), &memory);
    say(answers ? table->name : "cuda", &memory.device);
    say("host", &memory.host);
    return BASE_OK;
}
