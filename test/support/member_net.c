#include "test/support/member_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IP_BYTES       28u
#define MILLISECOND_NS 1000000ull

enum { PING = 1, PING_REQUEST = 3 }; // of a membership packet

enum what { DATAGRAM, STREAM, LINKED, UNREACHABLE };

struct member_net_packet {
    struct member_net_packet *next;
    uint64_t at_ns;
    enum what what;
    size_t from, to;
    uint64_t instance_id; // of the receiver when it was sent
    size_t bytes;
    uint8_t data[];
};

void member_net_create(struct member_net *net, size_t count, uint64_t seed)
{
    memset(net, 0, sizeof *net);
    net->count = count;
    net->now_ns = 1000 * MILLISECOND_NS;
    base_rng_seed(&net->rng, seed);
    for (size_t i = 0; i < count; i++) {
        uint8_t key[32] = {(uint8_t)i, 1};
        memcpy(key + 8, &seed, sizeof seed);
        gossip_identity_from_seed(key, &net->nodes[i].identity);
    }
}

void member_net_destroy(struct member_net *net)
{
    for (size_t i = 0; i < net->count; i++)
        gossip_membership_destroy(net->nodes[i].membership);
    while (net->queue) {
        struct member_net_packet *packet = net->queue;
        net->queue = packet->next;
        free(packet);
    }
}

static size_t node_of(const struct member_net *net, const struct gossip_id *id)
{
    for (size_t i = 0; i < net->count; i++)
        if (gossip_id_compare(&net->nodes[i].identity.id, id) == 0)
            return i;
    return SIZE_MAX;
}

static void queue(struct member_net *net, enum what what, size_t from, size_t to, uint64_t delay_ns,
                  const uint8_t *data, size_t bytes)
{
    struct member_net_packet *packet = malloc(sizeof *packet + bytes), **at = &net->queue;
    BASE_ASSERT(packet != NULL);
    *packet = (struct member_net_packet){.at_ns = net->now_ns + delay_ns,
                                         .what = what,
                                         .from = from,
                                         .to = to,
                                         .instance_id = net->nodes[to].options.version.instance_id,
                                         .bytes = bytes};
    if (bytes)
        memcpy(packet->data, data, bytes);
    while (*at && (*at)->at_ns <= packet->at_ns)
        at = &(*at)->next;
    packet->next = *at;
    *at = packet;
}

static bool is_public(const struct member_net *net, size_t node)
{
    return net->nodes[node].nat == MEMBER_NET_PUBLIC;
}

// Between them a stream needs no other member.
static bool can_call(const struct member_net *net, size_t a, size_t b)
{
    return is_public(net, a) || is_public(net, b);
}

static bool has_relay(const struct member_net *net)
{
    for (size_t i = 0; i < net->count; i++)
        if (is_public(net, i) && net->nodes[i].running)
            return true;
    return false;
}

// Before the router of `to`, and that of `from`, if there are any.
static bool gets_through(const struct member_net *net, size_t from, size_t to)
{
    const uint64_t sent_ns = net->sent_ns[to][from];
    if (net->nodes[from].nat == MEMBER_NET_STREAMS || net->nodes[to].nat == MEMBER_NET_STREAMS)
        return false;
    if (is_public(net, to))
        return true;
    if (!can_call(net, from, to) &&
        (net->nodes[from].nat == MEMBER_NET_CLOSED || net->nodes[to].nat == MEMBER_NET_CLOSED))
        return false;
    return sent_ns != 0 && net->now_ns - sent_ns < MEMBER_NET_HOLE_NS;
}

static void unlink_both(struct member_net *net, size_t a, size_t b)
{
    net->linked[a][b] = net->linked[b][a] = false;
    if (net->nodes[a].running)
        gossip_membership_unlinked(net->nodes[a].membership, &net->nodes[b].identity.id);
    if (net->nodes[b].running)
        gossip_membership_unlinked(net->nodes[b].membership, &net->nodes[a].identity.id);
}

static void end_idle(struct member_net *net)
{
    if (net->now_ns - net->idle_ns < 100 * MILLISECOND_NS)
        return;
    net->idle_ns = net->now_ns;
    for (size_t a = 0; a < net->count; a++)
        for (size_t b = 0; b < a; b++)
            if (net->linked[a][b] && !can_call(net, a, b) && !net->wanted[a][b] &&
                net->now_ns - net->used_ns[a][b] > MEMBER_NET_IDLE_NS)
                unlink_both(net, a, b);
}

