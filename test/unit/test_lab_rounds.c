// The lock-step engine: every method compared with its formula.
#include "test/support/lab_rounds_run.h"
#include "test/support/lab_world.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void nothing_moves_without_a_method(void **state)
{
    (void)state;
    struct outcome *start = vectors(5, 300, "local", "", "ring", 1),
                   *end = vectors(5, 300, "local", "", "ring", 7);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < 5; i++) {
        assert_memory_equal(start->result.models[i], end->result.models[i], 300 * sizeof(float));
        assert_int_equal(end->result.node[i].row.bytes_sent + end->result.node[i].row.bytes_received, 0);
        assert_int_equal(end->result.node[i].row.step, 14);
        for (size_t k = 0; k < 300; k++) {
            sum += (double)start->result.models[i][k];
            squares += (double)start->result.models[i][k] * (double)start->result.models[i][k];
        }
    }
    assert_true(fabs(sum / 1500) < 0.1 && fabs(squares / 1500 - 1) < 0.15); // Gaussian
    assert_true(fabs(end->result.seconds - 0.014) < 1e-12);                 // 1 ms per step
    assert_int_equal(end->result.rounds, 7);
    assert_int_equal(end->result.n_edges, 0);
    assert_true(end->points[0].consensus == 1 && isnan(end->points[0].accuracy));
    done(start);
    done(end);
}

// x' = W x with Metropolis-Hastings weights on the edges that the result lists.
static void dpsgd_multiplies_by_its_matrix(void **state)
{
    static const char *const graphs[] = {"ring", "torus", "star", "random", "butterfly"};
    (void)state;
    for (size_t g = 0; g < sizeof graphs / sizeof *graphs; g++) {
        enum { N = 12, D = 50 };
        struct outcome *before = vectors(N, D, "local", "", graphs[g], 1),
                       *after = vectors(N, D, "dpsgd", "", graphs[g], 1);
        double degree[N] = {0};
        const uint64_t *edges = after->result.edges;
        assert_true(after->result.n_edges >= N - 1);
        for (size_t e = 0; e < after->result.n_edges; e++) {
            degree[edges[2 * e]]++;
            degree[edges[2 * e + 1]]++;
        }
        for (size_t i = 0; i < N; i++)
            for (size_t k = 0; k < D; k++) {
                double expected = (double)before->result.models[i][k];
                for (size_t e = 0; e < after->result.n_edges; e++) {
                    size_t a = edges[2 * e], b = edges[2 * e + 1], j = a == i ? b : a;
                    if (a == i || b == i)
                        expected +=
                            ((double)before->result.models[j][k] - (double)before->result.models[i][k]) /
                            (1 + fmax(degree[a], degree[b]));
                }
                assert_true(fabs(expected - (double)after->result.models[i][k]) < 1e-5);
            }
        done(before);
        done(after);
    }
}

static void allreduce_gives_the_mean(void **state)
{
    (void)state;
    struct outcome *before = vectors(7, 5000, "local", "", "ring", 1),
                   *after = vectors(7, 5000, "allreduce", "", "ring", 1);
    float mean[5000];
    lab_models_mean((const float *const *)before->result.models, 7, 5000, mean);
    for (size_t i = 0; i < 7; i++)
        assert_memory_equal(after->result.models[i], mean, sizeof mean);
    assert_true(after->result.last.consensus < 1e-12);
    assert_int_equal(after->result.n_edges, 7);
    done(before);
    done(after);
}

static void model_average_is_exact_after_a_butterfly(void **state)
{
    (void)state;
    struct outcome *o = vectors(8, 100, "model-average", "", "butterfly", 3);
    assert_true(o->points[1].consensus > 0.1); // after 1 round and after 2
    assert_true(o->points[2].consensus < 1e-12);
    done(o);
}

static void weights_of_the_schedule_are_used(void **state)
{
    (void)state;
    struct outcome *o = vectors(6, 100, "model-average", "", "base", 12);
    assert_true(o->result.last.consensus < 1e-12); // with 1/2 everywhere it would not be
    done(o);
}

