// The lock-step engine: every method against its formula, bytes and times against numbers worked out by hand.
#include "lab/methods/rounds.h"

#include "gossip/session/records.h"
#include "gossip/wire/message.h"
#include "test/support/lab_world.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define POINTS 1024u

struct outcome {
    struct lab_rounds_result result;
    struct lab_sample points[POINTS]; // of all rounds, with train.eval_rounds 1
    size_t n_points;
    uint64_t stop_after; // rounds
};

static bool note(void *context, uint64_t round, uint64_t rounds, const struct lab_sample *point)
{
    struct outcome *o = context;
    (void)rounds;
    if (o->n_points < POINTS)
        o->points[o->n_points++] = *point;
    return round != o->stop_after;
}

static enum base_error try_run(const char *text, size_t threads, struct outcome *o, struct base_reason *why)
{
    struct lab_experiment e;
    struct lab_workbench bench = {0};
    struct lab_rounds_options options = {.experiment = &e, .progress = note, .context = o};
    enum base_error error = lab_world_load(text, &e, why);
    if (!error)
        error = lab_rounds_check(&e, why);
    if (!error)
        error = lab_pool_create(threads, &options.pool, why);
    if (!error && !e.sim.vector) {
        options.bench = &bench;
        error = lab_workbench_load(&e, &bench, why);
        if (!error)
            error = lab_workbench_open(&bench, why);
        if (!error)
            error = lab_shard_trainers_create(&e, &bench, &options.shard_trainers, why);
    }
    if (!error)
        error = lab_rounds_run(&options, &o->result, why);
    lab_shard_trainers_destroy(options.shard_trainers);
    lab_workbench_close(&bench);
    lab_pool_destroy(options.pool);
    lab_experiment_free(&e);
    return error;
}

// "experiment:" of the text has the number of nodes; more lines are appended.
static struct outcome *run_on(size_t threads, const char *format, ...)
{
    char text[2048];
    struct base_reason why;
    struct outcome *o = calloc(1, sizeof *o);
    va_list arguments;
    assert_non_null(o);
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (try_run(text, threads, o, &why))
        fail_msg("%s\n%s", why.text, text);
    return o;
}

static void done(struct outcome *o)
{
    lab_rounds_result_free(&o->result);
    free(o);
}

#define VECTORS                                                                                              \
    "experiment: {nodes: %d, seed: 3}\nsim: {vector: %d}\naverage: {method: %s, local_steps: 2%s}\n"         \
    "topology: {kind: %s}\ntrain: {steps: %d, eval_rounds: 1}\n"

static struct outcome *vectors(int nodes, int d, const char *method, const char *more, const char *graph,
                               int rounds)
{
    return run_on(2, VECTORS, nodes, d, method, more, graph, 2 * rounds);
}

static double distance(const float *a, const float *b, size_t d)
{
    double sum = 0;
    for (size_t k = 0; k < d; k++)
        sum += ((double)a[k] - (double)b[k]) * ((double)a[k] - (double)b[k]);
    return sqrt(sum);
}

static void nothing_moves_without_a_method(void **state)
{
    (void)state;
    struct outcome *start = vectors(5, 300, "local", "", "ring", 1),
                   *end = vectors(5, 300, "local", "", "ring", 7);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < 5; i++) {
        assert_memory_equal(start->result.models[i], end->result.models[i], 300 * sizeof(float));
        assert_int_equal(end->result.node[i].bytes_out + end->result.node[i].bytes_in, 0);
        assert_int_equal(end->result.node[i].steps, 14);
        for (size_t k = 0; k < 300; k++) {
            sum += (double)start->result.models[i][k];
            squares += (double)start->result.models[i][k] * (double)start->result.models[i][k];
        }
    }
    assert_true(fabs(sum / 1500) < 0.1 && fabs(squares / 1500 - 1) < 0.15); // Gaussian
    assert_true(fabs(end->result.seconds - 0.014) < 1e-12);                 // 1 ms a step
    assert_int_equal(end->result.rounds, 7);
    assert_int_equal(end->result.n_edges, 0);
    assert_true(end->points[0].consensus == 1 && isnan(end->points[0].accuracy));
    done(start);
    done(end);
}

