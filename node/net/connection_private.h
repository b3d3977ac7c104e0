// What connection.c (the owner's calls), connection_handshake.c (until the other end is authenticated) and
// connection_end.c (messages of an established link; the end) share; each calls only those after it. Included
// nowhere else.
#ifndef NODE_NET_CONNECTION_PRIVATE_H
#define NODE_NET_CONNECTION_PRIVATE_H

#include "base/buffer.h"
#include "node/net/connection.h"
#include "node/net/delivery.h"
#include "node/net/stream.h"
#include <event2/event.h>

struct node_link {
    int socket;
    bool initiator, connecting, established, finishing, paused, stalled;
    bool ended;                     // `closed` is on its way
    bool told;                      // ... and has arrived
    struct gossip_session *session; // until the other end is authenticated
    struct base_buffer out;         // of the handshake
    struct node_streams *streams;
    struct node_stream *stream; // from then on
    size_t out_limit, ahead;
    struct node_delivery delivery;
    struct event *readable, *writable, *timeout, *closing;
    enum base_error end_code;
    enum node_link_end end;
    char end_text[160];
    struct node_link_traffic traffic; // of the handshake
    struct node_counters *counters;
    const struct node_link_handler *handler;
    void *owner;
};

// connection_end.c
void node_link_follow_requests(struct node_link *link); // passes the current requests on to the stream
void node_link_close_errno(struct node_link *link, int error);
void node_link_peer_closed(struct node_link *link);
void node_link_closing_now(evutil_socket_t socket, short what, void *link); // tells the owner
void node_link_rx_ready(void *link); // one message, or the end; called again while there is more

// connection_handshake.c
bool node_link_make_events(struct node_link *link, struct event_base *base); // false: no memory
void node_link_flush(struct node_link *link);                                // what the handshake sends

#endif
