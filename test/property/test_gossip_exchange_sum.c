// If the trainer leaves its correction as it was handed out, the exchange keeps no separate sum. Two clusters
// from one seed, only one of which does so, hand out the same bits.
#include "exchange_cases.h"
#include "gossip/exchange/state.h"

#include <math.h>

enum { D = 100000 }; // 1,000 entries in a packet of 2 KB; 16 KB of packets may be kept

struct twins {
    struct net *net[2]; // with its own sum; without
};

static struct twins twins_of(size_t nodes, bool sync, const struct gossip_exchange_options *changed)
{
    struct twins twins;
    struct gossip_exchange_options options = changed ? *changed : defaults(sync);
    uint64_t seed = net_seed(11);

    options.ratio = 0.01f;
    options.sync = sync;
    for (size_t t = 0; t < 2; t++) {
        twins.net[t] = net_create(nodes, D, TOPOLOGY_BUTTERFLY, seed, &options);
        twins.net[t]->correction_stays = t == 1;
        net_link_all(twins.net[t]);
        for (size_t i = 0; i < nodes; i++)
            change_model(twins.net[t], i);
    }
    return twins;
}

static void twins_destroy(const struct twins *twins)
{
    for (size_t t = 0; t < 2; t++)
        net_destroy(twins->net[t]);
}

static void boundary(const struct twins *twins, size_t node, uint64_t round)
{
    for (size_t t = 0; t < 2; t++) {
        net_round(twins->net[t], node, round);
        net_settle(twins->net[t], 3 * SECOND); // the partner may not come
        change_model(twins->net[t], node);
    }
}

static void all_train(const struct twins *twins, uint64_t round)
{
    for (size_t t = 0; t < 2; t++) {
        for (size_t i = 0; i < twins->net[t]->nodes; i++)
            net_round(twins->net[t], i, round);
        net_settle(twins->net[t], SECOND);
        for (size_t i = 0; i < twins->net[t]->nodes; i++)
            change_model(twins->net[t], i);
    }
}

static const struct gossip_sum *sum_of(const struct twins *twins, size_t node)
{
    return &twins->net[1]->node[node].exchange->sum;
}

static bool is_zero(const float *vector)
{
    for (size_t j = 0; j < D; j++)
        if (vector[j] != 0)
            return false;
    return true;
}

static void check_same(const struct twins *twins)
{
    const struct net *own = twins->net[0], *shared = twins->net[1];
    for (size_t i = 0; i < own->nodes; i++) {
        assert_memory_equal(own->node[i].x, shared->node[i].x, D * sizeof(float));
        assert_memory_equal(own->node[i].correction, shared->node[i].correction, D * sizeof(float));
    }
}

// Of a deferred sum, only the trainer's vector exists.
static void check_deferred(const struct twins *twins, size_t node)
{
    assert_null(sum_of(twins, node)->now);
    assert_null(sum_of(twins, node)->own);
    assert_ptr_equal(sum_of(twins, node)->lent, twins->net[1]->node[node].correction);
}

static bool is_owed(const struct twins *twins, size_t node)
{
    return gossip_pending_corrects(&twins->net[1]->node[node].exchange->pending);
}

static void in_step_the_bits_are_the_same(void **state)
{
    (void)state;
    struct twins twins = twins_of(4, true, NULL);
    for (uint64_t round = 1; round <= 8; round++)
        all_train(&twins, round);
    check_same(&twins);
    for (size_t i = 0; i < 4; i++) {
        check_deferred(&twins, i);
        assert_false(is_zero(sum_of(&twins, i)->lent));
    }
    twins_destroy(&twins);
}

// Node 0 computes while the others meet it: the kept packets are still to be added to its sum.
static void exchanges_between_boundaries_reach_the_sum(void **state)
{
    (void)state;
    struct twins twins = twins_of(4, false, NULL);
    boundary(&twins, 0, 1);
    for (uint64_t round = 1; round <= 6; round++) {
        for (size_t i = 1; i < 4; i++)
            boundary(&twins, i, round);
        if (round % 3 > 0)
            continue;
        assert_null(sum_of(&twins, 0)->now);
        assert_true(is_owed(&twins, 0));
        boundary(&twins, 0, round);
        check_same(&twins);
    }
    check_deferred(&twins, 0);
    twins_destroy(&twins);
}

// The last numbers are of progress (clip): it is measured without what the correction has moved, and one of
// the two has added the packets to its correction before.
static void check_export(const struct twins *twins, size_t node)
{
    const size_t measured = sizeof(float) + 2 * sizeof(double);

    struct gossip_edge_record record[2];
    for (size_t t = 0; t < 2; t++)
        assert_int_equal(gossip_exchange_export(twins->net[t]->node[node].exchange, 0, &record[t]), BASE_OK);
    assert_int_equal(record[0].transactions_bytes, record[1].transactions_bytes);
    assert_memory_equal(record[0].transactions, record[1].transactions,
                        record[0].transactions_bytes - measured);
}

