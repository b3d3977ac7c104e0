// What a neighbour can do to a node's model, correction and second moments is limited by the node's own
// progress (gossip/exchange/RULES.md).
#include "exchange_cases.h"
#include "gossip/exchange/clip.h"
#include "gossip/exchange/state.h"
#include "test/support/cpu_kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAIR = 400 };

// Node 0 will be the one that is far away, and tells of much progress. That of nodes 1 and 2 in a round is
// about sqrt(PAIR), which is therefore the usual one.
static struct net *ring_of_three(bool drift, uint64_t seed)
{
    struct gossip_exchange_options options = defaults(true);

    options.robust = GOSSIP_ROBUST_CLIP;
    options.drift_correction = drift;
    struct net *net = net_create(3, PAIR, TOPOLOGY_RING, net_seed(seed), &options);
    net_link_all(net);
    return net;
}

// With two edges.
static const double limit =
    1.3 * GOSSIP_CLIP_TIMES * 20 * 1.41; // 20: sqrt(PAIR); 1.3: the norm of a few draws

static void shift(struct net *net, size_t node, float by)
{
    for (size_t j = 0; j < net->parameters; j++)
        net->node[node].x[j] += by;
}

static double norm_between(const float *a, const float *b)
{
    double energy = 0;

    for (size_t j = 0; j < PAIR; j++)
        energy += ((double)a[j] - (double)b[j]) * ((double)a[j] - (double)b[j]);
    return sqrt(energy);
}

// By how far node 1 moves in a round beyond its own progress.
static double moved_in(struct net *net, uint64_t round)
{
    float before[PAIR];

    for (size_t i = 0; i < net->nodes; i++)
        change_model(net, i);
    memcpy(before, net->node[1].x, sizeof before);
    net_round_all(net, round);
    return norm_between(net->node[1].x, before);
}

static uint64_t clipped(const struct net *net, size_t node)
{
    struct gossip_exchange_totals totals;

    gossip_exchange_totals(net->node[node].exchange, &totals);
    return totals.clipped;
}

static void test_a_neighbour_moves_a_node_at_most_by_a_multiple_of_its_own_progress(void **state)
{
    struct net *net = ring_of_three(false, 84);
    const float zero[PAIR] = {0};
    double furthest = 0;

    (void)state;
    shift(net, 0, 1000); // from the first message on
    for (uint64_t round = 1; round <= 30; round++) {
        const double moved = moved_in(net, round);
        assert_true(moved < limit);
        furthest = fmax(furthest, moved);
        assert_true(net_references_match(net));
        // r, which the neighbour moves, does not raise the bound of plausible values
        assert_true(net->node[1].exchange->norm < norm_between(net->node[1].x, zero) + limit);
    }
    assert_true(furthest > limit / 2);     // it follows as far as it may
    assert_int_equal(clipped(net, 1), 10); // it meets node 0 in every third round
    net_destroy(net);
}

// What is clipped stays between the model and r, and comes again: the ends still agree.
static void test_the_clipped_part_comes_later(void **state)
{
    struct net *net = ring_of_three(false, 82);

    (void)state;
    for (uint64_t round = 1; round <= 20; round++)
        (void)moved_in(net, round);
    shift(net, 0, 100);
    for (uint64_t round = 21; round <= 40; round++)
        (void)moved_in(net, round);
    const uint64_t soon = clipped(net, 1);
    assert_true(soon > 0);
    for (uint64_t round = 41; round <= 400; round++) {
        net_round_all(net, round);
        assert_true(net_references_match(net));
    }
    assert_true(net_energy(net) < 1e-6);
    net_destroy(net);
}

static void test_honest_neighbours_are_not_clipped(void **state)
{
    struct net *net = ring_of_three(true, 85);

    (void)state;
    for (uint64_t round = 1; round <= 200; round++)
        (void)moved_in(net, round);
    assert_int_equal(clipped(net, 0) + clipped(net, 1), 0);
    net_destroy(net);
}

static void test_a_node_without_progress_follows(void **state)
{
    struct net *net = ring_of_three(false, 86);

    (void)state;
    shift(net, 0, 1000);
    for (uint64_t round = 1; round <= 800; round++)
        net_round_all(net, round);
    assert_true(net_energy(net) < 1e-6);
    net_destroy(net);
}