// With all entries in fp32 and a step of 1, the replicas are the models.
static void choco_without_compression_is_dpsgd(void **state)
{
    (void)state;
    struct outcome *choco = vectors(12, 200, "choco", ", ratio: 1, values: fp32, step_size: 1", "torus", 4),
                   *dpsgd = vectors(12, 200, "dpsgd", "", "torus", 4);
    for (size_t i = 0; i < 12; i++)
        assert_true(distance(choco->result.models[i], dpsgd->result.models[i], 200) < 1e-4);
    done(choco);
    done(dpsgd);
}

static void choco_chooses_its_step_and_agrees(void **state)
{
    (void)state;
    struct outcome *start = vectors(8, 400, "local", "", "ring", 1),
                   *o = vectors(8, 400, "choco", ", ratio: 0.1", "ring", 800),
                   *fixed = vectors(8, 400, "choco", ", ratio: 0.1, step_size: 0.01", "ring", 800),
                   *first = vectors(8, 400, "choco", ", ratio: 0.1", "ring", 1);
    float before[400], after[400];
    lab_models_mean((const float *const *)start->result.models, 8, 400, before);
    lab_models_mean((const float *const *)o->result.models, 8, 400, after);
    assert_true(o->result.last.consensus < 1e-3);
    assert_true(fixed->result.last.consensus > 5 * o->result.last.consensus);
    assert_true(distance(before, after, 400) < 1e-3);        // the mean does not change
    assert_int_equal(o->result.node[0].row.exchanges, 1600); // two neighbours
    // An int8 packet of 40 of 400 entries: 40 codes, a scale, some 5 bits an index, a header.
    double packet = (double)first->result.node[0].row.delta_bytes / 2;
    if (packet < 40 + 4 + 20 || packet > 40 + 4 + 50)
        fail_msg("%g bytes a packet", packet);
    done(first);
    done(start);
    done(o);
    done(fixed);
}

// Vectors have no local steps: delta is 0 - mean in the first round and zero in the second.
static void diloco_is_nesterov_on_the_outer_step(void **state)
{
    (void)state;
    struct outcome *start = vectors(4, 64, "local", "", "ring", 1),
                   *o = vectors(4, 64, "diloco", ", outer_rate: 0.7, outer_nesterov: 0.9", "ring", 2);
    float mean[64];
    lab_models_mean((const float *const *)start->result.models, 4, 64, mean);
    for (size_t k = 0; k < 64; k++) {
        double delta = -(double)mean[k], v = delta, x = -0.7 * (delta + 0.9 * v);
        v = 0.9 * v;
        x -= 0.7 * 0.9 * v;
        for (size_t i = 0; i < 4; i++)
            assert_true(fabs(x - (double)o->result.models[i][k]) < 1e-5);
    }
    done(start);
    done(o);
}

// With all entries in fp32 nothing is left for the next round: delta is 0 - mean in the first round and zero
// in the second.
static void sparseloco_without_compression_is_an_outer_step(void **state)
{
    (void)state;
    struct outcome *start = vectors(4, 64, "local", "", "ring", 1),
                   *o = vectors(4, 64, "sparseloco", ", ratio: 1, values: fp32, outer_rate: 0.7", "ring", 2);
    float mean[64];
    lab_models_mean((const float *const *)start->result.models, 4, 64, mean);
    for (size_t k = 0; k < 64; k++)
        for (size_t i = 0; i < 4; i++)
            assert_true(fabs(0.7 * (double)mean[k] - (double)o->result.models[i][k]) < 1e-5);
    done(start);
    done(o);
}

// Of 64 values the largest one is sent each round; the others come later, less what the error feedback
// forgets.
static void sparseloco_sends_later_what_it_kept(void **state)
{
    (void)state;
    enum { N = 2, D = 64, ROUNDS = 3 };
    struct outcome *start = vectors(N, D, "local", "", "ring", 1),
                   *o = vectors(N, D, "sparseloco",
                                ", ratio: 0.015625, values: fp32, outer_rate: 1, outer_nesterov: 0.5", "ring",
                                ROUNDS);
    double outer[D] = {0}, error[N][D] = {{0}};
    for (size_t i = 0; i < N; i++)
        for (size_t round = 0; round < ROUNDS; round++) {
            size_t most = 0;
            for (size_t k = 0; k < D; k++) {
                error[i][k] = 0.5 * error[i][k] - (round ? 0 : (double)start->result.models[i][k]);
                most = fabs(error[i][k]) > fabs(error[i][most]) ? k : most;
            }
            outer[most] -= error[i][most] / N;
            error[i][most] = 0;
        }
    for (size_t k = 0; k < D; k++)
        assert_true(fabs(outer[k] - (double)o->result.models[1][k]) < 1e-5);
    done(start);
    done(o);
}

