// A stop is a round boundary: nodes that are frozen at any moment, stored and started again go on as if they
// had not stopped: no RESYNC, the same sum of models, and in sync the same bits.
#include "exchange_cases.h"
#include "exchange_saved.h"
#include "gossip/exchange/state.h"
#include "test/support/cpu_kernels.h"

#include <math.h>
#include <stdio.h>

enum { NODES = 4, D = 120, ROUNDS = 40, FALL = 15, STOP = 21, MOMENTS = 60 };

static void train(struct net *net, size_t node, uint64_t round)
{
    struct base_rng rng;

    base_rng_seed(&rng, round * NODES + node);
    for (size_t j = 0; j < D; j++) {
        float step = 0.1f * (float)base_rng_normal(&rng);
        net->node[node].x[j] += step + 0.01f * net->node[node].correction[j];
        if (net->node[node].v)
            net->node[node].v[j] += step * step;
    }
}

static struct net *fresh_net(bool sync, uint64_t seed)
{
    struct gossip_exchange_options options = defaults(sync);

    options.share_second_moment = 5;
    struct net *net = net_create(NODES, D, TOPOLOGY_RING, seed, &options);
    net->jitter_ns = 3000000;
    net_link_all(net);
    return net;
}

static void run(struct net *net, uint64_t first, uint64_t last)
{
    for (uint64_t round = first; round <= last; round++) {
        net->step_scale = round < FALL ? 0.1f : 0.0001f;
        for (size_t i = 0; i < NODES; i++)
            train(net, i, round);
        net_round_all(net, round);
    }
}

// Nothing of a record is lost: a process that has read it writes the same one.
static void check_stored_again(const struct net *net, size_t node, const struct saved *saved)
{
    struct saved again = {0};

    saved_take(&again, net, node);
    assert_int_equal(again.count, saved->count);
    for (size_t i = 0; i < saved->count; i++) {
        const struct gossip_edge_record *before = &saved->record[i], *now = &again.record[i];
        assert_int_equal(gossip_id_compare(&before->peer, &now->peer), 0);
        assert_true(before->epoch == now->epoch && before->sequence == now->sequence);
        assert_true(before->resync_offset == now->resync_offset && before->clock == now->clock);
        assert_true(!before->reference == !now->reference && !before->correction == !now->correction);
        if (before->reference)
            assert_memory_equal(before->reference, now->reference, D * sizeof(float));
        if (before->correction)
            assert_memory_equal(before->correction, now->correction, D * sizeof(float));
        assert_int_equal(before->transactions_bytes, now->transactions_bytes);
        assert_memory_equal(before->transactions, now->transactions, now->transactions_bytes);
    }
    saved_free(&again);
}

// A checkpoint of a frozen node, and a new process from it. Returns whether its round was open.
static bool stop_and_start(struct net *net, size_t node)
{
    struct net_node *at = &net->node[node];
    struct gossip_exchange_options options = at->options;
    struct gossip_exchange_actions none;
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_TIMER, .now_ns = net->now_ns};
    struct gossip_exchange *fresh;
    struct base_reason why;
    struct saved saved = {0};
    bool open = at->in_round;

    assert_int_equal(gossip_exchange_step(at->exchange, &event, &none), BASE_OK);
    assert_int_equal(none.count, 0);
    assert_true(gossip_exchange_deadline(at->exchange) == UINT64_MAX);
    if (gossip_exchange_second_moment(at->exchange))
        memcpy(at->v, gossip_exchange_second_moment(at->exchange), D * sizeof(float));
    saved_take(&saved, net, node);
    options.model = saved.model;
    options.round = at->round - open;
    assert_int_equal(gossip_exchange_create(&options, &fresh, &why), BASE_OK);
    for (size_t i = 0; i < saved.count; i++)
        assert_int_equal(gossip_exchange_import(fresh, &saved.record[i]), BASE_OK);
    memcpy(at->x, saved.model, D * sizeof(float));
    if (gossip_exchange_correction(fresh))
        memcpy(at->correction, gossip_exchange_correction(fresh), D * sizeof(float));
    net_node_restart(net, node, fresh);
    check_stored_again(net, node, &saved);
    saved_free(&saved);
    return open;
}

static void unlink_all(struct net *net, size_t node)
{
    for (size_t i = 0; i < NODES; i++)
        if (net->up[node * NODES + i])
            net_unlink(net, node, i);
}

