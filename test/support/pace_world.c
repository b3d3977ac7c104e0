#include "test/support/pace_world.h"

#include "base/array.h"
#include "base/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEVER UINT64_MAX

enum { SIGNS = 4 };

static struct gossip_id id_of(size_t node)
{
    return (struct gossip_id){{(uint8_t)(node + 1), 0x5a}};
}

void pace_world_must(const struct pace_world *world, bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "\n%s (seed %llu, %zu nodes, %s, at %.3f s)\n", what, (unsigned long long)world->seed,
            world->nodes, world->mode == GOSSIP_PACE_SYNC ? "sync" : "async",
            (double)world->now_ns / (double)PACE_SECOND);
    BASE_ASSERT(good);
}

// -- the wire

static void post(struct pace_world *world, enum pace_message kind, size_t from, size_t to, uint64_t sequence)
{
    struct pace_node *node = &world->node[from];

    if (!world->up[from][to])
        return;
    if (world->packets == world->room) {
        world->room = 2 * world->room + 64;
        world->packet = realloc(world->packet, world->room * sizeof *world->packet);
        BASE_ASSERT(world->packet);
    }
    struct pace_packet *packet = &world->packet[world->packets++];
    *packet = (struct pace_packet){.kind = kind,
                                   .from = from,
                                   .to = to,
                                   .life = world->life[from][to],
                                   .sequence = sequence,
                                   .round = node->pace.round,
                                   .order = world->order++};
    packet->news_bytes = gossip_news_write(&node->pace.news, node->pace.round, packet->news);
    packet->due_ns = world->now_ns + world->delay_ns + base_rng_below(&world->rng, world->jitter_ns + 1);
    if (packet->due_ns < world->last_ns[from][to])
        packet->due_ns = world->last_ns[from][to];
    world->last_ns[from][to] = packet->due_ns;
}

static bool next_packet(struct pace_world *world, struct pace_packet *packet)
{
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < world->packets; i++)
        if (best == SIZE_MAX || world->packet[i].due_ns < world->packet[best].due_ns ||
            (world->packet[i].due_ns == world->packet[best].due_ns &&
             world->packet[i].order < world->packet[best].order))
            best = i;
    if (best == SIZE_MAX || world->packet[best].due_ns > world->now_ns)
        return false;
    *packet = world->packet[best];
    world->packet[best] = world->packet[--world->packets];
    return true;
}

// -- exchanges

static struct pace_edge *edge_of(struct pace_node *node, const struct gossip_pace_peer *peer)
{
    for (size_t i = 0; i < PACE_NODES_MAX; i++)
        if (&node->edge[i].pace == peer)
            return &node->edge[i];
    return NULL;
}

static void complete(struct pace_node *node, struct pace_edge *edge, uint64_t round)
{
    edge->sequence++;
    gossip_pace_met(&node->pace, &edge->pace, round);
}

static void take_request(struct pace_world *world, size_t at, size_t from, uint64_t sequence, uint64_t round)
{
    struct pace_node *node = &world->node[at];
    struct pace_edge *edge = &node->edge[from];

    if (edge->sequence != sequence)
        return;                                                      // before its link broke
    if (edge->pace.flight != GOSSIP_PACE_NO_FLIGHT && !node->mute) { // both have asked
        complete(node, edge, round > node->pace.round ? round : node->pace.round);
    } else if (!node->mute && gossip_pace_answers(&node->pace, &edge->pace, round)) {
        gossip_pace_answered(&node->pace, gossip_pace_weight(&node->pace, &edge->pace, 0.5f));
        complete(node, edge, round);
        post(world, PACE_XACK, at, from, sequence);
    } else {
        edge->held = true;
        edge->held_round = round;
        edge->tell_ns = world->now_ns + PACE_CEILING / SIGNS;
    }
}

