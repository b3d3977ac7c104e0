// Both ends ask at once: each request answers the other, so that an exchange takes as long as one packet.
// What is lost of it is replayed as any other answer.
#include "exchange_cases.h"

#include <math.h>
#include <stdio.h>

enum { D = 600, DELAY_MS = 10 };

#define MS 1000000ull

static struct net *net_of(bool sync, uint64_t seed)
{
    struct gossip_exchange_options options = defaults(sync);
    struct net *net = net_create(2, D, TOPOLOGY_RING, seed, &options);

    net_link_all(net);
    for (size_t i = 0; i < 2; i++)
        net->node[i].others = true;
    net_settle(net, SECOND);
    return net;
}

static void meet(struct net *net, size_t node, uint64_t round, float weight)
{
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_ROUND};

    event.round.round = round;
    event.round.meets = true;
    event.round.partner = net_id(1 - node);
    event.round.weight = weight;
    event.round.others = true;
    event.round.step_scale = net->step_scale;
    event.round.model = net->node[node].x;
    event.round.correction = net->node[node].correction;
    assert_int_equal(net_step(net, node, &event), BASE_OK);
}

static uint64_t counter(const struct net *net, size_t node, size_t offset)
{
    struct gossip_edge_info info;
    uint64_t value;

    assert_non_null(net_edge(net, node, 1 - node, &info));
    memcpy(&value, (const char *)&info + offset, sizeof value);
    return value;
}

static void sums_of(const struct net *net, double *sum)
{
    for (size_t j = 0; j < D; j++)
        sum[j] = (double)net->node[0].x[j] + (double)net->node[1].x[j];
}

static void test_an_exchange_takes_as_long_as_one_packet(void **state)
{
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        struct net *net = net_of(sync, net_seed(1101));
        net_round_all(net, 1); // the ends have heard of each other
        net->delay_ns = DELAY_MS * MS;
        const uint64_t begun_ns = net->now_ns;
        for (uint64_t round = 2; round <= 101; round++) {
            change_model(net, 0);
            change_model(net, 1);
            net_round_all(net, round);
        }
        printf("%.1f ms a round, %d ms one way\n", (double)(net->now_ns - begun_ns) / 1e8, DELAY_MS);
        assert_true(net->now_ns - begun_ns < 110 * DELAY_MS * MS);
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(counter(net, i, COUNTER(exchanges)), 101);
            assert_in_range(counter(net, i, COUNTER(crossings)), 99, 101);
            assert_int_equal(counter(net, i, COUNTER(busy)), 0);
        }
        assert_true(net_references_match(net));
        net_destroy(net);
    }
}

// The end that has both packets is one ahead; what it sent is its answer now.
static void test_a_request_that_was_lost_is_replayed_as_an_answer(void **state)
{
    (void)state;
    for (size_t loser = 0; loser < 2; loser++) {
        double before[D], after[D];
        struct net *net = net_of(true, net_seed(1102));
        net_round_all(net, 1);
        change_model(net, 0);
        change_model(net, 1);
        sums_of(net, before);
        net->delay_ns = DELAY_MS * MS;
        meet(net, loser, 2, 0.5f); // its request arrives
        net->delay_ns = 2 * DELAY_MS * MS;
        meet(net, 1 - loser, 2, 0.5f); // its own does not
        net_settle(net, DELAY_MS * MS + MS);
        assert_int_equal(counter(net, 1 - loser, COUNTER(exchanges)), 2);
        assert_int_equal(counter(net, loser, COUNTER(exchanges)), 1);
        net_unlink(net, 0, 1);
        net_link(net, 0, 1);
        net_settle(net, SECOND);
        assert_int_equal(counter(net, 1 - loser, COUNTER(replays)), 1);
        assert_int_equal(net_count(net, COUNTER(exchanges)), 4);
        assert_int_equal(net_count(net, COUNTER(resyncs)), 0);
        assert_true(net_references_match(net));
        net_round_all(net, 3); // updates that came late are in
        sums_of(net, after);
        for (size_t j = 0; j < D; j++)
            assert_true(fabs(after[j] - before[j]) < 1e-5 * (1 + fabs(before[j])));
        net_destroy(net);
    }
}

