// The datagram socket of a node: same address and port as its TCP listener. Sends and receives bytes, and
// reports addresses at which nothing listens (ICMP, through the socket's error queue). It does not know
// members or keys. Addresses are given in their plain family: an IPv4 peer of an IPv6 socket is IPv4. Loop's
// thread.
#ifndef NODE_NET_UDP_H
#define NODE_NET_UDP_H

#include "base/error.h"
#include "node/net/resolve.h"
#include <stdbool.h>

struct event_base;
struct node_udp;

struct node_udp_handler {
    void (*datagram)(void *owner, const struct node_address *from, const uint8_t *bytes, size_t count);
    void (*unreachable)(void *owner, const struct node_address *to); // its port is closed
};

struct node_udp_options {
    struct event_base *base; // borrowed
    int socket;              // of node_udp_bind; this object's after success
    const struct node_udp_handler *handler;
    void *owner;
};

struct node_udp_counters {
    uint64_t sent, received, bytes_sent, bytes_received;
};

// A socket on the address and port of a bound TCP listener. BASE_ESTATE: another process has the UDP port.
enum base_error node_udp_bind(int listener, int *socket, struct base_reason *why) BASE_CHECK;

enum base_error node_udp_create(const struct node_udp_options *options, struct node_udp **udp) BASE_CHECK;
void node_udp_destroy(struct node_udp *udp); // NULL is fine
void node_udp_release(struct node_udp *udp); // its socket belongs to the caller again; destroy must follow
// Takes what has arrived, a bounded number at a time; false: more is waiting.
bool node_udp_drain(struct node_udp *udp);
// False: not sent (no route, another family, the socket's buffer is full): as if lost on the way.
bool node_udp_send(struct node_udp *udp, const struct node_address *to, const uint8_t *bytes, size_t count);
bool node_udp_reaches(const struct node_udp *udp, const struct node_address *to); // its family is supported
struct node_udp_counters node_udp_counters(const struct node_udp *udp);

#endif