// x' = W x with Metropolis-Hastings weights on the edges that the result tells.
static void dpsgd_is_its_matrix(void **state)
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

static void allreduce_is_the_mean(void **state)
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
    assert_true(o->points[1].consensus > 0.1); // of 1 round and of 2
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

// With all entries in fp32 and a step of 1 the replicas are the models.
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

static void choco_tunes_itself_and_agrees(void **state)
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
    assert_true(distance(before, after, 400) < 1e-3);    // the mean stays
    assert_int_equal(o->result.node[0].exchanges, 1600); // two neighbours
    // An int8 packet of 40 of 400 entries: 40 codes, a scale, some 5 bits an index, a header.
    double packet = (double)first->result.node[0].delta_bytes / 2;
    if (packet < 40 + 4 + 20 || packet > 40 + 4 + 50)
        fail_msg("%g bytes a packet", packet);
    done(first);
    done(start);
    done(o);
    done(fixed);
}

// Vectors have no local steps: delta is 0 - mean in the first round, and zero in the second.
static void diloco_is_outer_nesterov(void **state)
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

// Two nodes meet in every round; without local steps the change is zero.
static void noloco_is_its_formula(void **state)
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

// The change of the local steps counts: one round from the seed model against the models that it trains.
static void outer_steps_take_what_was_learnt(void **state)
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

// The header of gossip/README.md around so many bytes, sealed.
static size_t wire_bytes(uint64_t round, size_t payload)
{
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    size_t bytes = 0;
    const struct gossip_message message = {.kind = GOSSIP_XCHG,
                                           .as.exchange = {.sequence = round,
                                                           .clock = round,
                                                           .step_scale = 1,
                                                           .weight = 0.5f,
                                                           .delta_bytes = (uint32_t)payload}};
    assert_int_equal(gossip_message_encode_header(&message, header, sizeof header, &bytes), BASE_OK);
    return payload + bytes + 19;
}

#define SLOW                                                                                                 \
    "experiment: {nodes: %d}\nsim: {vector: 1000, bandwidth: 10, latency: 20ms, step_time: 3ms%s}\n"         \
    "average: {method: %s, local_steps: 2}\ntopology: {kind: %s}\ntrain: {steps: %d, eval_rounds: 1}\n"

static void bytes_and_times_are_those_of_the_wire(void **state)
{
    (void)state;
    // Both send 4,000 bytes to each other at once: 0.8 us a byte, 20 ms, and 6 ms of local steps.
    struct outcome *o = run_on(2, SLOW, 2, "", "model-average", "butterfly", 6);
    double seconds = 0;
    uint64_t bytes = 0;
    for (uint64_t round = 1; round <= 3; round++) {
        bytes += wire_bytes(round, 4000);
        seconds += 0.006 + 0.020 + 0.8e-6 * (double)wire_bytes(round, 4000);
        assert_int_equal(o->points[round - 1].bytes, 2 * bytes);
        assert_true(fabs(o->points[round - 1].time - seconds) < 1e-8);
    }
    assert_int_equal(o->result.node[0].bytes_out, bytes);
    assert_int_equal(o->result.node[1].bytes_in, bytes);
    assert_int_equal(o->result.node[0].delta_bytes, 12000);
    done(o);
    // A ring of four: six steps, of a quarter of the model each.
    o = run_on(2, SLOW, 4, "", "allreduce", "ring", 2);
    assert_int_equal(o->result.node[0].bytes_out, 6 * wire_bytes(1, 1000));
    assert_int_equal(o->result.last.bytes, 24 * wire_bytes(1, 1000));
    assert_true(fabs(o->result.seconds - (0.006 + 6 * (0.020 + 0.8e-6 * (double)wire_bytes(1, 1000)))) <
                1e-7);
    done(o);
    // The hub of a star of four sends three models one after another, and takes three.
    o = run_on(2, SLOW, 4, "", "dpsgd", "star", 2);
    assert_int_equal(o->result.last.bytes, 6 * wire_bytes(1, 4000));
    assert_true(fabs(o->result.seconds - (0.006 + 0.020 + 3 * 0.8e-6 * (double)wire_bytes(1, 4000))) < 1e-7);
    done(o);
    // Lock-step: a straggler holds up all.
    o = run_on(2, SLOW, 2, ", stragglers: [{node: 1, factor: 5}]", "local", "ring", 6);
    assert_true(fabs(o->result.seconds - 3 * 0.030) < 1e-9);
    done(o);
    // Slow weights and changes: twice a model.
    o = run_on(2, SLOW, 2, "", "noloco", "butterfly", 2);
    assert_int_equal(o->result.node[0].bytes_out, wire_bytes(1, 8000));
    done(o);
}

