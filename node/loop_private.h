// What node/loop.c (events, mail, signals), node/loop_phase.c (from waiting to leaving), node/loop_fetch.c
// (donors of a snapshot), node/loop_bind.c and node/loop_pages.c share: the loop's state. Nobody else
// includes this.
#ifndef NODE_LOOP_PRIVATE_H
#define NODE_LOOP_PRIVATE_H

#include "node/backlog.h"
#include "node/cluster.h"
#include "node/graph.h"
#include "node/http.h"
#include "node/loop.h"
#include "node/mail.h"
#include "node/outbox.h"
#include "node/stream.h"

#define N_SIGNALS   3
#define DONORS_MOST 4u // linked at a time

enum phase { PHASE_WAITING, PHASE_FETCHING, PHASE_TRAINING, PHASE_LINGERING, PHASE_LEAVING };

struct node_loop {
    struct node_loop_options options;
    struct event_base *base;
    struct node_streams *streams;
    struct node_cluster *cluster;
    struct node_http *http;
    struct node_outbox *worker, *learner;
    struct node_backlog *backlog;
    unsigned congestions; // reasons to read nothing from peers: mails or bytes wait for the worker
    struct event *mail, *tick, *signals[N_SIGNALS];
    uint16_t port, http_port;
    enum phase phase;
    uint64_t started_ns, phase_ns;
    uint64_t met_ns; // when the first other member was known; 0: none yet
    bool stopping, alone_posted, leave_posted, considering, conflict;
    bool eligible; // this node's state is complete
    bool fetching; // the worker wants donors
    bool again;    // ... of the other side of a partition
    bool minority, paused;
    struct gossip_id *other_side; // the dead of a partition in which this node is the minority
    size_t n_other_side;
    struct gossip_id donors[DONORS_MOST]; // as told to the worker
    size_t n_donors;
    uint64_t donors_ns; // when there were any
    int status;
    struct node_progress progress;
    struct gossip_exchange_totals totals;
    struct node_edge_status *edges;
    size_t n_edges;
};

// Who is here besides this node, alive or suspected.
struct node_census {
    size_t others, training, eligible, busy; // busy: eligible and not finished
    size_t finished;                         // here or not: who left or died after its last step counts
};
void node_loop_census(const struct node_loop *loop, struct node_census *census);

// loop.c
void node_loop_post(struct node_outbox *to, enum node_mail_kind kind, int status);
struct node_mail *node_loop_bytes_mail(enum node_mail_kind kind, const void *bytes,
                                       size_t count); // NULL: no memory

// loop_phase.c. Decides what is due; called after everything that may matter, and with every tick.
void node_loop_consider(struct node_loop *loop);
void node_loop_enter(struct node_loop *loop, enum phase phase);
void node_loop_set_eligible(struct node_loop *loop);

// loop_fetch.c
void node_loop_fetch(struct node_loop *loop, bool begins); // the worker wants donors, or has all it wanted
void node_loop_consider_donors(struct node_loop *loop);
void node_loop_consider_partition(struct node_loop *loop);

// loop_bind.c: all ports, or none.
struct node_ports {
    int peers, datagrams, http; // -1: none
};
enum base_error node_loop_bind(const struct node_loop_options *options, struct node_ports *ports,
                               struct base_reason *why) BASE_CHECK;

// loop_pages.c: the answer to one HTTP request; `owner` is the loop.
void node_loop_answer(void *owner, const char *path, struct node_http_answer *answer);

#endif
