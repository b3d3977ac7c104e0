// What two nodes compare before they exchange anything, and how a difference is reported. Pure.
#ifndef NODE_CONFIG_COMPATIBILITY_H
#define NODE_CONFIG_COMPATIBILITY_H

#include "base/error.h"
#include "gossip/wire/message.h"
#include "node/config/config.h"
#include <stdbool.h>

// Origins of values that a node took from a cluster: since this start, or in an earlier run (--resume). The
// cluster may replace the latter.
#define NODE_ORIGIN_CLUSTER "the cluster"
#define NODE_ORIGIN_EARLIER "the cluster, earlier"
bool node_config_is_told(const struct node_config *config, const char *key); // either of them
bool node_config_has_earlier(const struct node_config *config);              // for some key

// The settings that all nodes must share, as "key: value; key: value": the keys of the table that are SHARED
// and count in this configuration, and those parts of model.init, average.mode and topology.file that must be
// the same. `graph`: topology_graph_hash of topology.file, 0 without; `start`: hash of the weights of
// model.init, whatever the file is called, 0 without. BASE_ENOMEM.
enum base_error node_greeting_rules(const struct node_config *config, uint64_t graph, uint64_t start,
                                    char rules[LIMIT_RULES_BYTES]) BASE_CHECK;
// Fills in `told` (the other settings that a late node may take) and `own` (which settings are set explicitly
// here). BASE_ENOMEM.
enum base_error node_greeting_settings(const struct node_config *config,
                                       struct gossip_greeting *greeting) BASE_CHECK;
// The settings that this node, before it trains, takes from one that already trains: a line "key=value" for
// each shared or told key whose value differs and which is not set here, or was taken in an earlier run.
// *text is malloc'ed; NULL: there are none, or the nodes differ in a shared key that is set here.
// BASE_ENOMEM.
enum base_error node_greeting_take(const struct node_config *config, const struct gossip_greeting *ours,
                                   const struct gossip_greeting *theirs, char **text) BASE_CHECK;
// The same from the other side. True: the peer, which is refused now, will take our settings and call again.
bool node_greeting_comes_back(const struct gossip_greeting *ours, const struct gossip_greeting *theirs);
// Both split their examples into shards, but differently: the text names the key with both values.
bool node_greeting_deals_otherwise(const struct node_config *config, const struct gossip_greeting *ours,
                                   const struct gossip_greeting *theirs, struct base_reason *text);
// Adds ", data 1a2b3c4d" to the description of the model if the data have a meaning that nodes must share.
// `meaning` NULL: adds nothing.
struct train_meaning;
void node_greeting_data(const struct train_meaning *meaning, char *model, size_t capacity);
// BASE_EMISMATCH: they can't train together; the reason names the key, what is there and what is here.
enum base_error node_greeting_compare(const struct gossip_greeting *ours,
                                      const struct gossip_greeting *theirs,
                                      struct base_reason *why) BASE_CHECK;

#endif
