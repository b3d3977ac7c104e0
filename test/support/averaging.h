// Options and vectors for tests of the mathematics of the exchange.
#ifndef TEST_SUPPORT_AVERAGING_H
#define TEST_SUPPORT_AVERAGING_H

#include "test/support/exchange_net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define COUNTER(name) offsetof(struct gossip_edge_info, name)

static inline void assert_near(double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance))
        fail_msg("found %.9g, expected %.9g +- %g", found, expected, tolerance);
}

static inline struct gossip_exchange_options defaults(float ratio, enum kernels_format values)
{
    return (struct gossip_exchange_options){.ratio = ratio,
                                            .values = values,
                                            .sync = true,
                                            .drift_correction = false,
                                            .drift_gain = 3.0f,
                                            .drift_limit = 0.25f,
                                            .deadline_floor_ns = 100000000,
                                            .deadline_ceiling_ns = 1000000000};
}

// With the correction, nodes whose data pull them to different points agree much better than without.
enum { DRIFT_NODES = 8, DRIFT_SIZE = 320, DRIFT_STEPS = 4 };

struct drift {
    struct net *net;
    float target[DRIFT_NODES][DRIFT_SIZE];
    float rate;
};

static inline void drift_start(struct drift *drift, const struct gossip_exchange_options *options,
                               enum topology_kind kind, float rate, uint64_t seed)
{
    drift->net = net_create(DRIFT_NODES, DRIFT_SIZE, kind, seed, options);
    drift->rate = rate;
    drift->net->step_scale = rate * DRIFT_STEPS;
    for (size_t i = 0; i < DRIFT_NODES; i++)
        for (size_t j = 0; j < DRIFT_SIZE; j++)
            drift->target[i][j] = 3 * (float)base_rng_normal(&drift->net->rng);
    net_link_all(drift->net);
}

// Local steps of one round on |x - target|^2 / 2; noisy: with noise as of small batches.
static inline void drift_train(struct drift *drift, size_t node, bool noisy)
{
    struct net_node *at = &drift->net->node[node];

    for (int h = 0; h < DRIFT_STEPS; h++)
        for (size_t j = 0; j < DRIFT_SIZE; j++)
            at->x[j] -= drift->rate * (at->x[j] - drift->target[node][j] - at->correction[j] +
                                       (noisy ? (float)base_rng_normal(&drift->net->rng) : 0));
}

#endif
