// The conditions under which a run's figures hold: the simulated hardware and network, and the seeds.
#include "lab/summary/summary.h"

#include "base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIMULATED "sim."

// The number of threads does not change the result.
static bool is_condition(const char *key)
{
    return strncmp(key, SIMULATED, strlen(SIMULATED)) == 0 && strcmp(key, "sim.threads") != 0;
}

char *lab_simulated_text(const struct lab_summary *s)
{
    const struct node_schema *schema = &s->experiment->schema;
    char *text = NULL;
    size_t bytes = 0;
    if (!s->engine)
        return strdup("");
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    fprintf(out, "engine %s", s->engine);
    for (size_t i = 0; i < schema->count; i++) {
        const char *key = schema->keys[i].name;
        if (!is_condition(key) || strcmp(key, "sim.engine") == 0)
            continue;
        char *value = node_schema_value(schema, s->experiment, key);
        if (value)
            fprintf(out, ", %s %s", key + strlen(SIMULATED), strcmp(value, "[]") == 0 ? "none" : value);
        free(value);
    }
    return base_text_close(out, &text);
}

void lab_seeds_text(const struct lab_summary *s, char text[LAB_SEEDS_BYTES])
{
    const struct node_config *c = &s->bench->view;
    snprintf(text, LAB_SEEDS_BYTES,
             "experiment %" PRIu64 "; model %" PRIu64 ", data %" PRIu64 ", train %" PRIu64
             ", topology %" PRIu64,
             s->experiment->experiment.seed, c->model.seed, c->data.seed, c->train.seed, c->topology.seed);
}

bool lab_never_met(const struct lab_summary *s)
{
    struct lab_totals totals;
    lab_totals_of(s->cluster, &totals);
    return s->cluster->count > 1 && s->bench->view.average.method != NODE_METHOD_LOCAL &&
           totals.exchanges == 0 && totals.bytes_received == 0;
}
