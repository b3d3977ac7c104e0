// What two nodes compare before they exchange anything, and what they tell each other when they part. Pure.
#ifndef NODE_GREET_H
#define NODE_GREET_H

#include "base/error.h"
#include "gossip/wire/message.h"
#include "node/config.h"
#include <stdbool.h>

// Fingerprint of the settings that both ends of an edge must share: topology, drift correction, shared
// moments.
uint64_t node_greeting_rules(const struct node_config *config);
// BASE_EMISMATCH: they can't train together; the reason says what is there and what is here.
enum base_error node_greeting_compare(const struct gossip_greeting *ours,
                                      const struct gossip_greeting *theirs,
                                      struct base_reason *why) BASE_CHECK;

// Reasons of GOSSIP_BYE with a meaning; any other is a refusal, written for people.
#define NODE_BYE_DONE    "done"    // last step trained; still answering
#define NODE_BYE_LEAVING "leaving" // going away

#endif