// The two views differ for a moment: the end with the lower id decides, also for a replay.
static void test_the_weight_is_that_of_the_lower_id(void **state)
{
    (void)state;
    for (unsigned lost = 0; lost < 2; lost++) {
        double before[D], after[D];
        struct net *net = net_of(true, net_seed(1103));
        net_round_all(net, 1);
        change_model(net, 0);
        change_model(net, 1);
        sums_of(net, before);
        net->delay_ns = DELAY_MS * MS;
        meet(net, 1, 2, 0.5f);
        net->delay_ns *= 1 + lost;
        meet(net, 0, 2, 0.3f);
        net_settle(net, DELAY_MS * MS + MS);
        if (lost) {
            net_unlink(net, 0, 1);
            net_link(net, 0, 1);
        }
        net_settle(net, SECOND);
        assert_int_equal(net_count(net, COUNTER(exchanges)), 4);
        net_round_all(net, 3);
        sums_of(net, after);
        for (size_t j = 0; j < D; j++)
            assert_true(fabs(after[j] - before[j]) < 1e-5 * (1 + fabs(before[j])));
        assert_true(net_references_match(net));
        net_destroy(net);
    }
}

// Two rounds, two slices of the second moments: neither end changes its own.
static void test_requests_of_different_rounds_share_no_second_moments(void **state)
{
    struct gossip_exchange_options options = defaults(true);

    (void)state;
    options.share_second_moment = 4;
    for (uint64_t apart = 0; apart < 2; apart++) {
        struct net *net = net_create(2, D, TOPOLOGY_RING, net_seed(1104), &options);
        net_link_all(net);
        for (size_t i = 0; i < 2; i++)
            for (size_t j = 0; j < D; j++)
                net->node[i].v[j] = (float)(1 + i);
        net_round_all(net, 1);
        net_round_all(net, 2);
        const uint64_t crossings = counter(net, 0, COUNTER(crossings));
        float before[D], changed = 0;
        memcpy(before, net->node[0].v, sizeof before);
        net->delay_ns = DELAY_MS * MS;
        net_round(net, 0, 3);
        net_round(net, 1, 3 + apart);
        net_settle(net, SECOND);
        assert_int_equal(counter(net, 0, COUNTER(crossings)), crossings + 1);
        for (size_t j = 0; j < D; j++)
            changed = fmaxf(changed, fabsf(net->node[0].v[j] - before[j]));
        assert_true(apart ? changed == 0 : changed > 0.1f);
        assert_true(net_references_match(net));
        net_destroy(net);
    }
}

static void count_requests(struct net *net, size_t node, const struct gossip_exchange_event *event,
                           const struct gossip_exchange_actions *actions)
{
    unsigned *requests = net->watcher;

    (void)event;
    for (size_t i = 0; i < actions->count; i++)
        *requests += node == 1 && actions->list[i].kind == GOSSIP_EXCHANGE_SEND &&
                     actions->list[i].message.kind == GOSSIP_XCHG;
}

// Sync: BUSY says that the partner cannot answer now. The node asks again, later each time, and after some
// refusals the round goes on without the exchange.
static void test_a_node_that_is_refused_asks_again_a_few_times(void **state)
{
    struct net *net = net_of(true, net_seed(1105));
    unsigned requests = 0;
    struct gossip_edge_info info;
    uint64_t latest_ns = 0, pause_ns = 0;

    (void)state;
    net_round_all(net, 1);
    net->watch = count_requests;
    net->watcher = &requests;
    net->node[0].paused = true;
    net_round(net, 1, 2);
    for (unsigned refused = 1; net->node[1].in_round; refused++) {
        assert_int_equal(requests, refused);
        assert_in_range(requests, 1, 20);
        assert_true(refused < 3 || refused > 6 || net->now_ns - latest_ns > pause_ns);
        pause_ns = refused < 2 ? 0 : net->now_ns - latest_ns;
        latest_ns = net->now_ns;
        assert_non_null(net_edge(net, 1, 0, &info));
        struct gossip_message busy = {.kind = GOSSIP_BUSY,
                                      .as.busy = {.epoch = info.epoch, .sequence = info.sequence}};
        struct gossip_exchange_event event = {
            .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(0), .message = &busy};
        assert_int_equal(net_step(net, 1, &event), BASE_OK);
        while (net->node[1].in_round && requests == refused && net->now_ns - latest_ns < SECOND) {
            net_settle(net, SECOND / 8000);
            net->now_ns += SECOND / 8000;
        }
    }
    assert_in_range(requests, 3, 20);
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_exchange_takes_as_long_as_one_packet),
        cmocka_unit_test(test_a_request_that_was_lost_is_replayed_as_an_answer),
        cmocka_unit_test(test_the_weight_is_that_of_the_lower_id),
        cmocka_unit_test(test_requests_of_different_rounds_share_no_second_moments),
        cmocka_unit_test(test_a_node_that_is_refused_asks_again_a_few_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
