// Async: where an exchange takes longer than a round, every round still has its exchange, and little is sent
// in vain. No node waits for the steps of another, nor for long for one that does not answer.
#include "exchange_cases.h"

#include <stdio.h>

enum { D = 2000, NODES = 6, ROUND_MS = 2, SLOW_MS = 6 };

#define MS 1000000ull

static struct net *slow_net(bool bounded, uint64_t seed)
{
    struct gossip_exchange_options options = defaults(false);

    options.max_delay = 4;
    options.bounded = bounded;
    options.ratio = 0.25f;
    struct net *net = net_create(NODES, D, TOPOLOGY_RING, seed, &options);
    for (size_t i = 0; i < NODES; i++)
        net->node[i].others = true;
    net_link_all(net);
    return net;
}

// Node i reaches a boundary paces[i] ms after it left the one before.
static void train(struct net *net, const unsigned *paces, unsigned ms)
{
    uint64_t due_ns[NODES] = {0};
    bool steps[NODES] = {false};

    for (unsigned k = 0; k < 4 * ms; k++) {
        for (size_t i = 0; i < NODES; i++) {
            if (net->node[i].paused || net->node[i].in_round)
                continue;
            if (!steps[i])
                due_ns[i] = net->now_ns + paces[i] * MS;
            steps[i] = true;
            if (net->now_ns < due_ns[i])
                continue;
            steps[i] = false;
            change_model(net, i);
            net_round(net, i, net->node[i].round + 1);
        }
        net_settle(net, MS / 8);
        net->now_ns += MS / 4;
    }
}

static const unsigned alike[NODES] = {ROUND_MS, ROUND_MS, ROUND_MS, ROUND_MS, ROUND_MS, ROUND_MS};
static const unsigned one_slow[NODES] = {ROUND_MS, ROUND_MS, ROUND_MS, SLOW_MS, ROUND_MS, ROUND_MS};

static uint64_t exchanges_of(const struct net *net, size_t node)
{
    struct gossip_exchange_totals totals;

    gossip_exchange_totals(net->node[node].exchange, &totals);
    return totals.exchanges;
}

// Packets of exchanges that counted, and all that were sent.
static double sent_in_vain(const struct net *net)
{
    struct gossip_exchange_totals totals;
    uint64_t counted = 0, sent = 0;

    for (size_t i = 0; i < NODES; i++) {
        gossip_exchange_totals(net->node[i].exchange, &totals);
        counted += totals.delta_bytes_out;
        sent += net->node[i].payload_out;
    }
    return (double)sent / (double)counted - 1;
}

// A packet takes several rounds on the wire. Both ends send theirs at once.
static void test_each_round_has_its_exchange(void **state)
{
    (void)state;
    for (int bounded = 0; bounded < 2; bounded++) {
        struct net *net = slow_net(bounded, net_seed(1001));
        train(net, alike, 20);
        net->bandwidth = 150000;
        train(net, alike, 6000);
        for (size_t i = 0; i < NODES; i++) {
            printf("node %zu: %llu rounds, %llu exchanges\n", i, (unsigned long long)net->node[i].rounds_done,
                   (unsigned long long)exchanges_of(net, i));
            assert_in_range(net->node[i].rounds_done, 1500, 2500);
            assert_in_range(exchanges_of(net, i), net->node[i].rounds_done * 9 / 10,
                            net->node[i].rounds_done * 11 / 10 + 2);
        }
        printf("%.3f of the packets sent in vain\n", sent_in_vain(net));
        assert_true(sent_in_vain(net) < 0.02);
        assert_true(net_references_match(net));
        net_destroy(net);
    }
}

// The links become slow before any end has had an answer.
static void test_requests_that_cross_are_not_sent_in_vain(void **state)
{
    (void)state;
    for (int bounded = 0; bounded < 2; bounded++) {
        struct net *net = slow_net(bounded, net_seed(1006));
        net_settle(net, SECOND / 100);
        net->bandwidth = 150000;
        train(net, alike, 6000);
        printf("%.3f of the packets sent in vain\n", sent_in_vain(net));
        assert_true(sent_in_vain(net) < 0.02);
        net_destroy(net);
    }
}

