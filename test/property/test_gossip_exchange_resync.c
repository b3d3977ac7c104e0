// RESYNC over slow links: its payload crosses once, whatever else goes on; it takes the time of its bytes;
// after a broken link it continues where it was.
#include "exchange_cases.h"

#include <stdio.h>

enum { NODES = 6, D = 25000, LATE = 2000, STEP_NS = 50000000 };

#define MEGABIT (1000000 / 8)

struct blocks {
    uint64_t bytes[NODES]; // of blocks that left a node
    size_t largest;
};

static void count_blocks(struct net *net, size_t node, const struct gossip_exchange_event *event,
                         const struct gossip_exchange_actions *actions)
{
    struct blocks *blocks = net->watcher;

    (void)event;
    for (size_t i = 0; i < actions->count; i++) {
        const struct gossip_message *message = &actions->list[i].message;
        if (actions->list[i].kind != GOSSIP_EXCHANGE_SEND ||
            (message->kind != GOSSIP_XCHG && message->kind != GOSSIP_XACK) ||
            message->as.exchange.form != GOSSIP_DELTA_BLOCK)
            continue;
        blocks->bytes[node] += message->as.exchange.delta_bytes;
        if (message->as.exchange.delta_bytes > blocks->largest)
            blocks->largest = message->as.exchange.delta_bytes;
    }
}

static struct net *slow_net(size_t nodes, uint64_t bandwidth, struct blocks *blocks, uint64_t seed)
{
    struct gossip_exchange_options options = defaults(true);

    options.ratio = 0.01f;
    options.deadline_floor_ns = SECOND;
    options.deadline_ceiling_ns = 10 * SECOND;
    struct net *net = net_create(nodes, D, TOPOLOGY_RING, seed, &options);
    net->delay_ns = 20000000; // 20 ms
    net->bandwidth = bandwidth;
    net->watch = count_blocks;
    net->watcher = blocks;
    for (size_t i = 0; i < nodes; i++) {
        net->node[i].others = true;
        change_model(net, i);
    }
    return net;
}

// All nodes train and meet for `seconds`; a node in `late` has an edge that begins long after the start.
static void run(struct net *net, uint64_t seconds)
{
    uint64_t end_ns = net->now_ns + seconds * SECOND;

    while (net->now_ns < end_ns) {
        for (size_t i = 0; i < net->nodes; i++)
            if (!net->node[i].in_round)
                net_round(net, i, net->node[i].round + 1);
        net->now_ns += 0;
        net_settle(net, STEP_NS);
    }
}

// One edge and nothing else: the two blocks of each turn follow one another.
static void test_a_resync_takes_the_time_of_its_bytes(void **state)
{
    static const uint64_t rates[] = {MEGABIT / 10, MEGABIT, 10 * MEGABIT, 1000 * MEGABIT};

    (void)state;
    for (size_t k = 0; k < sizeof rates / sizeof *rates; k++) {
        struct blocks blocks = {0};
        struct net *net = slow_net(2, rates[k], &blocks, net_seed(501));
        struct gossip_edge_info info = {0};
        for (size_t i = 0; i < 2; i++) {
            net->node[i].others = false;
            net_round(net, i, LATE);
        }
        uint64_t begun_ns = net->now_ns;
        net_link(net, 0, 1);
        while (net_edge(net, 0, 1, &info)->state != GOSSIP_EDGE_LIVE)
            net_settle(net, SECOND / 1000);
        double took = (double)(net->now_ns - begun_ns) / 1e9, bytes = 8.0 * D,
               least = bytes / (double)rates[k];
        printf("%llu bytes/s: %.2f s, %.2f s of bytes, blocks of up to %zu bytes\n",
               (unsigned long long)rates[k], took, least, blocks.largest);
        assert_int_equal(blocks.bytes[0] + blocks.bytes[1], 8 * D);
        assert_true(took <= 1.5 * least + 0.5); // a few times the latency
        assert_int_equal(net_count(net, COUNTER(timeouts)), 0);
        assert_true(net_references_match(net));
        net_destroy(net);
    }
}

