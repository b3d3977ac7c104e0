// Calls: the links that the process wants, their addresses and streams. With known membership there are no
// calls: a link exists as soon as one end wants it and the network between them is open.
#include "lab/sim/sim_link.h"
#include <stdlib.h>

#define JOIN_NS (250 * SIM_MS) // between two attempts, with known membership

// The number of hosts that the peer list's name leads to now, without this one: a stream never has both ends
// on one host.
static size_t named_hosts(const struct sim_node *node, size_t *first)
{
    const struct sim_options *options = &node->world->options;
    const bool all = node->world->queue.now_ns >= options->name_ns;
    *first = all ? 0 : node->host / 2 * 2;
    size_t end = all || *first + 2 > options->nodes ? options->nodes : *first + 2;
    return end - *first - 1;
}

static bool find_host(struct sim_node *node, const struct gossip_links_target *target, size_t address,
                      size_t *host)
{
    struct gossip_member_info info;

    if (target->entry != GOSSIP_NO_ENTRY && node->entry[target->entry] == SIM_NAME) {
        bool known = address < named_hosts(node, host);
        *host += address + (*host + address >= node->host);
        return known;
    }
    if (target->entry != GOSSIP_NO_ENTRY) {
        *host = node->entry[target->entry];
        return true;
    }
    return sim_member_info(node, sim_world_find(node->world, &target->peer), &info) &&
           address < info.record->n_addresses &&
           sim_net_host_of(&node->world->net, &info.record->addresses[address], host);
}

void sim_call_resolve(struct sim_node *node, const struct gossip_links_target *target)
{
    struct gossip_member_info info;
    size_t count = 1, first;

    if (target->entry != GOSSIP_NO_ENTRY && node->entry[target->entry] == SIM_NAME)
        count = named_hosts(node, &first);
    else if (target->entry != GOSSIP_NO_ENTRY)
        count = node->entry[target->entry] != node->host; // a stream never has both ends on one host
    else
        count = sim_member_info(node, sim_world_find(node->world, &target->peer), &info)
                    ? info.record->n_addresses
                    : 0;
    sim_link_tell_later(
        node, (struct gossip_links_event){.kind = GOSSIP_LINKS_RESOLVED, .target = *target, .count = count});
}

static void join_ends(struct sim_node *node, struct sim_link *link, struct sim_node *other)
{
    struct sim_world *world = node->world;
    uint64_t stream = sim_net_join(&world->net, node->host, other->host);
    struct sim_link *theirs = sim_link_add(other, stream, node->host, false);

    link->stream = stream;
    theirs->handle = gossip_links_accept(other->links.rules, sim_node_now(other), node->host, false, theirs);
    BASE_ASSERT(theirs->handle != 0);
    link->authenticated = theirs->authenticated = true;
    link->peer = other->self;
    theirs->peer = node->self;
    sim_link_tell_later(other, (struct gossip_links_event){.kind = GOSSIP_LINKS_AUTHENTICATED,
                                                           .link = theirs->handle,
                                                           .peer = *sim_member_id(other, node->self),
                                                           .protocol = GOSSIP_PROTOCOL,
                                                           .alive = true});
    sim_link_tell(node, (struct gossip_links_event){.kind = GOSSIP_LINKS_AUTHENTICATED,
                                                    .link = link->handle,
                                                    .peer = *sim_member_id(node, other->self),
                                                    .protocol = GOSSIP_PROTOCOL,
                                                    .alive = true});
    sim_node_act(other, GOSSIP_CONTROL_LINKS_TOO);
    sim_node_wake(other);
}

// False: not yet.
static bool join(struct sim_node *node, struct sim_link *link)
{
    struct sim_world *world = node->world;
    struct sim_node *other = world->node[link->host];

    if (!gossip_links_wants(node->links.rules, sim_member_id(node, other->self)) ||
        node->peer[other->self].link) {
        sim_link_end(node, link, GOSSIP_END_OTHER);
        return true;
    }
    if (!other->running || other->paused || other->peer[node->self].link ||
        !sim_net_open(&world->net, node->host, other->host) ||
        !sim_net_open(&world->net, other->host, node->host))
        return false;
    join_ends(node, link, other);
    return true;
}

static void join_all(struct sim_node *node, uint64_t now_ns)
{
    bool waits = false;

    for (struct sim_link *link = node->links.list; link; link = link->next)
        if (link->stream == SIM_NO_STREAM && !link->closed)
            waits |= !join(node, link);
    node->links.join_ns = waits ? now_ns + JOIN_NS : UINT64_MAX;
}

void sim_call_open(struct sim_node *node, const struct gossip_links_action *call)
{
    struct sim_world *world = node->world;
    struct sim_link *link;
    size_t host;

    if (!find_host(node, &call->target, call->address, &host)) {
        sim_link_tell_later(node,
                            (struct gossip_links_event){.kind = GOSSIP_LINKS_ENDED, .link = call->link});
        return;
    }
    link = sim_link_add(
        node, world->options.known ? SIM_NO_STREAM : sim_net_call(&world->net, node->host, host), host, true);
    link->handle = call->link;
    gossip_links_bind(node->links.rules, call->link, link);
    if (!world->options.known)
        sim_world_trace(world, node->host, "call", NULL, host, 0);
    else if (!join(node, link))
        node->links.join_ns = sim_node_now(node) + JOIN_NS;
}

void sim_link_packet(struct sim_node *node, size_t peer, const uint8_t *bytes, size_t count)
{
    const struct gossip_message message = {.kind = GOSSIP_MEMBERS,
                                           .as.members = {.packet = bytes, .packet_bytes = (uint32_t)count}};

    SIM_TELL(node, packet, node, count);
    sim_world_trace(node->world, node->host, "packet", NULL, peer, count);
    if (!sim_link_send(node, peer, &message))
        sim_link_tell_later(node, (struct gossip_links_event){.kind = GOSSIP_LINKS_PACKET,
                                                              .peer = *sim_member_id(node, peer),
                                                              .bytes = bytes,
                                                              .count = count});
}

void sim_link_tick(struct sim_node *node, uint64_t now_ns)
{
    if (now_ns >= gossip_links_deadline(node->links.rules))
        sim_link_tell(node, (struct gossip_links_event){.kind = GOSSIP_LINKS_TIMER});
    if (now_ns >= node->links.join_ns)
        join_all(node, now_ns);
}