// It goes to the others, however far they are, and keeps their whole limit for later.
static void test_a_node_that_was_away_judges_nobody(void **state)
{
    const struct gossip_id far = net_id(0);
    double furthest = 0;

    (void)state;
    if (getenv("P2PML_FAR")) // the twin knows nothing of what is set below
        skip();
    struct net *net = ring_of_three(false, 91);
    for (uint64_t round = 1; round <= 20; round++)
        (void)moved_in(net, round);
    net->node[1].standing = GOSSIP_AWAY;
    gossip_exchange_standing(net->node[1].exchange, GOSSIP_AWAY);
    shift(net, 0, 1000);
    for (size_t j = 0; j < PAIR; j++) // no progress of its own
        net->node[0].exchange->own[j] += 1000;
    for (uint64_t round = 21; round <= 23; round++)
        furthest = fmax(furthest, moved_in(net, round));
    assert_true(furthest > 2 * limit);
    assert_int_equal(gossip_edge_find(net->node[1].exchange, &far)->doublings, 0);
    net_destroy(net);
}

static void check_resync(enum gossip_standing standing)
{
    struct net *net = ring_of_three(false, 87);

    for (uint64_t round = 1; round <= 20; round++)
        (void)moved_in(net, round);
    assert_int_equal(clipped(net, 1), 0);
    net_unlink(net, 0, 1);
    net_tell(net, 0, GOSSIP_EXCHANGE_FORGET, 1);
    net_link(net, 0, 1);
    shift(net, 0, 1000);
    net->node[0].standing = standing;
    gossip_exchange_standing(net->node[0].exchange, standing);
    assert_true(moved_in(net, 21) < 2 * limit); // a block, and an exchange of the same round
    assert_true(net_count(net, COUNTER(resyncs)) > 0);
    assert_true(clipped(net, 1) > 0);
    assert_true(net_references_match(net));
    net_destroy(net);
}

// Also that of a neighbour which says that it has finished.
static void test_resync_is_limited(void **state)
{
    (void)state;
    check_resync(GOSSIP_PRESENT);
    check_resync(GOSSIP_FINISHED);
}

static void test_the_correction_of_what_is_clipped_shrinks(void **state)
{
    struct net *net = ring_of_three(true, 88);
    struct gossip_edge_info info;
    float before[PAIR];

    (void)state;
    for (uint64_t round = 1; round <= 20; round++)
        (void)moved_in(net, round);
    memcpy(before, net_edge(net, 1, 0, &info)->correction, sizeof before);
    shift(net, 0, 1000);
    (void)moved_in(net, 21);
    assert_int_equal(clipped(net, 1), 1);
    for (size_t j = 0; j < PAIR; j++)
        before[j] *= GOSSIP_CLIP_KEEP; // and learns nothing
    assert_memory_equal(net_edge(net, 1, 0, &info)->correction, before, sizeof before);
    net_destroy(net);
}

static void test_second_moments_grow_slowly(void **state)
{
    struct gossip_exchange_options options = defaults(true);
    float before[PAIR];

    (void)state;
    options.robust = GOSSIP_ROBUST_CLIP;
    options.share_second_moment = 1;
    struct net *net = net_create(2, PAIR, TOPOLOGY_RING, net_seed(89), &options);
    for (size_t i = 0; i < 2; i++) {
        free(net->node[i].v);
        net->node[i].v = calloc(PAIR, sizeof(float));
        assert_non_null(net->node[i].v);
    }
    net_link_all(net);
    for (size_t j = 0; j < PAIR; j++)
        net->node[1].v[j] = 1 + (float)j / PAIR;
    for (uint64_t round = 1; round <= 20; round++) {
        for (size_t j = 0; j < PAIR; j++)
            net->node[0].v[j] = 5000;
        memcpy(before, net->node[1].v, sizeof before);
        (void)moved_in(net, round);
        double sum = 0, old = 0;
        for (size_t j = 0; j < PAIR; j++) {
            sum += (double)net->node[1].v[j];
            old += (double)before[j];
        }
        assert_true(sum > old && sum < 5 * old);
        memcpy(net->node[1].v, before, sizeof before);
    }
    net_destroy(net);
}

static void jump(struct net *net, size_t node)
{
    const double size = pow(10, 5 * base_rng_uniform(&net->rng) - 2);

    if (base_rng_below(&net->rng, 3) == 0)
        net->node[node].x[base_rng_below(&net->rng, PAIR)] += (float)(size * sqrt(PAIR));
    for (size_t j = 0; j < PAIR; j++)
        net->node[node].x[j] += (float)(size * base_rng_normal(&net->rng));
}

