// Tells the exchange which edges come up and go down, as gossip/graph decides from views and links.
#include "base/log.h"
#include "node/average/private.h"

void node_worker_forget(struct node_worker *worker, const struct gossip_id *peer, bool dead)
{
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_FORGET, .peer = *peer, .dead = dead};
    node_worker_step(worker, &event);
}

void node_worker_link(struct node_worker *worker, const struct gossip_id *peer)
{
    if (gossip_edges_linked(worker->edges, peer))
        base_log(BASE_LOG_ERROR, "out_of_memory",
                 "no memory for an edge: no exchange over its link until the link is established again");
    node_worker_follow_edges(worker);
}

void node_worker_follow_edges(struct node_worker *worker)
{
    struct gossip_edge_change change;
    while (gossip_edges_next(worker->edges, &change)) {
        struct gossip_exchange_event event = {.kind = change.up ? GOSSIP_EXCHANGE_LINK_UP
                                                                : GOSSIP_EXCHANGE_LINK_DOWN,
                                              .peer = change.peer,
                                              .unmet = change.unmet};
        node_worker_step(worker, &event);
    }
}

void node_worker_fetching(struct node_worker *worker, bool fetching)
{
    gossip_edges_fetching(worker->edges, fetching);
    node_worker_follow_edges(worker);
}

void node_worker_forget_edges(struct node_worker *worker)
{
    struct gossip_id peer;
    while (gossip_edges_forget(worker->edges, worker->options.exchange, &peer))
        node_worker_forget(worker, &peer, false);
}