// Methods that send whole models refuse another one.
static const char *ratio_of(const char *method)
{
    return strcmp(method, "choco") == 0 || strcmp(method, "edge-ref") == 0 ? ", ratio: 0.25" : "";
}

static void threads_change_nothing(void **state)
{
    static const char *const methods[] = {"choco",     "dpsgd",  "model-average",
                                          "allreduce", "diloco", "edge-ref"};
    static const char training[] =
        "experiment: {nodes: 6}\ndata: {train_count: 300, test_count: 50, partition: dirichlet, alpha: 0.3}\n"
        "model: {kind: softmax}\ntrain: {steps: 24, batch: 10, rate: 0.1, eval_rounds: 2}\n"
        "sim: {bandwidth: 10, jitter: 1ms, loss: 0.01, step_jitter: 0.1}\n"
        "average: {method: %s, local_steps: 2%s}\ntopology: {kind: random}\n";
    (void)state;
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        struct outcome *one = run_on(1, training, methods[m], ratio_of(methods[m]));
        for (size_t threads = 2; threads <= 4; threads += 2) {
            struct outcome *more = run_on(threads, training, methods[m], ratio_of(methods[m]));
            assert_int_equal(one->n_points, more->n_points);
            assert_memory_equal(one->points, more->points, sizeof one->points);
            for (size_t i = 0; i < 6; i++)
                assert_memory_equal(one->result.models[i], more->result.models[i],
                                    one->result.parameters * sizeof(float));
            assert_true(one->result.seconds == more->result.seconds);
            done(more);
        }
        done(one);
    }
}

// DESIGN section 4, last paragraph.
static void the_exchange_agrees_as_fast_as_designed(void **state)
{
    static const struct {
        double ratio;
        int rounds;
    } cases[] = {{0.25, 31}, {0.1, 72}, {0.05, 139}, {0.01, 673}};
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char ratio[64];
        int reached = 0;
        snprintf(ratio, sizeof ratio, ", ratio: %g", cases[c].ratio);
        struct outcome *o = vectors(16, 1000, "edge-ref", ratio, "butterfly", cases[c].rounds * 5 / 4);
        for (size_t i = 0; i < o->n_points && !reached; i++)
            if (o->points[i].consensus <= 1e-4)
                reached = (int)i + 1;
        printf("k/d %g: %d rounds to 1e-4 of the energy, %d in the design\n", cases[c].ratio, reached,
               cases[c].rounds);
        assert_true(reached && abs(reached - cases[c].rounds) <= 2 + cases[c].rounds / 10);
        done(o);
    }
}

// With all entries in fp32 an exchange is a dense average.
static void the_exchange_without_compression_is_model_average(void **state)
{
    (void)state;
    struct outcome *edge = vectors(8, 100, "edge-ref", ", ratio: 1, values: fp32", "butterfly", 2),
                   *dense = vectors(8, 100, "model-average", "", "butterfly", 2);
    for (size_t i = 0; i < 8; i++)
        assert_true(distance(edge->result.models[i], dense->result.models[i], 100) < 1e-4);
    assert_int_equal(edge->result.node[3].exchanges, 2);
    done(edge);
    done(dense);
}

static void the_dead_drop_out(void **state)
{
    static const char *const methods[] = {"choco",  "dpsgd",  "model-average", "allreduce",
                                          "diloco", "noloco", "edge-ref",      "local"};
    (void)state;
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        struct outcome *o =
            run_on(2, VECTORS "events: [{at: 10ms, kill: [2, 5]}]\n", 8, 60, methods[m], ratio_of(methods[m]),
                   strcmp(methods[m], "choco") ? "ring" : "butterfly", 2 * 300);
        assert_int_equal(o->points[1].nodes, 8);
        assert_int_equal(o->points[8].nodes, 6);
        assert_true(o->result.node[2].gone && o->result.node[5].gone && !o->result.node[3].gone);
        assert_null(o->result.models[2]);
        assert_non_null(o->result.models[3]);
        assert_true(o->result.node[2].rounds < 7 && o->result.node[3].rounds == 300);
        if (strcmp(methods[m], "local") != 0 && strcmp(methods[m], "noloco") != 0)
            assert_true(o->result.last.consensus < 0.01);
        done(o);
    }
}

