// How far an update over one edge may go: its limit, by progress, by looks, and by what else is known of the
// edge (gossip/exchange/RULES.md).
#include "exchange_cases.h"
#include "gossip/exchange/clip.h"
#include "gossip/exchange/state.h"
#include "test/support/cpu_kernels.h"

#include <math.h>
#include <stdlib.h>

static struct gossip_exchange *alone(size_t parameters, bool drift, float *start)
{
    struct gossip_exchange_options options = defaults(true);
    struct gossip_exchange *exchange;
    struct base_reason why = {""};

    options.self = net_id(0);
    options.kernels = cpu_kernels();
    options.parameters = parameters;
    options.start = start;
    options.robust = GOSSIP_ROBUST_CLIP;
    options.drift_correction = drift;
    if (gossip_exchange_create(&options, &exchange, &why))
        fail_msg("%s", why.text);
    return exchange;
}

// The only edge; the reach is GOSSIP_CLIP_TIMES.
static struct gossip_edge *edge_of_reach(struct gossip_exchange *exchange)
{
    struct gossip_edge *edge;

    assert_int_equal(gossip_edge_add(exchange, &(struct gossip_id){{2}}, &edge), BASE_OK);
    exchange->lately = 0.5f;
    exchange->clip.energy = 4;
    return edge;
}

// The part of an update of this norm that is applied, where the other end has no limit of its own.
static float of_packet(struct gossip_exchange *exchange, struct gossip_edge *edge, double norm)
{
    const float most = gossip_clip_limit(exchange, edge, GOSSIP_PRESENT, (struct gossip_run){0, 0});
    return gossip_clip_packet(exchange, edge, (double)most, norm);
}

static float of_block(struct gossip_exchange *exchange, struct gossip_edge *edge, double norm, bool first)
{
    const struct gossip_run block = {first ? 0 : 1, 1};
    const float most = gossip_clip_limit(exchange, edge, GOSSIP_PRESENT, block);
    return gossip_clip_block(exchange, edge, (double)most, norm, first);
}

static bool spares(struct gossip_exchange *exchange, struct gossip_edge *edge, double norm)
{
    const float most = gossip_clip_limit(exchange, edge, GOSSIP_PRESENT, (struct gossip_run){0, 0});
    return gossip_clip_spares(exchange, edge, (double)most, norm);
}

// All updates of a neighbour in a round count together; blocks of a RESYNC are parts of one vector.
static void test_the_limit_is_that_of_a_round_and_neighbour(void **state)
{
    float start[1] = {0};
    struct gossip_exchange *exchange = alone(1, false, start);
    struct gossip_edge *edge;

    (void)state;
    assert_int_equal(gossip_edge_add(exchange, &(struct gossip_id){{2}}, &edge), BASE_OK);
    assert_true(of_packet(exchange, edge, 1e-3) == 0); // not yet in a round
    exchange->lately = 0.5f;
    exchange->clip.energy = 4; // a reach of GOSSIP_CLIP_TIMES
    exchange->pace.rounds++;
    assert_true(of_packet(exchange, edge, 3 * GOSSIP_CLIP_TIMES / 4.0) == 1);
    assert_true(fabsf(of_packet(exchange, edge, GOSSIP_CLIP_TIMES) - 0.25f) < 1e-6f);
    assert_true(of_packet(exchange, edge, GOSSIP_CLIP_TIMES) < 1e-6f);
    exchange->pace.rounds++;
    assert_true(of_block(exchange, edge, 0.6 * GOSSIP_CLIP_TIMES, true) == 1);
    assert_true(fabsf(of_block(exchange, edge, 1.6 * GOSSIP_CLIP_TIMES, false) - 0.5f) < 1e-6f);
    assert_true(of_block(exchange, edge, GOSSIP_CLIP_TIMES, false) < 1e-3f);
    exchange->pace.rounds++;
    assert_true(of_block(exchange, edge, 0.6 * GOSSIP_CLIP_TIMES, true) == 1);
    assert_true(fabsf(of_block(exchange, edge, 0.8 * GOSSIP_CLIP_TIMES, true) - 0.5f) < 1e-6f);
    gossip_exchange_destroy(exchange);
}

static void add_told(struct gossip_exchange *exchange, uint8_t id, float progress)
{
    struct gossip_edge *edge;

    assert_int_equal(gossip_edge_add(exchange, &(struct gossip_id){{id}}, &edge), BASE_OK);
    edge->state = GOSSIP_EDGE_LIVE;
    edge->peer_progress = progress;
}

