// What a user asks first: each condition from a state that has it, the line of the log, rates, and the curve.
#include "node/http/glance.h"
#include "node/http/rates.h"
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define S 1000000000ull
#define N 3

static struct gossip_record records[N];
static struct node_status_member members[N];
static struct node_status_edge edges[N];
static struct node_status_entry entries[1];

// Three nodes that train, without problems.
static struct node_status well(void)
{
    static const char *const names[N] = {"a", "b", "c"};
    for (size_t i = 0; i < N; i++) {
        records[i] = (struct gossip_record){.id = {{(uint8_t)(i + 1)}},
                                            .flags = GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_TRAINING};
        strcpy(records[i].name, names[i]);
        members[i] = (struct node_status_member){.record = &records[i],
                                                 .state = GOSSIP_MEMBER_ALIVE,
                                                 .linked = i > 0,
                                                 .neighbour = i > 0,
                                                 .step = 100,
                                                 .steps_per_s = 50};
        edges[i] = (struct node_status_edge){
            .edge = {.peer = records[i].id, .state = GOSSIP_EDGE_LIVE, .pace_ns = 2000000}};
    }
    entries[0] = (struct node_status_entry){.text = "10.0.0.1:7400", .shown = {.state = GOSSIP_ENTRY_MEMBER}};
    return (struct node_status){.name = "a",
                                .directory = "/data/a",
                                .parameters = 1000,
                                .steps = 1100,
                                .members = members,
                                .n_members = N,
                                .edges = edges + 1,
                                .n_edges = N - 1,
                                .entries = entries,
                                .n_entries = 1,
                                .progress = {.step = 100,
                                             .loss = 0.5,
                                             .accuracy = 0.875,
                                             .step_ns = 2000000,
                                             .disk_free = UINT64_MAX,
                                             .state = "training"}};
}

static void expect(const struct node_status *status, enum node_condition condition, const char *part)
{
    struct node_glance g;
    node_glance_of(status, &g);
    if (g.condition != condition || !strstr(g.text, part))
        fail_msg("found %s, '%s'; expected %s, '...%s...'", node_condition_name(g.condition), g.text,
                 node_condition_name(condition), part);
}

static void all_is_well(void **state)
{
    (void)state;
    struct node_status s = well();
    struct node_glance g;
    expect(&s, NODE_FINE, "2 other nodes; models are averaged with 2 of 2 neighbours");
    node_glance_of(&s, &g);
    assert_int_equal(g.here, 3);
    assert_int_equal(g.known, 3);
    assert_true(g.left_s == 20);
    s.n_members = 1;
    s.n_entries = 0;
    expect(&s, NODE_FINE, "by itself");
    s.steps = 0; // no last step
    node_glance_of(&s, &g);
    assert_true(isnan(g.left_s) && g.steps_per_s == 50);
}