// The neighbours of a node ask it while it takes its steps.
static void test_no_node_waits_for_the_steps_of_another(void **state)
{
    uint64_t rounds[2];

    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        struct net *net = slow_net(false, net_seed(1002));
        net->delay_ns = MS / 4;
        train(net, slow ? one_slow : alike, 3000);
        rounds[slow] = net->node[2].rounds_done;
        printf("rounds of a neighbour: %llu\n", (unsigned long long)rounds[slow]);
        assert_true(!slow || net->node[3].rounds_done < rounds[slow] / 2);
        net_destroy(net);
    }
    assert_true(rounds[1] * 100 >= rounds[0] * 95);
}

// A neighbour that is stopped costs a deadline; the others then meet without it.
static void test_a_stopped_neighbour_is_waited_for_once(void **state)
{
    struct net *net = slow_net(false, net_seed(1003));

    (void)state;
    train(net, alike, 200);
    const uint64_t before = net->node[0].rounds_done;
    net->node[1].paused = true;
    train(net, alike, 2000);
    printf("%llu rounds beside a stopped neighbour\n",
           (unsigned long long)(net->node[0].rounds_done - before));
    assert_true(net->node[0].rounds_done - before > 400);
    net_destroy(net);
}

static void refuse(struct net *net, size_t node, const struct gossip_exchange_event *event,
                   const struct gossip_exchange_actions *actions)
{
    struct gossip_message *busy = net->watcher;

    (void)event;
    for (size_t i = 0; i < actions->count && node == 0; i++) {
        const struct gossip_message *sent = &actions->list[i].message;
        if (actions->list[i].kind != GOSSIP_EXCHANGE_SEND || sent->kind != GOSSIP_XCHG ||
            net_index(&actions->list[i].peer) != 1)
            continue;
        *busy = (struct gossip_message){
            .kind = GOSSIP_BUSY,
            .as.busy = {.epoch = sent->as.exchange.epoch, .sequence = sent->as.exchange.sequence}};
    }
}

// Node 1 refuses every request: the rounds meet another neighbour meanwhile.
static void test_a_neighbour_that_always_refuses_holds_up_no_round(void **state)
{
    struct gossip_message busy = {.kind = GOSSIP_GREETING};
    struct net *net = slow_net(false, net_seed(1004));
    unsigned long_rounds = 0;

    (void)state;
    train(net, alike, 200);
    net->watch = refuse;
    net->watcher = &busy;
    net->node[1].paused = true;
    for (unsigned k = 0; k < 400; k++) {
        const uint64_t begun_ns = net->now_ns;
        net_round(net, 0, net->node[0].round + 1);
        do {
            net_settle(net, MS / 4);
            net->now_ns += MS / 4;
            struct gossip_message answer = busy;
            struct gossip_exchange_event event = {
                .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(1), .message = &answer};
            busy.kind = GOSSIP_GREETING;
            if (answer.kind == GOSSIP_BUSY)
                assert_int_equal(net_step(net, 0, &event), BASE_OK);
        } while (net->node[0].in_round || net->now_ns - begun_ns < ROUND_MS * MS);
        long_rounds += net->now_ns - begun_ns > 40 * MS;
    }
    printf("%u of 400 rounds waited for a neighbour that refuses\n", long_rounds);
    assert_in_range(long_rounds, 0, 8);
    net_destroy(net);
}

// Node 0 has asked node 1 and has no answer yet. Node 2 asks, in the same round or ahead: it is answered at
// once.
static void test_a_node_that_asks_answers_others(void **state)
{
    (void)state;
    for (uint64_t round = 1; round <= 5; round += 4) {
        struct gossip_exchange_options options = defaults(false);
        struct net *net = net_create(3, D, TOPOLOGY_RING, net_seed(1005), &options);
        const size_t zero = 0, one = 1;
        net_link_all(net);
        net_settle(net, SECOND / 100);
        net->node[1].paused = true;
        begin_round(net, 0, &one, 1);
        begin_round(net, 2, &zero, round);
        net_settle(net, SECOND / 1000);
        assert_int_equal(exchanges_of(net, 2), 1);
        assert_int_equal(net_count(net, COUNTER(busy)), 0);
        net->node[1].paused = false;
        net_settle(net, SECOND / 10);
        assert_int_equal(exchanges_of(net, 0), 2);
        net_destroy(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_round_has_its_exchange),
        cmocka_unit_test(test_requests_that_cross_are_not_sent_in_vain),
        cmocka_unit_test(test_no_node_waits_for_the_steps_of_another),
        cmocka_unit_test(test_a_stopped_neighbour_is_waited_for_once),
        cmocka_unit_test(test_a_neighbour_that_always_refuses_holds_up_no_round),
        cmocka_unit_test(test_a_node_that_asks_answers_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
