// Checks of topology.*: the graph of a file, and how many nodes there may be.
#include "base/file.h"
#include "node/config/private.h"
#include "topology/file.h"

#include <inttypes.h>
#include <stdlib.h>

enum base_error node_config_graph(const struct node_config *config, const struct topology_member *known,
                                  size_t n, struct topology_graph **graph, struct base_reason *why)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    const char *path = config->topology.file;
    *graph = NULL;
    if (config->topology.kind != TOPOLOGY_FILE)
        return BASE_OK;
    enum base_error error = base_file_read(path, TOPOLOGY_FILE_BYTES_MAX, &text, &bytes, why);
    if (!error)
        error = topology_graph_read(path, (const char *)text, bytes, known, n, graph, why);
    free(text);
    return error ? node_config_at(config, "topology.file", why, error) : BASE_OK;
}

enum base_error node_config_check_place(const struct node_config *config, const struct topology_graph *graph,
                                        const char *name, struct base_reason *why)
{
    if (!graph || topology_graph_has(graph, name))
        return BASE_OK;
    return node_config_fail(
        config, "topology.file", BASE_ENOTFOUND, why,
        "%s does not name this node, '%s'; expected a line with it, or one of the names there, '%s' to "
        "'%s', as node.name",
        config->topology.file, name, topology_graph_name(graph, 0),
        topology_graph_name(graph, topology_graph_nodes(graph) - 1));
}

enum base_error node_config_check_topology(const struct node_config *config, struct base_reason *why)
{
    struct topology_graph *graph = NULL;
    enum base_error error = BASE_OK;
    if (config->topology.kind != TOPOLOGY_HIERARCHICAL)
        node_config_warn_unused(config, "node.group", "topology.kind is hierarchical");
    if (config->topology.kind != TOPOLOGY_FILE) {
        node_config_warn_unused(config, "topology.file", "topology.kind is file");
        return BASE_OK;
    }
    error = node_config_check_file(config, "topology.file", config->topology.file, "a graph", why);
    if (!error)
        error = node_config_graph(config, NULL, 0, &graph, why);
    if (!error && config->node.name[0])
        error = node_config_check_place(config, graph, config->node.name, why);
    topology_graph_destroy(graph);
    return error;
}

static enum base_error check_widest(const struct node_config *config, const struct topology_graph *graph,
                                    struct base_reason *why)
{
    size_t node = 0, degree = 0;
    enum base_error error = topology_graph_widest(graph, &node, &degree);
    if (!error && degree > LIMIT_NEIGHBOURS)
        error = base_fail(why, BASE_ELIMIT, "%s: '%s' has %zu neighbours, expected at most %u",
                          config->topology.file, topology_graph_name(graph, node), degree, LIMIT_NEIGHBOURS);
    return error ? node_config_at(config, "topology.file", why, error) : BASE_OK;
}

static enum base_error check_runnable_topology(const struct node_config *config, struct base_reason *why)
{
    int kind = config->topology.kind;
    uint64_t nodes =
        config->node.start_members > config->data.shards ? config->node.start_members : config->data.shards;
    struct topology_graph *graph = NULL;
    enum base_error error = node_config_graph(config, NULL, 0, &graph, why);
    if (!error && graph)
        error = check_widest(config, graph, why);
    topology_graph_destroy(graph);
    bool everybody = kind == TOPOLOGY_COMPLETE || kind == TOPOLOGY_STAR || kind == TOPOLOGY_MATCHINGS;
    if (error || !everybody || nodes <= LIMIT_NEIGHBOURS + 1)
        return error;
    return node_config_fail(config, "topology.kind", BASE_ELIMIT, why,
                            "found %s for %" PRIu64
                            " nodes, where a node may meet all others; expected at most %u nodes, or "
                            "another kind, such as random",
                            topology_kind_name((enum topology_kind)kind), nodes, LIMIT_NEIGHBOURS + 1);
}

enum base_error node_config_check_runnable(const struct node_config *config, struct base_reason *why)
{
    enum base_error error = node_config_check_runnable_method(config, why);
    return error ? error : check_runnable_topology(config, why);
}