static void each_condition_is_reported(void **state)
{
    (void)state;
    struct node_status s = well();
    s.progress.state = "lingering";
    expect(&s, NODE_FINISHED, "Training is done");
    s.progress.state = "stopping";
    expect(&s, NODE_FINISHED, "told to stop");
    s.progress.state = "fetching";
    expect(&s, NODE_WAITING, "fetches the model");
    s.progress.state = "waiting";
    expect(&s, NODE_WAITING, "waits for the others");
    entries[0].shown.state = GOSSIP_ENTRY_UNKNOWN;
    expect(&s, NODE_WAITING, "no node has answered at 10.0.0.1:7400");
    s.progress.state = "paused";
    expect(&s, NODE_WAITING, "exchanges with its neighbours");
    s.pauses = GOSSIP_LIFE_HELD_OUT;
    expect(&s, NODE_WAITING, "restarted often");
    s = well();
    s.still_ns = 125 * S;
    expect(&s, NODE_STALLED, "No step for 2 min 5 s");
    s.membership.minority = true;
    s.membership.here = 1; // of those that take part, by which it is a minority; 3 members are here
    s.membership.gone = 2;
    expect(&s, NODE_MINORITY, "do not answer: 1 of 3 are here. It continues to train");
    s.membership.cut_off = true;
    s.progress.state = "paused";
    expect(&s, NODE_MINORITY,
           "hears no other node, though others should be there: its network may be down. It waits");
    s = well();
    members[1].quiet_ns = 100 * S;
    members[2].quiet_ns = 90 * S;
    expect(&s, NODE_ALONE, "completed no exchange for 90 s, though 2 of 2 neighbours are linked");
    members[1].linked = members[2].linked = false;
    expect(&s, NODE_ALONE, "for 90 s, and has no link to any of its 2 neighbours");
    s.progress.state = "isolated";
    expect(&s, NODE_ALONE, "2 neighbours works");
    entries[0].shown.state = GOSSIP_ENTRY_REFUSED;
    expect(&s, NODE_REFUSED, "10.0.0.1:7400 and this node cannot train together");
    s.progress.losses.best = 0.25;
    s.progress.losses.latest = 1e20;
    s.progress.losses.far = 1;
    expect(&s, NODE_REFUSED, "cannot train together"); // one window may be an outlier
    s.progress.losses.far = 2;
    expect(&s, NODE_DIVERGED, "The loss, 1e+20, is far above its best, 0.25: a train.rate that is too high");
    s.progress.losses.far = 0;
    s.progress.losses.risen = true;
    expect(&s, NODE_DIVERGED, "is far above its best");
    s.progress.losses.recovers = true;
    s.progress.returns_in_row = 3;
    expect(&s, NODE_DIVERGED, "returned to its last good model, 3 of at most 8 times");
    s.progress.rollbacks_in_row = 2;
    expect(&s, NODE_NOT_FINITE, "latest 2 rounds");
    s.progress.unwritten = true;
    expect(&s, NODE_DISK_FULL, "/data/a cannot be written");
    s.progress.disk_free = 500000;
    expect(&s, NODE_DISK_FULL, "0.5 MB are free");
    for (int i = 0; i < NODE_CONDITIONS; i++)
        assert_true(strlen(node_condition_name((enum node_condition)i)) > 3);
}

static void a_node_without_others_is_reported_as_alone(void **state)
{
    (void)state;
    struct node_status s = well();
    members[1].state = members[2].state = GOSSIP_MEMBER_DEAD;
    s.membership.minority = true;
    expect(&s, NODE_ALONE, "None of 2 other nodes answers");
    s.n_members = 1;
    s.membership.minority = false;
    expect(&s, NODE_ALONE, "all other nodes have left");
    entries[0].shown.state = GOSSIP_ENTRY_UNKNOWN;
    expect(&s, NODE_ALONE, "no node has answered at 10.0.0.1:7400");
}

static void the_slowest_is_found(void **state)
{
    (void)state;
    struct node_status s = well();
    struct node_glance g;
    members[2].steps_per_s = 30;
    node_glance_of(&s, &g);
    assert_string_equal(g.slowest, "c");
    assert_true(g.slowest_steps_per_s == 30 && isnan(g.slowest_step_s));
    members[2].steps_per_s = 49; // all alike: they wait for each other
    edges[1].edge.pace_ns = 9000000;
    node_glance_of(&s, &g);
    assert_string_equal(g.slowest, "b");
    assert_true(g.slowest_step_s == 0.009 && g.step_s == 0.002);
    records[1].flags |= GOSSIP_RECORD_FINISHED; // it no longer counts as slow
    node_glance_of(&s, &g);
    assert_string_equal(g.slowest, "c");
    members[2].state = GOSSIP_MEMBER_DEAD;
    node_glance_of(&s, &g);
    assert_null(g.slowest);
    assert_int_equal(g.here, 2);
    assert_int_equal(g.known, 3);
}

