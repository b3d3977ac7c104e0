// Events go into membership here; what they lead to is taken in act.c.
#include "base/log.h"
#include "node/cluster/private.h"
#include "node/queue/clock.h"
#include <event2/event.h>

void node_cluster_arm(struct node_cluster *cluster)
{
    uint64_t deadline_ns = gossip_membership_deadline(cluster->membership);
    uint64_t now_ns = node_clock_ns();
    if (deadline_ns == UINT64_MAX) {
        event_del(cluster->timer);
        return;
    }
    // Rounded up: a timer that comes too early would only fire again.
    uint64_t wait_ns = deadline_ns > now_ns ? deadline_ns - now_ns + 1000 : 0;
    struct timeval wait = node_clock_timeval(wait_ns);
    event_add(cluster->timer, &wait);
}

enum base_error node_cluster_step(struct node_cluster *cluster, struct gossip_membership_event *event)
{
    BASE_ASSERT(!cluster->leaving || event->kind != GOSSIP_MEMBERSHIP_UNREACHABLE);
    event->now_ns = node_clock_ns();
    return gossip_membership_step(cluster->membership, event);
}

void node_cluster_ready(struct node_cluster *cluster)
{
    cluster->options.links.ready(cluster->options.links.owner);
}

void node_cluster_step_plainly(struct node_cluster *cluster, enum gossip_membership_event_kind kind,
                               const struct gossip_id *peer)
{
    struct gossip_membership_event event = {.kind = kind};
    if (peer)
        event.peer = *peer;
    if (node_cluster_step(cluster, &event))
        base_log(BASE_LOG_ERROR, "membership", "an event was not handled");
}

void node_cluster_unreachable(struct node_cluster *cluster, const struct gossip_id *id)
{
    if (!node_faults_has(cluster->faults, id) && !cluster->leaving)
        node_cluster_step_plainly(cluster, GOSSIP_MEMBERSHIP_UNREACHABLE, id);
}
