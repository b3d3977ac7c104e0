// Members behind routers, with one or two public ones: who is probed by whom, what that costs, and how soon a
// death is known.
#include "gossip/reach/relays.h"
#include "test/support/member_rules.h"

#include <stdio.h>

#define NODES     12u
#define VICTIM    5u
#define IP_BYTES  28u // and UDP
#define TCP_BYTES 69u // and IP, a record, the header of the message
#define NAT_KINDS 4

struct load {
    uint64_t packets, bytes, stream_packets, calls, suspicions;
};

static struct load load_of(size_t first, size_t end)
{
    struct load sum = {0};
    for (size_t i = first; i < end; i++) {
        const struct member_net_node *node = &net.nodes[i];
        sum.packets += node->datagrams + node->stream_packets;
        sum.bytes += node->datagram_bytes + IP_BYTES * node->datagrams + node->stream_bytes +
                     TCP_BYTES * node->stream_packets;
        sum.stream_packets += node->stream_packets;
        sum.calls += node->calls;
        sum.suspicions += node->running ? totals(i).suspicions : 0;
    }
    return sum;
}

static double each(uint64_t before, uint64_t now, size_t nodes, double seconds)
{
    return (double)(now - before) / (double)nodes / seconds;
}

static void begin_behind(size_t count, size_t n_public, enum member_net_nat nat, uint64_t number)
{
    member_net_create(&net, count, number);
    member_net_routers(&net, n_public, nat);
    member_net_start_all(&net);
    assert_true(member_net_agrees(&net));
    member_net_link_ring(&net);
    member_net_run(&net, 60 * SECOND);
}

// Until all know it; the deaths are those of the victim only.
static double kill_one(bool silent)
{
    const uint64_t killed_ns = net.now_ns;
    bool all = false;
    member_net_kill(&net, VICTIM, silent);
    for (unsigned i = 0; i < 600 && !all; i++) {
        member_net_run(&net, 50 * MILLISECOND);
        all = true;
        for (size_t j = 0; j < net.count; j++)
            all &= j == VICTIM || net.nodes[j].state[VICTIM] == GOSSIP_MEMBER_DEAD;
    }
    const double took_s = last_detection_s(VICTIM, killed_ns);
    assert_int_equal(deaths(), net.count - 1);
    return took_s;
}

// At first nobody has a path to anybody, and the call over a relay takes longer than a probe.
static void members_without_a_path_yet_are_not_suspected(void **state)
{
    (void)state;
    for (unsigned nat = 0; nat < NAT_KINDS; nat++)
        for (uint64_t number = seed(); number < seed() + 10; number++) {
            member_net_create(&net, NODES, number);
            member_net_routers(&net, 1 + number % 2, (enum member_net_nat)nat);
            net.call_ns = 1500 * MILLISECOND;
            net.delay_ns = 20 * MILLISECOND;
            member_net_start_all(&net);
            member_net_run(&net, 30 * SECOND);
            assert_true(member_net_agrees(&net));
            assert_int_equal(load_of(0, NODES).suspicions, 0);
            member_net_destroy(&net);
        }
}

struct limits {
    size_t n_public;
    enum member_net_nat nat;
    double packets_s, bytes_s, known_s;
};

static void expect_within(const struct limits *limits, uint64_t number)
{
    static const char *const names[NAT_KINDS] = {"public", "private", "closed", "streams only"};
    begin_behind(NODES, limits->n_public, limits->nat, number);
    const size_t first = limits->nat == MEMBER_NET_PUBLIC ? 0 : limits->n_public, nodes = NODES - first;
    const struct load before = load_of(first, NODES), before_public = load_of(0, limits->n_public);
    member_net_run(&net, 60 * SECOND);
    const struct load after = load_of(first, NODES), after_public = load_of(0, limits->n_public);
    const double packets_s = each(before.packets, after.packets, nodes, 60),
                 bytes_s = each(before.bytes, after.bytes, nodes, 60), known_s = kill_one(false);
    printf("%zu public, %.1f packets/s; others %s, %.1f, %.0f B/s with IP; a kill is known after %.2f s\n",
           limits->n_public, each(before_public.packets, after_public.packets, limits->n_public, 60),
           names[limits->nat], packets_s, bytes_s, known_s);
    assert_int_equal(after.suspicions, before.suspicions);
    assert_true(packets_s <= limits->packets_s);
    assert_true(bytes_s <= limits->bytes_s);
    assert_true(known_s <= limits->known_s);
    if (limits->nat == MEMBER_NET_PRIVATE)
        assert_true(after.stream_packets - before.stream_packets <= 4); // their datagrams find a path
    member_net_destroy(&net);
}

