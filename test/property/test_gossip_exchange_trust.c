// Trust in neighbours: the rule, and what an edge does that is not trusted (gossip/exchange/RULES.md).
#include "exchange_cases.h"
#include "gossip/exchange/state.h"

#include <math.h>

enum { PARAMETERS = 64 };

// -- the rule

static double lost(double nothing, double own, double other)
{
    return gossip_trust_lost(&(struct gossip_losses){nothing, own, other});
}

static void test_what_is_lost_is_a_part_of_what_is_known(void **state)
{
    (void)state;
    assert_true(fabs(lost(2, 1, 1.5) - 0.5) < 1e-12);
    assert_true(fabs(lost(2, 1, 0.9) + 0.1) < 1e-12);
    assert_true(lost(2, 0.5, NAN) > 1000 && isfinite(lost(2, 0.5, INFINITY)));
    assert_true(isnan(lost(2, 1.9, 5))); // it has not learned anything yet
    assert_true(isnan(lost(NAN, 1, 1)) && isnan(lost(2, NAN, 1)) && isnan(lost(0, 0, 1)));
}

static enum gossip_verdict note(struct gossip_trust *trust, bool bad, unsigned looks)
{
    enum gossip_verdict verdict = GOSSIP_VERDICT_NONE;

    for (unsigned i = 0; i < looks; i++) {
        assert_int_equal(verdict, GOSSIP_VERDICT_NONE); // not before the last look
        const bool trusted = trust->state == GOSSIP_TRUSTED;
        const double limit = trusted ? GOSSIP_TRUST_LOST : GOSSIP_TRUST_AGAIN;
        verdict = gossip_trust_note(trust, bad ? 1.01 * limit : 0.99 * limit, true);
    }
    return verdict;
}

static void test_bad_looks_in_a_row_end_trust_and_good_ones_bring_it_back(void **state)
{
    struct gossip_trust trust = {.state = GOSSIP_TRUSTED};

    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(note(&trust, true, GOSSIP_TRUST_LOOKS - 1), GOSSIP_VERDICT_NONE);
        assert_int_equal(note(&trust, false, 1), GOSSIP_VERDICT_NONE);
    }
    for (unsigned time = 0; time < 8; time++) { // each time it takes longer
        const unsigned doubled = time < GOSSIP_TRUST_DOUBLES ? time : GOSSIP_TRUST_DOUBLES;
        assert_int_equal(note(&trust, true, GOSSIP_TRUST_LOOKS), GOSSIP_VERDICT_DISTRUST);
        assert_int_equal(gossip_trust_good(&trust), GOSSIP_TRUST_LOOKS << doubled);
        assert_int_equal(note(&trust, false, gossip_trust_good(&trust) - 1), GOSSIP_VERDICT_NONE);
        assert_int_equal(note(&trust, true, 1), GOSSIP_VERDICT_NONE); // from the beginning
        assert_int_equal(note(&trust, false, gossip_trust_good(&trust)), GOSSIP_VERDICT_TRUST);
    }
}

static void test_no_verdict_where_no_further_one_is_allowed(void **state)
{
    struct gossip_trust trust = {.state = GOSSIP_TRUSTED};

    (void)state;
    for (unsigned i = 0; i < 3 * GOSSIP_TRUST_LOOKS; i++)
        assert_int_equal(gossip_trust_note(&trust, 1, false), GOSSIP_VERDICT_NONE);
    assert_int_equal(gossip_trust_note(&trust, 1, true), GOSSIP_VERDICT_DISTRUST);
}

// -- the edges: node 0 of a ring of `nodes`

static struct net *trust_net(size_t nodes, uint64_t seed)
{
    struct gossip_exchange_options options = defaults(true);

    options.robust = GOSSIP_ROBUST_CLIP;
    options.drift_correction = true;
    options.ratio = 0.25f;
    struct net *net = net_create(nodes, PARAMETERS, TOPOLOGY_RING, net_seed(seed), &options);
    net_link_all(net);
    return net;
}