static void the_line_of_the_log_has_progress_members_and_condition(void **state)
{
    (void)state;
    struct node_status s = well();
    struct node_glance g;
    char text[800], fields[512], json[600];
    members[2].steps_per_s = 30;
    node_glance_of(&s, &g);
    node_glance_line(&s, &g, text, sizeof text);
    assert_string_equal(
        text, "step 100 of 1100 (9.1%), loss 0.5000, test accuracy 87.50%, 50.0 steps/s, 20 s left, 3 "
              "of 3 members, slowest c (30.0 steps/s)");
    node_glance_fields(&s, &g, fields, sizeof fields);
    snprintf(json, sizeof json, "{%s}", fields + 1);
    json_t *object = json_loads(json, 0, NULL);
    assert_non_null(object);
    assert_int_equal(json_integer_value(json_object_get(object, "steps")), 1100);
    assert_true(json_number_value(json_object_get(object, "left_s")) == 20);
    assert_string_equal(json_string_value(json_object_get(object, "slowest")), "c");
    assert_string_equal(json_string_value(json_object_get(object, "condition")), "fine");
    json_decref(object);
    s.progress.state = "paused";
    s.progress.loss = s.progress.accuracy = NAN;
    s.steps = 0;
    node_glance_of(&s, &g);
    node_glance_line(&s, &g, text, sizeof text);
    assert_string_equal(text,
                        "step 100, 3 of 3 members, slowest c (30.0 steps/s); waiting: This node waits for "
                        "the exchanges with its neighbours to begin.");
    for (size_t capacity = 1; capacity < 60; capacity++) { // cut, never past the end
        memset(text, 'x', sizeof text);
        node_glance_line(&s, &g, text, capacity);
        assert_true(strlen(text) < capacity && text[capacity] == 'x');
    }
}

static void durations_are_readable(void **state)
{
    (void)state;
    char text[NODE_SPAN_TEXT];
    assert_string_equal(node_span_text(119.4, text), "119 s");
    assert_string_equal(node_span_text(1184, text), "19 min 44 s");
    assert_string_equal(node_span_text(7200, text), "2 h 0 min");
    assert_string_equal(node_span_text(3 * 86400.0 + 3600, text), "3 d 1 h");
    assert_string_equal(node_span_text(1e300, text), "unknown");
    assert_string_equal(node_span_text(NAN, text), "unknown");
}

static void rates_follow_their_counters(void **state)
{
    (void)state;
    struct node_rates *rates = node_rates_create();
    const struct gossip_id a = {{7}}, b = {{3}}, c = {{5}};
    assert_true(isnan(node_rates_per_second(rates, &a)));
    for (uint64_t i = 0; i <= 40; i++) { // a: 4 per second; b: one in 10 s
        node_rates_note(rates, &a, 1, 1000 + 2 * i, S + i * S / 2);
        node_rates_note(rates, &b, 1, i / 20, S + i * S / 2);
        node_rates_note(rates, &c, 1, i, S + i * S / 2);
    }
    assert_true(fabs(node_rates_per_second(rates, &a) - 4) < 1e-9);
    assert_true(fabs(node_rates_per_second(rates, &b) - 0.1) < 1e-9);
    assert_int_equal(node_rates_still_ns(rates, &a), 0);
    node_rates_note(rates, &a, 1, 1082, 22 * S);
    node_rates_note(rates, &a, 1, 1082, 100 * S); // no value for a long time
    assert_int_equal(node_rates_still_ns(rates, &a), 78 * S);
    assert_true(node_rates_per_second(rates, &a) < 1);
    node_rates_note(rates, &a, 2, 50000, 101 * S); // a new process: no jump
    assert_true(isnan(node_rates_per_second(rates, &a)));
    node_rates_note(rates, &b, 1, 0, 101 * S); // fewer than before
    assert_true(isnan(node_rates_per_second(rates, &b)));
    node_rates_sweep(rates);
    node_rates_note(rates, &b, 1, 1, 103 * S);
    node_rates_sweep(rates); // c was not noted: it is forgotten
    assert_true(isnan(node_rates_per_second(rates, &c)));
    assert_true(node_rates_per_second(rates, &b) == 0.5);
    node_rates_destroy(rates);
}

// The edge of one neighbour of the plan is down, or live without an exchange.
static void a_neighbour_without_exchanges_is_named_with_the_cause(void **state)
{
    (void)state;
    struct node_status s = well();
    edges[2].edge.state = GOSSIP_EDGE_DOWN;
    expect(&s, NODE_FINE, "averaged with 1 of 2 neighbours, which has been so for less than 30 s");
    members[2].quiet_ns = 45 * S;
    members[2].linked = false;
    expect(&s, NODE_EDGE_DOWN, "1 of 2 neighbours (c) has had no exchange for 45 s: there is no link to it");
    members[2].linked = true;
    expect(&s, NODE_EDGE_DOWN, "have not compared their states");
    edges[2].edge.state = GOSSIP_EDGE_RESYNC;
    expect(&s, NODE_EDGE_DOWN, "whole models");
    edges[2].edge.state = GOSSIP_EDGE_LIVE;
    expect(&s, NODE_EDGE_DOWN, "no exchange ends");
    edges[2].edge.barred = true;
    expect(&s, NODE_EDGE_DOWN, "no honest node sends");
    s.progress.state = "lingering"; // it exchanges no more
    expect(&s, NODE_FINISHED, "Training is done");
}

