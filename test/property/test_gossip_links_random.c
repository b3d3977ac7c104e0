// Whatever happens to two nodes and their neighbours, at most one link between them is active, and when the
// faults are over exactly one is, if one end can call the other or there is a relay between them; it is
// direct if one end can call the other. P2PML_SEEDS: how many (300); P2PML_SEED: one.
#include "test/support/links_net.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS LINKS_NET_MS
#define S  LINKS_NET_S

static size_t seeds(void)
{
    const char *text = getenv("P2PML_SEEDS");
    return text ? (size_t)strtoul(text, NULL, 10) : 300;
}

static bool chance(struct links_net *net, unsigned one_in)
{
    return base_rng_below(&net->rng, one_in) == 0;
}

static size_t any(struct links_net *net)
{
    return (size_t)base_rng_below(&net->rng, net->rooms);
}

static void change_membership(struct links_net *net, size_t room, size_t other)
{
    struct links_net_room *at = &net->room[room];
    at->alive[other] = !at->alive[other];
    struct gossip_links_event event = {
        .kind = GOSSIP_LINKS_MEMBER, .peer = net->room[other].id, .alive = at->alive[other]};
    links_net_say(net, room, &event);
    if (at->alive[other])
        return;
    struct gossip_links_event part = {
        .kind = GOSSIP_LINKS_PART, .peer = net->room[other].id, .why = GOSSIP_CLOSE_SILENT};
    links_net_say(net, room, &part);
}

static void change_addresses(struct links_net *net, size_t room)
{
    net->room[room].wrong = !net->room[room].wrong;
    for (size_t other = 0; other < net->rooms; other++) {
        struct gossip_links_event hurry = {.kind = GOSSIP_LINKS_HURRY, .peer = net->room[room].id};
        if (other != room)
            links_net_say(net, other, &hurry);
    }
    struct gossip_links_event look = {.kind = GOSSIP_LINKS_LOOK_ALL};
    links_net_say(net, room, &look);
}

static void change_relay(struct links_net *net, size_t a, size_t b)
{
    net->relayed[a][b] = net->relayed[b][a] = !net->relayed[a][b];
    if (!net->relayed[a][b])
        links_net_relay_dies(net, a, b);
}

static void change_stuck(struct links_net *net, size_t a, size_t b, bool stuck)
{
    struct gossip_links_event event = {.kind = GOSSIP_LINKS_STUCK, .on = stuck};
    if (!net->room[a].links)
        return;
    event.link = gossip_links_active(net->room[a].links, &net->room[b].id, NULL);
    if (event.link)
        links_net_say(net, a, &event);
}

static void disturb(struct links_net *net)
{
    size_t a = any(net), b = any(net);
    uint8_t bytes[8] = {0};
    struct gossip_links_event packet = {
        .kind = GOSSIP_LINKS_PACKET, .peer = net->room[b].id, .bytes = bytes, .count = sizeof bytes};
    if (a == b)
        return;
    switch (base_rng_below(&net->rng, 15)) {
    case 0:
        if (net->room[a].links)
            links_net_kill(net, a, chance(net, 2));
        else
            links_net_start(net, a);
        break;
    case 1:
        net->cut[a][b] = net->cut[b][a] = !net->cut[a][b];
        break;
    case 2:
        links_net_say(net, a, &packet);
        break;
    case 3:
        change_membership(net, a, b);
        break;
    case 4:
        links_net_want_none(net, a);
        break;
    case 5:
        if (net->room[a].n_wanted < net->rooms - 1)
            links_net_want(net, a, b);
        break;
    case 6:
        change_addresses(net, a);
        break;
    case 7:
        change_relay(net, a, b);
        break;
    case 8:
        links_net_relay_dies(net, a, b);
        break;
    case 9:
    case 10:
        change_stuck(net, a, b, !chance(net, 3));
        break;
    default:
        links_net_send(net, a, b);
        break;
    }
}

static void heal(struct links_net *net)
{
    for (size_t a = 0; a < net->rooms; a++) {
        if (!net->room[a].links)
            links_net_start(net, a);
        for (size_t b = 0; b < net->rooms; b++) {
            net->cut[a][b] = false;
            change_stuck(net, a, b, false);
            if (chance(net, 8))
                net->path[a][b] = LINKS_NET_OPEN; // a direct path appears
            if (a != b && !net->room[a].alive[b])
                change_membership(net, a, b);
        }
    }
    for (size_t a = 0; a < net->rooms; a++) {
        links_net_want_none(net, a);
        for (size_t b = 0; b < net->rooms; b++)
            if (a != b)
                links_net_want(net, a, b);
    }
}

// The calls of looks at a member with a link, in 30 s, with pauses of at least 16 s if the link is relayed,
// or of two minutes if the other end has called.
static size_t looks(const struct links_net *net, size_t room, size_t other)
{
    const struct links_net_stream *stream = net->room[room].active[other];
    const size_t turns = stream->relayed ? 2 : stream->room[1] == room;
    return turns * (net->room[other].wrong ? 2 : 1);
}

// How many calls a room may make in 30 s: to members without a link, with pauses of 1 to 3 s; to entries that
// never answered or lead to itself, with pauses of 5 to 15 s, or 0.5 to 1.5 s if the room has no link at all;
// and looks.
static size_t callable(const struct links_net *net, size_t room)
{
    size_t entries = net->room[room].greeting.parameters, unknown = entries > 0, links = 0, calls = 0;
    for (size_t b = 0; b < net->rooms; b++) {
        const bool linked = links_net_linked(net, room, b);
        if (b != room)
            calls += linked ? looks(net, room, b) : 31;
        links += linked;
        unknown += b < entries && net->path[room][b] != LINKS_NET_OPEN;
    }
    return calls + (links ? 7 : 61) * unknown;
}