static void members_behind_routers_cost_little_and_die_soon(void **state)
{
    (void)state;
    static const struct limits limits[] = {
        {NODES, MEMBER_NET_PUBLIC, 4.2, 450, 0.7}, {1, MEMBER_NET_PRIVATE, 4.2, 450, 0.8},
        {1, MEMBER_NET_CLOSED, 4.2, 450, 1.5},     {2, MEMBER_NET_CLOSED, 4.2, 450, 0.8},
        {1, MEMBER_NET_STREAMS, 5.6, 600, 1.5},    {2, MEMBER_NET_STREAMS, 5.6, 600, 0.8}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        for (uint64_t number = seed(); number < seed() + 3; number++)
            expect_within(&limits[i], number);
}

// Nothing ends, nothing is refused: probes alone show it.
static void the_silence_of_a_member_behind_a_router_is_noticed(void **state)
{
    (void)state;
    for (unsigned nat = 0; nat < NAT_KINDS; nat++) {
        double most_s = 0;
        for (uint64_t number = seed(); number < seed() + 3; number++) {
            begin_behind(NODES, 1, (enum member_net_nat)nat, number);
            const double took_s = kill_one(true);
            most_s = took_s > most_s ? took_s : most_s;
            member_net_destroy(&net);
        }
        printf("silent, kind %u: known after %.2f s at most\n", nat, most_s);
        assert_true(most_s <= 10);
    }
}

// Without a path and without a link, a member is left to those that have one.
static void members_without_a_path_are_rarely_called(void **state)
{
    (void)state;
    begin_behind(32, 1, MEMBER_NET_CLOSED, seed());
    const unsigned window_s = 400;
    const struct load before = load_of(1, 32);
    member_net_run(&net, window_s * SECOND);
    const struct load after = load_of(1, 32);
    const double calls_s = each(before.calls, after.calls, 31, window_s);
    printf("32 members: %.2f calls/s, %.1f packets/s, %.0f B/s each\n", calls_s,
           each(before.packets, after.packets, 31, window_s), each(before.bytes, after.bytes, 31, window_s));
    assert_true(calls_s >= 1.0 / 60 && calls_s <= 0.14); // so that they hear of all
    assert_int_equal(after.suspicions, before.suspicions);
    for (size_t i = 0; i < 32; i++)
        for (size_t j = 0; j < 32; j++)
            assert_true(i == j || info_of(i, j).answered);
    member_net_destroy(&net);
}

// A router gives another port to every destination from now on: what answered directly does no longer.
static void a_path_that_closes_is_no_death(void **state)
{
    (void)state;
    begin_behind(NODES, 1, MEMBER_NET_PRIVATE, seed());
    member_net_routers(&net, 1, MEMBER_NET_CLOSED);
    struct load before = load_of(1, NODES);
    const uint64_t suspicions = before.suspicions;
    member_net_run(&net, 20 * SECOND); // until all have noticed
    before = load_of(1, NODES);
    member_net_run(&net, 60 * SECOND);
    const struct load after = load_of(1, NODES);
    assert_int_equal(after.suspicions, suspicions);
    assert_true(each(before.packets, after.packets, NODES - 1, 60) <= 6.2);
    assert_true(kill_one(false) <= 1.5);
    member_net_destroy(&net);
}

static void lose_link(size_t node, size_t to)
{
    member_net_step(&net, node,
                    &(struct gossip_membership_event){.kind = GOSSIP_MEMBERSHIP_UNREACHABLE,
                                                      .peer = net.nodes[to].identity.id});
}

// The only link of a living member breaks: its relay has evidence, and it answers datagrams.
static void a_broken_link_to_the_only_relay_is_no_death(void **state)
{
    (void)state;
    for (uint64_t number = seed(); number < seed() + 10; number++) {
        begin_behind(NODES, 1, MEMBER_NET_CLOSED, number);
        net.loss = 0.1;
        for (unsigned times = 0; times < 10; times++) {
            lose_link(0, VICTIM);
            member_net_run(&net, 3 * SECOND);
        }
        assert_true(load_of(0, 1).suspicions >= 10);
        assert_int_equal(deaths(), 0);
        member_net_destroy(&net);
    }
}

// It calls its relay again after a while. Its process goes on.
static unsigned deaths_after_a_reset(enum member_net_nat nat, uint64_t away_ns, uint64_t number)
{
    begin_behind(NODES, 1, nat, number);
    member_net_reset(&net, VICTIM);
    member_net_cut(&net, VICTIM, true, true, true);
    member_net_run(&net, away_ns);
    member_net_cut(&net, VICTIM, true, true, false);
    member_net_join(&net, VICTIM, 0);
    member_net_run(&net, 20 * SECOND);
    assert_true(load_of(0, 1).suspicions > 0 && member_net_agrees(&net));
    const unsigned died = deaths();
    member_net_destroy(&net);
    return died;
}

static void a_member_whose_links_are_reset_has_time_to_call(void **state)
{
    (void)state;
    for (uint64_t number = seed(); number < seed() + 5; number++) {
        assert_int_equal(deaths_after_a_reset(MEMBER_NET_CLOSED, 500 * MILLISECOND, number), 0);
        assert_int_equal(deaths_after_a_reset(MEMBER_NET_STREAMS, 500 * MILLISECOND, number), 0);
    }
    assert_true(deaths_after_a_reset(MEMBER_NET_STREAMS, 2 * SECOND, seed()) > 0);
}

// Evidence of another member than a relay confirms nothing: it could see no stream end.
static void evidence_of_a_relay_only_is_confirmed_by_silence(void **state)
{
    (void)state;
    for (size_t liar = 0; liar < 2; liar++) {
        begin_behind(NODES, 1, MEMBER_NET_CLOSED, seed());
        member_net_kill(&net, VICTIM, true);
        lose_link(liar, VICTIM);
        member_net_run(&net, 3 * SECOND);
        assert_int_equal(deaths(), liar == 0 ? NODES - 1 : 0);
        member_net_destroy(&net);
    }
}

static void the_second_relay_answers_for_a_member(void **state)
{
    (void)state;
    begin_behind(NODES, 2, MEMBER_NET_CLOSED, seed());
    net.cut[0][VICTIM] = net.cut[VICTIM][0] = true;
    for (size_t i = 1; i < NODES; i++)
        if (i != VICTIM)
            tell_lie(0, i, VICTIM);
    member_net_run(&net, 5 * SECOND);
    assert_int_equal(deaths(), 0);
    member_net_destroy(&net);
}

static void cut_both(size_t a, size_t b)
{
    net.cut[a][b] = net.cut[b][a] = true;
}

// It probes the suspect at once.
static size_t successor_of(size_t node)
{
    const struct gossip_id *id = &net.nodes[node].identity.id;
    size_t first = 1, next = 0; // of all that are no relays; after that node
    for (size_t i = 1; i < net.count; i++) {
        const struct gossip_id *other = &net.nodes[i].identity.id;
        if (i == node)
            continue;
        if (gossip_id_compare(other, &net.nodes[first].identity.id) < 0)
            first = i;
        if (gossip_id_compare(other, id) > 0 &&
            (next == 0 || gossip_id_compare(other, &net.nodes[next].identity.id) < 0))
            next = i;
    }
    return next > 0 ? next : first;
}

// The relay that has lied also says that it gets no answer. The node hears of no other member.
static void the_word_of_the_accuser_confirms_nothing(void **state)
{
    (void)state;
    begin_behind(NODES, 1, MEMBER_NET_CLOSED, seed());
    const size_t lonely = successor_of(VICTIM);
    for (size_t i = 0; i < NODES; i++)
        if (i != VICTIM)
            cut_both(VICTIM, i);
    for (size_t i = 1; i < NODES; i++)
        cut_both(lonely, i);
    tell_lie(0, lonely, VICTIM);
    member_net_run(&net, 2500 * MILLISECOND);
    assert_true(state_of(lonely, VICTIM) == GOSSIP_MEMBER_SUSPECT);
    member_net_destroy(&net);
}

// Members without a path to it get no answer, but that is nothing new.
static void the_second_relay_must_confirm(void **state)
{
    (void)state;
    begin_behind(NODES, 2, MEMBER_NET_CLOSED, seed());
    for (size_t i = 0; i < NODES; i++) // only these two hear of each other
        if (i != 1 && i != VICTIM) {
            cut_both(i, 1);
            cut_both(i, VICTIM);
        }
    for (size_t i = 1; i < NODES; i++)
        if (i != VICTIM)
            tell_lie(0, i, VICTIM);
    member_net_run(&net, 2500 * MILLISECOND);
    for (size_t i = 2; i < NODES; i++)
        assert_true(i == VICTIM || state_of(i, VICTIM) == GOSSIP_MEMBER_SUSPECT);
    member_net_destroy(&net);
}

// No third one is left that could confirm it.
static void of_three_nodes_the_only_relay_is_believed(void **state)
{
    (void)state;
    for (uint64_t number = seed(); number < seed() + 5; number++) {
        begin_behind(3, 1, MEMBER_NET_CLOSED, number);
        member_net_kill(&net, 2, false);
        member_net_run(&net, 2500 * MILLISECOND);
        assert_int_equal(deaths(), 2);
        member_net_destroy(&net);
    }
}

// Its own probe fails, too, but no other member has heard of it.
static void a_node_that_hears_nobody_confirms_no_evidence(void **state)
{
    (void)state;
    const size_t deaf = 7;
    begin_behind(NODES, 1, MEMBER_NET_CLOSED, seed());
    member_net_cut(&net, deaf, true, true, true);
    tell_lie(0, deaf, VICTIM);
    member_net_run(&net, 3 * SECOND);
    assert_true(state_of(deaf, VICTIM) == GOSSIP_MEMBER_SUSPECT);
    member_net_destroy(&net);
}

static void those_that_reach_the_target_are_asked_for_help(void **state)
{
    (void)state;
    begin_behind(NODES, VICTIM, MEMBER_NET_CLOSED, seed()); // the relays are 0 and 1
    unsigned asked = 0;
    memset(net.helps, 0, sizeof net.helps);
    member_net_kill(&net, VICTIM, true);
    member_net_run(&net, 8 * SECOND);
    for (size_t from = VICTIM; from < NODES; from++) {
        const unsigned *helps = net.helps[from];
        assert_int_equal(helps[0], helps[1]);
        assert_int_equal(helps[0], helps[2] + helps[3] + helps[4]);
        asked += helps[0];
        for (size_t to = VICTIM; to < NODES; to++)
            assert_int_equal(helps[to], 0);
    }
    assert_true(asked > 0);
    member_net_destroy(&net);
}

// Two nodes, one with IPv4 addresses only, the other with IPv6 addresses only, choose the same relays, of
// those that have both.
static void a_pair_of_two_families_has_the_same_relays_at_both_ends(void **s)
{
    const struct gossip_address v4 = {.family = 4, .ip = {10, 0, 0, 1}, .port = 7400},
                                v6 = {.family = 6, .ip = {0x20, 1}, .port = 7400},
                                near = {.family = 4, .ip = {127, 0, 0, 1}, .port = 7400};
    const struct gossip_address tell[][2] = {{v4},     {v6, near}, {v4, v6}, {v6, v4},
                                             {v4, v6}, {v4},       {v6},     {v4, v6}};
    enum { FOUR, SIX, BOTH_FIRST, FOUR_TOO = 5, SIX_TOO, UNABLE, ALL };
    struct gossip_relays relays[2];
    (void)s;
    member_net_create(&net, ALL, 5);
    member_net_start_all(&net);
    for (size_t i = 0; i < ALL; i++) {
        gossip_membership_addresses(net.nodes[i].membership, tell[i], tell[i][1].family ? 2 : 1);
        gossip_membership_ways(net.nodes[i].membership, i == UNABLE ? GOSSIP_WAY_REACHABLE : GOSSIP_WAYS,
                               NULL, 0);
    }
    member_net_run(&net, 5 * SECOND);
    const size_t pairs[][2] = {{FOUR, SIX}, {FOUR, SIX_TOO}, {FOUR_TOO, SIX}, {FOUR_TOO, SIX_TOO}};
    for (size_t pair = 0; pair < 4; pair++) {
        for (size_t end = 0; end < 2; end++) {
            const size_t self = pairs[pair][end], other = pairs[pair][1 - end];
            gossip_relays_between(&relays[end], net.nodes[self].membership, info_of(self, other).record);
            assert_int_equal(relays[end].count, 2);
            for (size_t i = 0; i < ALL; i++)
                if (i < BOTH_FIRST || i >= FOUR_TOO)
                    assert_false(gossip_relays_have(&relays[end], &net.nodes[i].identity.id));
        }
        assert_memory_equal(relays[0].ids, relays[1].ids, sizeof relays[0].ids);
    }
    gossip_relays_between(&relays[0], net.nodes[FOUR].membership, info_of(FOUR, BOTH_FIRST).record);
    assert_int_equal(relays[0].count, 0);
    gossip_relays_between(&relays[1], net.nodes[SIX].membership, info_of(SIX, SIX_TOO).record);
    assert_int_equal(relays[1].count, 0);
    member_net_destroy(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_without_a_path_yet_are_not_suspected),
        cmocka_unit_test(members_behind_routers_cost_little_and_die_soon),
        cmocka_unit_test(the_silence_of_a_member_behind_a_router_is_noticed),
        cmocka_unit_test(members_without_a_path_are_rarely_called),
        cmocka_unit_test(a_path_that_closes_is_no_death),
        cmocka_unit_test(a_broken_link_to_the_only_relay_is_no_death),
        cmocka_unit_test(a_member_whose_links_are_reset_has_time_to_call),
        cmocka_unit_test(evidence_of_a_relay_only_is_confirmed_by_silence),
        cmocka_unit_test(the_second_relay_answers_for_a_member),
        cmocka_unit_test(the_word_of_the_accuser_confirms_nothing),
        cmocka_unit_test(the_second_relay_must_confirm),
        cmocka_unit_test(of_three_nodes_the_only_relay_is_believed),
        cmocka_unit_test(a_node_that_hears_nobody_confirms_no_evidence),
        cmocka_unit_test(those_that_reach_the_target_are_asked_for_help),
        cmocka_unit_test(a_pair_of_two_families_has_the_same_relays_at_both_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