static void rounds(struct net *net, uint64_t *round, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        for (size_t node = 0; node < net->nodes; node++)
            change_model(net, node);
        net_round_all(net, ++*round);
    }
}

static void tell(struct net *net, size_t peer, double lost_part)
{
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_TRUST,
                                          .peer = net_id(peer),
                                          .losses = {.nothing = 2, .own = 1, .other = 1 + lost_part}};

    assert_int_equal(net_step(net, 0, &event), BASE_OK);
}

static bool trusts(const struct net *net, size_t peer)
{
    struct gossip_edge_info info;

    return net_edge(net, 0, peer, &info)->trust.state == GOSSIP_TRUSTED;
}

static void judge(struct net *net, size_t peer, double lost_part, unsigned looks)
{
    for (unsigned i = 0; i < looks; i++)
        tell(net, peer, lost_part);
}

static double correction(const struct net *net, size_t peer)
{
    struct gossip_edge_info info;
    double sum = 0;

    (void)net_edge(net, 0, peer, &info);
    for (size_t j = 0; info.correction && j < PARAMETERS; j++)
        sum += fabs((double)info.correction[j]);
    return sum;
}

// What a pull of node 1 alone does to node 0 in so many rounds, in which nobody takes a step.
static double pulled(struct net *net, uint64_t *round, unsigned count)
{
    const double before = (double)net->node[0].x[3];

    net->node[1].x[3] += 50;
    for (unsigned i = 0; i < count; i++)
        net_round_all(net, ++*round);
    return fabs((double)net->node[0].x[3] - before);
}

static void test_an_edge_without_trust_moves_nothing_and_its_reference_goes_on(void **state)
{
    struct net *net = trust_net(4, 401);
    uint64_t round = 0;

    (void)state;
    rounds(net, &round, 40);
    const double learned = correction(net, 1);
    assert_true(trusts(net, 1) && learned > 0);
    tell(net, 3, 0.01);
    judge(net, 1, 0.3, GOSSIP_TRUST_LOOKS);
    assert_false(trusts(net, 1));
    assert_true(correction(net, 3) > 0);
    net_unlink(net, 0, 3); // only node 1 could move it
    net_unlink(net, 1, 2);
    const double x = pulled(net, &round, 30);
    assert_true(x == 0);
    assert_true(correction(net, 1) < learned / 1000); // it halves in each exchange
    assert_true(net_references_match(net));           // at both ends
    assert_true(net->node[0].x[3] != net->node[1].x[3]);
    struct gossip_edge_info info[2];
    const float *one = net_edge(net, 0, 1, &info[0])->reference,
                *other = net_edge(net, 1, 0, &info[1])->reference;
    assert_memory_equal(one, other, PARAMETERS * sizeof(float));
    assert_true(fabs((double)one[3] - ((double)net->node[0].x[3] + (double)net->node[1].x[3]) / 2) < 1);
    tell(net, 3, 0.01);
    judge(net, 1, 0.01, GOSSIP_TRUST_LOOKS);
    assert_true(trusts(net, 1));
    assert_true(pulled(net, &round, 30) > 0);
    net_destroy(net);
}

static double apart(const struct net *net, size_t one, size_t other)
{
    double sum = 0;

    for (size_t j = 0; j < PARAMETERS; j++)
        sum += pow((double)net->node[one].x[j] - (double)net->node[other].x[j], 2);
    return sqrt(sum);
}

