// Asks the router of this host to forward a port: NAT-PMP (RFC 6886) to the default gateway, else UPnP IGD to
// whoever answers a multicast on the network of the default route; nothing is sent if that is loopback or
// there is none. Blocks for up to some ten seconds: for the thread of node/net/mapper, and for programs
// without a loop. One owner.
#ifndef NODE_NET_ROUTER_H
#define NODE_NET_ROUTER_H

#include "gossip/reach/mapping.h"

struct node_router; // what answered last, and what it forwards

bool node_router_is_built(void);              // false: all below find nobody
struct node_router *node_router_create(void); // NULL: no memory
// A request that repeats an earlier one renews it. TCP and UDP have the same port.
void node_router_map(struct node_router *router, const struct gossip_mapping_request *request,
                     struct gossip_mapping_answer *answer);
// Changes nothing: only whether a router answers (MAPPED) and its address outside; the port is 0.
void node_router_look(struct node_router *router, struct gossip_mapping_answer *answer);
void node_router_destroy(struct node_router *router); // it forwards nothing more. NULL is fine

#endif