static void link_both(struct member_net *net, size_t a, size_t b)
{
    const uint64_t call_ns = net->call_ns && !can_call(net, a, b) ? net->call_ns : MILLISECOND_NS;
    net->linked[a][b] = net->linked[b][a] = true;
    net->used_ns[a][b] = net->used_ns[b][a] = net->now_ns;
    net->ready_ns[a][b] = net->ready_ns[b][a] = net->now_ns + call_ns;
    queue(net, LINKED, b, a, call_ns, NULL, 0);
    queue(net, LINKED, a, b, call_ns, NULL, 0);
}

// How long bytes take through the narrow link, if they go through it; UINT64_MAX: they are lost.
static uint64_t squeeze(struct member_net *net, size_t from, size_t to, size_t bytes, bool may_be_lost)
{
    struct member_net_narrow *narrow = &net->narrow;
    if (narrow->bytes_per_s == 0 || (from != narrow->node && to != narrow->node))
        return 0;
    uint64_t *free_ns = &narrow->free_ns[to == narrow->node];
    const uint64_t waits_ns = *free_ns > net->now_ns ? *free_ns - net->now_ns : 0;
    if (may_be_lost && waits_ns > narrow->queue_ns) {
        narrow->lost++;
        return UINT64_MAX;
    }
    narrow->carried += bytes;
    *free_ns = net->now_ns + waits_ns + bytes * 1000000000 / narrow->bytes_per_s;
    return *free_ns - net->now_ns;
}

void member_net_occupy(struct member_net *net, size_t bytes)
{
    for (size_t way = 0; way < 2; way++) {
        uint64_t *free_ns = &net->narrow.free_ns[way];
        *free_ns =
            (*free_ns > net->now_ns ? *free_ns : net->now_ns) + bytes * 1000000000 / net->narrow.bytes_per_s;
    }
}

static void carry(struct member_net *net, size_t from, const struct gossip_membership_action *action)
{
    size_t to = node_of(net, &action->peer);
    const struct member_net_node *there = &net->nodes[to];
    const uint64_t delay_ns = net->delay_ns ? net->delay_ns : MILLISECOND_NS;
    if (action->bytes[0] == PING)
        memcpy(&net->nodes[from].asked[to], action->bytes + 2, sizeof(uint32_t));
    net->helps[from][to] += action->bytes[0] == PING_REQUEST;
    if (action->way == GOSSIP_BY_DATAGRAM) {
        net->nodes[from].datagrams++;
        net->nodes[from].datagram_bytes += action->n_bytes + LIMIT_DATAGRAM_OVERHEAD;
        BASE_ASSERT(action->n_bytes + LIMIT_DATAGRAM_OVERHEAD <= LIMIT_DATAGRAM_BYTES);
        net->sent_ns[from][to] = net->now_ns;
        if (net->no_datagrams || net->cut[from][to] || base_rng_uniform(&net->rng) < net->loss ||
            !gets_through(net, from, to))
            return;
        if (there->running) {
            const uint64_t slow_ns =
                squeeze(net, from, to, action->n_bytes + LIMIT_DATAGRAM_OVERHEAD + IP_BYTES, true);
            if (slow_ns != UINT64_MAX)
                queue(net, DATAGRAM, from, to, delay_ns + slow_ns, action->bytes, action->n_bytes);
        } else if (!there->silent) {
            queue(net, UNREACHABLE, to, from, MILLISECOND_NS, NULL, 0);
        }
        return;
    }
    const bool direct = can_call(net, from, to);
    if (net->cut[from][to] || net->cut[to][from] || (!direct && !has_relay(net)))
        return;
    if (!there->running) {
        if (!there->silent && direct && is_public(net, to))
            queue(net, UNREACHABLE, to, from, MILLISECOND_NS, NULL, 0);
        return;
    }
    if (!net->linked[from][to]) {
        net->nodes[from].calls++;
        link_both(net, from, to);
    }
    net->used_ns[from][to] = net->used_ns[to][from] = net->now_ns;
    net->nodes[from].stream_packets++;
    net->nodes[from].stream_bytes += action->n_bytes;
    const uint64_t slow_ns = squeeze(net, from, to, action->n_bytes, false),
                   ready_ns = net->ready_ns[from][to],
                   waits_ns = ready_ns > net->now_ns ? ready_ns - net->now_ns : 0;
    queue(net, STREAM, from, to, (direct ? 2 : 4) * delay_ns + slow_ns + waits_ns, action->bytes,
          action->n_bytes);
}