// An honest node that a liar has spoilt comes back, and its neighbour's looks find it good again.
static void test_who_is_not_trusted_follows(void **state)
{
    struct net *net = trust_net(4, 411);
    float before[PARAMETERS];
    uint64_t round = 0;

    (void)state;
    rounds(net, &round, 40);
    tell(net, 3, 0.01);
    judge(net, 1, 0.3, GOSSIP_TRUST_LOOKS);
    assert_false(trusts(net, 1));
    net_unlink(net, 0, 3);
    net_unlink(net, 1, 2);
    for (size_t j = 0; j < PARAMETERS; j++)
        net->node[1].x[j] += 1;
    memcpy(before, net->node[0].x, sizeof before);
    const double far = apart(net, 0, 1);
    for (unsigned i = 0; i < 30; i++)
        net_round_all(net, ++round);
    assert_memory_equal(net->node[0].x, before, sizeof before);
    assert_true(apart(net, 0, 1) < far / 10);
    assert_true(net_references_match(net));
    net_destroy(net);
}

static void test_all_neighbours_that_lag_alike_are_trusted(void **state)
{
    struct net *net = trust_net(4, 402);
    uint64_t round = 0;

    (void)state;
    rounds(net, &round, 20);
    for (unsigned i = 0; i < 3 * GOSSIP_TRUST_LOOKS; i++) {
        tell(net, 1, 0.5);
        tell(net, 3, 0.4);
    }
    assert_true(trusts(net, 1) && trusts(net, 3));
    net_destroy(net);
}

// One that has no other to compare with is trusted, and at most half of them are not.
static void test_a_node_never_distrusts_more_than_half(void **state)
{
    struct net *two = trust_net(2, 403), *four = trust_net(4, 404);
    uint64_t round = 0;

    (void)state;
    rounds(two, &round, 20);
    judge(two, 1, 5, 3 * GOSSIP_TRUST_LOOKS);
    assert_true(trusts(two, 1));
    round = 0;
    rounds(four, &round, 20);
    tell(four, 3, 0);
    judge(four, 1, 5, GOSSIP_TRUST_LOOKS);
    judge(four, 1, 0.01, 1); // the other one is compared with this
    judge(four, 3, 5, 3 * GOSSIP_TRUST_LOOKS);
    assert_true(!trusts(four, 1) && trusts(four, 3));
    net_destroy(two);
    net_destroy(four);
}

// It is the only one, so its looks are good or bad by themselves: clipping reads that.
static void test_a_single_neighbour_is_looked_at(void **state)
{
    struct net *two = trust_net(2, 408);
    struct gossip_edge_info info;
    uint64_t round = 0;

    (void)state;
    rounds(two, &round, 20);
    tell(two, 1, 0.01);
    assert_int_equal(net_edge(two, 0, 1, &info)->trust.good, 1);
    tell(two, 1, 0.5);
    assert_int_equal(net_edge(two, 0, 1, &info)->trust.bad, 1);
    net_destroy(two);
}

// Edges to earlier neighbours stay, without a link. Of the two that exchange one is trusted.
static void test_neighbours_without_a_link_do_not_count(void **state)
{
    struct net *net = trust_net(6, 407);
    uint64_t round = 0;

    (void)state;
    for (size_t earlier = 2; earlier <= 4; earlier++) {
        net_link(net, 0, earlier);
        net_settle(net, SECOND);
        net_unlink(net, 0, earlier);
    }
    rounds(net, &round, 20);
    assert_int_equal(gossip_exchange_edges(net->node[0].exchange), 5);
    tell(net, 5, 0);
    judge(net, 1, 5, GOSSIP_TRUST_LOOKS);
    judge(net, 1, 0.01, 1);
    judge(net, 5, 5, 3 * GOSSIP_TRUST_LOOKS);
    assert_true(!trusts(net, 1) && trusts(net, 5));
    net_destroy(net);
}

