// What two nodes compare before they exchange anything, and how a difference is told to people. Pure.
#ifndef NODE_CONFIG_COMPATIBILITY_H
#define NODE_CONFIG_COMPATIBILITY_H

#include "base/error.h"
#include "gossip/wire/message.h"
#include "node/config/config.h"
#include <stdbool.h>

// The settings that all nodes must share, as "key: value; key: value": how long and by what schedule they
// train, rounds, topology, method, drift correction, what is cut of a pull, who waits for whom, shared
// moments, first weights, seeds of model and data. `graph`: topology_graph_hash of topology.file, 0 without;
// `start`: hash of the weights of model.init, whatever the file is called, 0 without. BASE_ENOMEM.
enum base_error node_greeting_rules(const struct node_config *config, uint64_t graph, uint64_t start,
                                    char rules[LIMIT_RULES_BYTES]) BASE_CHECK;
// Adds ", data 1a2b3c4d" to the description of the model where the data have a meaning that nodes must share;
// NULL: nothing.
struct train_meaning;
void node_greeting_data(const struct train_meaning *meaning, char *model, size_t capacity);
// BASE_EMISMATCH: they can't train together; the reason names the key, what is there and what is here.
enum base_error node_greeting_compare(const struct gossip_greeting *ours,
                                      const struct gossip_greeting *theirs,
                                      struct base_reason *why) BASE_CHECK;

#endif