// As node 1 with one entry changed: an update that is just within the limit.
static void lean(struct net *net, double reach)
{
    memcpy(net->node[0].x, net->node[1].exchange->model, PAIR * sizeof(float));
    net->node[0].x[base_rng_below(&net->rng, PAIR)] += (float)(1.5 * reach);
}

// One more exchange of node 0, or a RESYNC from the first block on.
static void push(struct net *net, uint64_t round, double reach)
{
    if (net->node[1].round / 20 % 2 == 0)
        lean(net, reach);
    else
        jump(net, 0);
    if (base_rng_below(&net->rng, 4) == 0) {
        net_unlink(net, 0, 1);
        net_tell(net, 0, GOSSIP_EXCHANGE_FORGET, 1);
        net_link(net, 0, 1);
    }
    ask(net, 0, 1, round);
    net_settle(net, SECOND);
    net->now_ns += 60 * SECOND; // a neighbour may order one RESYNC a minute
}

// However many messages come in a round of node 1, of whatever kind, with whatever values. After rounds
// without an exchange the limit is that of the turns missed.
static void test_no_order_of_messages_moves_a_node_further(void **state)
{
    struct gossip_exchange_options options = defaults(false);
    float before[PAIR];
    uint64_t pushes = 0, latest = 10;

    (void)state;
    options.robust = GOSSIP_ROBUST_CLIP;
    struct net *net = net_create(3, PAIR, TOPOLOGY_RING, net_seed(90), &options);
    net->forgets = true;
    net_link_all(net);
    const struct gossip_exchange *victim = net->node[1].exchange;
    const struct gossip_id honest = net_id(2);
    for (uint64_t round = 1; round <= 10; round++)
        (void)moved_in(net, round);
    for (uint64_t round = 11; round <= 210; round++) {
        begin_round(net, 1, NULL, round);
        memcpy(before, victim->model, sizeof before);
        const double usual = fmax(sqrt(victim->clip.energy) * (double)victim->lately,
                                  (double)gossip_edge_find(victim, &honest)->peer_progress);
        // The edge to node 0 counts as one of two unless it begins again.
        const double turns = (double)(round - latest), reach = GOSSIP_CLIP_TIMES * sqrt(2) * usual;
        for (uint64_t count = base_rng_below(&net->rng, 6); count > 0; count--)
            push(net, ++pushes, reach);
        const double moved = norm_between(victim->model, before);
        assert_true(moved <= 1.001 * fmax(reach, GOSSIP_CLIP_TIMES * turns * usual));
        latest = moved > 0 ? round : latest;
    }
    assert_true(clipped(net, 1) > 300);
    assert_true(net_count(net, COUNTER(resyncs)) > 50);
    net_destroy(net);
}

// Softmax regression: 16 nodes, each with its own examples; one of them attacks.
enum { NODES = 16, ATTACKER = 5, CLASSES = 6, FEATURES = 12, D = CLASSES * (FEATURES + 1) };
enum { EXAMPLES = 30, TESTS = 600, ROUNDS = 300, LOCAL_STEPS = 2 };

struct example {
    float x[FEATURES + 1];
    unsigned label;
};

struct task {
    float centre[CLASSES][FEATURES];
    struct example train[NODES][EXAMPLES], test[TESTS];
};

enum attack { NONE, NOISE, FLIP, ATTACKS };

static struct example draw(struct base_rng *rng, const struct task *task)
{
    struct example e = {.label = (unsigned)base_rng_below(rng, CLASSES)};

    for (size_t f = 0; f < FEATURES; f++)
        e.x[f] = task->centre[e.label][f] + 1.2f * (float)base_rng_normal(rng);
    e.x[FEATURES] = 1;
    return e;
}

static void task_make(struct task *task, struct base_rng *rng)
{
    for (size_t c = 0; c < CLASSES; c++)
        for (size_t f = 0; f < FEATURES; f++)
            task->centre[c][f] = (float)base_rng_normal(rng);
    for (size_t i = 0; i < NODES; i++)
        for (size_t e = 0; e < EXAMPLES; e++)
            task->train[i][e] = draw(rng, task);
    for (size_t e = 0; e < TESTS; e++)
        task->test[e] = draw(rng, task);
}

