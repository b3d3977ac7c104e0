// Turns datagrams and reports of links into events of membership.
#include "base/log.h"
#include "node/cluster/private.h"
#include "node/queue/clock.h"
#include <string.h>

// -- from the datagram socket

static void on_datagram(void *owner, const struct node_address *from, const uint8_t *bytes, size_t count)
{
    struct node_cluster *cluster = owner;
    uint8_t plain[LIMIT_DATAGRAM_BYTES];
    struct gossip_membership_event event = {
        .kind = GOSSIP_MEMBERSHIP_PACKET, .way = GOSSIP_BY_DATAGRAM, .bytes = plain};
    if (gossip_datagram_open(cluster->datagrams, bytes, count, plain, &event.n_bytes, &event.peer)) {
        cluster->counters.refused++;
        return;
    }
    BASE_ASSERT(event.n_bytes <= sizeof plain);
    if (node_faults_has(cluster->faults, &event.peer))
        return;
    node_endpoints_heard(cluster->endpoints, &event.peer, from, node_clock_ns());
    if (node_cluster_step(cluster, &event))
        cluster->counters.refused++;
    node_cluster_ready(cluster);
}

// Evidence only against the member that was heard from this address: other addresses in a record may belong
// to no node.
static void on_unreachable(void *owner, const struct node_address *to)
{
    struct node_cluster *cluster = owner;
    struct gossip_id id;
    if (!node_endpoints_at(cluster->endpoints, to, &id) ||
        !gossip_membership_is_here(cluster->membership, &id))
        return;
    node_cluster_unreachable(cluster, &id);
    node_cluster_ready(cluster);
}

const struct node_udp_handler node_cluster_udp_handler = {.datagram = on_datagram,
                                                          .unreachable = on_unreachable};

// -- from the links

static void take_packet(struct node_cluster *cluster, const struct node_peers_event *link)
{
    struct gossip_membership_event event = {.kind = GOSSIP_MEMBERSHIP_PACKET,
                                            .peer = link->peer,
                                            .way = GOSSIP_BY_STREAM,
                                            .bytes = link->message->as.members.packet,
                                            .n_bytes = link->message->as.members.packet_bytes};
    BASE_ASSERT(link->message->kind == GOSSIP_MEMBERS);
    if (!node_cluster_step(cluster, &event))
        return;
    cluster->counters.refused++;
    node_peers_close(cluster->peers, &link->peer, "a packet about members that breaks the layout");
}

bool node_cluster_take_link(struct node_cluster *cluster, const struct node_peers_event *link)
{
    BASE_ASSERT((link->kind == NODE_PEERS_MESSAGE) == (link->bytes != NULL)); // the owner's to free
    switch (link->kind) {
    case NODE_PEERS_UP:
        node_cluster_linked(cluster, link);
        node_endpoints_linked(cluster->endpoints, &link->peer, &link->theirs);
        return true;
    case NODE_PEERS_DOWN:
        node_cluster_unlinked(cluster, &link->peer);
        return true;
    case NODE_PEERS_REACHED:
        node_cluster_called(cluster, link);
        return false;
    case NODE_PEERS_PACKET:
        take_packet(cluster, link);
        return false;
    case NODE_PEERS_UNREACHABLE:
        node_cluster_unreachable(cluster, &link->peer);
        return false;
    case NODE_PEERS_MISSING:
        node_cluster_tell_missing(cluster, &link->peer);
        return false;
    case NODE_PEERS_CHANGED:
        cluster->changed = true;
        return false;
    default:
        return true;
    }
}
