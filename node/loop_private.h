// What node/loop.c and node/loop_pages.c share: the loop's state. Nobody else includes this.
#ifndef NODE_LOOP_PRIVATE_H
#define NODE_LOOP_PRIVATE_H

#include "node/allowance.h"
#include "node/backlog.h"
#include "node/graph.h"
#include "node/http.h"
#include "node/loop.h"
#include "node/mail.h"
#include "node/outbox.h"
#include "node/peers.h"
#include "node/roster.h"

#define N_SIGNALS 3

enum phase { PHASE_WAITING, PHASE_TRAINING, PHASE_LINGERING, PHASE_LEAVING };

struct node_loop {
    struct node_loop_options options;
    struct event_base *base;
    struct node_roster *roster;
    struct node_peers *peers;
    struct node_http *http;
    struct node_outbox *worker, *learner;
    struct node_backlog *backlog;
    unsigned congestions; // reasons to read nothing from peers: mails or bytes wait for the worker
    struct event *mail, *tick, *signals[N_SIGNALS];
    uint16_t port, http_port;
    enum phase phase;
    uint64_t started_ns, phase_ns, view_revision;
    struct gossip_id neighbours[NODE_GRAPH_NEIGHBOURS]; // of the latest view
    size_t n_neighbours;
    bool stopping, leave_posted;
    struct node_allowance lines; // of the log, about members that are forgotten
    int status;
    struct node_progress progress;
    struct gossip_exchange_totals totals;
    struct node_edge_status *edges;
    size_t n_edges;
};

// The answer to one HTTP request; `owner` is the loop.
void node_loop_answer(void *owner, const char *path, struct node_http_answer *answer);

#endif