static void logits_of(const float *w, const struct example *e, double logits[CLASSES])
{
    for (size_t c = 0; c < CLASSES; c++) {
        logits[c] = 0;
        for (size_t f = 0; f <= FEATURES; f++)
            logits[c] += (double)w[c * (FEATURES + 1) + f] * (double)e->x[f];
    }
}

static void descend(float *w, const struct example *examples)
{
    double gradient[D] = {0};

    for (size_t e = 0; e < EXAMPLES; e++) {
        double p[CLASSES], most, sum = 0;
        logits_of(w, &examples[e], p);
        most = p[0];
        for (size_t c = 1; c < CLASSES; c++)
            most = fmax(most, p[c]);
        for (size_t c = 0; c < CLASSES; c++)
            sum += p[c] = exp(p[c] - most);
        for (size_t c = 0; c < CLASSES; c++)
            for (size_t f = 0; f <= FEATURES; f++)
                gradient[c * (FEATURES + 1) + f] +=
                    (p[c] / sum - (c == examples[e].label)) * (double)examples[e].x[f] / EXAMPLES;
    }
    for (size_t i = 0; i < D; i++)
        w[i] -= 0.1f * (float)gradient[i];
}

static void disturb(struct net *net, float *x, enum attack attack)
{
    for (size_t i = 0; i < D && attack == NOISE; i++)
        x[i] = 10 * (float)base_rng_normal(&net->rng);
    for (size_t i = 0; i < D && attack == FLIP; i++)
        x[i] = -3 * x[i];
}

static double accuracy_of(const struct net *net, const struct task *task)
{
    float mean[D] = {0};
    unsigned right = 0;

    for (size_t i = 0; i < NODES; i++)
        for (size_t j = 0; j < D && i != ATTACKER; j++)
            mean[j] += net->node[i].x[j] / (NODES - 1);
    for (size_t e = 0; e < TESTS; e++) {
        double p[CLASSES];
        size_t best = 0;
        logits_of(mean, &task->test[e], p);
        for (size_t c = 1; c < CLASSES; c++)
            best = p[c] > p[best] ? c : best;
        right += best == task->test[e].label;
    }
    return 100.0 * right / TESTS;
}

static double train(bool clip, enum attack attack, const struct task *task, uint64_t seed, uint64_t *clipped)
{
    struct gossip_exchange_options options = defaults(true);
    struct gossip_exchange_totals totals;

    options.ratio = 0.25f;
    options.drift_correction = false;
    options.robust = clip;
    struct net *net = net_create(NODES, D, TOPOLOGY_BUTTERFLY, seed, &options);
    net->forgets = attack == FLIP; // whose values grow until they are refused
    net_link_all(net);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (size_t i = 0; i < NODES; i++) {
            for (int step = 0; step < LOCAL_STEPS; step++)
                descend(net->node[i].x, task->train[i]);
            if (i == ATTACKER)
                disturb(net, net->node[i].x, attack);
        }
        net_round_all(net, round);
        assert_true(net_references_match(net)); // r is not clipped, and c is opposite
    }
    double accuracy = accuracy_of(net, task);
    *clipped = 0;
    for (size_t i = 0; i < NODES; i++) {
        gossip_exchange_totals(net->node[i].exchange, &totals);
        *clipped += i == ATTACKER ? 0 : totals.clipped;
    }
    net_destroy(net);
    return accuracy;
}

static void test_training_withstands_an_attacker(void **state)
{
    static const char *const names[ATTACKS] = {"none", "noise", "sign flipper"};
    static struct task task;
    uint64_t seed = net_seed(81), clipped[2];
    struct base_rng rng;
    double found[ATTACKS][2];

    (void)state;
    base_rng_seed(&rng, seed);
    task_make(&task, &rng);
    for (enum attack attack = NONE; attack < ATTACKS; attack++) {
        for (size_t cut = 0; cut < 2; cut++)
            found[attack][cut] = train(cut, attack, &task, seed, &clipped[cut]);
        printf("attacker %s: accuracy %.1f, %.1f when clipped (%llu updates)\n", names[attack],
               found[attack][0], found[attack][1], (unsigned long long)clipped[1]);
        assert_int_equal(clipped[0], 0);
        assert_true(attack == NONE || clipped[1] > 0);
        assert_true(found[attack][1] > found[NONE][0] - 5);
    }
    assert_true(found[NOISE][0] < found[NONE][0] - 15);
    assert_true(found[FLIP][0] < found[NONE][0] - 15);
}