// A node comes late to a ring of others that train in step over slow links: no block crosses twice, and no
// node does rounds alone meanwhile.
static void check_that_no_block_crosses_twice(bool others)
{
    struct blocks blocks = {0};
    struct net *net = slow_net(NODES, MEGABIT, &blocks, net_seed(502));
    struct gossip_edge_info info;
    uint64_t least = UINT64_MAX, most = 0;

    for (size_t i = 0; i < NODES; i++)
        net->node[i].others = others; // else they meet others while the blocks are under way
    for (size_t i = 1; i + 1 < NODES; i++)
        net_link(net, i, i + 1);
    net_settle(net, SECOND);
    for (size_t i = 0; i < NODES; i++)
        net->node[i].round = LATE;
    net->node[0].in_round = true; // not there yet
    run(net, 20);
    assert_int_equal(blocks.bytes[1] + blocks.bytes[0], 0);
    net->node[0].in_round = false;
    net->node[0].round = net->node[1].round;
    net_round(net, 0, ++net->node[0].round);
    net_link(net, 0, 1);
    net_link(net, 0, NODES - 1);
    uint64_t sum = 0, begun_ns = net->now_ns;
    while (net_edge(net, 0, 1, &info)->state != GOSSIP_EDGE_LIVE ||
           net_edge(net, 0, NODES - 1, &info)->state != GOSSIP_EDGE_LIVE) {
        run(net, 1);
        assert_true(net->now_ns - begun_ns < 30 * SECOND);
    }
    for (size_t i = 0; i < NODES; i++)
        sum += blocks.bytes[i];
    printf("two edges in %.1f s, %.1f s of bytes\n", (double)(net->now_ns - begun_ns) / 1e9,
           2 * 8.0 * D / MEGABIT);
    assert_int_equal(sum, 2 * 8 * D);
    assert_true((double)(net->now_ns - begun_ns) / 1e9 <= 1.5 * 2 * 8.0 * D / MEGABIT + 2);
    run(net, 30);
    for (size_t i = 0; i < NODES; i++) {
        least = net->node[i].round < least ? net->node[i].round : least;
        most = net->node[i].round > most ? net->node[i].round : most;
    }
    assert_in_range(most - least, 0, others ? 2 : UINT64_MAX);
    assert_true(net_references_match(net));
    net_destroy(net);
}

static void test_no_block_crosses_twice(void **state)
{
    (void)state;
    check_that_no_block_crosses_twice(true);
    check_that_no_block_crosses_twice(false);
}

// The link breaks many times, at any moment.
static void test_a_resync_continues_where_it_was(void **state)
{
    struct blocks blocks = {0};
    struct net *net = slow_net(2, 4 * MEGABIT, &blocks, net_seed(503));
    struct gossip_edge_info info;
    uint64_t offset = 0;
    size_t breaks = 0;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        net->node[i].others = false;
        net_round(net, i, LATE);
    }
    net_link(net, 0, 1);
    for (;; breaks++) {
        net_settle(net, SECOND / 10 + base_rng_below(&net->rng, SECOND / 3));
        if (net_edge(net, 0, 1, &info)->state == GOSSIP_EDGE_LIVE)
            break;
        net_unlink(net, 0, 1);
        net->node[0].free_ns = net->node[1].free_ns = 0;
        net_link(net, 0, 1);
        assert_true(breaks < 40);
        assert_true(info.resync_offset >= offset);
        offset = info.resync_offset;
    }
    uint64_t sum = blocks.bytes[0] + blocks.bytes[1];
    printf("%zu breaks: %llu bytes, %d of one that is not broken\n", breaks, (unsigned long long)sum, 8 * D);
    assert_true(breaks > 0);
    assert_int_equal(net_count(net, COUNTER(resyncs)), 2);
    assert_in_range(sum, 8 * D, 8 * D + 2 * breaks * blocks.largest);
    assert_true(net_references_match(net));
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_resync_takes_the_time_of_its_bytes),
        cmocka_unit_test(test_no_block_crosses_twice),
        cmocka_unit_test(test_a_resync_continues_where_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
