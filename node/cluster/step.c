// One event of membership and its consequences: packets, and changes for links, owner and people.
#include "base/log.h"
#include "node/cluster/private.h"
#include "node/queue/clock.h"
#include <event2/event.h>

bool node_cluster_is_here(const struct node_cluster *cluster, const struct gossip_id *id)
{
    struct gossip_member_info info;
    return gossip_membership_find(cluster->membership, id, &info) == BASE_OK &&
           (info.state == GOSSIP_MEMBER_ALIVE || info.state == GOSSIP_MEMBER_SUSPECT);
}

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
    if (gossip_membership_find(cluster->membership, &action->peer, &info) != BASE_OK ||
        !node_endpoints_pick(cluster->endpoints, info.record, node_clock_ns(), reaches, cluster->udp, &to) ||
        gossip_datagram_seal_for(cluster->datagrams, &action->peer, action->generation, action->bytes,
                                 action->n_bytes, sealed, &bytes) != BASE_OK)
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
    cluster->options.handler->member(cluster->options.links.owner, &action->peer, action->state);
    if (action->state == GOSSIP_MEMBER_DEAD)
        node_peers_part(cluster->peers, &action->peer, GOSSIP_CLOSE_SILENT);
}

static void take_record(struct node_cluster *cluster, const struct gossip_id *id)
{
    struct gossip_member_info info;
    if (gossip_membership_find(cluster->membership, id, &info) != BASE_OK)
        return;
    const struct gossip_record *r = info.record;
    if (gossip_datagrams_peer(cluster->datagrams, id, r->exchange_public, r->version.generation) != BASE_OK)
        base_log(BASE_LOG_WARN, "datagrams", "no key for datagrams to %s; packets to it go by stream",
                 r->name);
}

static void take_generation(struct node_cluster *cluster, uint64_t generation)
{
    struct base_reason why = {0};
    node_cluster_tell_generation(cluster, generation);
    if (cluster->options.starts_path &&
        node_starts_raise(cluster->options.starts_path, generation, &why) != BASE_OK)
        base_log(BASE_LOG_ERROR, "boot", "the number of starts can't be stored: %s", why.text);
    gossip_datagrams_generation(cluster->datagrams, generation);
}

static void remove_member(struct node_cluster *cluster, const struct gossip_id *id)
{
    node_peers_part(cluster->peers, id, GOSSIP_CLOSE_IDLE);
    node_peers_member(cluster->peers, id, false);
    gossip_datagrams_forget(cluster->datagrams, id);
    node_endpoints_forget(cluster->endpoints, id);
    cluster->options.handler->removed(cluster->options.links.owner, id);
}

static void act(struct node_cluster *cluster, const struct gossip_membership_action *action)
{
    BASE_ASSERT(cluster->busy); // a handler that steps membership from here would lose actions
    switch (action->kind) {
    case GOSSIP_MEMBERSHIP_SEND:
        send_packet(cluster, action);
        return; // of no interest to the owner
    case GOSSIP_MEMBERSHIP_CHANGED:
        take_change(cluster, action);
        break;
    case GOSSIP_MEMBERSHIP_RECORD:
        take_record(cluster, &action->peer);
        break;
    case GOSSIP_MEMBERSHIP_VIEW:
        node_cluster_take_view(cluster);
        break;
    case GOSSIP_MEMBERSHIP_SUSPECTED:
        node_cluster_tell_suspected(cluster, action);
        break;
    case GOSSIP_MEMBERSHIP_GENERATION:
        take_generation(cluster, action->generation);
        break;
    case GOSSIP_MEMBERSHIP_CONFLICT:
        cluster->options.links.handler->conflict(cluster->options.links.owner, NULL);
        break;
    case GOSSIP_MEMBERSHIP_CUT_OFF: // the totals report it
        break;
    case GOSSIP_MEMBERSHIP_REMOVED:
        remove_member(cluster, &action->peer);
        break;
    }
    cluster->changed = true;
}

void node_cluster_arm(struct node_cluster *cluster)
{
    uint64_t deadline_ns = gossip_membership_deadline(cluster->membership), now_ns = node_clock_ns();
    if (deadline_ns == UINT64_MAX) {
        event_del(cluster->timer);
        return;
    }
    // Rounded up: a timer that comes too early would only fire again.
    uint64_t wait_ns = deadline_ns > now_ns ? deadline_ns - now_ns + 1000 : 0;
    struct timeval wait = node_clock_timeval(wait_ns);
    event_add(cluster->timer, &wait);
}

static enum base_error step_once(struct node_cluster *cluster, struct gossip_membership_event *event)
{
    struct gossip_membership_action action;
    BASE_ASSERT(!cluster->busy);
    cluster->busy = true;
    event->now_ns = node_clock_ns();
    enum base_error code = gossip_membership_step(cluster->membership, event);
    while (gossip_membership_next(cluster->membership, &action))
        act(cluster, &action);
    cluster->busy = false;
    return code;
}

// Evidence that comes up while an action is carried out is handled as an event of its own afterwards.
enum base_error node_cluster_step(struct node_cluster *cluster, struct gossip_membership_event *event)
{
    enum base_error code = step_once(cluster, event);
    BASE_ASSERT(!cluster->busy && cluster->n_pending <= NODE_CLUSTER_PENDING);
    while (cluster->n_pending > 0) {
        struct gossip_membership_event evidence = {.kind = GOSSIP_MEMBERSHIP_UNREACHABLE,
                                                   .peer = cluster->pending[--cluster->n_pending]};
        if (step_once(cluster, &evidence) != BASE_OK)
            break; // an event without bytes can't be malformed
    }
    node_cluster_arm(cluster);
    if (cluster->changed) {
        cluster->changed = false;
        cluster->options.links.handler->changed(cluster->options.links.owner);
    }
    return code;
}

void node_cluster_step_plainly(struct node_cluster *cluster, enum gossip_membership_event_kind kind,
                               const struct gossip_id *peer)
{
    struct gossip_membership_event event = {.kind = kind};
    if (peer)
        event.peer = *peer;
    if (node_cluster_step(cluster, &event) != BASE_OK)
        base_log(BASE_LOG_ERROR, "membership", "an event was not handled");
}

void node_cluster_unreachable(struct node_cluster *cluster, const struct gossip_id *id)
{
    BASE_ASSERT(cluster->n_pending <= NODE_CLUSTER_PENDING && (cluster->busy || !cluster->n_pending));
    if (node_faults_has(cluster->faults, id) || cluster->leaving)
        return;
    if (!cluster->busy)
        node_cluster_step_plainly(cluster, GOSSIP_MEMBERSHIP_UNREACHABLE, id);
    else if (cluster->n_pending < NODE_CLUSTER_PENDING)
        cluster->pending[cluster->n_pending++] = *id;
}
