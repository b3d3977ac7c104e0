#include "lab/experiment/experiment.h"

#include "base/limits.h"
#include "lab/experiment/network.h"
#include "lab/experiment/step_times.h"
#include "train/optimizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_OF struct lab_experiment
#include "node/schema/rows.h"

#define DAY      86400.0
#define SEED_MAX 4294967295.0 // of experiment.seed; the seeds of a node have 64 bits

static const struct node_key own_keys[] = {
    TEXT("experiment.name", experiment.name, "",
         "Name of the experiment: letters, digits, '.', '_' and '-'. Empty: the name of its file."),
    INTEGER("experiment.nodes", experiment.nodes, "8", 2, LAB_EXPERIMENT_NODES_MAX,
            "Number of nodes. Each trains on its shard of the data. p2pml run: one process per node on "
            "this host, at most 64. p2pml sim: at most 1,024, or 10,000 with sim.vector."),
    TEXT("experiment.out", experiment.out, "",
         "Directory of the run: one directory per node, and summary.json. Empty: run/ and the name. "
         "--out takes precedence."),
    TEXTS("experiment.baselines", experiment.baselines, "[lone, central, central_total]",
          "Baselines that are trained for comparison. lone: every shard alone. central: one model on "
          "all data, with as many examples as one node. central_total: the same, with as many examples "
          "as all nodes together. []: none."),
    INTEGER("experiment.seed", experiment.seed, "0", 0, SEED_MAX,
            "Added to model.seed, data.seed, train.seed and topology.seed: one number repeats the "
            "experiment with other random numbers."),
    DURATION("experiment.time_limit", experiment.time_limit_ns, "0", 0, 365 * DAY,
             "Stops the nodes after this time, as Ctrl-C does. 0: never."),
    DURATION(
        "experiment.stop_grace", experiment.stop_grace_ns, "60s", 0, DAY,
        "How long a node may take to stop before it is killed. Its last checkpoint may wait for a busy disk."),
    INTEGER("experiment.repeats", experiment.repeats, "1", 1, 1000,
            "Number of seeds for every point of a sweep: experiment.seed and those that follow it."),
    INTEGER("experiment.group_size", experiment.group_size, "0", 0, LAB_EXPERIMENT_NODES_MAX,
            "Nodes per group (host or rack), counted from node 0, for topology.kind hierarchical. 0: no "
            "groups."),
    TEXTS("experiment.targets", experiment.targets, "[0.93, 0.95]",
          "Accuracies between 0 and 1. The result reports the bytes and the time at which the averaged "
          "model and the worst node first reached them."),
    CHOICE("sim.engine", sim.engine, "auto", "auto|nodes|rounds",
           "p2pml sim: nodes simulates processes with membership, links and messages in virtual time; "
           "rounds runs lock-step rounds and only computes bytes and times. auto: nodes if average.method "
           "can run on nodes, else rounds."),
    CHOICE("sim.membership", sim.membership, "gossip", "gossip|known",
           "p2pml sim: gossip runs the membership protocol of p2pml-node, byte for byte; known tells every "
           "node of each death and return at once, and sends no bytes."),
    DURATION("sim.latency", sim.latency_ns, "200us", 0, 3600, "p2pml sim: one-way delay between two nodes."),
    DURATION("sim.jitter", sim.jitter_ns, "0", 0, 3600,
             "p2pml sim: mean of an exponential delay that is added to the delay of each packet."),
    REAL("sim.loss", sim.loss, "0", 0, 0.5,
         "p2pml sim: probability that a packet is lost; streams retransmit it one round trip later."),
    RATE(
        "sim.bandwidth", sim.bandwidth, "0", 0, 1e6,
        "p2pml sim: Mbit/s of each node's connection, in each direction, or with a unit, such as 500kbit/s. 0: "
        "unlimited."),
    MAPS("sim.links", sim.links,
         "p2pml sim: links that differ: {between: [[0, 1], [2, 3]], latency: 50ms, jitter: 5ms, loss: "
         "0.01, bandwidth: 10}. between: all links from nodes of one list to nodes of the other, both "
         "ways; omitted qualities keep their defaults; later entries override earlier ones."),
    DURATION(
        "sim.step_time", sim.step_time_ns, "0", 0, 3600,
        "p2pml sim: time of one local step. 0: it is measured at the start, so that virtual times are those "
        "of this machine; the measured value is logged and is in summary.json. With "
        "sim.vector, 0 is 1ms."),
    REAL("sim.step_jitter", sim.step_jitter, "0", 0, 1,
         "p2pml sim: relative standard deviation of the time of the local steps of one round."),
    MAPS("sim.stragglers", sim.stragglers,
         "p2pml sim: nodes that take longer: {node: 3, factor: 5}; node may be a list."),
    INTEGER("sim.threads", sim.threads, "0", 0, 64,
            "p2pml sim: threads that compute local steps. The result does not depend on it. 0: one per "
            "core; in a sweep one per run, and as many runs at once as there are cores."),
    INTEGER("sim.vector", sim.vector, "0", 0, 1u << 24,
            "p2pml sim with engine rounds: no training; each node starts with a Gaussian vector of this "
            "many elements and averages for train.steps / average.local_steps rounds. 0: the nodes train."),
    INTEGER(
        "churn.every", churn.every, "0", 0, 1e9,
        "Number of rounds of the cluster between two departures: one node, drawn with experiment.seed, goes "
        "down, as if by an event. Nodes named in events are not drawn. 0: no churn."),
    INTEGER(
        "churn.back_min", churn.back_min, "50", 1, 1e9,
        "Minimum number of rounds until the node is started again. A node that would return only after the "
        "last round does not go down."),
    INTEGER("churn.back_max", churn.back_max, "200", 1, 1e9,
            "Maximum number of rounds until the node is started again."),
    CHOICE("churn.how", churn.how, "kill", "kill|leave",
           "How a node goes down: kill (kill -9) or leave (SIGTERM)."),
    MAPS("sweep", sweep,
         "A sweep of many runs: - {topology.kind: [ring, butterfly], average.ratio: [1/32, 1/100]}. "
         "The lists of one entry advance together, value by value; entries multiply. Each point has "
         "experiment.repeats runs."),
    MAPS(
        "events", events,
        "Actions on nodes: {at: 10s, kill: 3}, {at: 12s, stop: 5, for: 6s}, {at: 20s, start: 3}, "
        "{at: 21s, leave: [1, 2]}, {at: 25s, partition: [[0, 1], [2, 3]], for: 5s}. Nodes count from 0, "
        "time from the moment when all nodes train. at: {round: 200}, for: {rounds: 20}: when more than "
        "half of the nodes that train have done that many rounds. A node whose first event is start is absent "
        "before it."),
    MAPS(
        "attackers", attackers,
        "p2pml sim: nodes that give others false models and else speak the protocol honestly: {node: 3, kind: sign, "
        "factor: 5}; node may be a list. Kinds: sign, noise, big, one-entry, alie, ipm, drift, spike, replay, "
        "negated, freeride, labels, moments, stall, finished, donor, ghosts (configs/README.md). Attackers count in no figure of the result."),
};
#define OWN_KEYS (sizeof own_keys / sizeof *own_keys)

