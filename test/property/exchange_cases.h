// What the tests of single rules of the exchange share: a few linked nodes under virtual time.
#ifndef TEST_PROPERTY_EXCHANGE_CASES_H
#define TEST_PROPERTY_EXCHANGE_CASES_H

#include "test/support/exchange_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNTER(name) offsetof(struct gossip_edge_info, name)
#define SECOND        1000000000ull

static inline struct gossip_exchange_options defaults(bool sync)
{
    return (struct gossip_exchange_options){.ratio = 0.1f,
                                            .values = KERNELS_INT8,
                                            .sync = sync,
                                            .drift_correction = true,
                                            .drift_gain = 3.0f,
                                            .drift_limit = 0.25f,
                                            .deadline_floor_ns = SECOND / 10,
                                            .deadline_ceiling_ns = SECOND};
}

static inline struct net *linked_net(size_t nodes, size_t parameters, bool sync, uint64_t seed)
{
    struct gossip_exchange_options options = defaults(sync);
    struct net *net = net_create(nodes, parameters, TOPOLOGY_BUTTERFLY, seed, &options);

    net_link_all(net);
    for (size_t i = 0; i < nodes; i++)
        for (size_t j = 0; j < parameters; j++)
            net->node[i].x[j] = (float)base_rng_normal(&net->rng);
    return net;
}

// Whether a message is refused, and nothing else in the same step. Its link stays, as far as the test knows.
static inline bool net_refuses(struct net *net, size_t node, struct gossip_exchange_event *event,
                               enum gossip_refusal why)
{
    BASE_ASSERT(net->n_refusals == 0 && !net_step(net, node, event));
    const struct net_refusal *first = &net->refusal[0];
    const bool refuses = net->n_refusals == 1 && first->by == node && first->why == why &&
                         first->peer == net_index(&event->peer);
    net->n_refusals = 0;
    return refuses;
}

static inline void change_model(struct net *net, size_t node)
{
    for (size_t j = 0; j < net->parameters; j++)
        net->node[node].x[j] += (float)base_rng_normal(&net->rng);
}

static inline void begin_round(struct net *net, size_t node, const size_t *partner, uint64_t round)
{
    struct net_node *at = &net->node[node];
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_ROUND};

    change_model(net, node);
    event.round.round = round;
    event.round.meets = partner != NULL;
    event.round.partner = net_id(partner ? *partner : node);
    event.round.step_scale = net->step_scale;
    event.round.model = at->x;
    event.round.correction = at->correction;
    assert_int_equal(net_step(net, node, &event), BASE_OK);
}

static inline void ask(struct net *net, size_t node, size_t partner, uint64_t round)
{
    begin_round(net, node, &partner, round);
}

static inline void meets_again(struct net *net, size_t at, size_t neighbour)
{
    net_tell(net, at, GOSSIP_EXCHANGE_LINK_DOWN, neighbour);
    net_tell(net, at, GOSSIP_EXCHANGE_LINK_UP, neighbour);
}

// Nodes 0 and 1 ask each other. Then node 0, which has received nothing yet, asks no more and compares states
// again, so that it will refuse the request of node 1.
static inline void cross(struct net *net, uint64_t round)
{
    net->node[0].paused = true;
    ask(net, 1, 0, round);
    ask(net, 0, 1, round);
    begin_round(net, 0, NULL, round + 1);
    meets_again(net, 0, 1);
}

// Node 1 has withdrawn its request in favour of node 0's, but could not answer that one. Its next request has
// the same sequence number, and node 0's answer to the withdrawn one must not refuse it.
static inline void check_crossed(struct net *net, uint64_t round)
{
    struct gossip_edge_info info[2];

    net_settle(net, SECOND / 100);
    ask(net, 1, 0, round + 2);
    net->node[0].paused = false;
    net_settle(net, SECOND);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(net_edge(net, i, 1 - i, &info[i])->state, GOSSIP_EDGE_LIVE);
    assert_int_equal(info[0].sequence, info[1].sequence);
    assert_int_equal(net_count(net, COUNTER(mismatches)) + net_count(net, COUNTER(resyncs)), 0);
    assert_true(net_references_match(net));
}

#endif
