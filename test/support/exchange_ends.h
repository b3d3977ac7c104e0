// Two ends of an edge, the second one over any table of kernels, that go through rounds, broken links, a
// restart that leads to a RESYNC, and a death. The effect on the two ends must not depend on the table.
#ifndef TEST_SUPPORT_EXCHANGE_ENDS_H
#define TEST_SUPPORT_EXCHANGE_ENDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"
#include "gossip/exchange/state.h"
#include "test/support/cpu_kernels.h"
#include "test/support/exchange_net.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENDS_ROUNDS = 40, ENDS_CUT = 8, ENDS_AWAY = 14, ENDS_ANEW = 18, ENDS_DEATH = 30, ENDS_BACK = 34 };

struct ends_case {
    const char *name;
    size_t parameters;
    float ratio;
    enum kernels_format values;
    enum compress_method method;
    const char *filters;
    bool clip;
    unsigned moments; // share_second_moment
    bool async, stays, keeps;
    unsigned rounds; // 0: ENDS_ROUNDS
};

struct ends_trainer { // vectors of one end on the host; those of the node are in its table's memory
    const struct kernels *kernels;
    float *x, *v, *c;
};

struct ends {
    struct net *net;
    struct ends_trainer trainer[2];
    struct base_rng rng;
    uint64_t trace[ENDS_ROUNDS + 1]; // of all vectors of both ends, after each round
    uint64_t exchanges, resyncs, clipped;
};

static inline struct gossip_exchange_options ends_options(const struct ends_case *c)
{
    struct gossip_exchange_options options = {.ratio = c->ratio,
                                              .values = c->values,
                                              .selection = {.method = c->method, .seed = 5},
                                              .sync = !c->async,
                                              .max_delay = 4,
                                              .drift_correction = true,
                                              .drift_gain = 2,
                                              .drift_limit = 0.25f,
                                              .share_second_moment = c->moments,
                                              .robust = c->clip ? GOSSIP_ROBUST_CLIP : GOSSIP_ROBUST_OFF,
                                              .on_death =
                                                  c->keeps ? GOSSIP_ON_DEATH_KEEP : GOSSIP_ON_DEATH_FADE,
                                              .fade_rounds = 6,
                                              .deadline_floor_ns = 1000000000,
                                              .deadline_ceiling_ns = 4000000000};
    struct base_reason why;
    assert_int_equal(compress_filters_parse(c->filters ? c->filters : "", &options.filters, &why), BASE_OK);
    return options;
}

static inline float *ends_vector(const struct kernels *kernels, size_t count)
{
    float *vector = kernels->alloc(count * sizeof *vector);
    assert_non_null(vector);
    return vector;
}

// From now on `node` is a new exchange over its table.
static inline void ends_begin(struct ends *ends, size_t node)
{
    struct net_node *at = &ends->net->node[node];
    struct gossip_exchange *fresh;
    struct base_reason why = {""};

    at->options.kernels = ends->trainer[node].kernels;
    if (gossip_exchange_create(&at->options, &fresh, &why))
        fail_msg("%s", why.text);
    net_node_restart(ends->net, node, fresh);
}

static inline void ends_create(struct ends *ends, const struct ends_case *c, const struct kernels *table)
{
    const struct gossip_exchange_options options = ends_options(c);
    const size_t d = c->parameters;

    *ends = (struct ends){.trainer = {{.kernels = cpu_kernels()}, {.kernels = table}}};
    ends->net = net_create(2, d, TOPOLOGY_BUTTERFLY, 3, &options);
    ends->net->correction_stays = c->stays;
    base_rng_seed(&ends->rng, 11);
    for (size_t j = 0; j < d; j++)
        ends->net->start[j] = (float)base_rng_normal(&ends->rng);
    for (size_t i = 0; i < 2; i++) {
        struct net_node *at = &ends->net->node[i];
        struct ends_trainer *trainer = &ends->trainer[i];
        free(at->x);
        free(at->v);
        free(at->correction);
        at->x = ends_vector(trainer->kernels, d);
        at->v = c->moments ? ends_vector(trainer->kernels, d) : NULL;
        at->correction = ends_vector(trainer->kernels, d);
        trainer->x = calloc(3 * d, sizeof *trainer->x);
        assert_non_null(trainer->x);
        trainer->v = trainer->x + d;
        trainer->c = trainer->v + d;
        memcpy(trainer->x, ends->net->start, d * sizeof *trainer->x);
        ends_begin(ends, i);
    }
    net_link(ends->net, 0, 1);
    net_settle(ends->net, 1000000000);
}

