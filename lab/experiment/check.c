// The experiments that `p2pml run` and each engine of `p2pml sim` accept.
#include "base/log.h"
#include "lab/experiment/experiment.h"
#include "topology/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The methods that are state machines between two ends, and so can run on nodes.
static bool runs_on_nodes(int method)
{
    return method == NODE_METHOD_EDGE_REF || method == NODE_METHOD_MODEL_AVERAGE ||
           method == NODE_METHOD_LOCAL;
}

enum lab_engine lab_experiment_engine(const struct lab_experiment *e)
{
    if (e->sim.engine != LAB_ENGINE_AUTO)
        return (enum lab_engine)e->sim.engine;
    return e->sim.vector || !runs_on_nodes(e->node.average.method) ? LAB_ENGINE_ROUNDS : LAB_ENGINE_NODES;
}

static enum base_error check_nodes_max(const struct lab_experiment *e, size_t most, const char *whose,
                                       struct base_reason *why)
{
    if (e->experiment.nodes <= most)
        return BASE_OK;
    return lab_experiment_refuse(e, "experiment.nodes", why, "found %" PRIu64 ", expected at most %zu %s",
                                 e->experiment.nodes, most, whose);
}

static enum base_error check_method(const struct lab_experiment *e, struct base_reason *why)
{
    if (runs_on_nodes(e->node.average.method))
        return BASE_OK;
    return lab_experiment_refuse(
        e, "average.method", why,
        "this method is not an exchange between two nodes, expected edge-ref, model-average or local; p2pml "
        "sim with sim.engine rounds runs it");
}

enum base_error lab_experiment_graph(const struct lab_experiment *e, struct topology_graph **graph,
                                     struct base_reason *why)
{
    size_t n = (size_t)e->experiment.nodes;
    struct node_config view;
    *graph = NULL;
    if (e->node.topology.kind != TOPOLOGY_FILE)
        return BASE_OK;
    struct topology_member *known = calloc(n, sizeof *known);
    if (!known)
        return base_fail(why, BASE_ENOMEM, "no memory for the names of %zu nodes", n);
    for (size_t i = 0; i < n; i++)
        lab_node_name(i, known[i].name);
    lab_experiment_view(e, &view);
    enum base_error error = node_config_graph(&view, known, n, graph, why);
    free(known);
    return error;
}

enum base_error lab_experiment_check_graph(const struct lab_experiment *e, struct base_reason *why)
{
    struct topology_graph *graph = NULL;
    enum base_error error = lab_experiment_graph(e, &graph, why);
    topology_graph_destroy(graph);
    return error;
}

enum base_error lab_experiment_check_run(const struct lab_experiment *e, struct base_reason *why)
{
    enum base_error error = check_nodes_max(
        e, LAB_PROCESSES_MAX, "with p2pml run, where each is a process; p2pml sim allows more", why);
    if (!error)
        error = check_method(e, why);
    if (!error) {
        struct node_config view;
        lab_experiment_view(e, &view);
        error = node_config_check_runnable(&view, why);
    }
    if (!error && e->sim.vector)
        error = lab_experiment_refuse(
            e, "sim.vector", why,
            "found in an experiment of p2pml run, expected only with p2pml sim; with 0 the nodes train");
    if (!error && e->hostile.count)
        error =
            lab_experiment_refuse(e, "attackers", why,
                                  "found in an experiment of p2pml run, expected only with p2pml sim: real "
                                  "nodes hold no attacker");
    return error;
}

static enum base_error check_nodes_engine(const struct lab_experiment *e, struct base_reason *why)
{
    enum base_error error =
        check_nodes_max(e, LAB_NODES_MAX, "with sim.engine nodes; sim.vector allows more", why);
    if (!error)
        error = check_method(e, why);
    if (!error && e->sim.vector)
        error = lab_experiment_refuse(e, "sim.vector", why,
                                      "found it with sim.engine nodes, expected sim.engine rounds, or 0");
    return error;
}

enum base_error lab_experiment_check_sim(const struct lab_experiment *e, struct base_reason *why)
{
    if (lab_experiment_engine(e) == LAB_ENGINE_NODES)
        return check_nodes_engine(e, why);
    if (e->hostile.count)
        return lab_experiment_refuse(
            e, "attackers", why,
            "found with sim.engine rounds, expected sim.engine nodes: there the nodes speak "
            "the protocol");
    if (e->sim.vector && e->experiment.nodes > LAB_NODES_MAX && e->events.count)
        return lab_experiment_refuse(e, "events", why, "found events, expected none for more than %u nodes",
                                     LAB_NODES_MAX);
    return e->sim.vector ? BASE_OK
                         : check_nodes_max(e, LAB_NODES_MAX, "that train; sim.vector allows more", why);
}

// Keys of processes, which do not exist in virtual time.
static bool is_of_process(const char *key)
{
    static const char *const heads[] = {"log.",           "metrics.",        "checkpoint.keep",
                                        "device.threads", "device.exchange", "experiment.stop_grace"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (strncmp(key, heads[i], strlen(heads[i])) == 0)
            return true;
    return false;
}

void lab_experiment_warn_ignored(const struct lab_experiment *e, bool is_virtual)
{
    for (size_t i = 0; i < e->schema.count; i++) {
        const char *key = e->schema.keys[i].name;
        const bool ignored = is_virtual ? is_of_process(key) : strncmp(key, "sim.", 4) == 0;
        if (ignored && node_schema_is_set(&e->schema, e, key) && !node_schema_is_initial(&e->schema, e, key))
            base_log(BASE_LOG_WARN, "config", "%s: %s: has no effect with p2pml %s, only with p2pml %s",
                     node_schema_origin(&e->schema, e, key), key, is_virtual ? "sim" : "run",
                     is_virtual ? "run" : "sim");
    }
}

const char *lab_node_name(size_t node, char name[LAB_NODE_NAME_BYTES])
{
    snprintf(name, LAB_NODE_NAME_BYTES, "node-%02zu", node);
    return name;
}

const char *lab_group_name(const struct lab_experiment *e, size_t node, char name[LAB_NODE_NAME_BYTES])
{
    name[0] = 0;
    if (e->experiment.group_size)
        snprintf(name, LAB_NODE_NAME_BYTES, "group-%02zu", node / (size_t)e->experiment.group_size);
    return name;
}
