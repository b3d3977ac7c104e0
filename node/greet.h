// What two nodes compare before they exchange anything, and how a difference is told to people. Pure.
#ifndef NODE_GREET_H
#define NODE_GREET_H

#include "base/error.h"
#include "gossip/wire/message.h"
#include "node/config.h"
#include <stdbool.h>

// Fingerprint of the settings that all nodes must share: topology, method, drift correction, what is cut of a
// pull, who waits for whom, shared moments. `graph`: topology_graph_hash of topology.file, 0 without.
uint64_t node_greeting_rules(const struct node_config *config, uint64_t graph);
// BASE_EMISMATCH: they can't train together; the reason says what is there and what is here.
enum base_error node_greeting_compare(const struct gossip_greeting *ours,
                                      const struct gossip_greeting *theirs,
                                      struct base_reason *why) BASE_CHECK;

#endif
