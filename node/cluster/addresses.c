// The addresses of this node, and how others reach it: what is found out about them goes to gossip/reach, and
// its verdict to membership, links and people.
#include "base/log.h"
#include "node/cluster/private.h"
#include "node/net/interfaces.h"
#include "node/net/listener.h"
#include "node/queue/clock.h"
#include <arpa/inet.h>
#include <string.h>

#define INTERFACES    128u                 // those of one link only (fe80::) included
#define INTERFACES_NS (2 * NODE_SECOND_NS) // between two looks at the interfaces

// -- what is found out

static void take_interfaces(struct node_cluster *cluster, uint64_t now_ns)
{
    struct node_address all[INTERFACES];
    struct gossip_address told[GOSSIP_REACH_INTERFACES];
    size_t n_told = 0;
    cluster->interfaces_ns = now_ns;
    const size_t count = node_interfaces(all, INTERFACES);
    for (size_t i = 0; i < count && n_told < GOSSIP_REACH_INTERFACES; i++)
        n_told += node_address_tell(&all[i], &told[n_told]);
    if (n_told > 0 && gossip_reach_interfaces(cluster->reach, told, n_told))
        node_cluster_map_on(cluster, told, n_told);
}

enum base_error node_cluster_find_addresses(struct node_cluster *cluster, struct base_reason *why)
{
    static const uint8_t everywhere[16] = {0};
    const char *advertise = cluster->options.links.config->node.advertise;
    struct node_address bound;
    struct gossip_address own;
    if (gossip_reach_create(&cluster->reach))
        return base_fail(why, BASE_ENOMEM, "no memory for the addresses");
    if (!node_address_bound(cluster->options.links.listener, &bound))
        return base_fail(why, BASE_EIO, "the listener has no address");
    cluster->port = node_listener_port(cluster->options.links.listener);
    cluster->told_port = cluster->port;
    node_cluster_map_begin(cluster, &bound);
    take_interfaces(cluster, node_clock_ns());
    if (advertise[0] != 0) {
        enum base_error error = node_cluster_advertise(cluster, why);
        if (error)
            return error;
    }
    if (node_address_tell(&bound, &own) && memcmp(own.ip, everywhere, sizeof everywhere) != 0) {
        own.port = cluster->told_port;
        cluster->listens_there_only = true;
        gossip_reach_own(cluster->reach, &own);
    }
    cluster->n_told = gossip_reach_addresses(cluster->reach, node_clock_ns(), cluster->told);
    return BASE_OK;
}

static bool read_seen(const char *text, struct gossip_address *seen)
{
    char host[LIMIT_HOST_BYTES];
    struct base_reason why;
    *seen = (struct gossip_address){0};
    if (text[0] == 0 || node_address_parse(text, host, &seen->port, &why) || seen->port == 0)
        return false;
    if (inet_pton(AF_INET, host, seen->ip) == 1)
        seen->family = 4;
    else if (inet_pton(AF_INET6, host, seen->ip) == 1)
        seen->family = 6;
    return seen->family != 0;
}

// In a network of this host, or from the address at which others see it: another host of this home.
static bool is_near(const struct node_cluster *cluster, const struct node_address *address)
{
    struct gossip_address outside, at;
    return node_address_is_neighbour(address) ||
           (gossip_reach_outside(cluster->reach, node_clock_ns(), &outside) &&
            node_address_tell(address, &at) && gossip_address_same_host(&outside, &at));
}

void node_cluster_linked(struct node_cluster *cluster, const struct node_peers_event *link)
{
    struct gossip_address own, seen;
    const bool direct = link->own.bytes > 0 && node_address_tell(&link->own, &own);
    if (!direct)
        return;
    (void)read_seen(link->seen, &seen);
    if (own.port != cluster->port)
        seen.port = 0; // of another port of this node, such as of a call while an earlier one is remembered
    own.port = cluster->told_port;
    if (!cluster->listens_there_only)
        gossip_reach_own(cluster->reach, &own);
    gossip_reach_linked(cluster->reach, node_clock_ns(), &link->peer, &seen, is_near(cluster, &link->theirs));
    node_cluster_follow_reach(cluster);
}

