// Nets of sync nodes whose rounds wait.
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

#endif
