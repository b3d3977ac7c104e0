// Turns datagrams and reports of links into events of membership, and finds the addresses of this node.
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
    BASE_ASSERT(!cluster->busy); // datagrams are read between the events of membership
    if (gossip_datagram_open(cluster->datagrams, bytes, count, plain, &event.n_bytes, &event.peer) !=
        BASE_OK) {
        cluster->counters.refused++;
        return;
    }
    if (node_faults_has(cluster->faults, &event.peer))
        return;
    node_endpoints_heard(cluster->endpoints, &event.peer, from, node_clock_ns());
    if (node_cluster_step(cluster, &event) != BASE_OK)
        cluster->counters.refused++;
}

// Evidence only against the member that was heard from this address: other addresses in a record may belong
// to no node.
static void on_unreachable(void *owner, const struct node_address *to)
{
    struct node_cluster *cluster = owner;
    struct gossip_id id;
    if (node_endpoints_at(cluster->endpoints, to, &id) && node_cluster_is_here(cluster, &id))
        node_cluster_unreachable(cluster, &id);
}

const struct node_udp_handler node_cluster_udp_handler = {.datagram = on_datagram,
                                                          .unreachable = on_unreachable};

// -- from the links

static void on_linked(void *owner, const struct gossip_id *peer)
{
    node_cluster_step_plainly(owner, GOSSIP_MEMBERSHIP_LINKED, peer);
}

static void on_packet(void *owner, const struct gossip_id *peer, const uint8_t *packet, size_t count)
{
    struct node_cluster *cluster = owner;
    struct gossip_membership_event event = {.kind = GOSSIP_MEMBERSHIP_PACKET,
                                            .peer = *peer,
                                            .way = GOSSIP_BY_STREAM,
                                            .bytes = packet,
                                            .n_bytes = count};
    BASE_ASSERT(!cluster->busy); // links report between the events of membership
    if (node_cluster_step(cluster, &event) == BASE_OK)
        return;
    cluster->counters.refused++;
    node_peers_close(cluster->peers, peer, "a packet about members that breaks the layout");
}

static size_t on_about(void *owner, const struct gossip_id *id, uint8_t *packet, size_t capacity)
{
    struct node_cluster *cluster = owner;
    return gossip_membership_about(cluster->membership, id, packet, capacity);
}

static void on_link_unreachable(void *owner, const struct gossip_id *peer)
{
    node_cluster_unreachable(owner, peer);
}

static bool on_alive(void *owner, const struct gossip_id *id)
{
    return node_cluster_is_here(owner, id);
}

static size_t on_addresses(void *owner, const struct gossip_id *id, struct node_address out[LIMIT_ADDRESSES])
{
    struct node_cluster *cluster = owner;
    struct gossip_member_info info;
    if (gossip_membership_find(cluster->membership, id, &info) != BASE_OK)
        return 0;
    for (size_t i = 0; i < info.record->n_addresses; i++)
        node_address_of(&info.record->addresses[i], &out[i]);
    return info.record->n_addresses;
}

static bool is_loopback(const struct gossip_address *a)
{
    static const uint8_t v6[16] = {[15] = 1};
    return a->family == 4 ? a->ip[0] == 127 : memcmp(a->ip, v6, sizeof v6) == 0;
}

// A link uses this local address. It is advertised if the configuration names no address. Loopback comes
// last, because no other host can use it.
static void on_here(void *owner, const struct node_address *own)
{
    struct node_cluster *cluster = owner;
    struct gossip_address told, *list = cluster->addresses;
    if (cluster->addresses_given || !node_address_tell(own, &told))
        return;
    told.port = cluster->port;
    for (size_t i = 0; i < cluster->n_addresses; i++)
        if (list[i].family == told.family && memcmp(list[i].ip, told.ip, sizeof told.ip) == 0)
            return;
    size_t at = 0;
    while (at < cluster->n_addresses && (is_loopback(&told) || !is_loopback(&list[at])))
        at++;
    if (at == LIMIT_ADDRESSES)
        return;
    size_t kept = cluster->n_addresses < LIMIT_ADDRESSES ? cluster->n_addresses : LIMIT_ADDRESSES - 1;
    memmove(&list[at + 1], &list[at], (kept - at) * sizeof *list);
    list[at] = told;
    cluster->n_addresses = kept + 1;
    BASE_ASSERT(cluster->n_addresses <= LIMIT_ADDRESSES);
    gossip_membership_addresses(cluster->membership, list, cluster->n_addresses);
    node_cluster_arm(cluster);
}

static void on_missing(void *owner, const struct gossip_id *peer)
{
    node_cluster_tell_missing(owner, peer);
}

const struct node_peers_members node_cluster_members = {.linked = on_linked,
                                                        .packet = on_packet,
                                                        .about = on_about,
                                                        .unreachable = on_link_unreachable,
                                                        .alive = on_alive,
                                                        .addresses = on_addresses,
                                                        .here = on_here,
                                                        .missing = on_missing};

// The advertised addresses: node.advertise, or the listen address unless that is every interface.
enum base_error node_cluster_find_addresses(struct node_cluster *cluster, struct base_reason *why)
{
    const char *advertise = cluster->options.links.config->node.advertise;
    struct node_resolution r = {0};
    struct node_address bound;
    static const uint8_t everywhere[16] = {0};
    if (!node_address_bound(cluster->options.links.listener, &bound))
        return base_fail(why, BASE_EIO, "the listener has no address");
    cluster->port = node_listener_port(cluster->options.links.listener);
    if (advertise[0] != 0) {
        enum base_error code = node_address_parse(advertise, r.host, &r.port, why);
        if (code != BASE_OK)
            return base_fail_context(why, code, "node.advertise");
        node_resolve_now(&r);
        for (size_t i = 0; i < r.count && cluster->n_addresses < LIMIT_ADDRESSES; i++)
            cluster->n_addresses +=
                node_address_tell(&r.addresses[i], &cluster->addresses[cluster->n_addresses]);
        if (cluster->n_addresses == 0)
            return base_fail(why, BASE_EIO, "node.advertise: %s can't be resolved (%s)", advertise,
                             r.problem);
        for (size_t i = 0; i < cluster->n_addresses && r.port == 0; i++)
            cluster->addresses[i].port = cluster->port;
    } else if (node_address_tell(&bound, &cluster->addresses[0])) {
        cluster->n_addresses = memcmp(cluster->addresses[0].ip, everywhere, sizeof everywhere) != 0;
    }
    BASE_ASSERT(cluster->n_addresses <= LIMIT_ADDRESSES);
    cluster->addresses_given = cluster->n_addresses > 0;
    return BASE_OK;
}