static void note_change(struct member_net *net, struct member_net_node *node,
                        const struct gossip_membership_action *action)
{
    size_t of = node_of(net, &action->peer);
    if (of == SIZE_MAX)
        return;
    node->state[of] = action->state;
    node->changed_ns[of] = net->now_ns;
    node->deaths += action->state == GOSSIP_MEMBER_DEAD;
}

void member_net_step(struct member_net *net, size_t at, const struct gossip_membership_event *event)
{
    struct member_net_node *node = &net->nodes[at];
    struct gossip_membership_action action;
    struct gossip_membership_event now = *event;
    now.now_ns = net->now_ns;
    enum base_error error = gossip_membership_step(node->membership, &now);
    BASE_ASSERT(!error || error == BASE_EFORMAT);
    while (gossip_membership_next(node->membership, &action)) {
        if (action.kind == GOSSIP_MEMBERSHIP_SEND && node_of(net, &action.peer) != SIZE_MAX)
            carry(net, at, &action);
        if (action.kind == GOSSIP_MEMBERSHIP_CHANGED)
            note_change(net, node, &action);
        if (action.kind == GOSSIP_MEMBERSHIP_VIEW)
            node->view_ns = net->now_ns;
        node->suspected += action.kind == GOSSIP_MEMBERSHIP_SUSPECTED;
        node->conflicts += action.kind == GOSSIP_MEMBERSHIP_CONFLICT;
        node->raised_generations += action.kind == GOSSIP_MEMBERSHIP_GENERATION;
    }
}

static void tell_ways(struct member_net *net, size_t at)
{
    uint64_t relays[GOSSIP_RECORD_RELAYS];
    size_t count = 0, n_public = 0;
    for (size_t i = 0; i < net->count; i++) {
        n_public += is_public(net, i);
        if (is_public(net, i) && count < GOSSIP_RECORD_RELAYS)
            relays[count++] = gossip_id_beginning(&net->nodes[i].identity.id);
    }
    struct gossip_membership *membership = net->nodes[at].membership;
    if (!is_public(net, at))
        gossip_membership_ways(membership, 0, relays, count);
    else if (n_public < net->count)
        gossip_membership_ways(membership, GOSSIP_WAY_REACHABLE | GOSSIP_WAY_RELAYS, NULL, 0);
}

void member_net_routers(struct member_net *net, size_t n_public, enum member_net_nat nat)
{
    for (size_t i = n_public; i < net->count; i++)
        net->nodes[i].nat = nat;
}

void member_net_start(struct member_net *net, size_t at, uint64_t generation)
{
    struct member_net_node *node = &net->nodes[at];
    char name[LIMIT_NODE_NAME_BYTES];
    snprintf(name, sizeof name, "n%02zu", at);
    node->options = (struct gossip_membership_options){
        .identity = &node->identity,
        .version = {.generation = generation, .instance_id = base_rng_u64(&net->rng)},
        .name = name,
        .addresses = {{.family = 4, .ip = {10, 0, 0, (uint8_t)at}, .port = 7400}},
        .n_addresses = 1,
        .shard = GOSSIP_NO_SHARD,
        .group = MEMBER_NET_GROUP + (uint32_t)at,
        .seed = base_rng_u64(&net->rng),
        .now_ns = net->now_ns,
        .allow = node->options.allow};
    gossip_membership_destroy(node->membership);
    BASE_ASSERT(!gossip_membership_create(&node->options, &node->membership));
    gossip_membership_flags(node->membership, GOSSIP_RECORD_ELIGIBLE, 0);
    tell_ways(net, at);
    node->running = true;
    node->silent = false;
    memset(node->state, 0, sizeof node->state);
}

void member_net_join(struct member_net *net, size_t node, size_t through)
{
    link_both(net, node, through);
}

void member_net_link_ring(struct member_net *net)
{
    for (size_t i = 0; i < net->count; i++)
        for (size_t j = 0; j < i; j++) {
            const bool neighbours = i - j == 1 || i - j == net->count - 1;
            if (!neighbours && !can_call(net, i, j))
                continue;
            net->wanted[i][j] = net->wanted[j][i] = true;
            if (!net->linked[i][j])
                link_both(net, i, j);
        }
}