// Keys that the runner sets for each node.
static const struct {
    const char *key, *decided;
} refused[] = {
    {"node.name", "the nodes are called node-00, node-01, ..."},
    {"node.group", "experiment.group_size makes groups of the nodes"},
    {"node.dir", "each node has its own directory in that of the run, experiment.out"},
    {"node.listen", "each node gets a free port on loopback"},
    {"node.http", "each node gets a free port on loopback"},
    {"node.advertise", "each node gets a free port on loopback"},
    {"node.fault_file", "each node has its own file; events cut the network"},
    {"node.start_members", "training begins when all nodes are present that no event starts later"},
    {"node.identity", "one is made for each node"},
    {"cluster.secret_file", "a secret is made for each run"},
    {"cluster.allow_file", "the nodes of a run know each other by a secret that is made for it"},
    {"cluster.operator", "nobody removes nodes of a run"},
    {"cluster.join_rate", "all nodes of a run may start at once"},
    {"peers", "each node receives the addresses of the first three, and finds the others through them"},
    {"data.shard", "node i trains on shard i"},
    {"data.shards", "there are as many as experiment.nodes"},
};
#define REFUSED (sizeof refused / sizeof *refused)

static const char *const baseline_names[LAB_BASELINES] = {"lone", "central", "central_total"};