// Two nodes meet in every round; without local steps the change is zero.
static void noloco_follows_its_formula(void **state)
{
    (void)state;
    struct outcome *start = vectors(2, 64, "local", "", "ring", 1),
                   *o = vectors(2, 64, "noloco", ", outer_rate: 0.7, outer_nesterov: 0.4", "butterfly", 3);
    double gamma = (0.4 + sqrt(2.16)) / 2;
    for (size_t k = 0; k < 64; k++) {
        double s[2] = {(double)start->result.models[0][k], (double)start->result.models[1][k]}, v[2] = {0};
        for (int round = 0; round < 3; round++) {
            double mean = (s[0] + s[1]) / 2;
            for (int i = 0; i < 2; i++) {
                v[i] = 0.4 * v[i] - gamma * (s[i] - mean);
                s[i] += v[i];
            }
        }
        assert_true(fabs(s[0] - (double)o->result.models[0][k]) < 1e-4);
        assert_true(fabs(s[1] - (double)o->result.models[1][k]) < 1e-4);
    }
    done(start);
    done(o);
}

// The change by local steps counts: one round from the seed model, compared with the models that it trains.
static void outer_steps_use_the_change_by_local_steps(void **state)
{
    static const char format[] =
        "experiment: {nodes: 2}\ndata: {train_count: 200, test_count: 20}\nmodel: {kind: softmax}\n"
        "train: {steps: %d, batch: 10, rate: 0.1}\n"
        "average: {method: %s, local_steps: 5, outer_rate: 0.5, outer_nesterov: 0.4}\n";
    (void)state;
    struct outcome *alone = run_on(1, format, 5, "local");
    struct outcome *o[2] = {run_on(1, format, 5, "diloco"), run_on(1, format, 5, "noloco")};
    size_t d = alone->result.parameters;
    const char text[] =
        "experiment: {nodes: 2}\ndata: {train_count: 200, test_count: 20}\nmodel: {kind: softmax}\n";
    struct lab_experiment e;
    struct lab_workbench bench = {0};
    struct base_reason why;
    float *start = malloc(d * sizeof *start);
    assert_int_equal(lab_world_load(text, &e, &why), BASE_OK);
    assert_int_equal(lab_workbench_load(&e, &bench, &why), BASE_OK);
    assert_int_equal(lab_workbench_open(&bench, &why), BASE_OK);
    train_model_initialise(bench.model, bench.view.model.seed, start);
    for (size_t k = 0; k < d; k++) {
        double mean = ((double)alone->result.models[0][k] + (double)alone->result.models[1][k]) / 2,
               delta = (double)start[k] - mean;
        double expected[2] = {(double)start[k] - 0.5 * 1.4 * delta, (double)start[k] - 0.5 * delta};
        for (int m = 0; m < 2; m++)
            for (int i = 0; i < 2; i++)
                assert_true(fabs(expected[m] - (double)o[m]->result.models[i][k]) < 1e-5);
    }
    free(start);
    lab_workbench_close(&bench);
    lab_experiment_free(&e);
    done(alone);
    done(o[0]);
    done(o[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_moves_without_a_method),
        cmocka_unit_test(dpsgd_multiplies_by_its_matrix),
        cmocka_unit_test(allreduce_gives_the_mean),
        cmocka_unit_test(model_average_is_exact_after_a_butterfly),
        cmocka_unit_test(weights_of_the_schedule_are_used),
        cmocka_unit_test(choco_without_compression_is_dpsgd),
        cmocka_unit_test(choco_chooses_its_step_and_agrees),
        cmocka_unit_test(diloco_is_nesterov_on_the_outer_step),
        cmocka_unit_test(sparseloco_without_compression_is_an_outer_step),
        cmocka_unit_test(sparseloco_sends_later_what_it_kept),
        cmocka_unit_test(noloco_follows_its_formula),
        cmocka_unit_test(outer_steps_use_the_change_by_local_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