// This node may have called that address: the member tells it, or, if it is no member yet, an entry of the
// peer list leads there.
static bool may_have_called(const struct node_cluster *cluster, const struct gossip_id *member,
                            const struct node_address *address)
{
    struct gossip_member_info info;
    struct gossip_address at;
    bool found = false;
    if (!node_address_tell(address, &at))
        return true;
    for (size_t i = 0; i < node_peers_entries(cluster->peers) && !found; i++)
        found = node_peers_entry_is_at(cluster->peers, i, &at, 1);
    if (gossip_membership_find(cluster->membership, member, &info))
        return found;
    for (size_t i = 0; i < info.record->n_addresses && !found; i++)
        found = gossip_address_same(&info.record->addresses[i], &at);
    return found;
}

void node_cluster_unlinked(struct node_cluster *cluster, const struct gossip_id *peer)
{
    gossip_reach_unlinked(cluster->reach, node_clock_ns(), peer);
    node_cluster_follow_reach(cluster);
}

void node_cluster_called(struct node_cluster *cluster, const struct node_peers_event *link)
{
    if (link->theirs.bytes == 0)
        return;
    gossip_reach_called(cluster->reach, node_clock_ns(), &link->peer,
                        may_have_called(cluster, &link->peer, &link->theirs),
                        is_near(cluster, &link->theirs));
    node_cluster_follow_reach(cluster);
}

// -- what follows

static bool same_addresses(const struct node_cluster *cluster, const struct gossip_address *now, size_t count)
{
    bool same = count == cluster->n_told;
    for (size_t i = 0; i < count && same; i++)
        same = gossip_address_same(&now[i], &cluster->told[i]);
    return same;
}

static void follow_addresses(struct node_cluster *cluster, uint64_t now_ns)
{
    struct gossip_address now[LIMIT_ADDRESSES];
    const size_t count = gossip_reach_addresses(cluster->reach, now_ns, now);
    if (count == 0 || same_addresses(cluster, now, count)) // without a network the latest ones stay
        return;
    memcpy(cluster->told, now, count * sizeof *now);
    cluster->n_told = count;
    gossip_membership_addresses(cluster->membership, now, count);
    node_peers_moved(cluster->peers);
}

enum gossip_reach_state node_cluster_reach(const struct node_cluster *cluster,
                                           char outside[NODE_ADDRESS_TEXT])
{
    struct gossip_address seen;
    struct node_address address;
    outside[0] = 0;
    if (gossip_reach_outside(cluster->reach, node_clock_ns(), &seen)) {
        node_address_of(&seen, &address);
        node_address_text(&address, outside);
    }
    return cluster->reached;
}

static void tell_reach(const struct node_cluster *cluster)
{
    char text[NODE_ADDRESS_TEXT];
    (void)node_cluster_reach(cluster, text);
    if (cluster->reached == GOSSIP_REACH_REACHABLE)
        base_log(BASE_LOG_INFO, "reach", "members can call this node%s%s", text[0] ? " at " : "", text);
    else if (cluster->reached == GOSSIP_REACH_PRIVATE)
        base_log(
            BASE_LOG_INFO, "reach",
            "no member could call this node%s%s: it is behind a router or a firewall. It calls others itself, "
            "and members that can be called relay for it; an open port %u (TCP and UDP) makes links direct",
            text[0] ? ", which others see at " : "", text, (unsigned)cluster->told_port);
}

void node_cluster_follow_reach(struct node_cluster *cluster)
{
    const uint64_t now_ns = node_clock_ns();
    if (now_ns - cluster->interfaces_ns >= INTERFACES_NS)
        take_interfaces(cluster, now_ns);
    node_cluster_advertise_again(cluster, now_ns);
    node_cluster_map_again(cluster, now_ns);
    follow_addresses(cluster, now_ns);
    gossip_membership_access(cluster->membership, gossip_reach_access(cluster->reach, now_ns));
    const enum gossip_reach_state state = gossip_reach_state(cluster->reach, now_ns);
    if (state == cluster->reached)
        return;
    cluster->reached = state;
    tell_reach(cluster);
    node_peers_reachable(cluster->peers, state == GOSSIP_REACH_REACHABLE);
    gossip_control_reach(cluster->control, state, cluster->options.links.config->node.relay > 0);
}

bool node_cluster_came_mapped(const struct node_cluster *cluster, const struct gossip_id *peer)
{
    struct node_address theirs;
    return cluster->mapped && node_peers_called(cluster->peers, peer, &theirs) && !is_near(cluster, &theirs);
}