static uint64_t hash_of(const struct net *net)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < NODES; i++) {
        hash = hash * 31 + cpu_kernels()->apply->hash(net->node[i].x, D, 0, false);
        hash = hash * 31 + cpu_kernels()->apply->hash(net->node[i].v, D, 0, false);
        hash = hash * 31 + cpu_kernels()->apply->hash(net->node[i].correction, D, 0, false);
    }
    return hash;
}

// First links the nodes that are to meet, and the others once these have met: the result of an exchange must
// not depend on which links are already up.
static void link_partners_first(struct net *net, const bool open[NODES])
{
    for (size_t i = 0; i < NODES; i++) {
        size_t partner = topology_plan_partner(net->plan, i, STOP);
        if (i < partner)
            net_link(net, i, partner);
    }
    net_settle(net, 60 * SECOND);
    for (size_t i = 0; i < NODES; i++)
        if (open[i])
            net_round(net, i, STOP);
    net_settle(net, 60 * SECOND);
    for (size_t i = 0; i < NODES; i++)
        if (!net->up[i * NODES + (i + 1) % NODES])
            net_link(net, i, (i + 1) % NODES);
    net_settle(net, 60 * SECOND);
}

static void link_all_at_once(struct net *net, const bool open[NODES])
{
    net_link_all(net);
    for (size_t i = 0; i < NODES; i++)
        if (open[i])
            net_round(net, i, STOP);
    net_settle(net, 60 * SECOND);
}

// All nodes stop at one moment of a round, and everything under way is lost.
static void all_stop_and_go_on(void (*go_on)(struct net *, const bool *))
{
    uint64_t seed = net_seed(601);
    size_t opened = 0;

    struct net *whole = fresh_net(true, seed);
    run(whole, 1, ROUNDS);
    for (uint64_t k = 0; k < MOMENTS; k++) {
        struct net *net = fresh_net(true, seed);
        bool open[NODES];
        run(net, 1, STOP - 1);
        for (size_t i = 0; i < NODES; i++)
            train(net, i, STOP);
        for (size_t i = 0; i < NODES; i++)
            net_round(net, i, STOP);
        net_settle(net, k * 200000); // 12 ms in all: longer than a round
        for (size_t i = 0; i < NODES; i++)
            gossip_exchange_freeze(net->node[i].exchange);
        for (size_t i = 0; i < NODES; i++)
            unlink_all(net, i);
        for (size_t i = 0; i < NODES; i++) {
            open[i] = stop_and_start(net, i);
            opened += open[i];
        }
        go_on(net, open);
        run(net, STOP + 1, ROUNDS);
        assert_int_equal(net_count(net, COUNTER(resyncs)), 0);
        assert_true(hash_of(net) == hash_of(whole));
        net_destroy(net);
    }
    printf("%zu of %d rounds were open\n", opened, MOMENTS * NODES);
    assert_true(opened > MOMENTS / 4);
    net_destroy(whole);
}

static void test_all_nodes_stop_and_go_on(void **state)
{
    (void)state;
    all_stop_and_go_on(link_all_at_once);
    all_stop_and_go_on(link_partners_first);
}

// One end opens the edge before the other knows of it, and has a request open: its question is repeated as
// soon as the other end opens it, too, not after a deadline.
static void test_the_end_that_opens_first_asks_again(void **state)
{
    struct net *net = fresh_net(true, net_seed(605));
    struct gossip_edge_info info;
    const uint64_t before_its_deadline = 40000000;
    size_t asker;

    (void)state;
    run(net, 1, STOP - 1);
    for (size_t i = 0; i < NODES; i++)
        net_round(net, i, STOP); // the first one of each pair has asked
    for (size_t i = 0; i < NODES; i++)
        unlink_all(net, i);
    size_t partner = topology_plan_partner(net->plan, 0, STOP);
    asker = 0 < partner ? 0 : partner;
    partner = asker == 0 ? partner : 0;
    net->up[asker * NODES + partner] = net->up[partner * NODES + asker] = true;
    net_tell(net, asker, GOSSIP_EXCHANGE_LINK_UP, partner);
    net_settle(net, before_its_deadline / 2); // it arrives at an end that has no edge, and is dropped
    assert_int_equal(net_edge(net, asker, partner, &info)->state, GOSSIP_EDGE_HELLO);
    net_tell(net, partner, GOSSIP_EXCHANGE_LINK_UP, asker);
    net_settle(net, before_its_deadline / 2);
    assert_int_equal(net_edge(net, asker, partner, &info)->state, GOSSIP_EDGE_LIVE);
    net_destroy(net);
}