// Once it has made some exchanges, and again after some more: every quarter and eighth of those that send
// all.
static void test_edges_are_looked_at_in_turn(void **state)
{
    struct net *net = trust_net(4, 405);
    struct gossip_exchange *exchange = net->node[0].exchange;
    float reference[PARAMETERS];
    struct gossip_edge_info info;
    struct gossip_id peer;
    uint64_t round = 0;

    (void)state;
    assert_false(gossip_exchange_look(exchange, &peer, reference));
    rounds(net, &round, 4);
    size_t looks[4] = {0};
    for (unsigned i = 0; i < 12; i++) {
        rounds(net, &round, 1);
        if (!gossip_exchange_look(exchange, &peer, reference))
            continue;
        const size_t at = net_index(&peer);
        assert_memory_equal(reference, net_edge(net, 0, at, &info)->reference, sizeof reference);
        looks[at]++;
        tell(net, at, 0);
        assert_int_equal(net_edge(net, 0, at, &info)->trust.exchanges, info.exchanges);
    }
    assert_true(looks[1] >= 4 && looks[3] >= 4);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(!gossip_exchange_look(exchange, &peer, reference) || i == 0);
        tell(net, 1, 0);
        tell(net, 3, 0);
    }
    net_destroy(net);
}

// An edge whose latest look was bad comes first, so that five of them take no five turns.
static void test_a_bad_look_is_followed_by_another_one_soon(void **state)
{
    struct net *net = trust_net(4, 406);
    float reference[PARAMETERS];
    struct gossip_id peer;
    uint64_t round = 0;
    size_t looks[4] = {0};

    (void)state;
    rounds(net, &round, 20);
    tell(net, 3, 0);
    tell(net, 1, 0.3);
    while (looks[1] < GOSSIP_TRUST_LOOKS - 1) {
        rounds(net, &round, 2);
        assert_true(gossip_exchange_look(net->node[0].exchange, &peer, reference));
        looks[net_index(&peer)]++;
        tell(net, net_index(&peer), net_index(&peer) == 1 ? 0.3 : 0);
    }
    assert_int_equal(looks[3], 0);
    assert_false(trusts(net, 1));
    net_destroy(net);
}

static const struct gossip_trust *trust_of(const struct net *net, size_t peer, struct gossip_edge_info *info)
{
    return &net_edge(net, 0, peer, info)->trust;
}

static void forget(struct net *net, size_t node, size_t peer)
{
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_FORGET, .peer = net_id(peer)};

    assert_int_equal(net_step(net, node, &event), BASE_OK);
}

// A new process, from the records of the edges.
static void restart(struct net *net, size_t node)
{
    struct gossip_exchange *old = net->node[node].exchange, *fresh;
    struct gossip_exchange_options options = net->node[node].options;
    struct gossip_edge_record record;
    struct base_reason why;

    options.model = gossip_exchange_model(old);
    assert_int_equal(gossip_exchange_create(&options, &fresh, &why), BASE_OK);
    for (size_t i = 0; i < gossip_exchange_edges(old); i++) {
        assert_int_equal(gossip_exchange_export(old, i, &record), BASE_OK);
        assert_int_equal(gossip_exchange_import(fresh, &record), BASE_OK);
    }
    net_node_restart(net, node, fresh);
}

// Whether its edge ends, or this node does.
static void test_trust_is_of_the_member(void **state)
{
    struct net *net = trust_net(4, 409);
    struct gossip_edge_info info;
    uint64_t round = 0;

    (void)state;
    rounds(net, &round, 20);
    tell(net, 3, 0.01);
    judge(net, 1, 0.3, GOSSIP_TRUST_LOOKS);
    tell(net, 3, 0.01);
    net_unlink(net, 0, 1);
    forget(net, 0, 1);
    forget(net, 1, 0);
    net_link(net, 0, 1);
    net_settle(net, SECOND);
    assert_false(trusts(net, 1));
    net_unlink(net, 0, 1);
    net_unlink(net, 0, 3);
    restart(net, 0);
    net_link(net, 0, 1);
    net_link(net, 0, 3);
    net_settle(net, SECOND);
    assert_false(trusts(net, 1));
    assert_true(trust_of(net, 1, &info)->bad == GOSSIP_TRUST_LOOKS && info.trust.verdicts == 1);
    assert_true(trust_of(net, 3, &info)->good == 1 && info.trust.looked);
    assert_true(fabs(info.trust.lost - 0.01) < 1e-6);
    rounds(net, &round, 8);
    judge(net, 1, 0, GOSSIP_TRUST_LOOKS);
    assert_true(trusts(net, 1));
    net_destroy(net);
}

