// Times of messages compared with numbers worked out by hand, and what a file may say about links and
// stragglers.
#include "lab/experiment/network.h"
#include "lab/experiment/step_times.h"
#include "test/support/lab_world.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ull

struct world {
    struct lab_links links;
    struct lab_network *network;
};

static struct world world_of(const char *sim)
{
    struct world w = {0};
    char text[1024];
    struct base_reason why;
    struct lab_experiment experiment;
    snprintf(text, sizeof text, "experiment:\n  nodes: 6\nsim:\n%s", sim);
    if (lab_world_load(text, &experiment, &why) || lab_links_of(&experiment, &w.links, &why) ||
        lab_network_create(&w.links, 7, &w.network, &why))
        fail_msg("%s", why.text);
    lab_experiment_free(&experiment);
    return w;
}

static void drop(struct world *w)
{
    lab_network_destroy(w->network);
    lab_links_free(&w->links);
}

static uint64_t send(struct world *w, size_t from, size_t to, size_t bytes, uint64_t now_ns)
{
    uint64_t arrival_ns = 0;
    assert_true(lab_network_send(w->network, LAB_STREAM, from, to, bytes, now_ns, &arrival_ns));
    return arrival_ns;
}

// 125,000 bytes are 100 ms at 10 Mbit/s.
#define LOAD 125000u

static void a_message_alone_takes_transfer_and_latency(void **state)
{
    (void)state;
    struct world w = world_of("  latency: 20ms\n  bandwidth: 10\n");
    assert_int_equal(send(&w, 0, 1, LOAD, 0), 120 * MS);
    assert_int_equal(send(&w, 0, 1, LOAD, 1000 * MS), 1120 * MS);
    drop(&w);
    w = world_of("  latency: 20ms\n"); // no limit
    assert_int_equal(send(&w, 0, 1, LOAD, 0), 20 * MS);
    assert_int_equal(send(&w, 0, 1, LOAD, 0), 20 * MS);
    drop(&w);
}

static void the_line_out_of_a_node_is_shared(void **state)
{
    (void)state;
    struct world w = world_of("  latency: 20ms\n  bandwidth: 10\n");
    assert_int_equal(send(&w, 0, 1, LOAD, 0), 120 * MS);
    assert_int_equal(send(&w, 0, 2, LOAD, 0), 220 * MS);
    assert_int_equal(send(&w, 0, 3, LOAD, 0), 320 * MS);
    assert_int_equal(send(&w, 1, 0, LOAD, 0), 120 * MS); // full duplex
    drop(&w);
}

static void the_line_into_a_node_is_shared(void **state)
{
    (void)state;
    struct world w = world_of("  latency: 20ms\n  bandwidth: 10\n");
    for (size_t from = 1; from < 6; from++)
        assert_int_equal(send(&w, from, 0, LOAD, 0), (20 + 100 * from) * MS);
    drop(&w);
}

static void a_small_packet_overtakes_large_messages_and_counts(void **state)
{
    (void)state;
    struct world w = world_of("  latency: 20ms\n  bandwidth: 10\n");
    assert_int_equal(send(&w, 0, 1, LOAD, 0), 120 * MS);
    assert_int_equal(send(&w, 0, 1, 1250, 0), 21 * MS);
    assert_int_equal(send(&w, 0, 1, 1250, 0), 22 * MS);
    assert_int_equal(send(&w, 0, 2, LOAD, 0), 222 * MS);
    drop(&w);
}

static void a_single_link_may_differ_in_both_directions(void **state)
{
    (void)state;
    struct world w = world_of("  latency: 20ms\n  bandwidth: 10\n  links:\n"
                              "    - {between: [[0, 1], [2, 3]], bandwidth: 1, latency: 50ms}\n"
                              "    - {between: [0, 2], latency: 5ms}\n");
    assert_int_equal(send(&w, 1, 3, LOAD, 0), 1050 * MS);
    assert_int_equal(send(&w, 3, 0, LOAD, 0), 1050 * MS);
    assert_int_equal(send(&w, 2, 0, LOAD, 0), 1005 * MS);
    assert_int_equal(send(&w, 1, 4, LOAD, 5000 * MS), 5120 * MS);
    // The slow link is in use, the line of the sender is not.
    assert_int_equal(send(&w, 1, 3, LOAD, 6000 * MS), 7050 * MS);
    assert_int_equal(send(&w, 1, 4, LOAD, 6000 * MS), 6220 * MS);
    assert_int_equal(send(&w, 1, 3, LOAD, 6000 * MS), 8050 * MS);
    drop(&w);
}

static void lost_packets_cost_round_trips(void **state)
{
    (void)state;
    struct world w = world_of("  latency: 10ms\n  loss: 0.25\n");
    uint64_t arrival_ns, trips = 0, lost = 0;
    for (unsigned i = 0; i < 4000; i++) {
        uint64_t late_ns = send(&w, 0, 1, 100, 0) - 10 * MS;
        assert_int_equal(late_ns % (20 * MS), 0);
        trips += late_ns / (20 * MS);
        lost += !lab_network_send(w.network, LAB_DATAGRAM, 0, 1, 100, 0, &arrival_ns);
    }
    assert_true(fabs((double)trips / 4000 - 1.0 / 3) < 0.05); // p / (1 - p)
    assert_true(fabs((double)lost / 4000 - 0.25) < 0.03);
    drop(&w);
}