const char *lab_baseline_name(enum lab_baseline baseline)
{
    return baseline_names[baseline];
}

static bool is_refused(const char *key)
{
    for (size_t i = 0; i < REFUSED; i++)
        if (strcmp(refused[i].key, key) == 0)
            return true;
    return false;
}

// All keys, the node's first. `accepted`: only keys allowed in a file.
static enum base_error make_schema(bool accepted, struct node_schema *schema, struct base_reason *why)
{
    size_t count = 0;
    struct node_key *keys = calloc(node_config_schema.count + OWN_KEYS, sizeof *keys);
    if (!keys)
        return base_fail(why, BASE_ENOMEM, "no memory for the keys of an experiment");
    for (size_t i = 0; i < node_config_schema.count; i++)
        if (!accepted || !is_refused(node_config_schema.keys[i].name))
            keys[count++] = node_config_schema.keys[i];
    memcpy(keys + count, own_keys, sizeof own_keys);
    *schema =
        (struct node_schema){keys, count + OWN_KEYS, node_config_schema.former, node_config_schema.n_former};
    return BASE_OK;
}

static void free_schema(struct node_schema *schema)
{
    free((void *)schema->keys);
    *schema = (struct node_schema){0};
}

static enum base_error check_refused(const struct lab_experiment *e, struct base_reason *why)
{
    for (size_t i = 0; i < REFUSED; i++)
        if (strcmp(node_schema_origin(&e->schema, e, refused[i].key), "default") != 0)
            return lab_experiment_refuse(
                e, refused[i].key, why,
                "found in an experiment, expected only in the configuration of one node: %s; leave it out",
                refused[i].decided);
    return BASE_OK;
}

static enum base_error check_baselines(const struct lab_experiment *e, struct base_reason *why)
{
    const struct node_texts *texts = &e->experiment.baselines;
    for (size_t i = 0; i < texts->count; i++) {
        size_t known = 0;
        while (known < LAB_BASELINES && strcmp(texts->items[i], baseline_names[known]) != 0)
            known++;
        if (known == LAB_BASELINES)
            return lab_experiment_refuse(e, "experiment.baselines", why,
                                         "found \"%.64s\", expected lone, central or central_total",
                                         texts->items[i]);
    }
    return BASE_OK;
}

static enum base_error read_targets(struct lab_experiment *e, struct base_reason *why)
{
    const struct node_texts *texts = &e->experiment.targets;
    if (texts->count > LAB_TARGETS_MAX)
        return lab_experiment_refuse(e, "experiment.targets", why,
                                     "found %zu accuracies, expected at most %u", texts->count,
                                     LAB_TARGETS_MAX);
    for (size_t i = 0; i < texts->count; i++) {
        const struct node_tree text = {.kind = NODE_TREE_TEXT, .text = texts->items[i]};
        double *target = &e->targets.items[e->targets.count++];
        if (!node_tree_real(&text, target) || !(*target > 0) || *target > 1)
            return lab_experiment_refuse(e, "experiment.targets", why,
                                         "found \"%.64s\", expected an accuracy above 0 and at most 1",
                                         texts->items[i]);
    }
    return BASE_OK;
}

static bool is_name(const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    return length && !name[length] && length < LIMIT_NODE_NAME_BYTES && name[0] != '.';
}

static enum base_error check_name(const struct lab_experiment *e, struct base_reason *why)
{
    if (is_name(e->experiment.name))
        return BASE_OK;
    return lab_experiment_refuse(e, "experiment.name", why,
                                 "found \"%.64s\", expected a name of at most %u letters, digits, '.', '_' "
                                 "and '-' that does not begin with a dot",
                                 e->experiment.name, LIMIT_NODE_NAME_BYTES - 1);
}

