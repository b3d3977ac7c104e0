// Nets of sync nodes whose rounds wait, for test_gossip_exchange_alone.c and test_gossip_exchange_goes_on.c.
#ifndef TEST_EXCHANGE_ALONE_H
#define TEST_EXCHANGE_ALONE_H

#include "exchange_cases.h"

enum { D = 200, CEILING_MS = 1000 };

#define MS 1000000ull

static inline struct net *net_of(size_t nodes, uint64_t seed)
{
    struct net *net = linked_net(nodes, D, true, seed);

    for (size_t i = 0; i < nodes; i++)
        net->node[i].others = true;
    return net;
}

static inline void round_lasts(struct net *net, size_t node, uint64_t least_ms, uint64_t most_ms)
{
    uint64_t begun_ns = net->now_ns;

    while (net->node[node].in_round) {
        assert_true(net->now_ns - begun_ns <= 10 * SECOND);
        net_settle(net, MS / 4);
        net->now_ns += MS / 4;
    }
    assert_in_range(net->now_ns - begun_ns, least_ms * MS, (most_ms + 1) * MS);
}

// Node `node` receives a CLOCK of any kind from `from`.
static inline void hears(struct net *net, size_t node, size_t from, uint64_t round, uint8_t why)
{
    struct gossip_message clock = {.kind = GOSSIP_CLOCK, .as.clock = {.round = round, .why = why}};
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(from), .message = &clock};

    assert_int_equal(net_step(net, node, &event), BASE_OK);
}

static inline void latest_clock(struct net *net, size_t node, const struct gossip_exchange_event *event,
                                const struct gossip_exchange_actions *actions)
{
    uint64_t *latest = net->watcher;

    (void)event;
    for (size_t i = 0; i < actions->count && node == 0; i++)
        if (actions->list[i].kind == GOSSIP_EXCHANGE_SEND && actions->list[i].message.kind == GOSSIP_CLOCK)
            *latest = actions->list[i].message.as.clock.round;
}

#endif
