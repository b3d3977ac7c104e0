// One stream to one other node: a TCP socket and the secure session on it. It carries whole messages and does
// not know their meaning. Strangers get no answer: after a failed handshake the socket is closed without a
// byte.
//
// The handshake runs under the loop's events; once the other end is authenticated, the socket lives on the
// stream thread (stream.h), which seals and opens. All calls and callbacks stay the loop's. Callbacks come
// from the loop's events only, never from inside a call of node_link_*; `closed` comes exactly once and is
// the last one. Bounds: input three messages of the largest size and 1 MiB of others; output four messages of
// the largest size and 1.2 MiB of others, beyond which the link to a slow reader is closed.
#ifndef NODE_NET_CONNECTION_H
#define NODE_NET_CONNECTION_H

#include "base/error.h"
#include "gossip/session/session.h"
#include "node/net/path.h"
#include "node/queue/counters.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NODE_LINK_AHEAD (256u * 1024u) // bytes that are sealed and not sent yet, at most

struct event_base;
struct node_address;
struct node_link;
struct node_streams;

struct node_link_handler {
    void (*established)(void *owner, const struct gossip_session_event *event);
    void (*message)(void *owner, uint8_t *bytes, size_t count);          // malloc'ed; the owner's to free
    void (*closed)(void *owner, enum base_error error, const char *why); // BASE_OK: ended in order
    void (*answered)(void *owner); // accepted: the caller's first message fits the secret; may be NULL
};

struct node_link_options {
    struct event_base *base;      // borrowed, as all pointers below
    struct node_streams *streams; // of the same base
    int socket;     // non-blocking; connecting (initiator) or accepted; the link's after success
    bool initiator; // this end has called; if the other has, too, their sessions agree on who answers
    const struct gossip_identity *identity;
    const struct gossip_secrets *secrets; // only while the link is created
    const char *cluster;
    struct gossip_protocols protocols; // zeros: those of this build
    size_t message_limit;
    size_t ahead;          // replaces NODE_LINK_AHEAD; at least two prompt messages; 0: NODE_LINK_AHEAD
    uint64_t handshake_ns; // until the session must be established; 0: the owner has its own deadline
    struct node_counters *counters;
    const struct node_link_handler *handler;
    void *owner;
};

struct node_link_traffic {
    uint64_t sent, received; // bytes on the socket
};

enum base_error node_link_create(const struct node_link_options *options, struct node_link **link) BASE_CHECK;
void node_link_destroy(struct node_link *link); // at any time; no callback follows. NULL is fine

// Sends a copy of one message, header and payloads joined. One of at most LIMIT_PROMPT_BYTES goes ahead of
// those passed to node_link_give, also between the pieces of a large one. BASE_ESTATE: not established, or
// already ending. BASE_ELIMIT: the peer reads too slowly; the link is then closed.
enum base_error node_link_send(struct node_link *link, const void *message, size_t bytes) BASE_CHECK;
// The same without a copy: malloc'ed bytes become the link's, whatever the result. Messages sent in this way
// keep their order.
enum base_error node_link_give(struct node_link *link, uint8_t *message, size_t bytes) BASE_CHECK;
// Ends the link at once; `closed` follows with this code and reason. Messages of node_link_send that wait are
// still sent if the socket takes them without waiting. The same happens when the link is destroyed.
void node_link_close(struct node_link *link, enum base_error error, const char *why);
// Sends what is queued, then ends; what still arrives is discarded. Bounded in time.
void node_link_finish(struct node_link *link);
// While stalled, nothing is read or written, and what is sent is lost. The socket of a link that ends while
// it is stalled stays open: from `closed` on, node_link_take_socket hands it over (-1: there is none).
void node_link_stall(struct node_link *link, bool stalled);
int node_link_take_socket(struct node_link *link);
// While paused, no message is handed over, and reading soon stops.
void node_link_pause(struct node_link *link, bool paused);
bool node_link_is_connecting(const struct node_link *link); // the call is not answered yet
// What the end of this link shows about the process at the other end.
enum node_link_end {
    NODE_LINK_OTHER,   // nothing: a timeout, a decision of ours, a network that can't be reached
    NODE_LINK_GONE,    // the stream ended or was reset
    NODE_LINK_REFUSED, // nothing listens at its address
};
enum node_link_end node_link_end(const struct node_link *link);
bool node_link_address(const struct node_link *link, struct node_address *own); // of this end
bool node_link_peer_address(const struct node_link *link, struct node_address *theirs);
// A look, several times a second: nothing that is sent on it arrives (delivery.h).
bool node_link_is_stuck(struct node_link *link, uint64_t now_ns);
struct node_link_traffic node_link_traffic(const struct node_link *link);
bool node_link_path(const struct node_link *link, struct node_path *path); // false: not over TCP

#endif
