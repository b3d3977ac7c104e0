// The lock-step engine: bytes and times compared with numbers worked out by hand, threads, deaths, progress,
// and what it refuses.
#include "gossip/wire/message.h"
#include "test/support/lab_rounds_run.h"
#include "test/support/lab_world.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// The size of a sealed message with that many bytes of payload, with the headers of gossip/wire and
// gossip/session.
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

static void bytes_and_times_match_the_wire(void **state)
{
    (void)state;
    // Both send 4,000 bytes to each other at once: 0.8 us per byte, 20 ms, and 6 ms of local steps.
    struct outcome *o = run_on(2, SLOW, 2, "", "model-average", "butterfly", 6);
    double seconds = 0;
    uint64_t bytes = 0;
    for (uint64_t round = 1; round <= 3; round++) {
        bytes += wire_bytes(round, 4000);
        seconds += 0.006 + 0.020 + 0.8e-6 * (double)wire_bytes(round, 4000);
        assert_int_equal(o->points[round - 1].bytes, 2 * bytes);
        assert_true(fabs(o->points[round - 1].time - seconds) < 1e-8);
    }
    assert_int_equal(o->result.node[0].row.bytes_sent, bytes);
    assert_int_equal(o->result.node[1].row.bytes_received, bytes);
    assert_int_equal(o->result.node[0].row.delta_bytes, 12000);
    done(o);
    // A ring of four: six steps, each with a quarter of the model.
    o = run_on(2, SLOW, 4, "", "allreduce", "ring", 2);
    assert_int_equal(o->result.node[0].row.bytes_sent, 6 * wire_bytes(1, 1000));
    assert_int_equal(o->result.last.bytes, 24 * wire_bytes(1, 1000));
    assert_true(fabs(o->result.seconds - (0.006 + 6 * (0.020 + 0.8e-6 * (double)wire_bytes(1, 1000)))) <
                1e-7);
    done(o);
    // The hub of a star of four sends three models one after another, and receives three.
    o = run_on(2, SLOW, 4, "", "dpsgd", "star", 2);
    assert_int_equal(o->result.last.bytes, 6 * wire_bytes(1, 4000));
    assert_true(fabs(o->result.seconds - (0.006 + 0.020 + 3 * 0.8e-6 * (double)wire_bytes(1, 4000))) < 1e-7);
    done(o);
    // Lock-step: a straggler delays all.
    o = run_on(2, SLOW, 2, ", stragglers: [{node: 1, factor: 5}]", "local", "ring", 6);
    assert_true(fabs(o->result.seconds - 3 * 0.030) < 1e-9);
    done(o);
    // Each sends its packet to the two others.
    o = run_on(2, SLOW, 3, "", "sparseloco", "ring", 2);
    assert_int_equal(o->result.node[0].row.exchanges, 2);
    assert_int_equal(o->result.node[0].row.bytes_sent,
                     2 * wire_bytes(1, o->result.node[0].row.delta_bytes / 2));
    assert_int_equal(o->result.n_edges, 3);
    done(o);
    // Slow weights and changes: twice a model.
    o = run_on(2, SLOW, 2, "", "noloco", "butterfly", 2);
    assert_int_equal(o->result.node[0].row.bytes_sent, wire_bytes(1, 8000));
    done(o);
}

// Methods that send whole models refuse a ratio below 1.
static const char *ratio_of(const char *method)
{
    return strcmp(method, "choco") == 0 || strcmp(method, "edge-ref") == 0 ||
                   strcmp(method, "sparseloco") == 0
               ? ", ratio: 0.25"
               : "";
}

static void threads_change_nothing(void **state)
{
    static const char *const methods[] = {"choco",  "dpsgd",    "model-average", "allreduce",
                                          "diloco", "edge-ref", "sparseloco"};
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
static void the_exchange_agrees_as_fast_as_the_design_says(void **state)
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
    assert_int_equal(edge->result.node[3].row.exchanges, 2);
    done(edge);
    done(dense);
}

static void dead_nodes_drop_out(void **state)
{
    static const char *const methods[] = {"choco",  "dpsgd",    "model-average", "allreduce", "diloco",
                                          "noloco", "edge-ref", "local",         "sparseloco"};
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
        assert_true(o->result.node[2].row.round < 7 && o->result.node[3].row.round == 300);
        if (strcmp(methods[m], "local") != 0 && strcmp(methods[m], "noloco") != 0)
            assert_true(o->result.last.consensus < 0.01);
        done(o);
    }
}

static void the_engine_trains(void **state)
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

static void the_progress_callback_may_stop_the_run(void **state)
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

static void experiments_that_it_cannot_run_are_refused(void **state)
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
        cmocka_unit_test(bytes_and_times_match_the_wire),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(the_exchange_agrees_as_fast_as_the_design_says),
        cmocka_unit_test(the_exchange_without_compression_is_model_average),
        cmocka_unit_test(dead_nodes_drop_out),
        cmocka_unit_test(the_engine_trains),
        cmocka_unit_test(the_progress_callback_may_stop_the_run),
        cmocka_unit_test(experiments_that_it_cannot_run_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