static void take(struct pace_world *world, const struct pace_packet *packet)
{
    struct pace_node *node = &world->node[packet->to];
    struct pace_edge *edge = &node->edge[packet->from];

    if (node->dead || !edge->there || packet->life != world->life[packet->from][packet->to])
        return;
    if (packet->kind == PACE_HELLO) { // the exchange that was open is void at both ends
        const uint64_t theirs = packet->sequence;
        gossip_pace_dropped(&edge->pace);
        edge->sequence = theirs > edge->sequence ? theirs : edge->sequence;
        gossip_pace_tie(&node->pace, &edge->pace, GOSSIP_PACE_LIVE);
        return;
    }
    gossip_pace_hear(&node->pace, &edge->pace, packet->round);
    gossip_news_read(&node->pace.news, packet->round, packet->news, packet->news_bytes);
    if (edge->pace.tie != GOSSIP_PACE_LIVE)
        return;
    if (packet->kind == PACE_XCHG)
        take_request(world, packet->to, packet->from, packet->sequence, packet->round);
    else if (edge->pace.flight != GOSSIP_PACE_NO_FLIGHT && packet->sequence == edge->sequence)
        packet->kind == PACE_XACK ? complete(node, edge, node->pace.round)
                                  : gossip_pace_parked(&node->pace, &edge->pace);
}

static void answer_held(struct pace_world *world, size_t at)
{
    struct pace_node *node = &world->node[at];

    for (size_t i = 0; i < world->nodes; i++) {
        struct pace_edge *edge = &node->edge[i];
        if (edge->held && !node->mute && gossip_pace_answers(&node->pace, &edge->pace, edge->held_round)) {
            edge->held = false;
            take_request(world, at, i, edge->sequence, edge->held_round);
        } else if (edge->held && world->now_ns >= edge->tell_ns) {
            edge->tell_ns = world->now_ns + PACE_CEILING / SIGNS;
            post(world, PACE_PARKED, at, i, edge->sequence);
        }
    }
}

// -- rounds

static bool is_trainer(const struct pace_world *world, size_t i)
{
    return !world->node[i].dead;
}

static uint64_t cluster_round(const struct pace_world *world)
{
    uint64_t rounds[PACE_NODES_MAX];
    size_t count = 0;

    for (size_t i = 0; i < world->nodes; i++)
        if (is_trainer(world, i))
            rounds[count++] = world->node[i].pace.round;
    qsort(rounds, count, sizeof *rounds, base_order_u64);
    return rounds[(count - 1) / 2];
}

static void leave(struct pace_world *world, size_t at)
{
    struct pace_node *node = &world->node[at];
    const uint64_t round = gossip_pace_goes_on(&node->pace), cluster = cluster_round(world);
    const uint64_t stood_ns = world->now_ns - node->left_ns;

    gossip_pace_leave(&node->pace);
    node->round = round;
    node->ready_ns = world->now_ns + node->steps_ns / 2 + base_rng_below(&world->rng, node->steps_ns + 1);
    if (stood_ns > node->longest_ns)
        node->longest_ns = stood_ns;
    node->left_ns = world->now_ns;
    if (node->pace.round > cluster + world->lead)
        world->lead = node->pace.round - cluster;
}

static void pump(struct pace_world *world, size_t at)
{
    struct pace_node *node = &world->node[at];

    answer_held(world, at);
    node->wait_ns = NEVER;
    for (;;) {
        struct gossip_pace_next next = gossip_pace_next(&node->pace);
        if (next.todo == GOSSIP_PACE_ASK) {
            gossip_pace_asked(&node->pace, next.peer,
                              gossip_pace_weight(&node->pace, next.peer, next.weight));
            post(world, PACE_XCHG, at, (size_t)next.peer->peer.bytes[0] - 1,
                 edge_of(node, next.peer)->sequence);
            continue;
        }
        if (next.todo == GOSSIP_PACE_WAIT)
            node->wait_ns = next.until_ns;
        if (next.todo == GOSSIP_PACE_LEAVE)
            leave(world, at);
        break;
    }
    answer_held(world, at);
}

static size_t partner_of(const struct pace_world *world, size_t at, uint64_t round)
{
    const uint8_t colour = (uint8_t)(1 + round % world->colours);

    for (size_t i = 0; i < world->nodes; i++)
        if (world->colour[at][i] == colour && world->node[at].edge[i].there)
            return i;
    return SIZE_MAX;
}

