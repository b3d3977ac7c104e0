// Turns datagrams and reports of links into events of membership, and finds the addresses of this node.
#include "base/log.h"
#include "node/cluster/private.h"
#include "node/net/listener.h"
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

// A link uses this local address. It is advertised if the configuration names no address. An address that no
// other host can use comes last.
static void advertise(struct node_cluster *cluster, const struct node_address *own)
{
    struct gossip_address told, *list = cluster->addresses;
    if (cluster->addresses_given || own->bytes == 0 || !node_address_tell(own, &told))
        return;
    told.port = cluster->told_port;
    for (size_t i = 0; i < cluster->n_addresses; i++)
        if (list[i].family == told.family && memcmp(list[i].ip, told.ip, sizeof told.ip) == 0)
            return;
    size_t at = 0;
    while (at < cluster->n_addresses && (node_address_is_near(&told) || !node_address_is_near(&list[at])))
        at++;
    if (at == LIMIT_ADDRESSES)
        return;
    size_t kept = cluster->n_addresses < LIMIT_ADDRESSES ? cluster->n_addresses : LIMIT_ADDRESSES - 1;
    memmove(&list[at + 1], &list[at], (kept - at) * sizeof *list);
    list[at] = told;
    cluster->n_addresses = kept + 1;
    BASE_ASSERT(cluster->n_addresses <= LIMIT_ADDRESSES);
    gossip_membership_addresses(cluster->membership, list, cluster->n_addresses);
}

bool node_cluster_take_link(struct node_cluster *cluster, const struct node_peers_event *link)
{
    BASE_ASSERT((link->kind == NODE_PEERS_MESSAGE) == (link->bytes != NULL)); // the owner's to free
    switch (link->kind) {
    case NODE_PEERS_UP:
        advertise(cluster, &link->own);
        node_endpoints_linked(cluster->endpoints, &link->peer, &link->theirs);
        return true;
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

// Debian and Ubuntu write a host's own name into its /etc/hosts as 127.0.1.1. Others who are told that
// address call themselves. A number, or localhost, is meant as it is.
static bool is_own_name(const struct node_cluster *cluster, const char *host)
{
    bool near = !node_address_is_loopback(host);
    for (size_t i = 0; i < cluster->n_addresses; i++)
        near = near && node_address_is_near(&cluster->addresses[i]);
    return near;
}

static void tell_advertised(const struct node_cluster *cluster, const char *advertise)
{
    char text[NODE_ADDRESS_TEXT];
    struct node_address address;
    node_address_of(&cluster->addresses[0], &address);
    node_address_text(&address, text);
    if (strcmp(text, advertise) != 0)
        base_log(BASE_LOG_INFO, "advertise", "node.advertise: %s is %s%s", advertise, text,
                 cluster->n_addresses > 1 ? ", and others" : "");
}

static enum base_error find_advertised(struct node_cluster *cluster, const char *advertise,
                                       struct base_reason *why)
{
    struct node_resolution r = {0};
    char text[NODE_ADDRESS_TEXT];
    enum base_error error = node_address_parse(advertise, r.host, &r.port, why);
    if (error)
        return base_fail_context(why, error, "node.advertise");
    node_resolve_now(&r);
    for (size_t i = 0; i < r.count && cluster->n_addresses < LIMIT_ADDRESSES; i++)
        cluster->n_addresses += node_address_tell(&r.addresses[i], &cluster->addresses[cluster->n_addresses]);
    if (cluster->n_addresses == 0)
        return base_fail(why, BASE_EIO, "node.advertise: %s cannot be resolved (%s)", advertise, r.problem);
    cluster->told_port = r.port ? r.port : cluster->port;
    for (size_t i = 0; i < cluster->n_addresses; i++)
        cluster->addresses[i].port = cluster->told_port;
    if (!is_own_name(cluster, r.host)) {
        tell_advertised(cluster, advertise);
        return BASE_OK;
    }
    node_address_text(&r.addresses[0], text);
    base_log(
        BASE_LOG_WARN, "advertise",
        "node.advertise: %s is %s on this host (see /etc/hosts), where others would reach themselves; this node "
        "tells the addresses of its links instead, with port %u. Give a number, or a name that is right here, too",
        advertise, text, (unsigned)cluster->told_port);
    cluster->n_addresses = 0;
    return BASE_OK;
}

// The advertised addresses: node.advertise, or else the listen address unless that is every interface.
enum base_error node_cluster_find_addresses(struct node_cluster *cluster, struct base_reason *why)
{
    const char *advertise = cluster->options.links.config->node.advertise;
    struct node_address bound;
    static const uint8_t everywhere[16] = {0};
    if (!node_address_bound(cluster->options.links.listener, &bound))
        return base_fail(why, BASE_EIO, "the listener has no address");
    cluster->port = node_listener_port(cluster->options.links.listener);
    cluster->told_port = cluster->port;
    if (advertise[0] != 0) {
        enum base_error error = find_advertised(cluster, advertise, why);
        if (error)
            return error;
    }
    if (cluster->n_addresses == 0 && node_address_tell(&bound, &cluster->addresses[0])) {
        cluster->addresses[0].port = cluster->told_port;
        cluster->n_addresses = memcmp(cluster->addresses[0].ip, everywhere, sizeof everywhere) != 0;
    }
    BASE_ASSERT(cluster->n_addresses <= LIMIT_ADDRESSES);
    cluster->addresses_given = cluster->n_addresses > 0;
    return BASE_OK;
}
