// Any text as a graph: read, or refused with a reason. What was read has a plan, also with a dead member.
#include "topology/file.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void plan_without(const struct topology_graph *graph, size_t dead)
{
    struct topology_options options = {.kind = TOPOLOGY_FILE, .graph = graph};
    size_t nodes = topology_graph_nodes(graph), n = 0;
    struct topology_member *members = calloc(nodes + 1, sizeof *members);
    struct topology_plan *plan = NULL;
    BASE_ASSERT(members);
    for (size_t i = 0; i < nodes; i++) {
        if (i == dead)
            continue;
        snprintf(members[n].name, sizeof members[n].name, "%s", topology_graph_name(graph, i));
        members[n].id[0] = (uint8_t)i;
        members[n++].id[1] = (uint8_t)(i >> 8);
    }
    BASE_ASSERT(!topology_plan_create(&options, members, n, &plan));
    for (size_t i = 0; i < n; i++) {
        BASE_ASSERT(n == 1 || topology_plan_neighbours(plan, i, NULL, 0) > 0);
        size_t peer = topology_plan_partner(plan, i, i);
        BASE_ASSERT(peer == TOPOLOGY_NOBODY || topology_plan_partner(plan, peer, i) == i);
    }
    topology_plan_destroy(plan);
    free(members);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct topology_graph *graph = NULL;
    struct base_reason why = {""};
    if (topology_graph_read("graph", (const char *)data, size, NULL, 0, &graph, &why)) {
        BASE_ASSERT(why.text[0] && !graph);
        return 0;
    }
    plan_without(graph, SIZE_MAX);
    plan_without(graph, size % topology_graph_nodes(graph));
    topology_graph_destroy(graph);
    return 0;
}