// What a packet may do beside GOSSIP_CLIP_TIMES and the root of the edges.
static double usual(struct gossip_exchange *exchange)
{
    const float most =
        gossip_clip_limit(exchange, exchange->edges[0], GOSSIP_PRESENT, (struct gossip_run){0, 0});
    return (double)most / GOSSIP_CLIP_TIMES / sqrt((double)gossip_edges_met(exchange));
}

// A node whose own data teach little goes with its neighbours; a minority that lies changes nothing.
static void test_the_limit_knows_the_progress_of_most(void **state)
{
    static const struct {
        float told[4];
        double expected;
    } cases[] = {
        {{0}, 1},
        {{5}, 5},
        {{0.5f}, 1},
        {{0.5f, 1e30f}, 1},
        {{5, 1e30f}, 5},
        {{5, 9}, 5},
        {{0.5f, 0.6f}, 1},
        {{4, 5, 6, 7}, 5},
        {{4, 5, 6, 1e30f}, 5},
        {{1e-9f, 4, 5, 6}, 4},
        {{0.5f, 0.5f, 1e30f, 1e30f}, 1},
    };
    float start[1] = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gossip_exchange *exchange = alone(1, false, start);
        exchange->lately = 0.5f;
        exchange->clip.energy = 4; // own progress 1
        exchange->pace.rounds++;
        for (uint8_t j = 0; j < 4; j++)
            add_told(exchange, j + 1, cases[i].told[j]);
        assert_true(fabs(usual(exchange) - cases[i].expected) < 1e-5);
        exchange->clip.energy = 0;
        assert_true(isinf(usual(exchange)));
        gossip_exchange_destroy(exchange);
    }
}

// A packet carries the progress since the one before, up to the exchanges that send every element once.
static void test_a_slow_link_has_a_longer_reach(void **state)
{
    float start[64] = {0};
    struct gossip_exchange *exchange = alone(64, false, start);
    struct gossip_edge *edge = edge_of_reach(exchange);

    (void)state;
    exchange->entries = 4;
    for (unsigned turns = 1; turns <= 64; turns *= 2) {
        const double expected = GOSSIP_CLIP_TIMES * (turns < 16 ? turns : 16);
        exchange->pace.rounds++;
        edge->since = 0.5f * (float)turns;
        assert_true(fabs((double)of_packet(exchange, edge, 100 * expected) - 0.01) < 1e-6);
    }
    gossip_exchange_destroy(exchange);
}

// In the rounds of the others, with the progress of before.
static void test_a_resumed_node_follows_while_it_waits(void **state)
{
    float start[1] = {0};
    struct gossip_exchange *exchange = alone(1, false, start);
    struct gossip_edge *edge = edge_of_reach(exchange);

    (void)state;
    assert_true(of_packet(exchange, edge, 1e-3) == 0); // it knows of no progress
    exchange->clip.rounds = 1;
    for (exchange->furthest = 5; exchange->furthest < 8; exchange->furthest++) {
        assert_true(of_packet(exchange, edge, GOSSIP_CLIP_TIMES) == 1);
        assert_true(of_packet(exchange, edge, GOSSIP_CLIP_TIMES) == 0);
    }
    gossip_exchange_destroy(exchange);
}

