// References and corrections in bf16: the two ends hold the same bits, the sum of the models does not change,
// models agree far more closely than two neighbouring bf16 numbers do, and the sum of corrections is that of
// the stored ones.
#include "test/property/exchange_cases.h"
#include "test/property/exchange_saved.h"

#include "base/bf16.h"
#include <math.h>
#include <stdio.h>

enum { D = 2048, NODES = 4 };

static struct net *net_of(size_t nodes, const struct gossip_exchange_options *options, uint64_t seed)
{
    struct net *net = net_create(nodes, D, TOPOLOGY_BUTTERFLY, seed, options);

    net_link_all(net);
    for (size_t j = 0; j < D; j++) {
        // Most models are many small numbers and a few large ones, whose bf16 steps are larger than the small
        // numbers.
        float common = (float)(base_rng_normal(&net->rng) * exp(base_rng_normal(&net->rng)));
        for (size_t i = 0; i < nodes; i++)
            net->node[i].x[j] = common + 0.3f * (float)base_rng_normal(&net->rng);
    }
    return net;
}

static double distance(const struct net *net)
{
    double *mean = calloc(D, sizeof *mean), norm = 0;

    assert_non_null(mean);
    net_mean(net, mean);
    for (size_t j = 0; j < D; j++)
        norm += mean[j] * mean[j];
    free(mean);
    return sqrt(net_energy(net) / (double)net->nodes / norm);
}

static void models_agree_more_closely_than_a_step_of_bf16(void **state)
{
    struct gossip_exchange_options options = defaults(true);
    double after[D];

    (void)state;
    options.reference_bf16 = true;
    options.drift_correction = false;
    options.ratio = 1.0f / 32;
    for (size_t nodes = 2; nodes <= NODES; nodes *= 2) {
        struct net *net = net_of(nodes, &options, net_seed(nodes));
        double before[D] = {0};
        for (size_t j = 0; j < D; j++)
            for (size_t i = 0; i < nodes; i++)
                before[j] += (double)net->node[i].x[j] / (double)nodes;
        for (uint64_t round = 1; round <= 1200; round++)
            net_round_all(net, round);
        assert_true(net_references_match(net));
        printf("%zu nodes agree to %.2g of their norm\n", nodes, distance(net));
        assert_true(distance(net) < 1e-4); // 1.5e-3 to 2e-3 without open elements, or if all are open
        net_mean(net, after);
        for (size_t j = 0; j < D; j++)
            assert_true(fabs(after[j] - before[j]) < 1e-5 * fmax(1, fabs(before[j])));
        net_destroy(net);
    }
}

static void assert_sum_of_what_is_stored(const struct net *net, size_t node, const float *sum)
{
    const struct gossip_exchange *exchange = net->node[node].exchange;
    float expected[D] = {0};

    for (size_t e = 0; e < gossip_exchange_edges(exchange); e++) {
        struct gossip_edge_info info;
        gossip_exchange_edge_info(exchange, e, &info);
        assert_true(!info.correction && !info.reference);
        for (size_t j = 0; info.correction_bf16 && j < D; j++) // else there was no exchange yet
            expected[j] += bf16_widen(info.correction_bf16[j]);
    }
    assert_memory_equal(sum, expected, sizeof expected);
}

static void train(struct net *net, uint64_t seed)
{
    struct base_rng rng;

    base_rng_seed(&rng, seed);
    for (size_t i = 0; i < net->nodes; i++)
        for (size_t j = 0; j < D; j++)
            net->node[i].x[j] +=
                0.02f * ((i % 2 ? 1.0f : -1.0f) + (float)base_rng_normal(&rng) + net->node[i].correction[j]);
}