// "configs/demo.yaml" -> "demo"
static char *name_of_file(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    return dot && dot != name ? strndup(name, (size_t)(dot - name)) : strdup(name);
}

static enum base_error replace(char **text, char *with, struct base_reason *why)
{
    if (!with)
        return base_fail(why, BASE_ENOMEM, "no memory for an experiment");
    free(*text);
    *text = with;
    return BASE_OK;
}

static enum base_error complete(const struct lab_experiment_source *source, struct lab_experiment *e,
                                struct base_reason *why)
{
    enum base_error error = BASE_OK;
    char *out = NULL;
    if (!e->experiment.name[0])
        error = replace(&e->experiment.name, name_of_file(source->path), why);
    if (!error)
        error = check_name(e, why);
    if (!error && source->out)
        error = replace(&e->experiment.out, strdup(source->out), why);
    if (!error && !e->experiment.out[0]) {
        if (asprintf(&out, "run/%s", e->experiment.name) < 0)
            out = NULL;
        error = replace(&e->experiment.out, out, why);
    }
    return error;
}

// Variables with the prefix P2PML_ that are not keys.
static const char *const other_variables[] = {
    "P2PML_NODE", "P2PML_LAB", "P2PML_CPU", "P2PML_DATA", "P2PML_SEED", "P2PML_FIXED_ADDRESSES", NULL};

static enum base_error read_sources(const struct lab_experiment_source *source, struct lab_experiment *e,
                                    struct base_reason *why)
{
    const struct node_schema_sources all = {.path = source->path,
                                            .environment = source->environment,
                                            .others = other_variables,
                                            .settings = source->settings,
                                            .origins = source->origins,
                                            .n_settings = source->n_settings};
    enum base_error error = node_schema_defaults(&e->schema, e, why);
    return error ? error : node_schema_read_all(&e->schema, &all, e, why);
}

// Training without end is refused: an experiment compares the nodes after the same number of steps.
static enum base_error check_steps(const struct lab_experiment *e, struct base_reason *why)
{
    if (e->node.train.steps > 0)
        return BASE_OK;
    return lab_experiment_refuse(
        e, "train.steps", why,
        "found 0, which means training without end, expected at least 1: an experiment has an end");
}

static uint64_t rounds_of(const struct lab_experiment *e)
{
    uint64_t local_steps = e->node.average.local_steps;
    return (e->node.train.steps + local_steps - 1) / local_steps;
}

static bool shares_second_moments(const struct node_config *node)
{
    return train_optimizer((enum train_optimizer_kind)node->train.optimizer)->shared >= 0 &&
           node->average.share_second_moment > 0;
}

static enum base_error read_attackers(struct lab_experiment *e, struct base_reason *why)
{
    const struct node_tree *where = NULL;
    enum base_error error = lab_attackers_read(&e->attackers, e->experiment.nodes, &e->hostile, &where, why);
    if (error)
        return lab_experiment_at_part(e, "attackers", where, why, error);
    if (lab_attackers_have(&e->hostile, LAB_ATTACK_MOMENTS) && !shares_second_moments(&e->node))
        return lab_experiment_refuse(
            e, "attackers", why,
            "found the kind moments, expected it only with train.optimizer adamw or muon and an "
            "average.share_second_moment above 0: else no second moments are sent");
    if (lab_attackers_have(&e->hostile, LAB_ATTACK_GHOSTS) && e->sim.membership == LAB_MEMBERSHIP_KNOWN)
        return lab_experiment_refuse(e, "attackers", why,
                                     "found the kind ghosts with sim.membership known, expected gossip: else "
                                     "nobody can make up members");
    if (lab_attackers_ghosts(&e->hostile) > LAB_GHOSTS_MAX)
        return lab_experiment_refuse(e, "attackers", why, "found %zu ghosts, expected at most %u",
                                     lab_attackers_ghosts(&e->hostile), LAB_GHOSTS_MAX);
    return BASE_OK;
}