// Who is far away for long is followed ever less, until it comes back, or until looks have found nothing.
static void test_far_updates_halve_the_limit(void **state)
{
    float start[1] = {0};
    struct gossip_exchange *exchange = alone(1, false, start);
    struct gossip_edge *edge = edge_of_reach(exchange);
    const double norm = (GOSSIP_CLIP_FAR + 1) * GOSSIP_CLIP_TIMES;
    double part = 1 / (GOSSIP_CLIP_FAR + 1.0);

    (void)state;
    exchange->options.robust = GOSSIP_ROBUST_PROBE;
    exchange->pace.rounds++;
    assert_true(gossip_clip_packet(exchange, edge, (double)INFINITY, norm) == 1); // this end was away
    for (unsigned round = 1; round <= GOSSIP_CLIP_DOUBLINGS + 2; round++) {
        exchange->pace.rounds++;
        assert_true(fabs((double)of_packet(exchange, edge, norm) - part) < 1e-6);
        part /= round <= GOSSIP_CLIP_DOUBLINGS ? 2 : 1;
    }
    exchange->pace.rounds++;
    assert_true(of_packet(exchange, edge, 1.5 * GOSSIP_CLIP_TIMES) < 0.02f); // not yet near
    for (unsigned i = 0; i < GOSSIP_CLIP_DOUBLINGS; i++) {
        exchange->pace.rounds++;
        assert_false(spares(exchange, edge, 1e-6));
        assert_true(of_packet(exchange, edge, 1e-6) == 1);
    }
    exchange->pace.rounds++;
    assert_true(spares(exchange, edge, GOSSIP_CLIP_TIMES));
    for (unsigned round = 0; round < 2 * GOSSIP_CLIP_DOUBLINGS; round++) {
        exchange->pace.rounds++;
        part = (double)of_packet(exchange, edge, norm);
    }
    assert_true(part < 0.01);
    edge->trust.good = GOSSIP_TRUST_LOOKS;
    edge->trust.lost = 2 * GOSSIP_TRUST_LOST; // no better than the others, which may lie alike
    exchange->pace.rounds++;
    (void)of_packet(exchange, edge, norm);
    exchange->pace.rounds++;
    assert_true(of_packet(exchange, edge, norm) < 0.01f);
    edge->trust.lost = GOSSIP_TRUST_LOST;
    exchange->pace.rounds++;
    (void)of_packet(exchange, edge, norm); // it ends with this one
    exchange->pace.rounds++;
    assert_true(fabs((double)of_packet(exchange, edge, norm) - 1 / (GOSSIP_CLIP_FAR + 1.0)) < 1e-6);
    gossip_exchange_destroy(exchange);
}

// The part that is applied of an update of `times` the reach.
static double of_far(struct gossip_exchange *exchange, struct gossip_edge *edge, double times)
{
    exchange->pace.rounds++;
    return (double)of_packet(exchange, edge, times * GOSSIP_CLIP_TIMES);
}

// `lost`: at a look.
static void look_at(struct gossip_exchange *exchange, struct gossip_edge *edge, double lost)
{
    struct gossip_exchange_actions actions = {0};

    gossip_trust_take(exchange, edge, &(struct gossip_losses){2, 1, 1 + lost}, &actions);
}

// Of a neighbour that is far at each of them, up to a part of the model. One bad look ends that, and so does
// an update within the reach.
static void test_good_looks_double_the_limit(void **state)
{
    float start[1] = {0};
    struct gossip_exchange *exchange = alone(1, false, start);
    struct gossip_edge *edge = edge_of_reach(exchange);
    const double most = 10;

    (void)state;
    exchange->options.robust = GOSSIP_ROBUST_PROBE;
    exchange->norm = most * GOSSIP_CLIP_TIMES / GOSSIP_CLIP_MOST;
    for (unsigned i = 0; i < GOSSIP_TRUST_LOOKS; i++) {
        assert_true(of_far(exchange, edge, 1.5) < 0.67); // until there is a record
        look_at(exchange, edge, 0);
    }
    for (double doubled = 2; doubled < 64; doubled *= 2) {
        assert_true(fabs(of_far(exchange, edge, 100) - fmin(doubled, most) / 100) < 1e-6);
        look_at(exchange, edge, 0);
    }
    look_at(exchange, edge, 0); // no exchange since the look before
    assert_true(fabs(of_far(exchange, edge, 100) - 0.01) < 1e-6);
    look_at(exchange, edge, 0);
    assert_true(fabs(of_far(exchange, edge, 100) - 0.02) < 1e-6);
    look_at(exchange, edge, 1.1 * GOSSIP_TRUST_LOST); // bad
    assert_true(of_far(exchange, edge, 100) <= 0.01 + 1e-6);
    for (unsigned i = 0; i < GOSSIP_TRUST_LOOKS; i++)
        look_at(exchange, edge, 0);
    (void)of_far(exchange, edge, 100);
    look_at(exchange, edge, 0);
    assert_true(of_far(exchange, edge, 0.5) == 1);
    look_at(exchange, edge, 0);
    assert_true(of_far(exchange, edge, 1.5) < 0.67);
    gossip_exchange_destroy(exchange);
}

// It could keep honest models apart, and nobody would find out.
static void test_without_looks_the_limit_is_never_halved(void **state)
{
    float start[1] = {0};
    struct gossip_exchange *exchange = alone(1, false, start);
    struct gossip_edge *edge = edge_of_reach(exchange);

    (void)state;
    for (unsigned round = 1; round <= 20; round++) {
        exchange->pace.rounds++;
        assert_true(fabs((double)of_packet(exchange, edge, 10 * GOSSIP_CLIP_TIMES) - 0.1) < 1e-6);
    }
    gossip_exchange_destroy(exchange);
}

