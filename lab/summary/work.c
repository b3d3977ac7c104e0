// Own work against the plan: a node may reach the last round with another node's model, having computed
// little.
#include "lab/summary/summary.h"

#include "base/file.h"

#include <stdlib.h>

#define NODES_NAMED 8u

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

char *lab_shortfall_text(const struct lab_cluster *cluster, uint64_t steps)
{
    char *text = NULL;
    size_t bytes = 0, found = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    for (size_t i = 0; i < cluster->count; i++) {
        const struct lab_node *node = &cluster->nodes[i];
        const uint64_t own_steps = lab_tail_row(&node->tail).own_steps;
        if (own_steps < steps && !is_explained(cluster, i))
            name_node(node, own_steps, steps, found++, out);
    }
    if (found > NODES_NAMED)
        fprintf(out, ", and %zu more", found - NODES_NAMED);
    text = base_text_close(out, &text);
    if (found)
        return text;
    free(text);
    return NULL;
}
