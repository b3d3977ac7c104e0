// What two nodes compare before they exchange anything, and what they tell each other when they part. Pure.
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

// Reasons of GOSSIP_BYE with a meaning; any other is a refusal, written for people. They end a link and say
// nothing about the node: that it left is in its record.
#define NODE_BYE_LEAVING  "leaving"  // this node ends
#define NODE_BYE_IDLE     "idle"     // nothing went over the link for a while
#define NODE_BYE_SILENT   "silent"   // the other end is taken for dead
#define NODE_BYE_REPLACED "replaced" // by a newer link
#define NODE_BYE_TWIN                                                                                        \
    "twin at " // and an address: a process with the id of the other end has a link that works

#endif