// After an hour of short rounds a good neighbour has a million good looks in a row.
static void test_trust_of_any_length_is_restored(void **state)
{
    const struct gossip_trust trust = {
        .looked = true, .lost = 0.25, .good = UINT32_MAX, .verdicts = UINT32_MAX};
    struct gossip_trust restored = {.state = GOSSIP_TRUSTED};
    uint8_t bytes[64];
    struct base_writer writer = base_writer_of(bytes, sizeof bytes);

    (void)state;
    gossip_trust_store(&trust, &writer);
    assert_false(writer.failed);
    struct base_reader reader = base_reader_of(bytes, base_writer_used(&writer));
    gossip_trust_restore(&restored, &reader);
    assert_true(!reader.failed && base_reader_left(&reader) == 0);
    assert_true(restored.looked && restored.lost == 0.25 && restored.good > 1000 && restored.verdicts > 1000);
}

static void away(struct net *net, size_t node)
{
    net->node[node].standing = GOSSIP_AWAY;
    gossip_exchange_standing(net->node[node].exchange, GOSSIP_AWAY);
}

// Its model is old, which is no lie: nobody looks at it, and it looks at nobody. Who is not trusted comes
// back as any other does.
static void test_a_node_that_was_away_is_not_judged(void **state)
{
    float reference[PARAMETERS];
    struct gossip_id peer;
    uint64_t round = 0;

    (void)state;
    if (getenv("P2PML_FAR")) // the twin knows nothing of a standing that is set here
        skip();
    struct net *net = trust_net(3, 410);
    rounds(net, &round, 20);
    tell(net, 2, 0.01);
    judge(net, 1, 0.3, GOSSIP_TRUST_LOOKS);
    assert_false(trusts(net, 1));
    assert_true(gossip_exchange_look(net->node[1].exchange, &peer, reference));
    away(net, 1);
    assert_false(gossip_exchange_look(net->node[1].exchange, &peer, reference));
    net_unlink(net, 1, 2);
    net->node[1].x[3] += 50;
    const float x = net->node[0].x[3];
    for (unsigned i = 0; i < 3; i++) {
        net->node[1].standing = GOSSIP_AWAY;
        net_round_all(net, ++round);
    }
    assert_true(fabs((double)(net->node[1].x[3] - x)) < 10);
    for (unsigned i = 0; i < 8; i++) {
        assert_true(!gossip_exchange_look(net->node[0].exchange, &peer, reference) || net_index(&peer) == 2);
        tell(net, 2, 0.01);
    }
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_lost_is_a_part_of_what_is_known),
        cmocka_unit_test(test_bad_looks_in_a_row_end_trust_and_good_ones_bring_it_back),
        cmocka_unit_test(test_no_verdict_where_no_further_one_is_allowed),
        cmocka_unit_test(test_an_edge_without_trust_moves_nothing_and_its_reference_goes_on),
        cmocka_unit_test(test_who_is_not_trusted_follows),
        cmocka_unit_test(test_all_neighbours_that_lag_alike_are_trusted),
        cmocka_unit_test(test_a_node_never_distrusts_more_than_half),
        cmocka_unit_test(test_a_single_neighbour_is_looked_at),
        cmocka_unit_test(test_neighbours_without_a_link_do_not_count),
        cmocka_unit_test(test_edges_are_looked_at_in_turn),
        cmocka_unit_test(test_a_bad_look_is_followed_by_another_one_soon),
        cmocka_unit_test(test_trust_is_of_the_member),
        cmocka_unit_test(test_trust_of_any_length_is_restored),
        cmocka_unit_test(test_a_node_that_was_away_is_not_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
