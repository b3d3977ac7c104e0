// The configuration of a node in an experiment, and the origins of its values.
#include "lab/experiment/experiment.h"

#include <stdarg.h>

enum base_error lab_experiment_at(const struct lab_experiment *e, const char *key, struct base_reason *why,
                                  enum base_error error)
{
    return base_fail_context(why, error, "%s: %s", node_schema_origin(&e->schema, e, key), key);
}

enum base_error lab_experiment_at_part(const struct lab_experiment *e, const char *key,
                                       const struct node_tree *part, struct base_reason *why,
                                       enum base_error error)
{
    char place[512];
    node_schema_origin_of(&e->schema, e, key, part, place, sizeof place);
    return base_fail_context(why, error, "%s: %s", place, key);
}

enum base_error lab_experiment_refuse(const struct lab_experiment *e, const char *key,
                                      struct base_reason *why, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const enum base_error error = base_fail_list(why, BASE_EINVAL, format, arguments);
    va_end(arguments);
    return lab_experiment_at(e, key, why, error);
}

void lab_experiment_shift_seeds(const struct lab_experiment *experiment, struct node_config *view)
{
    uint64_t shift = experiment->experiment.seed;
    *view = experiment->node;
    view->origins.count = node_config_schema.count; // the origins of the node's keys come first
    view->data.shards = experiment->sim.vector ? 1 : experiment->experiment.nodes; // vectors have no data
    view->model.seed += shift;
    view->data.seed += shift;
    view->train.seed += shift;
    view->topology.seed += shift;
}

void lab_experiment_view(const struct lab_experiment *experiment, struct node_config *view)
{
    lab_experiment_shift_seeds(experiment, view);
    node_config_complete(view);
}
