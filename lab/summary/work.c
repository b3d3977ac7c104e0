// Own work against the plan: a node may reach the last round with another node's model, having computed
// little, or with a model of its own that was averaged with nobody.
#include "lab/summary/summary.h"

#include "base/file.h"

#include <stdlib.h>

#define NODES_NAMED       8u
#define UNAVERAGED_ROUNDS 100u // of its own, before few exchanges are too few

// A partition lets one side adopt the model of the other, so it explains the work of every node in a group.
static bool is_explained(const struct lab_cluster *cluster, size_t node)
{
    for (size_t i = 0; i < cluster->schedule->count; i++) {
        const struct lab_event *event = &cluster->schedule->items[i];
        const bool concerns = event->kind == LAB_PARTITION ? event->group[node] > 0 : event->node == node;
        if (concerns && cluster->happenings[i].begun && !cluster->happenings[i].instead)
            return true;
    }
    return false;
}

static void name_node(const struct lab_node *node, uint64_t own_steps, uint64_t planned, size_t before,
                      FILE *out)
{
    char own[LAB_NUMBER_BYTES], all[LAB_NUMBER_BYTES];
    lab_print_count(own_steps, own);
    lab_print_count(planned, all);
    if (!before)
        fprintf(out, "%s took %s of %s steps", node->name, own, all);
    else if (before < NODES_NAMED)
        fprintf(out, ", %s %s", node->name, own);
}

// A node of a star of n meets the hub in one of n - 1 rounds; with a tenth of that, its model is its own.
static bool is_averaged_little(const struct lab_cluster *cluster, const struct node_config *config,
                               const struct lab_row *row)
{
    const uint64_t rounds = row->own_steps / config->average.local_steps;
    return cluster->count > 1 && config->average.method != NODE_METHOD_LOCAL && rounds >= UNAVERAGED_ROUNDS &&
           row->exchanges < rounds / (10 * (cluster->count - 1));
}

static size_t name_idle(const struct lab_cluster *cluster, const struct node_config *config, FILE *out)
{
    size_t found = 0;
    for (size_t i = 0; i < cluster->count; i++) {
        const uint64_t own_steps = lab_tail_row(&cluster->nodes[i].tail).own_steps;
        if (own_steps < config->train.steps && !is_explained(cluster, i))
            name_node(&cluster->nodes[i], own_steps, config->train.steps, found++, out);
    }
    if (found > NODES_NAMED)
        fprintf(out, ", and %zu more", found - NODES_NAMED);
    return found;
}

static size_t name_unaveraged(const struct lab_cluster *cluster, const struct node_config *config,
                              bool follows, FILE *out)
{
    size_t found = 0;
    for (size_t i = 0; i < cluster->count; i++) {
        const struct lab_row row = lab_tail_row(&cluster->nodes[i].tail);
        if (!is_averaged_little(cluster, config, &row) || is_explained(cluster, i))
            continue;
        if (found < NODES_NAMED)
            fprintf(out, "%s%s made %llu exchanges", found || follows ? ", " : "", cluster->nodes[i].name,
                    (unsigned long long)row.exchanges);
        found++;
    }
    if (found > NODES_NAMED)
        fprintf(out, ", and %zu more", found - NODES_NAMED);
    return found;
}

char *lab_shortfall_text(const struct lab_cluster *cluster, const struct node_config *config)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    size_t found = name_idle(cluster, config, out);
    found += name_unaveraged(cluster, config, found > 0, out);
    text = base_text_close(out, &text);
    if (found)
        return text;
    free(text);
    return NULL;
}
