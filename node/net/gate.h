// The door of the peer port: binds it, accepts connections, and says whom one is counted for. How many may be
// half-open is gossip/links'. Loop's thread.
#ifndef NODE_NET_GATE_H
#define NODE_NET_GATE_H

#include "base/error.h"
#include "node/net/resolve.h"
#include <stdbool.h>

struct event_base;
struct node_gate;

// The socket is the owner's now.
typedef void (*node_gate_accepted)(void *owner, int socket, const char *address, const char *host);

// `listener`: bound, non-blocking; the gate's after success.
enum base_error node_gate_create(struct event_base *base, int listener, node_gate_accepted accepted,
                                 void *owner, struct node_gate **gate) BASE_CHECK;
void node_gate_destroy(struct node_gate *gate);
void node_gate_open(struct node_gate *gate);
void node_gate_close(struct node_gate *gate);
// Whom one connection is counted for: the address, of IPv6 its /64, which one stranger has for the asking.
void node_gate_host(const struct node_address *from, char host[NODE_ADDRESS_TEXT]);

// "host:port" to a bound socket for accept, non-blocking. BASE_EIO with the reason.
enum base_error node_gate_bind(const char *key, const char *text, int *listener,
                               struct base_reason *why) BASE_CHECK;
uint16_t node_gate_port(int listener);
bool node_gate_is_loopback(int listener); // whatever name it was bound by

#endif