static void the_end_says_what_the_model_is(void **state)
{
    (void)state;
    struct node_status s = well();
    s.progress.state = "lingering";
    s.progress.round = s.progress.own_rounds = 400;
    s.progress.own_steps = 1100;
    s.progress.usual_consensus = NAN;
    s.expected_exchanges = 400;
    s.progress.exchanges = 41;
    expect(&s, NODE_FINISHED, "Training is done");
    s.progress.exchanges = 3;
    expect(&s, NODE_APART, "made 3 exchanges in its 400 rounds");
    s.expected_exchanges = 19; // of a star's last node in a short training
    expect(&s, NODE_FINISHED, "Training is done");
    s.expected_exchanges = 400;
    s.progress.exchanges = 300;
    s.progress.late_rounds = 100;
    s.progress.late_exchanges = 9;
    expect(&s, NODE_APART, "made 9 exchanges in its last 100 rounds");
    s.progress.late_exchanges = 10;
    expect(&s, NODE_FINISHED, "Training is done");
    s.progress.late_missed = 51;
    expect(&s, NODE_APART, "away for 51 of its last 100 rounds");
    s.progress.late_missed = 50;
    s.totals.consensus = 0.3;
    s.progress.usual_consensus = 0.05;
    expect(&s, NODE_APART, "0.3 of its norm away from its neighbours' (usually 0.05)");
    s.totals.consensus = 0.2;
    expect(&s, NODE_FINISHED, "Training is done");
    s.progress.adopted_step = 989;
    expect(&s, NODE_FINISHED, "Training is done");
    s.progress.adopted_step = 990;
    expect(&s, NODE_COPIED,
           "another node's model, taken at step 990 of 1100; this process computed 1100 steps");
    s.progress.merged = true;
    expect(&s, NODE_FINISHED, "the mean of the final models of all nodes");
    s.progress.state = "training";
    expect(&s, NODE_FINE, "2 of 2");
}

static void a_node_that_does_not_take_part_is_not_ready(void **state)
{
    (void)state;
    struct node_status s = well();
    struct node_glance g = {.condition = NODE_FINE};
    for (int i = 0; i < NODE_CONDITIONS; i++) {
        g.condition = (enum node_condition)i;
        const bool out = i == NODE_STALLED || i == NODE_ALONE || i == NODE_REFUSED || i == NODE_DIVERGED;
        assert_int_equal(node_glance_ready(&s, &g), !out);
    }
    g.condition = NODE_MINORITY;
    s.membership.cut_off = true;
    assert_false(node_glance_ready(&s, &g));
    g.condition = NODE_NOT_FINITE;
    s.progress.rollbacks_in_row = 2;
    assert_false(node_glance_ready(&s, &g));
}