static double sum_of(const struct net *net)
{
    double sum = 0;

    for (size_t i = 0; i < NODES; i++)
        for (size_t j = 0; j < D; j++)
            sum += (double)gossip_exchange_model(net->node[i].exchange)[j] * (double)(j % 7);
    return sum;
}

// One node stops at any moment while the others go on, and comes back.
static void one_stops(bool sync, uint64_t seed)
{
    for (uint64_t k = 0; k < MOMENTS; k++) {
        struct net *net = fresh_net(sync, seed + k);
        size_t stops = k % NODES;
        run(net, 1, STOP - 1);
        double sum = sum_of(net);
        for (size_t i = 0; i < NODES; i++)
            net_round(net, i, STOP);
        net_settle(net, k * 200000);
        gossip_exchange_freeze(net->node[stops].exchange);
        unlink_all(net, stops);
        bool open = stop_and_start(net, stops);
        net->node[stops].paused = true;
        for (uint64_t round = STOP + 1; round <= STOP + 3; round++) {
            net_settle(net, 60 * SECOND);
            for (size_t i = 0; i < NODES; i++)
                if (i != stops)
                    net_round(net, i, round);
        }
        net->node[stops].paused = false;
        net_link_all(net);
        if (open)
            net_round(net, stops, STOP);
        net_settle(net, 60 * SECOND);
        for (uint64_t round = STOP + 4; round <= ROUNDS; round++)
            net_round_all(net, round);
        assert_int_equal(net_count(net, COUNTER(resyncs)), 0);
        assert_true(net_references_match(net));
        assert_true(fabs(sum_of(net) - sum) < 1e-2);
        net_destroy(net);
    }
}

static void test_one_node_stops_and_comes_back(void **state)
{
    (void)state;
    one_stops(true, net_seed(602));
    one_stops(false, net_seed(603));
}

// A model that is not finite is not published: the trainer gets the published one back.
static void test_an_unusable_model_is_not_published(void **state)
{
    struct net *net = fresh_net(true, net_seed(604));
    float before[D];

    (void)state;
    run(net, 1, 10);
    memcpy(before, net->node[1].x, sizeof before);
    for (size_t j = 0; j < D; j++)
        net->node[1].x[j] = net->node[1].v[j] = NAN;
    net->node[1].unusable = true;
    for (size_t i = 0; i < NODES; i++)
        net_round(net, i, 11);
    assert_memory_equal(gossip_exchange_model(net->node[1].exchange), before, sizeof before);
    net_settle(net, 60 * SECOND);
    assert_memory_equal(gossip_exchange_model(net->node[1].exchange), net->node[1].x, sizeof before);
    net->node[1].unusable = false;
    run(net, 12, 20);
    for (size_t i = 0; i < NODES; i++)
        for (size_t j = 0; j < D; j++)
            assert_true(isfinite(net->node[i].x[j]) && isfinite(net->node[i].v[j]));
    assert_true(net_references_match(net));
    net_destroy(net);
}

// A rendezvous that only applies pending updates: it follows no steps.
static void collect(struct net *net, size_t node, uint64_t round)
{
    struct net_node *at = &net->node[node];
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_ROUND,
                                          .round = {.round = round,
                                                    .idle = true,
                                                    .model = at->x,
                                                    .second_moment = at->v,
                                                    .correction = at->correction}};

    at->in_round = true;
    at->round = round;
    assert_int_equal(net_step(net, node, &event), BASE_OK);
    assert_false(at->in_round);
}

// Such a rendezvous changes nothing: the round after it counts its steps, even if that is the first round,
// for which the rendezvous was.
static void test_a_rendezvous_without_steps_is_no_round(void **state)
{
    const uint64_t seed = net_seed(605);
    float x[2][NODES][D];

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct net *net = fresh_net(true, seed);
        for (uint64_t round = 1; round <= 12; round++) {
            if (k == 1 && round % 3 == 1)
                collect(net, round % NODES, round > 1 ? round - 1 : 1);
            run(net, round, round);
        }
        for (size_t i = 0; i < NODES; i++)
            memcpy(x[k][i], net->node[i].x, sizeof x[k][i]);
        net_destroy(net);
    }
    assert_memory_equal(x[0], x[1], sizeof x[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_nodes_stop_and_go_on),
        cmocka_unit_test(test_the_end_that_opens_first_asks_again),
        cmocka_unit_test(test_one_node_stops_and_comes_back),
        cmocka_unit_test(test_an_unusable_model_is_not_published),
        cmocka_unit_test(test_a_rendezvous_without_steps_is_no_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