static void begin(struct pace_world *world, size_t at)
{
    struct pace_node *node = &world->node[at];
    const size_t partner = partner_of(world, at, node->round + 1);

    node->ready_ns = NEVER;
    gossip_pace_begin(&node->pace,
                      &(struct gossip_pace_round){.round = node->round + 1,
                                                  .meets = partner != SIZE_MAX,
                                                  .others = world->known > 1,
                                                  .counts = true,
                                                  .partner = id_of(partner != SIZE_MAX ? partner : at),
                                                  .weight = 0.5f});
}

// What membership tells, up to a second late.
static void tell_news(struct pace_world *world)
{
    for (size_t at = 0; at < world->nodes; at++) {
        struct gossip_report reports[GOSSIP_NEWS_MEMBERS];
        size_t count = 0;
        for (size_t i = 0; i < world->nodes; i++)
            if (i != at && is_trainer(world, i))
                reports[count++] = (struct gossip_report){id_of(i), world->node[i].pace.round};
        gossip_news_members(&world->node[at].pace.news, reports, count, count);
    }
    world->news_ns = world->now_ns + PACE_SECOND;
}

// -- faults

static void doubt(struct pace_world *world, size_t at)
{
    for (size_t i = 0; i < world->nodes; i++) {
        struct pace_edge *edge = &world->node[at].edge[i];
        if (!edge->there || world->now_ns < gossip_pace_due(&world->node[at].pace, &edge->pace))
            continue;
        world->overdue += !world->node[i].dead && !world->node[i].mute;
        gossip_pace_tie(&world->node[at].pace, &edge->pace, GOSSIP_PACE_BEGINS);
        gossip_pace_dropped(&edge->pace);
        post(world, PACE_HELLO, at, i, edge->sequence);
    }
}

void pace_world_link(struct pace_world *world, size_t a, size_t b, bool up)
{
    world->life[a][b] = ++world->life[b][a];
    world->up[a][b] = world->up[b][a] = up;
    for (size_t k = 0; k < 2; k++) {
        const size_t at = k ? b : a, other = k ? a : b;
        struct pace_edge *edge = &world->node[at].edge[other];
        if (!edge->there)
            continue;
        gossip_pace_time(&world->node[at].pace, world->now_ns);
        edge->held = false;
        gossip_pace_dropped(&edge->pace);
        gossip_pace_tie(&world->node[at].pace, &edge->pace, up ? GOSSIP_PACE_BEGINS : GOSSIP_PACE_LOST);
        if (up)
            post(world, PACE_HELLO, at, other, edge->sequence);
        if (!world->node[at].dead)
            pump(world, at);
    }
}

void pace_world_kill(struct pace_world *world, size_t dead)
{
    world->node[dead].dead = true;
    for (size_t i = 0; i < world->nodes; i++)
        if (world->up[dead][i])
            pace_world_link(world, dead, i, false);
}

void pace_world_bury(struct pace_world *world, size_t dead)
{
    world->known--;
    for (size_t i = 0; i < world->nodes; i++) {
        struct pace_edge *edge = &world->node[i].edge[dead];
        if (i == dead || !edge->there)
            continue;
        gossip_pace_time(&world->node[i].pace, world->now_ns);
        gossip_pace_remove(&world->node[i].pace, &edge->pace);
        edge->there = edge->held = false;
        if (!world->node[i].dead)
            pump(world, i);
    }
}

// -- invariants

// A request waits only at a node that is behind its round, so waits point from higher to lower rounds.
static void check_waits(const struct pace_world *world)
{
    for (size_t at = 0; at < world->nodes; at++)
        for (size_t i = 0; i < world->nodes; i++) {
            const struct pace_node *node = &world->node[at];
            if (node->dead || !node->edge[i].there || !node->edge[i].held || node->mute)
                continue;
            pace_world_must(world, world->mode == GOSSIP_PACE_SYNC,
                            "a request waits though nobody waits for rounds");
            pace_world_must(world, node->edge[i].held_round > node->pace.round,
                            "a request waits at a node past its round");
            pace_world_must(world, world->node[i].pace.round >= node->edge[i].held_round,
                            "a request of a later round");
        }
}