static inline void ends_destroy(struct ends *ends)
{
    for (size_t i = 0; i < 2; i++) {
        struct net_node *at = &ends->net->node[i];
        const struct kernels *kernels = ends->trainer[i].kernels;
        kernels->release(at->x);
        kernels->release(at->v);
        kernels->release(at->correction);
        at->x = at->v = at->correction = NULL;
        free(ends->trainer[i].x);
    }
    net_destroy(ends->net);
}

// Local steps as a trainer takes them: with its correction.
static inline void ends_train(struct ends *ends, size_t node)
{
    const struct ends_trainer *t = &ends->trainer[node];
    const struct net_node *at = &ends->net->node[node];
    const size_t d = ends->net->parameters;
    const bool jumps = node == 0 && at->options.robust != GOSSIP_ROBUST_OFF &&
                       at->round % 8 == 5; // too far for the other end
    const float jump = jumps ? 1 : 0;

    for (size_t j = 0; j < d; j++) {
        const float draw = (float)base_rng_normal(&ends->rng), pull = node == 0 ? 0.02f : -0.02f;
        t->x[j] += jump + 0.1f * (t->c[j] + (j % 7 == 0 ? pull : 0)) + 0.01f * draw;
        t->v[j] = 0.9f * t->v[j] + 0.1f * draw * draw;
    }
    t->kernels->upload(at->x, t->x, d * sizeof *t->x);
    if (at->v)
        t->kernels->upload(at->v, t->v, d * sizeof *t->v);
}

static inline void ends_fetch(struct ends *ends, size_t node)
{
    const struct ends_trainer *t = &ends->trainer[node];
    const struct net_node *at = &ends->net->node[node];
    const size_t bytes = ends->net->parameters * sizeof(float);

    assert_false(at->in_round);
    t->kernels->download(t->x, at->x, bytes);
    if (at->v)
        t->kernels->download(t->v, at->v, bytes);
    t->kernels->download(t->c, at->correction, bytes);
}

static inline uint64_t ends_hash(const struct ends *ends, size_t node, const float *vector)
{
    return vector ? ends->trainer[node].kernels->apply->hash(vector, ends->net->parameters, 0, false) : 1;
}

// The hash of everything that an end has.
static inline uint64_t ends_state(const struct ends *ends, size_t node)
{
    const struct gossip_exchange *exchange = ends->net->node[node].exchange;
    const struct ends_trainer *t = &ends->trainer[node];
    uint64_t hash = base_hash_bytes(node, t->x, 3 * ends->net->parameters * sizeof *t->x);

    hash = base_hash_mix(hash ^ ends_hash(ends, node, gossip_exchange_model(exchange)));
    hash = base_hash_mix(hash ^ ends_hash(ends, node, gossip_exchange_second_moment(exchange)));
    hash = base_hash_mix(hash ^ ends_hash(ends, node, gossip_exchange_correction(exchange)));
    for (size_t i = 0; i < gossip_exchange_edges(exchange); i++) {
        struct gossip_edge_info info;
        gossip_exchange_edge_info(exchange, i, &info);
        hash = base_hash_mix(hash ^ ends_hash(ends, node, info.reference) ^ info.sequence);
        hash = base_hash_mix(hash ^ ends_hash(ends, node, info.correction) ^ info.epoch);
    }
    for (size_t i = 0; i < gossip_exchange_orphans(exchange); i++)
        hash = base_hash_mix(hash ^ ends_hash(ends, node, gossip_exchange_orphan_at(exchange, i).correction));
    return hash;
}

