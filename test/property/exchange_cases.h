// What the tests of single rules of the exchange share: two nodes or a few, linked, under virtual time.
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

static inline void change_model(struct net *net, size_t node)
{
    for (size_t j = 0; j < net->parameters; j++)
        net->node[node].x[j] += (float)base_rng_normal(&net->rng);
}

#endif