static void turn(struct pace_world *world)
{
    struct pace_packet packet;

    while (next_packet(world, &packet)) {
        if (world->node[packet.to].dead)
            continue;
        gossip_pace_time(&world->node[packet.to].pace, world->now_ns);
        take(world, &packet);
        pump(world, packet.to);
    }
    if (world->now_ns >= world->news_ns)
        tell_news(world);
    for (size_t i = 0; i < world->nodes; i++) {
        struct pace_node *node = &world->node[i];
        if (node->dead)
            continue;
        gossip_pace_time(&node->pace, world->now_ns);
        doubt(world, i);
        if (node->ready_ns <= world->now_ns)
            begin(world, i);
        pump(world, i);
        pace_world_must(world, node->wait_ns > world->now_ns, "a wait that has passed");
    }
    check_waits(world);
}

void pace_world_run(struct pace_world *world, uint64_t until_ns)
{
    while (world->now_ns < until_ns) {
        world->now_ns += PACE_MS / 2;
        turn(world);
    }
}

// -- worlds

static void join(struct pace_world *world, size_t a, size_t b)
{
    uint8_t colour = 1;

    if (a == b || world->colour[a][b])
        return;
    for (size_t i = 0; i < world->nodes; i++) // the least that neither end has
        if (world->colour[a][i] == colour || world->colour[b][i] == colour) {
            colour++;
            i = SIZE_MAX;
        }
    world->colour[a][b] = world->colour[b][a] = colour;
    if (colour > world->colours)
        world->colours = colour;
}

static void shape_graph(struct pace_world *world, enum pace_shape shape)
{
    for (size_t i = 0; i < world->nodes; i++) {
        join(world, i, (i + 1) % world->nodes);
        for (size_t k = 0; k < world->nodes && shape == PACE_COMPLETE; k++)
            join(world, i, k);
        for (size_t k = 0; k < 2 && shape == PACE_RANDOM; k++)
            join(world, i, base_rng_below(&world->rng, world->nodes));
    }
}

void pace_world_create(struct pace_world *world, uint64_t seed, enum gossip_pace_mode mode,
                       enum pace_shape shape, size_t nodes)
{
    *world = (struct pace_world){
        .seed = seed, .mode = mode, .nodes = nodes, .known = nodes, .now_ns = PACE_SECOND};
    base_rng_seed(&world->rng, seed);
    world->delay_ns = PACE_MS / 4 + base_rng_below(&world->rng, 20 * PACE_MS);
    world->jitter_ns = base_rng_below(&world->rng, world->delay_ns);
    shape_graph(world, shape);
    for (size_t i = 0; i < nodes; i++) {
        struct pace_node *node = &world->node[i];
        node->pace.options = (struct gossip_pace_options){.self = id_of(i),
                                                          .mode = mode,
                                                          .lead = PACE_LEAD,
                                                          .reach = PACE_LEAD,
                                                          .local = PACE_LEAD / 2,
                                                          .max_delay = 4,
                                                          .ceiling_ns = PACE_CEILING};
        node->steps_ns = 4 * PACE_MS + base_rng_below(&world->rng, 8 * PACE_MS);
        node->wait_ns = NEVER;
        node->ready_ns = world->now_ns + base_rng_below(&world->rng, 50 * PACE_MS);
        node->left_ns = world->now_ns;
        gossip_pace_time(&node->pace, world->now_ns);
        for (size_t k = 0; k < nodes; k++) {
            if (!world->colour[i][k])
                continue;
            node->edge[k].pace.peer = id_of(k);
            node->edge[k].there = gossip_pace_add(&node->pace, &node->edge[k].pace);
            BASE_ASSERT(node->edge[k].there);
        }
    }
    for (size_t i = 0; i < nodes; i++)
        for (size_t k = 0; k < i; k++)
            if (world->colour[i][k])
                pace_world_link(world, i, k, true);
}

void pace_world_destroy(struct pace_world *world)
{
    for (size_t i = 0; i < world->nodes; i++)
        free(world->node[i].pace.peers);
    free(world->packet);
}

uint64_t pace_world_longest(struct pace_world *world)
{
    uint64_t most = 0;

    for (size_t i = 0; i < world->nodes; i++) {
        struct pace_node *node = &world->node[i];
        const uint64_t open_ns = node->dead ? 0 : world->now_ns - node->left_ns;
        most = node->longest_ns > most ? node->longest_ns : most;
        most = open_ns > most ? open_ns : most;
        node->longest_ns = 0;
    }
    return most;
}
