// Forces that are far larger than usual for a node are clipped (gossip/exchange/RULES.md).
#include "exchange_cases.h"
#include "gossip/exchange/clip.h"

#include <math.h>
#include <stdio.h>

static void test_a_force_is_clipped_to_a_multiple_of_the_median(void **state)
{
    struct gossip_clip clip = {.count = 0};

    (void)state;
    for (unsigned i = 0; i < GOSSIP_CLIP_MIN; i++)
        assert_true(gossip_clip_part(&clip, 1.5f, i == 2 ? 1e6 : 2.0) == 1); // too few forces are known
    assert_true(gossip_clip_part(&clip, 1.5f, 3.0) == 1);
    assert_true(fabsf(gossip_clip_part(&clip, 1.5f, 12.0) - 0.25f) < 1e-6f);
    assert_true(gossip_clip_part(&clip, 1.5f, 0) == 1);
    assert_int_equal(clip.count, GOSSIP_CLIP_MIN + 2); // zero forces are not learned
    for (unsigned i = 0; i < GOSSIP_CLIP_SAMPLES; i++) // forces that stay large become usual
        (void)gossip_clip_part(&clip, 1.5f, 12.0);
    assert_true(gossip_clip_part(&clip, 1.5f, 12.0) == 1);
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

static double train(float clip, enum attack attack, const struct task *task, uint64_t seed, uint64_t *clipped)
{
    struct gossip_exchange_options options = defaults(true);
    struct gossip_exchange_totals totals;

    options.ratio = 0.25f;
    options.drift_correction = false;
    options.clip = clip;
    struct net *net = net_create(NODES, D, TOPOLOGY_BUTTERFLY, seed, &options);
    net_link_all(net);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (size_t i = 0; i < NODES; i++) {
            for (int step = 0; step < LOCAL_STEPS; step++)
                descend(net->node[i].x, task->train[i]);
            if (i == ATTACKER)
                disturb(net, net->node[i].x, attack);
        }
        net_round_all(net, round);
        assert_true(net_references_match(net)); // r is not clipped
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
            found[attack][cut] = train(cut ? 1.5f : 0, attack, &task, seed, &clipped[cut]);
        printf("attacker %s: accuracy %.1f, %.1f with clip 1.5 (%llu forces cut)\n", names[attack],
               found[attack][0], found[attack][1], (unsigned long long)clipped[1]);
        assert_int_equal(clipped[0], 0);
        assert_true(attack == NONE || clipped[1] > 0);
        assert_true(found[attack][1] > found[NONE][0] - 5);
    }
    assert_true(found[NOISE][0] < found[NONE][0] - 15);
    assert_true(found[FLIP][0] < found[NONE][0] - 15);
}

// The clipped part of a force stays between the model and r, and comes again: the ends still agree.
static void test_the_clipped_part_comes_later(void **state)
{
    struct gossip_exchange_options options = defaults(true);
    struct gossip_exchange_totals totals;

    (void)state;
    options.drift_correction = false;
    options.clip = 1.5f;
    struct net *net = net_create(2, 400, TOPOLOGY_RING, net_seed(82), &options);
    net_link_all(net);
    for (uint64_t round = 1; round <= 400; round++) {
        if (round <= 40) {
            change_model(net, 0);
            change_model(net, 1);
        } else if (round == 41) {
            for (size_t j = 0; j < net->parameters; j++)
                net->node[0].x[j] += 100;
        }
        net_round_all(net, round);
        assert_true(net_references_match(net));
    }
    gossip_exchange_totals(net->node[0].exchange, &totals);
    assert_true(totals.clipped > 3);
    assert_true(net_energy(net) < 1e-6);
    net_destroy(net);
}

// The corrections of two ends that clip differently are not opposite; a new link must not take them for
// damaged.
static void test_corrections_survive_a_new_link(void **state)
{
    struct gossip_exchange_options options = defaults(true);
    struct gossip_exchange_totals totals;
    struct gossip_edge_info info;
    float before[100];
    size_t differ = 0;

    (void)state;
    options.clip = 1.5f;
    struct net *net = net_create(4, 100, TOPOLOGY_BUTTERFLY, net_seed(83), &options);
    net_link_all(net);
    for (uint64_t round = 1; round <= 60; round++) {
        for (size_t i = 0; i < 4; i++)
            for (size_t j = 0; j < net->parameters; j++)
                net->node[i].x[j] += (float)(i + 1) * (float)base_rng_normal(&net->rng);
        if (round == 50)
            for (size_t j = 0; j < net->parameters; j++)
                net->node[1].x[j] += 50;
        net_round_all(net, round);
    }
    gossip_exchange_totals(net->node[0].exchange, &totals);
    assert_true(totals.clipped > 0);
    memcpy(before, net_edge(net, 0, 1, &info)->correction, sizeof before);
    net_edge(net, 1, 0, &info);
    for (size_t j = 0; j < net->parameters; j++)
        differ += before[j] != -info.correction[j];
    assert_true(differ > 0);
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
        cmocka_unit_test(test_a_force_is_clipped_to_a_multiple_of_the_median),
        cmocka_unit_test(test_training_withstands_an_attacker),
        cmocka_unit_test(test_the_clipped_part_comes_later),
        cmocka_unit_test(test_corrections_survive_a_new_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
