// Asks the router on a thread of its own, since it may take seconds to answer. The thread starts with the
// first question. Owner: the loop, which asks one question at a time.
#ifndef NODE_NET_MAPPER_H
#define NODE_NET_MAPPER_H

#include "gossip/reach/mapping.h"

struct node_mapper;

enum base_error node_mapper_create(struct node_mapper **mapper) BASE_CHECK;
// What the router forwards is removed. If that takes longer than 3 s, the thread goes on alone, and a mapping
// ends with its lease. NULL is fine.
void node_mapper_destroy(struct node_mapper *mapper);
enum base_error node_mapper_ask(struct node_mapper *mapper,
                                const struct gossip_mapping_request *request) BASE_CHECK;
bool node_mapper_take(struct node_mapper *mapper, struct gossip_mapping_answer *answer); // false: nothing yet

#endif
