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

static void take_change(struct node_cluster *cluster, const struct gossip_membership_action *action)
{
    bool here = action->state == GOSSIP_MEMBER_ALIVE || action->state == GOSSIP_MEMBER_SUSPECT;
    node_cluster_tell_change(cluster, action);
    node_peers_member(cluster->peers, &action->peer, here);
    if (action->state == GOSSIP_MEMBER_DEAD)
        node_peers_part(cluster->peers, &action->peer, GOSSIP_CLOSE_SILENT);
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
    node_peers_part(cluster->peers, id, GOSSIP_CLOSE_IDLE);
    node_peers_member(cluster->peers, id, false);
    gossip_datagrams_forget(cluster->datagrams, id);
    node_endpoints_forget(cluster->endpoints, id);
}

// False: nothing that the owner must know.
static bool act(struct node_cluster *cluster, const struct gossip_membership_action *action,
                struct node_cluster_event *event)
{
    BASE_ASSERT(!event->graph); // the owner has taken the last one
    event->peer = action->peer;
    cluster->changed |= action->kind != GOSSIP_MEMBERSHIP_SEND;
    switch (action->kind) {
    case GOSSIP_MEMBERSHIP_SEND:
        send_packet(cluster, action);
        return false;
    case GOSSIP_MEMBERSHIP_CHANGED:
        take_change(cluster, action);
        event->kind = NODE_CLUSTER_MEMBER;
        event->state = action->state;
        return true;
    case GOSSIP_MEMBERSHIP_RECORD:
        take_record(cluster, &action->peer);
        return false;
    case GOSSIP_MEMBERSHIP_VIEW:
        event->kind = NODE_CLUSTER_VIEW;
        event->graph = node_cluster_take_view(cluster);
        return event->graph;
    case GOSSIP_MEMBERSHIP_SUSPECTED:
        node_cluster_tell_suspected(cluster, action);
        return false;
    case GOSSIP_MEMBERSHIP_GENERATION:
        take_generation(cluster, action->generation);
        return false;
    case GOSSIP_MEMBERSHIP_CONFLICT:
        event->kind = NODE_CLUSTER_CONFLICT;
        return true;
    case GOSSIP_MEMBERSHIP_CUT_OFF: // the totals report it
        return false;
    case GOSSIP_MEMBERSHIP_REMOVED:
        remove_member(cluster, &action->peer);
        event->kind = NODE_CLUSTER_REMOVED;
        return true;
    }
    return false;
}

static void leave(struct node_cluster *cluster)
{
    BASE_ASSERT(cluster->leaving && !cluster->left);
    cluster->left = true;
    node_cluster_step_plainly(cluster, GOSSIP_MEMBERSHIP_LEAVE, NULL);
    node_peers_leave(cluster->peers);
}

// All actions of membership are taken before the next event is passed to it.
bool node_cluster_next(struct node_cluster *cluster, struct node_cluster_event *event)
{
    struct gossip_membership_action action;
    BASE_ASSERT(cluster->leaving || !cluster->left);
    *event = (struct node_cluster_event){.kind = NODE_CLUSTER_CHANGED};
    for (;;) {
        while (gossip_membership_next(cluster->membership, &action))
            if (act(cluster, &action, event))
                return true;
        if (cluster->leaving && !cluster->left) {
            leave(cluster);
            continue;
        }
        if (!node_peers_next(cluster->peers, &event->link))
            break;
        if (node_cluster_take_link(cluster, &event->link)) {
            event->kind = NODE_CLUSTER_LINK;
            return true;
        }
    }
    if (cluster->stepped)
        node_cluster_arm(cluster);
    const bool changed = cluster->changed;
    cluster->changed = false;
    return changed;
}