static bool is_open(const struct links_net *net, size_t a, size_t b)
{
    return net->path[a][b] == LINKS_NET_OPEN || net->path[b][a] == LINKS_NET_OPEN;
}

// Within a minute: the longest pause between two turns of calls is 15 s, and after a lost stream 15 s more.
// Within two, it is as direct as it can be: the longest pause between two looks is 90 s.
static void every_pair_ends_with_one_link(struct links_net *net)
{
    uint64_t calls[LINKS_NET_ROOMS], ups[LINKS_NET_ROOMS];
    heal(net);
    links_net_run(net, 60 * S);
    for (size_t a = 0; a < net->rooms; a++)
        for (size_t b = a + 1; b < net->rooms; b++) {
            const bool path = is_open(net, a, b) || net->relayed[a][b];
            assert_int_equal(links_net_linked(net, a, b), path);
            assert_true(path || (!net->room[a].active[b] && !net->room[b].active[a]));
        }
    links_net_run(net, 60 * S); // until pauses are at their longest
    for (size_t a = 0; a < net->rooms; a++)
        for (size_t b = a + 1; b < net->rooms; b++)
            if (links_net_linked(net, a, b))
                assert_int_equal(net->room[a].active[b]->relayed, !is_open(net, a, b));
    for (size_t a = 0; a < net->rooms; a++) {
        calls[a] = net->room[a].calls;
        ups[a] = net->room[a].ups;
    }
    links_net_run(net, 30 * S);
    for (size_t a = 0; a < net->rooms; a++) {
        assert_in_range(net->room[a].calls - calls[a], 0, callable(net, a));
        assert_int_equal(net->room[a].ups, ups[a]);
        assert_int_equal(net->room[a].broken, 0);
        assert_int_equal(net->room[a].duplicates, 0);
    }
}

static void run_seed(uint64_t seed)
{
    struct links_net net;
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    size_t rooms = 2 + (size_t)base_rng_below(&rng, LINKS_NET_ROOMS - 1);
    links_net_create(&net, rooms, base_rng_below(&rng, 2) ? rooms : 0, seed);
    const uint64_t one_in = 2 + base_rng_below(&rng, 3);
    for (size_t a = 0; a < rooms; a++) {
        net.room[a].wrong = base_rng_below(&rng, 4) == 0;
        for (size_t b = 0; b < rooms; b++) {
            if (a != b && base_rng_below(&rng, one_in) == 0)
                net.path[a][b] = (enum links_net_path)(1 + base_rng_below(&rng, 2));
            if (b < a)
                net.relayed[a][b] = net.relayed[b][a] = base_rng_below(&rng, 2);
        }
    }
    net.delay_ns = (1 + base_rng_below(&rng, 200)) * MS;
    for (size_t a = 0; a < rooms; a++)
        links_net_start(&net, a);
    size_t turns = (size_t)base_rng_below(&rng, 200);
    uint64_t pause_ns = (1 + base_rng_below(&rng, 3000)) * MS, begin_ns = net.now_ns;
    for (size_t i = 0; i < turns; i++) {
        disturb(&net);
        links_net_run(&net, base_rng_below(&rng, pause_ns));
    }
    uint64_t calls = 0;
    for (size_t a = 0; a < rooms; a++)
        calls += net.room[a].calls;
    // No storm: at most a few calls a second for each room, and a few for every restart and packet.
    assert_true(calls <= rooms * rooms * ((net.now_ns - begin_ns) / S + 10) * 3 + 4 * turns);
    every_pair_ends_with_one_link(&net);
    links_net_destroy(&net);
}

static void every_pair_has_at_most_one_active_link(void **state)
{
    (void)state;
    const char *only = getenv("P2PML_SEED");
    uint64_t first = only ? strtoull(only, NULL, 10) : 0;
    for (uint64_t seed = first; seed < (only ? first + 1 : seeds()); seed++) {
        // the last one printed is the seed of a failure
        fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
        run_seed(seed);
    }
}

// Direct calls succeed, and what they make breaks after 5 to 35 s, when only the relay is left for a while.
// Returns how often the link came into use in the second half of two hours.
static uint64_t alternations(uint64_t seed)
{
    struct links_net net;
    uint64_t ups = 0;
    links_net_create(&net, 2, 0, seed);
    net.relayed[0][1] = net.relayed[1][0] = true;
    for (size_t a = 0; a < 2; a++) {
        links_net_start(&net, a);
        links_net_want(&net, a, 1 - a);
    }
    for (const uint64_t begin_ns = net.now_ns; net.now_ns < begin_ns + 7200 * S;) {
        links_net_run(&net, (5 + base_rng_below(&net.rng, 30)) * S);
        assert_true(links_net_linked(&net, 0, 1));
        if (net.now_ns < begin_ns + 3600 * S)
            ups = net.room[0].ups;
        if (net.room[0].active[1]->relayed)
            continue;
        net.path[0][1] = net.path[1][0] = LINKS_NET_REFUSED;
        links_net_path_dies(&net, 0, 1);
        links_net_run(&net, 5 * S);
        net.path[0][1] = net.path[1][0] = LINKS_NET_OPEN;
    }
    ups = net.room[0].ups - ups;
    links_net_destroy(&net);
    return ups;
}

static void a_link_does_not_alternate(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < seeds() / 15; seed++)
        assert_in_range(alternations(seed), 2, 110);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_pair_has_at_most_one_active_link),
                                       cmocka_unit_test(a_link_does_not_alternate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