static void tell(struct gossip_exchange *exchange, const struct gossip_edge *edge, double nothing, double own)
{
    struct gossip_exchange_actions actions;
    const struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_TRUST,
                                                .peer = edge->peer,
                                                .losses = {.nothing = nothing, .own = own, .other = own}};
    assert_int_equal(gossip_exchange_step(exchange, &event, &actions), BASE_OK);
}

// The part of ten times the limit that is applied after so many exchanges of this length.
static double part_after(struct gossip_exchange *exchange, struct gossip_edge *edge, unsigned rounds)
{
    double part = 1;
    for (unsigned round = 0; round < rounds; round++) {
        exchange->pace.rounds++;
        part = (double)of_packet(exchange, edge, 10 * GOSSIP_CLIP_TIMES);
    }
    return part;
}

// Nor with a learner that knows no losses. One that has not learned anything yet will know some.
static void test_looks_that_know_no_losses_halve_no_limit(void **state)
{
    float start[1] = {0};
    struct gossip_edge *edge, *other;

    (void)state;
    if (getenv("P2PML_FAR")) // the twin knows nothing of edges that are made here
        skip();
    struct gossip_exchange *exchange = alone(1, false, start);
    exchange->options.robust = GOSSIP_ROBUST_PROBE;
    edge = edge_of_reach(exchange);
    assert_int_equal(gossip_edge_add(exchange, &(struct gossip_id){{3}}, &other), BASE_OK);
    assert_true(part_after(exchange, edge, 20) < 0.01);
    tell(exchange, other, (double)NAN, (double)NAN);
    const double whole = part_after(exchange, edge, 3);
    assert_true(whole >= 0.1 - 1e-6);
    assert_true(fabs(part_after(exchange, edge, 20) - whole) < 1e-6);
    tell(exchange, other, 1, 1);
    assert_true(part_after(exchange, edge, 20) < 0.01);
    edge->exchanges = GOSSIP_CLIP_LONG * 3; // no look has said anything for long
    assert_true(part_after(exchange, edge, 3) >= 0.1 - 1e-6);
    edge->trust.looked = true;
    assert_true(part_after(exchange, edge, 20) < 0.01);
    gossip_exchange_destroy(exchange);
}

// One round of a learner that moves every second element by `step`, and all by its correction. Returns the
// measured progress.
static double measured(size_t d, float step, float correction)
{
    float *vectors = calloc(3 * d, sizeof *vectors), *x = vectors + d, *c = vectors + 2 * d;
    assert_non_null(vectors);
    struct gossip_exchange *exchange = alone(d, true, vectors);
    struct gossip_exchange_actions actions;
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_ROUND,
        .round = {.round = 1, .step_scale = 0.1f, .model = x, .correction = c, .correction_stays = true}};

    for (uint64_t round = 1; round <= 40; round++) {
        for (size_t j = 0; j < d; j++) {
            c[j] = correction;
            x[j] += (j % 2 ? step : 0) + 0.1f * correction;
        }
        event.round.round = round;
        assert_int_equal(gossip_exchange_step(exchange, &event, &actions), BASE_OK);
        exchange->sum.now = NULL; // the trainer holds the sum
        exchange->sum.lent = c;
    }
    const double found = 0.1 * sqrt(exchange->clip.energy);
    gossip_exchange_destroy(exchange);
    free(vectors);
    return found;
}

static void test_progress_is_what_the_learner_does_itself(void **state)
{
    static const size_t sizes[] = {1, 100, 4096, 4097, 100003};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const double expected = 0.25 * sqrt((double)(sizes[i] / 2));
        assert_true(fabs(measured(sizes[i], 0.25f, 0) - expected) <= 0.05 * expected + 1e-4);
        assert_true(fabs(measured(sizes[i], 0.25f, 3) - expected) <= 0.05 * expected + 1e-4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_limit_is_that_of_a_round_and_neighbour),
        cmocka_unit_test(test_the_limit_knows_the_progress_of_most),
        cmocka_unit_test(test_a_slow_link_has_a_longer_reach),
        cmocka_unit_test(test_a_resumed_node_follows_while_it_waits),
        cmocka_unit_test(test_far_updates_halve_the_limit),
        cmocka_unit_test(test_good_looks_double_the_limit),
        cmocka_unit_test(test_without_looks_the_limit_is_never_halved),
        cmocka_unit_test(test_looks_that_know_no_losses_halve_no_limit),
        cmocka_unit_test(test_progress_is_what_the_learner_does_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