// A checkpoint contains the complete sum, also while packets are still to be added, and the node goes on from
// there.
static void a_deferred_sum_is_exported(void **state)
{
    (void)state;
    struct twins twins = twins_of(2, false, NULL);
    boundary(&twins, 0, 1);
    check_export(&twins, 0);
    check_deferred(&twins, 0);
    for (uint64_t round = 1; round <= 3; round++)
        boundary(&twins, 1, round);
    assert_true(is_owed(&twins, 0));
    check_export(&twins, 0);
    assert_non_null(sum_of(&twins, 0)->own);
    boundary(&twins, 1, 4);
    check_export(&twins, 0);
    boundary(&twins, 0, 2);
    check_same(&twins);
    check_deferred(&twins, 0);
    assert_false(is_zero(sum_of(&twins, 0)->lent));
    twins_destroy(&twins);
}

// An edge that goes between two boundaries takes its correction with it.
static void a_forgotten_edge_leaves_no_correction(void **state)
{
    (void)state;
    struct twins twins = twins_of(4, true, NULL);
    for (uint64_t round = 1; round <= 4; round++)
        all_train(&twins, round);
    for (size_t t = 0; t < 2; t++) {
        net_unlink(twins.net[t], 0, 1);
        net_tell(twins.net[t], 0, GOSSIP_EXCHANGE_FORGET, 1);
    }
    assert_true(sum_of(&twins, 0)->stale);
    boundary(&twins, 0, 5);
    check_same(&twins);
    assert_false(sum_of(&twins, 0)->stale);
    twins_destroy(&twins);
}

// More exchanges than are kept as packets: there is a separate sum until a round that did without it.
static void many_exchanges_have_a_separate_sum(void **state)
{
    (void)state;
    struct twins twins = twins_of(4, false, NULL);
    boundary(&twins, 0, 1);
    for (uint64_t round = 1; round <= 20; round++)
        for (size_t i = 1; i < 4; i++)
            boundary(&twins, i, round);
    assert_true(twins.net[1]->node[0].exchange->pending.sum_holds);
    assert_non_null(sum_of(&twins, 0)->own);
    boundary(&twins, 0, 20);
    check_same(&twins);
    assert_ptr_equal(sum_of(&twins, 0)->now, sum_of(&twins, 0)->own);
    boundary(&twins, 0, 21);
    check_same(&twins);
    check_deferred(&twins, 0);
    twins_destroy(&twins);
}

// A model that is discarded discards no exchange.
static void an_unusable_round_loses_nothing(void **state)
{
    (void)state;
    struct twins twins = twins_of(4, false, NULL);
    boundary(&twins, 0, 1);
    for (uint64_t round = 1; round <= 4; round++)
        for (size_t i = 1; i < 4; i++)
            boundary(&twins, i, round);
    assert_true(is_owed(&twins, 0));
    for (size_t t = 0; t < 2; t++) {
        twins.net[t]->node[0].unusable = true;
        twins.net[t]->node[0].x[7] = (float)NAN;
    }
    boundary(&twins, 0, 2);
    check_same(&twins);
    check_deferred(&twins, 0);
    assert_false(is_zero(sum_of(&twins, 0)->lent));
    twins_destroy(&twins);
}

// While a correction fades, the trainer's vector is not the sum: for that time there are two, and afterwards
// one again.
static void there_is_a_separate_sum_while_a_correction_fades(void **state)
{
    (void)state;
    struct gossip_exchange_options options = defaults(true);
    options.on_death = GOSSIP_ON_DEATH_FADE;
    options.fade_rounds = 3;
    struct twins twins = twins_of(2, true, &options);
    for (uint64_t round = 1; round <= 4; round++)
        all_train(&twins, round);
    for (size_t t = 0; t < 2; t++)
        net_unlink(twins.net[t], 0, 1);
    for (uint64_t round = 5; round <= 7; round++) {
        boundary(&twins, 0, round);
        check_same(&twins);
        assert_ptr_equal(sum_of(&twins, 0)->now, sum_of(&twins, 0)->own);
        assert_non_null(sum_of(&twins, 0)->own);
    }
    for (size_t t = 0; t < 2; t++) {
        net_link(twins.net[t], 0, 1);
        net_settle(twins.net[t], SECOND);
    }
    for (uint64_t round = 8; round <= 10; round++)
        all_train(&twins, round);
    check_same(&twins);
    check_deferred(&twins, 0);
    twins_destroy(&twins);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_step_the_bits_are_the_same),
        cmocka_unit_test(exchanges_between_boundaries_reach_the_sum),
        cmocka_unit_test(a_deferred_sum_is_exported),
        cmocka_unit_test(a_forgotten_edge_leaves_no_correction),
        cmocka_unit_test(many_exchanges_have_a_separate_sum),
        cmocka_unit_test(an_unusable_round_loses_nothing),
        cmocka_unit_test(there_is_a_separate_sum_while_a_correction_fades),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