// This holds whether the exchange keeps its own sum or the trainer has the only one.
static void the_sum_of_corrections_is_that_of_the_stored_ones(void **state)
{
    (void)state;
    for (unsigned stays = 0; stays < 4; stays++) {
        struct gossip_exchange_options options = defaults(stays < 2);
        options.reference_bf16 = true;
        options.ratio = stays == 1 ? 0.05f : 0.004f; // packets that are kept, and packets that are summed
        struct net *net = net_of(NODES, &options, net_seed(7));
        double sum = 0, size = 0;
        net->correction_stays = stays % 2;
        for (uint64_t round = 1; round <= 60; round++) {
            train(net, round);
            net_round_all(net, round);
            assert_true(net_references_match(net));
            for (size_t i = 0; i < NODES && options.sync; i++)
                assert_sum_of_what_is_stored(net, i, net->node[i].correction);
        }
        for (size_t j = 0; j < D; j++) {
            double of_all = 0;
            for (size_t i = 0; i < NODES; i++)
                of_all += (double)net->node[i].correction[j];
            sum += fabs(of_all);
            size += fabs((double)net->node[0].correction[j]);
        }
        assert_true(size > 0);
        assert_true(!options.sync || sum < 1e-4 * size);
        net_destroy(net);
    }
}

// An increment that is too small for bf16 is applied on average.
static void increments_below_a_step_of_bf16_count(void **state)
{
    double sum = 0;
    float c = 1;

    (void)state;
    for (uint32_t i = 0; i < 4096; i++) {
        uint16_t up = bf16_stochastic(c + 0x1p-12f, i * 40503u & 0xffffu);
        assert_int_equal(bf16_stochastic(-(c + 0x1p-12f), i * 40503u & 0xffffu), up ^ 0x8000u);
        sum += (double)(bf16_widen(up) - c);
    }
    assert_true(bf16_nearest(c + 0x1p-12f) == bf16_nearest(c));
    assert_true(fabs(sum - 4096 * 0x1p-12) < 0.02);
}

// A record is imported as it was exported, and only in the form that the options name.
static void a_record_keeps_references_in_bf16(void **state)
{
    struct gossip_exchange_options options = defaults(true);
    struct gossip_exchange *fresh;
    struct gossip_edge_info was, is;
    struct saved saved = {0};

    (void)state;
    options.reference_bf16 = true;
    struct net *net = net_of(2, &options, net_seed(11));
    for (uint64_t round = 1; round <= 5; round++)
        net_round_all(net, round);
    saved_take(&saved, net, 0);
    options = net->node[0].options;
    options.model = saved.model;
    assert_int_equal(gossip_exchange_create(&options, &fresh, NULL), BASE_OK);
    assert_int_equal(gossip_exchange_import(fresh, &saved.record[0]), BASE_OK);
    gossip_exchange_edge_info(fresh, 0, &is);
    assert_non_null(net_edge(net, 0, 1, &was));
    assert_memory_equal(is.reference_bf16, was.reference_bf16, D * sizeof(uint16_t));
    assert_memory_equal(is.correction_bf16, was.correction_bf16, D * sizeof(uint16_t));
    gossip_exchange_destroy(fresh);
    options.reference_bf16 = false;
    assert_int_equal(gossip_exchange_create(&options, &fresh, NULL), BASE_OK);
    assert_int_equal(gossip_exchange_import(fresh, &saved.record[0]), BASE_EFORMAT);
    assert_int_equal(gossip_exchange_edges(fresh), 0);
    gossip_exchange_destroy(fresh);
    saved_free(&saved);
    net_destroy(net);
}

static uint64_t memory_of(bool bf16)
{
    struct gossip_exchange_options options = defaults(true);
    struct gossip_exchange_totals totals;

    options.reference_bf16 = bf16;
    struct net *net = net_of(2, &options, net_seed(3));
    net_round_all(net, 1);
    gossip_exchange_totals(net->node[0].exchange, &totals);
    net_destroy(net);
    return totals.memory;
}

static void an_edge_takes_half_the_memory(void **state)
{
    (void)state;
    assert_int_equal(memory_of(false) - memory_of(true), 2 * D * sizeof(uint16_t)); // r and c
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_agree_more_closely_than_a_step_of_bf16),
        cmocka_unit_test(the_sum_of_corrections_is_that_of_the_stored_ones),
        cmocka_unit_test(increments_below_a_step_of_bf16_count),
        cmocka_unit_test(a_record_keeps_references_in_bf16),
        cmocka_unit_test(an_edge_takes_half_the_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
