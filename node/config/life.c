// The keys that the rules of a node's life read. The daemon and `p2pml sim` take them from here.
#include "node/config/life.h"
#include "node/config/change.h"

_Static_assert((int)NODE_MERGE == GOSSIP_LIFE_MERGE && (int)NODE_MAJORITY == GOSSIP_LIFE_MAJORITY &&
                   (int)NODE_PAUSE_MINORITY == GOSSIP_LIFE_PAUSE_MINORITY,
               "one list of policies");

struct gossip_life_options node_config_life(const struct node_config *config)
{
    struct gossip_life_options options = {
        .trains = true,
        .sync = config->average.mode == NODE_MODE_SYNC,
        .local = config->average.method == NODE_METHOD_LOCAL,
        .merges = config->average.finish == NODE_FINISH_MERGE,
        .alone_stops = node_config_stops_alone(config),
        .steps = config->train.steps,
        .local_steps = config->average.local_steps,
        .start_members = config->node.start_members,
        .partition = (enum gossip_life_partition)config->cluster.partition,
        .start_timeout_ns = config->node.start_timeout_ns,
        .linger_ns = config->node.linger_ns,
        .forget_after_ns = config->average.forget_after_ns,
        .shards = (uint32_t)config->data.shards,
        .takeover_after_ns = config->data.takeover ? config->data.takeover_after_ns : UINT64_MAX};
    for (unsigned kind = 0; kind < GOSSIP_SETTINGS; kind++)
        node_change_bounds((enum gossip_setting_kind)kind, &options.least[kind], &options.most[kind]);
    return options;
}

uint64_t node_config_merge_patience(const struct node_config *config)
{
    return gossip_merge_patience(config->node.linger_ns);
}