// It would only hold the others up: it stays where it is.
static void test_a_node_that_has_not_begun_moves_nobody(void **state)
{
    struct gossip_exchange_options options = defaults(false);
    float before[PAIR];

    (void)state;
    options.robust = GOSSIP_ROBUST_CLIP;
    struct net *net = net_create(2, PAIR, TOPOLOGY_RING, net_seed(92), &options);
    net_link_all(net);
    for (uint64_t round = 1; round <= 10; round++) {
        ask(net, 0, 1, round); // after a step of its own
        memcpy(before, net->node[0].exchange->model, sizeof before);
        net_settle(net, SECOND);
        assert_memory_equal(net->node[0].exchange->model, before, sizeof before);
        assert_true(net_references_match(net));
    }
    assert_true(net_edge(net, 0, 1, &(struct gossip_edge_info){0})->exchanges > 5);
    net_destroy(net);
}

// A neighbour that pulls a little, for ever: its correction stays below the bound of both ends, which shrink
// it alike.
static void test_a_correction_is_bounded(void **state)
{
    struct net *net = ring_of_three(true, 91);
    struct gossip_edge_info info;
    double longest = 0;

    (void)state;
    for (uint64_t round = 1; round <= 600; round++) {
        shift(net, 0, 4);
        (void)moved_in(net, round);
        assert_true(net_references_match(net));
        const float *correction = net_edge(net, 1, 0, &info)->correction;
        const double bound = GOSSIP_CLIP_BOUND * net->node[1].exchange->clip.highest;
        double energy = 0;
        for (size_t j = 0; correction && j < PAIR; j++)
            energy += (double)correction[j] * (double)correction[j];
        longest = fmax(longest, sqrt(energy) / bound);
    }
    assert_true(longest > 0.9); // it is reached
    assert_true(longest < 1.2); // an exchange may add a little before the next one shrinks it
    net_destroy(net);
}

// Both ends apply the same part of an update, whichever of them clips it, and so does an end without
// clipping.
static void test_corrections_stay_opposite(void **state)
{
    struct gossip_exchange_options options = defaults(true);
    struct gossip_exchange_totals totals;
    struct gossip_edge_info info;
    float before[100];

    (void)state;
    options.robust = GOSSIP_ROBUST_CLIP;
    struct net *net = net_create(4, 100, TOPOLOGY_BUTTERFLY, net_seed(83), &options);
    net_link_all(net);
    for (uint64_t round = 1; round <= 60; round++) {
        for (size_t i = 0; i < 4; i++)
            for (size_t j = 0; j < net->parameters; j++)
                net->node[i].x[j] += (float)(i + 1) * (float)base_rng_normal(&net->rng);
        for (size_t j = 0; j < net->parameters && round == 50; j++)
            net->node[1].x[j] += 500;
        net_round_all(net, round);
        assert_true(net_references_match(net));
    }
    gossip_exchange_totals(net->node[0].exchange, &totals);
    assert_true(totals.clipped > 0);
    memcpy(before, net_edge(net, 0, 1, &info)->correction, sizeof before);
    net_unlink(net, 0, 1);
    net_link(net, 0, 1);
    net_settle(net, SECOND);
    assert_memory_equal(net_edge(net, 0, 1, &info)->correction, before, sizeof before);
    assert_int_equal(info.state, GOSSIP_EDGE_LIVE);
    assert_int_equal(info.resyncs, 0);
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_neighbour_moves_a_node_at_most_by_a_multiple_of_its_own_progress),
        cmocka_unit_test(test_the_clipped_part_comes_later),
        cmocka_unit_test(test_honest_neighbours_are_not_clipped),
        cmocka_unit_test(test_a_node_without_progress_follows),
        cmocka_unit_test(test_a_node_that_was_away_judges_nobody),
        cmocka_unit_test(test_resync_is_limited),
        cmocka_unit_test(test_the_correction_of_what_is_clipped_shrinks),
        cmocka_unit_test(test_second_moments_grow_slowly),
        cmocka_unit_test(test_no_order_of_messages_moves_a_node_further),
        cmocka_unit_test(test_training_withstands_an_attacker),
        cmocka_unit_test(test_a_node_that_has_not_begun_moves_nobody),
        cmocka_unit_test(test_a_correction_is_bounded),
        cmocka_unit_test(test_corrections_stay_opposite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
