// What the actions of membership lead to: packets, changes for links and people, events for the owner.
#include "base/log.h"
#include "node/cluster/private.h"
#include "node/queue/clock.h"

static bool reaches(const void *udp, const struct node_address *to)
{
    return node_udp_reaches(udp, to);
}

static void send_datagram(struct node_cluster *cluster, const struct gossip_membership_action *action)
{
    uint8_t sealed[LIMIT_DATAGRAM_BYTES];
    size_t bytes = 0;
    struct gossip_member_info info;
    struct node_address to;
    if (gossip_membership_find(cluster->membership, &action->peer, &info) ||
        !node_endpoints_pick(cluster->endpoints, info.record, node_clock_ns(), reaches, cluster->udp, &to) ||
        gossip_datagram_seal(cluster->datagrams, &action->peer, action->generation, action->bytes,
                             action->n_bytes, sealed, &bytes))
        return; // as if lost on the way
    (void)node_udp_send(cluster->udp, &to, sealed, bytes);
}

static void send_packet(struct node_cluster *cluster, const struct gossip_membership_action *action)
{
    if (node_faults_has(cluster->faults, &action->peer))
        return;
    if (action->way == GOSSIP_BY_DATAGRAM)
        send_datagram(cluster, action);
    else
        node_peers_packet(cluster->peers, &action->peer, action->bytes, action->n_bytes);
}

static void take_record(struct node_cluster *cluster, const struct gossip_id *id)
{
    struct gossip_member_info info;
    if (gossip_membership_find(cluster->membership, id, &info))
        return;
    const struct gossip_record *r = info.record;
    if (gossip_datagrams_peer(cluster->datagrams, id, r->exchange_public, r->version.generation))
        base_log(BASE_LOG_WARN, "datagrams", "no key for datagrams to %s; packets to it go by stream",
                 r->name);
}

static void take_generation(struct node_cluster *cluster, uint64_t generation)
{
    struct base_reason why = {0};
    node_cluster_tell_generation(cluster, generation);
    if (cluster->options.starts_path && node_starts_raise(cluster->options.starts_path, generation, &why))
        base_log(BASE_LOG_ERROR, "boot", "the number of starts cannot be stored: %s", why.text);
    gossip_datagrams_generation(cluster->datagrams, generation);
}

static void remove_member(struct node_cluster *cluster, const struct gossip_id *id)
{
    gossip_datagrams_forget(cluster->datagrams, id);
    node_endpoints_forget(cluster->endpoints, id);
}

// False: nothing that the owner must know.
static bool act(struct node_cluster *cluster, const struct gossip_membership_action *action,
                struct node_cluster_event *event)
{
    event->peer = action->peer;
    cluster->changed |= action->kind != GOSSIP_MEMBERSHIP_SEND;
    switch (action->kind) {
    case GOSSIP_MEMBERSHIP_SEND:
        send_packet(cluster, action);
        return false;
    case GOSSIP_MEMBERSHIP_CHANGED:
        node_cluster_tell_change(cluster, action);
        event->kind = NODE_CLUSTER_MEMBER;
        event->state = action->state;
        return true;
    case GOSSIP_MEMBERSHIP_RECORD:
        take_record(cluster, &action->peer);
        return false;
    case GOSSIP_MEMBERSHIP_SUSPECTED:
        node_cluster_tell_suspected(cluster, action);
        return false;
    case GOSSIP_MEMBERSHIP_GENERATION:
        take_generation(cluster, action->generation);
        return false;
    case GOSSIP_MEMBERSHIP_CONFLICT:
        event->kind = NODE_CLUSTER_CONFLICT;
        return true;
    case GOSSIP_MEMBERSHIP_VIEW:    // gossip/host follows it
    case GOSSIP_MEMBERSHIP_CUT_OFF: // the totals report it
        return false;
    case GOSSIP_MEMBERSHIP_REMOVED:
        remove_member(cluster, &action->peer);
        return false;
    }
    return false;
}

static enum base_error make_graph(const struct node_cluster *cluster, struct gossip_graph **graph)
{
    size_t count = 0;
    const struct gossip_record *view = gossip_control_view(cluster->control, &count);
    struct gossip_plan *plan;
    enum base_error error = gossip_plan_create(&cluster->options.topology, view, count, &plan);
    if (error)
        return error;
    error = gossip_control_plan(cluster->control, plan, graph);
    gossip_plan_drop(plan);
    return error;
}

static bool take_view(struct node_cluster *cluster, struct node_cluster_event *event)
{
    enum base_error error = make_graph(cluster, &event->graph);
    if (error) { // the graph stays as it was until the next change
        base_log(BASE_LOG_ERROR, "view", "the graph cannot follow the members: %s", base_error_name(error));
        return false;
    }
    event->kind = NODE_CLUSTER_VIEW;
    node_cluster_tell_view(cluster);
    return true;
}

static bool take_link(struct node_cluster *cluster, struct node_cluster_event *event)
{
    event->kind = NODE_CLUSTER_LINK;
    return node_cluster_take_link(cluster, &event->link);
}

static bool take_action(struct node_cluster *cluster, const struct gossip_control_action *action,
                        struct node_cluster_event *event)
{
    switch (action->kind) {
    case GOSSIP_CONTROL_LIFE:
        event->kind = NODE_CLUSTER_LIFE;
        event->life = action->life;
        return true;
    case GOSSIP_CONTROL_MEMBER:
        return act(cluster, &action->member, event);
    case GOSSIP_CONTROL_LINK:
        return node_peers_act(cluster->peers, &action->link, &event->link) && take_link(cluster, event);
    case GOSSIP_CONTROL_VIEW:
        return take_view(cluster, event);
    case GOSSIP_CONTROL_EDGES: // the worker hears of every link and view
        return false;
    }
    return false;
}

bool node_cluster_next(struct node_cluster *cluster, struct node_cluster_event *event)
{
    struct gossip_control_action action;
    *event = (struct node_cluster_event){.kind = NODE_CLUSTER_CHANGED};
    do {
        while (gossip_control_next(cluster->control, GOSSIP_CONTROL_WHOLE, node_clock_ns(), &action))
            if (take_action(cluster, &action, event))
                return true;
    } while (node_peers_rest(cluster->peers, &event->link) && !take_link(cluster, event));
    if (event->kind == NODE_CLUSTER_LINK && event->link.kind == NODE_PEERS_SETTINGS)
        return true;
    event->kind = NODE_CLUSTER_CHANGED;
    node_cluster_arm(cluster);
    const bool changed = cluster->changed;
    cluster->changed = false;
    return changed;
}