static enum base_error read_schedule(struct lab_experiment *e, struct base_reason *why)
{
    const struct node_tree *where = NULL;
    if (e->experiment.nodes > LAB_NODES_MAX) // lab_experiment_check_sim refuses events then
        return BASE_OK;
    enum base_error error =
        lab_schedule_read(&e->events, e->experiment.nodes, rounds_of(e), &e->schedule, &where, why);
    return error ? lab_experiment_at_part(e, "events", where, why, error) : BASE_OK;
}

// Adds the events of churn after those of the file.
static enum base_error add_churn(struct lab_experiment *e, struct base_reason *why)
{
    if (!e->churn.every)
        return BASE_OK;
    if (e->churn.back_max < e->churn.back_min)
        return lab_experiment_refuse(e, "churn.back_max", why,
                                     "found %" PRIu64 ", expected at least churn.back_min, %" PRIu64,
                                     e->churn.back_max, e->churn.back_min);
    if (e->experiment.nodes > LAB_NODES_MAX)
        return lab_experiment_refuse(e, "churn.every", why, "found it for more than %u nodes, expected 0",
                                     LAB_NODES_MAX);
    enum base_error error =
        lab_churn_add(&e->churn, e->experiment.seed, e->experiment.nodes, rounds_of(e), &e->schedule, why);
    return error ? lab_experiment_at(e, "churn.every", why, error) : BASE_OK;
}

// Only checks links and step times: the simulation reads them again.
static enum base_error check_sim(const struct lab_experiment *e, struct base_reason *why)
{
    struct lab_links links = {0};
    struct lab_step_times step_times = {0};
    enum base_error error = lab_links_of(e, &links, why);
    if (!error)
        error = lab_step_times_of(e, &step_times, why);
    lab_links_free(&links);
    lab_step_times_free(&step_times);
    return error;
}

enum base_error lab_experiment_load(const struct lab_experiment_source *source,
                                    struct lab_experiment *experiment, struct base_reason *why)
{
    struct lab_experiment e = {0};
    struct node_config view;
    enum base_error error = make_schema(false, &e.schema, why);
    if (!error)
        error = read_sources(source, &e, why);
    if (!error)
        error = check_refused(&e, why);
    if (!error)
        error = check_steps(&e, why);
    if (!error)
        error = check_baselines(&e, why);
    if (!error)
        error = check_sim(&e, why);
    if (!error)
        error = read_targets(&e, why);
    if (!error)
        error = read_attackers(&e, why);
    if (!error)
        error = read_schedule(&e, why);
    if (!error)
        error = add_churn(&e, why);
    if (!error)
        error = complete(source, &e, why);
    if (!error) {
        lab_experiment_shift_seeds(&e, &view);
        error = node_config_check(&view, why);
    }
    if (!error)
        error = lab_experiment_check_graph(&e, why);
    if (error)
        lab_experiment_free(&e);
    *experiment = e;
    return error;
}

void lab_experiment_free(struct lab_experiment *experiment)
{
    lab_schedule_free(&experiment->schedule);
    lab_attackers_free(&experiment->hostile);
    if (experiment->schema.keys)
        node_schema_free(&experiment->schema, experiment);
    free_schema(&experiment->schema);
    *experiment = (struct lab_experiment){0};
}

bool lab_experiment_wants(const struct lab_experiment *experiment, enum lab_baseline baseline)
{
    const struct node_texts *texts = &experiment->experiment.baselines;
    for (size_t i = 0; i < texts->count; i++)
        if (strcmp(texts->items[i], baseline_names[baseline]) == 0)
            return true;
    return false;
}

static char *with_accepted(char *(*write)(const struct node_schema *schema, const void *config),
                           const void *config)
{
    struct node_schema schema;
    if (make_schema(true, &schema, NULL))
        return NULL;
    char *text = write(&schema, config);
    free_schema(&schema);
    return text;
}

static char *write_help(const struct node_schema *schema, const void *config)
{
    (void)config;
    return node_schema_help(schema);
}

char *lab_experiment_help(void)
{
    return with_accepted(write_help, NULL);
}

char *lab_experiment_write(const struct lab_experiment *experiment)
{
    return with_accepted(node_schema_write, experiment);
}
