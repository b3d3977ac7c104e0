// Shared by the files that write summary.json, and private to them.
#ifndef LAB_SUMMARY_JSON_H
#define LAB_SUMMARY_JSON_H

#include "lab/summary/summary.h"

#include <jansson.h>
#include <math.h>

static inline json_t *lab_json_real(double value) // null: not finite
{
    return isfinite(value) ? json_real(value) : json_null();
}

// "graph", "targets". NULL: out of memory.
json_t *lab_graph_json(const struct lab_summary *summary);
json_t *lab_targets_json(const struct lab_summary *summary);
// The list "events". NULL: out of memory.
json_t *lab_events_json(const struct lab_cluster *cluster, const struct lab_history *histories);

#endif