static inline void ends_agree(const struct ends *ends)
{
    struct gossip_edge_info a, b;

    if (!net_edge(ends->net, 0, 1, &a) || !net_edge(ends->net, 1, 0, &b) || a.state != GOSSIP_EDGE_LIVE ||
        b.state != GOSSIP_EDGE_LIVE)
        return;
    assert_int_equal(a.sequence, b.sequence);
    assert_true(ends_hash(ends, 0, a.reference) == ends_hash(ends, 1, b.reference));
}

static inline void ends_happens(struct ends *ends, unsigned round)
{
    switch (round) {
    case ENDS_CUT:
        net_unlink(ends->net, 0, 1);
        net_link(ends->net, 0, 1);
        break;
    case ENDS_AWAY:
        net_unlink(ends->net, 0, 1);
        break;
    case ENDS_ANEW: // it has forgotten its edge: RESYNC
        ends->net->node[0].options.round = round - 1;
        ends_begin(ends, 0);
        net_link(ends->net, 0, 1);
        break;
    case ENDS_DEATH: {
        struct gossip_exchange_event event = {
            .kind = GOSSIP_EXCHANGE_FORGET, .peer = net_id(0), .dead = true};
        net_unlink(ends->net, 0, 1);
        assert_int_equal(net_step(ends->net, 1, &event), BASE_OK);
        break;
    }
    case ENDS_BACK:
        net_link(ends->net, 0, 1);
        break;
    default:
        break;
    }
}

static inline void ends_round(struct ends *ends, unsigned round)
{
    ends_happens(ends, round);
    for (size_t i = 0; i < 2; i++)
        ends_train(ends, i);
    net_round_all(ends->net, round);
    for (size_t i = 0; i < 2; i++)
        ends_fetch(ends, i);
    ends_agree(ends);
    ends->trace[round] = base_hash_mix(ends_state(ends, 0) ^ base_hash_mix(ends_state(ends, 1)));
}

// The whole course.
static inline void ends_run(struct ends *ends, const struct ends_case *c, const struct kernels *table)
{
    struct gossip_exchange_totals totals;

    ends_create(ends, c, table);
    for (unsigned round = 1; round <= (c->rounds ? c->rounds : ENDS_ROUNDS); round++)
        ends_round(ends, round);
    gossip_exchange_totals(ends->net->node[1].exchange, &totals);
    ends->exchanges = totals.exchanges;
    ends->clipped = totals.clipped;
    ends->resyncs = net_count(ends->net, offsetof(struct gossip_edge_info, resyncs));
    ends_destroy(ends);
}

// Checks that the run has included what it should.
static inline void ends_compare(const struct ends_case *c, const struct kernels *table)
{
    static struct ends plain, other;
    const unsigned rounds = c->rounds ? c->rounds : ENDS_ROUNDS;

    ends_run(&plain, c, cpu_kernels());
    ends_run(&other, c, table);
    for (unsigned round = 1; round <= rounds; round++)
        if (plain.trace[round] != other.trace[round])
            fail_msg("%s: round %u, kernels '%s': the ends have other bits than over the CPU's", c->name,
                     round, table->name);
    assert_int_equal(plain.exchanges, other.exchanges);
    assert_true(plain.exchanges >= rounds / 2);
    assert_true(rounds < ENDS_ANEW || plain.resyncs > 0);
    assert_true(!c->clip || plain.clipped > 0);
    printf("%s: %llu exchanges, %llu RESYNCs, %llu clipped\n", c->name, (unsigned long long)plain.exchanges,
           (unsigned long long)plain.resyncs, (unsigned long long)plain.clipped);
}

#endif