static void exchanges_that_stop_are_noticed(void **state)
{
    (void)state;
    struct node_meets meets = {0};
    const struct gossip_id a = {{1}}, b = {{2}}, c = {{3}};
    assert_int_equal(node_meets_quiet_ns(&meets, &a, 100, 2, 1000 * S), 0); // not known
    for (uint64_t t = 1; t <= 60; t++) {
        node_meets_note(&meets, &a, NODE_MEET_LIVE, t, t, t * S);
        node_meets_note(&meets, &b, NODE_MEET_LIVE, t / 20, t, t * S); // every 20 s
        node_meets_note(&meets, &c, NODE_MEET_EXCUSED, 0, t, t * S);   // this node waits
        assert_int_equal(node_meets_quiet_ns(&meets, &a, t, 2, t * S), 0);
        assert_int_equal(node_meets_quiet_ns(&meets, &c, t, 2, t * S), 0);
        node_meets_sweep(&meets);
    }
    node_meets_note(&meets, &a, NODE_MEET_LIVE, 60, 90, 91 * S);
    node_meets_note(&meets, &b, NODE_MEET_LIVE, 3, 90, 91 * S);
    assert_int_equal(node_meets_quiet_ns(&meets, &a, 65, 2, 91 * S), 0); // three turns are longer
    assert_int_equal(node_meets_quiet_ns(&meets, &a, 66, 2, 91 * S), 31 * S);
    assert_int_equal(node_meets_quiet_ns(&meets, &b, 90, 2, 91 * S), 0); // usual
    assert_int_equal(node_meets_quiet_ns(&meets, &b, 200, 2, 140 * S), 80 * S);
    node_meets_note(&meets, &b, NODE_MEET_DOWN, 3, 90, 100 * S);
    assert_int_equal(node_meets_quiet_ns(&meets, &b, 91, 2, 120 * S), 0); // its edge was live until 91 s
    assert_int_equal(node_meets_quiet_ns(&meets, &b, 91, 2, 121 * S), 61 * S);
    node_meets_sweep(&meets);
    node_meets_sweep(&meets); // nobody was noted since
    assert_int_equal(node_meets_quiet_ns(&meets, &b, 91, 2, 200 * S), 0);
}

static void note(struct node_history *h, uint64_t step, double loss, double accuracy, uint64_t at_ns)
{
    const struct node_history_point now = {step, at_ns, step / 4, 100 * step, loss, accuracy};
    node_history_note(h, &now);
}

static void the_curve_is_bounded_and_covers_the_whole_training(void **state)
{
    (void)state;
    static struct node_history h;
    h.lasts_ns = S / 4;
    for (uint64_t i = 0; i < 100000; i++)
        note(&h, i, (double)(i % 2), i < 5 ? (double)NAN : 0.5, S + i * S / 10);
    assert_true(h.count > NODE_HISTORY_POINTS / 2 - 1 && h.count <= NODE_HISTORY_POINTS);
    for (size_t i = 1; i < h.count; i++) {
        assert_true(h.points[i].step > h.points[i - 1].step && h.points[i].at_ns > h.points[i - 1].at_ns);
        assert_true(fabs(h.points[i].loss - 0.5) < 0.02); // the mean, not one of the two
    }
    assert_true(h.points[h.count - 1].step > 99000);
    assert_true(h.points[0].step < 1000); // the beginning is kept
    char *text = node_history_json(&h, true, S + 10000 * S);
    json_t *object = json_loads(text, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(object, "step")), h.count);
    assert_int_equal(json_array_size(json_object_get(object, "r2")), h.count);
    assert_null(json_object_get(object, "accuracy"));
    json_decref(object);
    free(text);
}

static void the_curve_skips_values_that_are_not_finite(void **state)
{
    (void)state;
    static struct node_history h;
    h.lasts_ns = S;
    note(&h, 1, INFINITY, NAN, S);
    note(&h, 2, NAN, NAN, S + S / 2);
    note(&h, 3, 4, NAN, 2 * S);
    note(&h, 3, 4, NAN, 9 * S); // no step since then
    assert_int_equal(h.count, 2);
    assert_true(isnan(h.points[0].loss) && h.points[1].loss == 4);
    char *text = node_history_json(&h, false, 3 * S);
    assert_string_equal(
        text,
        "{\"at\":[2.0,1.0],\"step\":[1,3],\"round\":[0,0],\"bytes_sent\":[100,300],\"loss\":[null,4.0],\"accuracy\":[null,null]}");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_well),
        cmocka_unit_test(each_condition_is_reported),
        cmocka_unit_test(a_node_without_others_is_reported_as_alone),
        cmocka_unit_test(a_neighbour_without_exchanges_is_named_with_the_cause),
        cmocka_unit_test(the_end_says_what_the_model_is),
        cmocka_unit_test(a_node_that_does_not_take_part_is_not_ready),
        cmocka_unit_test(the_slowest_is_found),
        cmocka_unit_test(the_line_of_the_log_has_progress_members_and_condition),
        cmocka_unit_test(durations_are_readable),
        cmocka_unit_test(rates_follow_their_counters),
        cmocka_unit_test(exchanges_that_stop_are_noticed),
        cmocka_unit_test(the_curve_is_bounded_and_covers_the_whole_training),
        cmocka_unit_test(the_curve_skips_values_that_are_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
