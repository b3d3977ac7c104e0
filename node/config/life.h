// What the configuration says about the life of a node (gossip/life).
#ifndef NODE_CONFIG_LIFE_H
#define NODE_CONFIG_LIFE_H

#include "gossip/life/life.h"
#include "node/config/config.h"

// All but what the process itself knows: self, resumed, gathers, round, step, reach, told_shard and now_ns.
struct gossip_life_options node_config_life(const struct node_config *config);
// How long a node waits for others in gossip/merge while nothing moves; 0: it does not merge.
uint64_t node_config_merge_patience(const struct node_config *config);

#endif
