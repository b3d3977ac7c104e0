// The addresses of this host's interfaces, as they are now. Any thread.
#ifndef NODE_NET_INTERFACES_H
#define NODE_NET_INTERFACES_H

#include "node/net/resolve.h"
#include <stdbool.h>
#include <stddef.h>

// Of interfaces that are up, loopback included; ports are 0. Returns their number, at most `capacity`; 0 also
// if they cannot be read.
size_t node_interfaces(struct node_address *addresses, size_t capacity);
bool node_address_loops(const struct node_address *address); // a loopback address
// It is an address of an interface, or a loopback address: what is sent there comes back to this host.
bool node_address_is_own(const struct node_address *address);
// It is in the network of an interface: no router is on the way there.
bool node_address_is_neighbour(const struct node_address *address);

#endif