static void jitter_is_exponential_and_repeats(void **state)
{
    (void)state;
    struct world w = world_of("  latency: 10ms\n  jitter: 4ms\n"),
                 twin = world_of("  latency: 10ms\n  jitter: 4ms\n");
    double sum = 0;
    for (unsigned i = 0; i < 4000; i++) {
        uint64_t arrival_ns = send(&w, 0, 1, 100, 0);
        assert_int_equal(arrival_ns, send(&twin, 0, 1, 100, 0));
        assert_true(arrival_ns >= 10 * MS);
        sum += (double)(arrival_ns - 10 * MS);
    }
    assert_true(fabs(sum / 4000 / MS - 4) < 0.3);
    drop(&w);
    drop(&twin);
}

static void steps_take_the_configured_time(void **state)
{
    struct lab_experiment e;
    struct lab_step_times step_times, twin;
    struct base_reason why;
    double sum = 0, squares = 0;
    (void)state;
    assert_int_equal(lab_world_load("experiment:\n  nodes: 4\nsim:\n  step_time: 2ms\n"
                                    "  stragglers: [{node: 3, factor: 5}, {node: [0, 1], factor: 0.5}]\n",
                                    &e, &why),
                     BASE_OK);
    assert_int_equal(lab_step_times_of(&e, &step_times, &why), BASE_OK);
    assert_int_equal(lab_step_times_round_ns(&step_times, 2, 9, 4), 8 * MS);
    assert_int_equal(lab_step_times_round_ns(&step_times, 3, 9, 4), 40 * MS);
    assert_int_equal(lab_step_times_round_ns(&step_times, 1, 9, 4), 4 * MS);
    lab_step_times_free(&step_times);
    e.sim.step_jitter = 0.1;
    assert_int_equal(lab_step_times_of(&e, &step_times, &why), BASE_OK);
    assert_int_equal(lab_step_times_of(&e, &twin, &why), BASE_OK);
    for (uint64_t round = 0; round < 4000; round++) {
        double part = (double)lab_step_times_round_ns(&step_times, 2, round, 4) / (double)(8 * MS) - 1;
        assert_int_equal(lab_step_times_round_ns(&step_times, 0, round, 1),
                         lab_step_times_round_ns(&twin, 0, round, 1));
        sum += part;
        squares += part * part;
    }
    assert_true(fabs(sum / 4000) < 0.01);
    assert_true(fabs(sqrt(squares / 4000) - 0.1) < 0.01);
    lab_step_times_free(&step_times);
    lab_step_times_free(&twin);
    lab_experiment_free(&e);
}

static void mistakes_are_named_with_their_place(void **state)
{
    static const struct {
        const char *text, *place, *words;
    } cases[] = {
        {"sim:\n  links:\n    - {between: [[0], [9]], loss: 0.1}\n", ":3: sim.links",
         "found \"9\", expected a node from 0 to 3"},
        {"sim:\n  links:\n    - {between: [[0, 0], [1]], loss: 0.1}\n", ":3: sim.links", "twice"},
        {"sim:\n  links:\n    - {between: [[0], [1]]}\n", ":3: sim.links", "at least one of latency"},
        {"sim:\n  links:\n    - {loss: 0.1, jitter: 1ms}\n", ":3: sim.links", "expected between"},
        {"sim:\n  links:\n    - {between: [[0], [1]],\n       loss: 2}\n", ":4: sim.links",
         "expected a number from 0 to 0.5"},
        {"sim:\n  links:\n    - {between: [[0], [1]], speed: 2}\n", ":3: sim.links", "found the entry speed"},
        {"sim:\n  links:\n    - {between: [[0], [1]], latency: 2}\n", ":3: sim.links", "expected a duration"},
        {"sim:\n  stragglers: [{node: 4, factor: 2}]\n", ":2: sim.stragglers", "expected a node from 0 to 3"},
        {"sim:\n  stragglers: [{node: 1}]\n", ":2: sim.stragglers", "expected node and factor"},
        {"sim:\n  stragglers: [{node: 1, factor: 0}]\n", ":2: sim.stragglers",
         "expected a number from 0.001"},
        {"sim:\n  stragglers: [{node: [], factor: 2}]\n", ":2: sim.stragglers", "empty list"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        struct lab_experiment e;
        struct lab_links links = {0};
        struct lab_step_times step_times = {0};
        struct base_reason why;
        snprintf(text, sizeof text, "%sexperiment:\n  nodes: 4\n", cases[i].text);
        enum base_error error = lab_world_load(text, &e, &why);
        if (!error)
            error = lab_links_of(&e, &links, &why);
        if (!error) {
            error = lab_step_times_of(&e, &step_times, &why);
            lab_links_free(&links);
        }
        if (error != BASE_EINVAL || !strstr(why.text, cases[i].place) || !strstr(why.text, cases[i].words))
            fail_msg("%s: %s", cases[i].text, why.text);
        lab_experiment_free(&e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_alone_takes_transfer_and_latency),
        cmocka_unit_test(the_line_out_of_a_node_is_shared),
        cmocka_unit_test(the_line_into_a_node_is_shared),
        cmocka_unit_test(a_small_packet_overtakes_large_messages_and_counts),
        cmocka_unit_test(a_single_link_may_differ_in_both_directions),
        cmocka_unit_test(lost_packets_cost_round_trips),
        cmocka_unit_test(jitter_is_exponential_and_repeats),
        cmocka_unit_test(steps_take_the_configured_time),
        cmocka_unit_test(mistakes_are_named_with_their_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
