// The listener of the peer port: binds it, accepts connections, and reports the address for which each is
// counted. gossip/links decides how many may be half-open. Loop's thread.
#ifndef NODE_NET_LISTENER_H
#define NODE_NET_LISTENER_H

#include "base/error.h"
#include "node/net/resolve.h"
#include <stdbool.h>

struct event_base;
struct node_listener;

// The owner takes the socket over.
typedef void (*node_listener_accepted)(void *owner, int socket, const char *address, const char *host);

// `socket`: bound, non-blocking; the listener's after success.
enum base_error node_listener_create(struct event_base *base, int socket, node_listener_accepted accepted,
                                     void *owner, struct node_listener **listener) BASE_CHECK;
void node_listener_destroy(struct node_listener *listener);
void node_listener_open(struct node_listener *listener);
void node_listener_close(struct node_listener *listener);
// The host for which a connection is counted: its address, or for IPv6 its /64, which a single stranger can
// easily own.
void node_listener_host(const struct node_address *from, char host[NODE_ADDRESS_TEXT]);

// "host:port" to a bound socket for accept, non-blocking. BASE_EIO with the reason.
enum base_error node_listener_bind(const char *key, const char *text, int *socket,
                                   struct base_reason *why) BASE_CHECK;
// Many paths swallow large packets without a word. SAFE: to a host in another network both ends send segments
// of at most NODE_SMALL_SEGMENT bytes; SMALL: to any other host; FULL: as large as the interface takes them.
#define NODE_SMALL_SEGMENT 1160 // with its headers less than 1280, the least that IPv6 allows for a path
enum node_segments { NODE_SEGMENTS_SAFE, NODE_SEGMENTS_SMALL, NODE_SEGMENTS_FULL };
// A socket that connects to `to`, non-blocking; -1: errno says why. It leaves from the port of the listener
// (-1: from any) if that is possible: a router then gives this port one address outside, at which others can
// be called back.
int node_listener_call(int listener, const struct node_address *to, enum node_segments segments);
uint16_t node_listener_port(int socket);
bool node_listener_is_loopback(int socket); // for any name that it was bound by

#endif
