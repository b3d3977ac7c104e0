// Shared by the files of gossip/graph. Private to this folder.
#ifndef GOSSIP_GRAPH_GRAPH_PRIVATE_H
#define GOSSIP_GRAPH_GRAPH_PRIVATE_H

#include "gossip/graph/graph.h"
#include <stdatomic.h>

struct gossip_plan {
    atomic_size_t uses;
    struct topology_plan *topology; // its members are the indices of `member`
    size_t count;
    struct topology_member member[]; // ascending by id
};

// The place of this id in the view; TOPOLOGY_NOBODY: it is not there.
size_t plan_find(const struct gossip_plan *plan, const struct gossip_id *id);

#endif