static void it_trains(void **state)
{
    static const char text[] =
        "experiment: {nodes: 4}\ndata: {train_count: 800, test_count: 200}\nmodel: {kind: softmax}\n"
        "train: {steps: 100, batch: 16, rate: 0.1, eval_rounds: 10}\n"
        "average: {method: %s, local_steps: 2, ratio: 1/8}\ntopology: {kind: butterfly}\n";
    (void)state;
    struct outcome *local = run_on(2, text, "local"), *edge = run_on(2, text, "edge-ref"),
                   *all = run_on(2, text, "allreduce");
    assert_true(all->result.last.worst == all->result.last.best);
    assert_true(all->result.last.accuracy > local->result.last.worst + 0.02);
    assert_true(edge->result.last.worst > local->result.last.worst);
    assert_true(edge->result.last.accuracy > all->result.last.accuracy - 0.05);
    assert_true(edge->result.last.bytes < all->result.last.bytes / 4);
    assert_true(edge->result.last.train_loss < edge->points[0].train_loss ||
                isnan(edge->points[0].train_loss));
    assert_int_equal(edge->result.last.step, 100);
    done(local);
    done(edge);
    done(all);
}

static void progress_may_stop_it(void **state)
{
    struct base_reason why;
    struct outcome *o = calloc(1, sizeof *o);
    char text[1024];
    (void)state;
    snprintf(text, sizeof text, VECTORS, 4, 50, "dpsgd", "", "ring", 40);
    o->stop_after = 7;
    assert_int_equal(try_run(text, 1, o, &why), BASE_OK);
    assert_true(o->result.interrupted);
    assert_int_equal(o->result.rounds, 7);
    assert_int_equal(o->result.last.round, 7);
    done(o);
}

static void what_it_cannot_run_is_refused(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"events: [{at: 1s, stop: 2, for: 1s}]\n", ":1: events: found stop"},
        {"average:\n  method: choco\ntopology:\n  kind: matchings\n", ":4: topology.kind: found matchings"},
        {"average:\n  method: choco\n  filters: [same-keys:4]\n", ":3: average.filters"},
        {"average:\n  mode: async\n", ":2: average.mode"},
        {"average:\n  outer_momentum: 0.3\n", ":2: average.outer_momentum"},
        {"sim:\n  links: [{between: [0, 99], loss: 0.1}]\n", ":2: sim.links"},
        {"sim:\n  stragglers: [{node: 99, factor: 2}]\n", ":2: sim.stragglers"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outcome o = {0};
        struct base_reason why;
        assert_int_equal(try_run(cases[i].text, 1, &o, &why), BASE_EINVAL);
        if (!strstr(why.text, cases[i].words))
            fail_msg("%s: %s", cases[i].text, why.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_moves_without_a_method),
        cmocka_unit_test(dpsgd_is_its_matrix),
        cmocka_unit_test(allreduce_is_the_mean),
        cmocka_unit_test(model_average_is_exact_after_a_butterfly),
        cmocka_unit_test(weights_of_the_schedule_are_used),
        cmocka_unit_test(choco_without_compression_is_dpsgd),
        cmocka_unit_test(choco_tunes_itself_and_agrees),
        cmocka_unit_test(diloco_is_outer_nesterov),
        cmocka_unit_test(noloco_is_its_formula),
        cmocka_unit_test(outer_steps_take_what_was_learnt),
        cmocka_unit_test(bytes_and_times_are_those_of_the_wire),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(the_exchange_agrees_as_fast_as_designed),
        cmocka_unit_test(the_exchange_without_compression_is_model_average),
        cmocka_unit_test(the_dead_drop_out),
        cmocka_unit_test(it_trains),
        cmocka_unit_test(progress_may_stop_it),
        cmocka_unit_test(what_it_cannot_run_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