void member_net_reset(struct member_net *net, size_t at)
{
    for (size_t i = 0; i < net->count; i++) {
        if (!net->linked[at][i])
            continue;
        if (net->nodes[i].running && can_call(net, at, i))
            queue(net, UNREACHABLE, at, i, MILLISECOND_NS, NULL, 0);
        unlink_both(net, at, i);
    }
}

void member_net_kill(struct member_net *net, size_t at, bool silent)
{
    net->nodes[at].running = false;
    net->nodes[at].silent = silent;
    if (!silent) // of a silent host nobody hears anything
        member_net_reset(net, at);
}

void member_net_partition(struct member_net *net, size_t second, bool cut)
{
    for (size_t i = 0; i < net->count; i++)
        for (size_t j = 0; j < net->count; j++)
            net->cut[i][j] = cut && (i < second) != (j < second);
}

void member_net_cut(struct member_net *net, size_t node, bool deaf, bool mute, bool cut)
{
    for (size_t i = 0; i < net->count; i++) {
        if (deaf && i != node)
            net->cut[i][node] = cut;
        if (mute && i != node)
            net->cut[node][i] = cut;
    }
}

static void deliver(struct member_net *net, const struct member_net_packet *packet)
{
    const struct member_net_node *to = &net->nodes[packet->to];
    if (!to->running || to->options.version.instance_id != packet->instance_id)
        return;
    static const enum gossip_membership_event_kind kinds[] = {
        GOSSIP_MEMBERSHIP_PACKET, GOSSIP_MEMBERSHIP_PACKET, GOSSIP_MEMBERSHIP_LINKED,
        GOSSIP_MEMBERSHIP_UNREACHABLE};
    struct gossip_membership_event event = {.kind = kinds[packet->what],
                                            .peer = net->nodes[packet->from].identity.id,
                                            .way = packet->what == STREAM ? GOSSIP_BY_STREAM
                                                                          : GOSSIP_BY_DATAGRAM,
                                            .bytes = packet->data,
                                            .n_bytes = packet->bytes};
    struct gossip_member_info info;
    bool known = !gossip_membership_find(to->membership, &event.peer, &info);
    if (packet->what != DATAGRAM || known) // a datagram from an unknown node does not open
        member_net_step(net, packet->to, &event);
}

void member_net_run(struct member_net *net, uint64_t for_ns)
{
    uint64_t end_ns = net->now_ns + for_ns;
    for (;;) {
        uint64_t next_ns = net->queue ? net->queue->at_ns : UINT64_MAX;
        size_t timer = SIZE_MAX;
        for (size_t i = 0; i < net->count; i++) {
            uint64_t deadline_ns =
                net->nodes[i].running ? gossip_membership_deadline(net->nodes[i].membership) : UINT64_MAX;
            if (deadline_ns < next_ns) {
                next_ns = deadline_ns;
                timer = i;
            }
        }
        if (next_ns > end_ns)
            break;
        net->now_ns = next_ns > net->now_ns ? next_ns : net->now_ns;
        end_idle(net);
        if (timer != SIZE_MAX) {
            member_net_step(net, timer, &(struct gossip_membership_event){.kind = GOSSIP_MEMBERSHIP_TIMER});
            continue;
        }
        struct member_net_packet *packet = net->queue;
        net->queue = packet->next;
        deliver(net, packet);
        free(packet);
    }
    net->now_ns = end_ns;
}

bool member_net_agrees(const struct member_net *net)
{
    size_t running = 0;
    for (size_t i = 0; i < net->count; i++)
        running += net->nodes[i].running;
    for (size_t i = 0; i < net->count; i++) {
        const struct member_net_node *node = &net->nodes[i];
        struct gossip_membership_totals totals;
        size_t in_view = 0;
        if (!node->running)
            continue;
        gossip_membership_totals(node->membership, &totals);
        (void)gossip_membership_view(node->membership, &in_view);
        if (totals.alive != running || totals.suspect != 0 || in_view != running)
            return false;
    }
    return true;
}

void member_net_start_first(struct member_net *net, size_t count)
{
    for (size_t i = 0; i < count; i++)
        member_net_start(net, i, 1);
    for (size_t i = 1; i < count; i++)
        member_net_join(net, i, 0);
}

void member_net_start_all(struct member_net *net)
{
    member_net_start_first(net, net->count);
    for (int i = 0; i < 200 && !member_net_agrees(net); i++)
        member_net_run(net, 100 * MILLISECOND_NS);
}
