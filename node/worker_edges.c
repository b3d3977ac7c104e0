// Which edges the exchange has: they come up and go down with links and views, and are forgotten when nobody
// needs them any more.
#include "base/log.h"
#include "node/clock.h"
#include "node/worker_private.h"

static void link_event(struct node_worker *worker, enum gossip_exchange_event_kind kind,
                       const struct gossip_id *peer)
{
    struct gossip_exchange_event event = {.kind = kind, .peer = *peer};
    node_worker_step(worker, &event);
}

void node_worker_forget(struct node_worker *worker, const struct gossip_id *peer, bool dead)
{
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_FORGET, .peer = *peer, .dead = dead};
    node_worker_step(worker, &event);
}

static void note_edge(struct node_worker *worker, const struct gossip_id *peer, bool up)
{
    size_t at = 0;
    while (at < worker->n_up && gossip_id_compare(&worker->up[at], peer) != 0)
        at++;
    if (up && at == worker->n_up) {
        BASE_ASSERT(worker->n_up < NODE_WORKER_UP_MOST);
        worker->up[worker->n_up++] = *peer;
    } else if (!up && at < worker->n_up) {
        worker->up[at] = worker->up[--worker->n_up];
    }
}

void node_worker_follow_graph(struct node_worker *worker, enum base_error code)
{
    struct node_graph_change change;
    if (code != BASE_OK)
        base_log(BASE_LOG_ERROR, "graph", "the graph of neighbours is not what it should be: %s",
                 base_error_name(code));
    while (node_graph_next(worker->graph, &change)) {
        if (worker->options.local)
            continue;
        note_edge(worker, &change.peer, change.up);
        if (!node_snapshot_fetching(worker->snapshot))
            link_event(worker, change.up ? GOSSIP_EXCHANGE_LINK_UP : GOSSIP_EXCHANGE_LINK_DOWN, &change.peer);
    }
    worker->graph_changed = true;
}

void node_worker_step_all_up(struct node_worker *worker, enum gossip_exchange_event_kind kind)
{
    for (size_t i = 0; i < worker->n_up; i++)
        link_event(worker, kind, &worker->up[i]);
}

// A peer that died while this node was away is in no view and will never be reported dead: the pull of its
// edge would stay for good, with nobody to pull the other way.
static bool absent_are_due(const struct node_worker *worker)
{
    return !worker->absent_forgotten &&
           node_clock_ns() - worker->started_ns >= worker->options.forget_after_ns;
}

// What a dead neighbour has left is dropped when it is back, elsewhere in the graph. (A neighbour's own edge
// sees to it.)
static void forget_returned(struct node_worker *worker)
{
    struct gossip_exchange *exchange = worker->options.exchange;
    for (size_t i = gossip_exchange_kept(exchange); i-- > 0;) {
        struct gossip_id peer;
        const float *correction;
        gossip_exchange_kept_at(exchange, i, &peer, &correction);
        if (node_graph_is_stranger(worker->graph, &peer))
            node_worker_forget(worker, &peer, false);
    }
}

// While a view grows, neighbours come and go; only at a boundary is it known whose edges are no longer
// needed.
void node_worker_forget_edges(struct node_worker *worker)
{
    struct gossip_exchange *exchange = worker->options.exchange;
    bool absent = absent_are_due(worker);
    if (!worker->graph_changed && !absent)
        return;
    worker->graph_changed = false;
    worker->absent_forgotten |= absent;
    for (size_t i = gossip_exchange_edges(exchange); i-- > 0;) {
        struct gossip_edge_info info;
        gossip_exchange_edge_info(exchange, i, &info);
        bool gone = absent && !node_graph_has(worker->graph, &info.peer);
        if (gone || node_graph_is_stranger(worker->graph, &info.peer))
            node_worker_forget(worker, &info.peer, gone);
    }
    forget_returned(worker);
}
