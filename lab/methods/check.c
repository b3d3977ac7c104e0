// The experiments that this engine can run.
#include "lab/methods/engine.h"

#include <string.h>

// In the order of enum node_method.
static const struct rounds_method *const methods[] = {
    [NODE_METHOD_EDGE_REF] = &rounds_edge_ref,     [NODE_METHOD_MODEL_AVERAGE] = &rounds_model_average,
    [NODE_METHOD_LOCAL] = &rounds_local,           [NODE_METHOD_CHOCO] = &rounds_choco,
    [NODE_METHOD_DPSGD] = &rounds_dpsgd,           [NODE_METHOD_ALLREDUCE] = &rounds_allreduce,
    [NODE_METHOD_DILOCO] = &rounds_diloco,         [NODE_METHOD_NOLOCO] = &rounds_noloco,
    [NODE_METHOD_SPARSELOCO] = &rounds_sparseloco,
};
_Static_assert(sizeof methods / sizeof *methods == NODE_METHODS, "a method without its functions");

const struct rounds_method *rounds_method_of(const struct lab_experiment *experiment)
{
    return methods[experiment->node.average.method];
}

static enum base_error check_events(const struct lab_experiment *e, struct base_reason *why)
{
    char place[512];
    for (size_t i = 0; i < e->schedule.count; i++) {
        const struct lab_event *event = &e->schedule.items[i];
        if (event->kind == LAB_KILL)
            continue;
        if (!event->part)
            return lab_experiment_refuse(e, "churn.every", why,
                                         "no node comes back in sim.engine rounds, which has no membership; "
                                         "expected 0, or sim.engine nodes");
        node_schema_origin_of(&e->schema, e, "events", event->part, place, sizeof place);
        return base_fail(
            why, BASE_EINVAL,
            "%s: events: found %s, which sim.engine rounds does not support, because it has no membership; "
            "expected kill only, or sim.engine nodes",
            place, lab_event_name(event->kind));
    }
    return BASE_OK;
}

static enum base_error check_graph(const struct lab_experiment *e, struct base_reason *why)
{
    const struct rounds_method *method = rounds_method_of(e);
    if (!method->has_graph || e->node.topology.kind != TOPOLOGY_MATCHINGS)
        return BASE_OK;
    return lab_experiment_refuse(
        e, "topology.kind", why,
        "found matchings, a different graph in every round, with average.method %s, which keeps state for "
        "every neighbour; expected another kind",
        method->name);
}

static enum base_error check_average(const struct lab_experiment *e, struct base_reason *why)
{
    bool edges = e->node.average.method == NODE_METHOD_EDGE_REF;
    if (e->node.average.outer_momentum > 0)
        return lab_experiment_refuse(
            e, "average.outer_momentum", why,
            "sim.engine rounds has no outer momentum; expected 0, or sim.engine nodes");
    if (e->node.average.filters.count && !edges)
        return lab_experiment_refuse(e, "average.filters", why,
                                     "filters belong to average.method edge-ref; expected []");
    if (edges && e->node.average.mode != NODE_MODE_SYNC &&
        strcmp(node_schema_origin(&e->schema, e, "average.mode"), "default") != 0)
        return lab_experiment_refuse(
            e, "average.mode", why,
            "sim.engine rounds runs in lock-step; expected sync, or sim.engine nodes");
    return BASE_OK;
}

enum base_error lab_rounds_check(const struct lab_experiment *experiment, struct base_reason *why)
{
    struct lab_links links;
    struct lab_step_times step_times;
    enum base_error error = check_events(experiment, why);
    if (!error)
        error = check_graph(experiment, why);
    if (!error)
        error = check_average(experiment, why);
    if (error)
        return error;
    error = lab_links_of(experiment, &links, why);
    if (error)
        return error;
    lab_links_free(&links);
    error = lab_step_times_of(experiment, &step_times, why);
    if (!error)
        lab_step_times_free(&step_times);
    return error;
}
