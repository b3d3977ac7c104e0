// /status and /metrics from one snapshot: every key of the contract, NaN, hostile names, and the rules of the
// text format.
#include "node/http/status.h"
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct world {
    struct node_status status;
    struct node_status_edge edge;
    struct node_status_member members[2];
    struct gossip_record records[2];
    struct node_status_entry entry;
    struct gossip_missing missing;
    struct node_events *events;
    struct node_rounds *rounds;
};

static void make_members(struct world *w, const struct gossip_id *peer)
{
    w->records[0] = (struct gossip_record){.id = {{1}},
                                           .name = "one",
                                           .slot = 3,
                                           .shard = GOSSIP_NO_SHARD,
                                           .n_addresses = 1,
                                           .addresses = {{.family = 4, .ip = {10, 0, 0, 9}, .port = 7400}},
                                           .pages = {.family = 4, .port = 7480},
                                           .n_relays = 1,
                                           .relays = {gossip_id_beginning(peer)}};
    w->records[1] = (struct gossip_record){.id = *peer,
                                           .name = "two",
                                           .version = {.generation = 5, .instance_id = 7, .incarnation = 9},
                                           .flags = GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_TRAINING,
                                           .slot = GOSSIP_NO_SLOT,
                                           .shard = 4,
                                           .n_addresses = 2,
                                           .addresses = {{.family = 4, .ip = {10, 0, 0, 1}, .port = 7400},
                                                         {.family = 6, .ip = {[15] = 1}, .port = 1}},
                                           .pages = {.family = 4, .ip = {127, 0, 0, 1}, .port = 7481}};
    w->members[0] = (struct node_status_member){
        .record = &w->records[0], .state = GOSSIP_MEMBER_ALIVE, .step = 28, .steps_per_s = 12.5};
    w->members[1] =
        (struct node_status_member){.record = &w->records[1],
                                    .state = GOSSIP_MEMBER_SUSPECT,
                                    .since_ns = 3000000000,
                                    .linked = true,
                                    .neighbour = true,
                                    .path = {.round_trip_ns = 2250000, .rate = 125000, .mtu = 1280},
                                    .round = 6,
                                    .step = 24,
                                    .steps_per_s = NAN};
}

static void make_status(struct world *w)
{
    w->status = (struct node_status){
        .name = "one",
        .cluster = "p2pml",
        .version = "0.1.0",
        .model = "mlp 784-256-10",
        .id = {{1}},
        .directory = "/data/one",
        .parameters = 203530,
        .weight = 0.25,
        .settings = {.profile = "lan", .local_steps = 4},
        .reach = "private",
        .outside = "198.51.100.7:7400",
        .relay = 1e9,
        .peers = {.forwarded = 2, .forwarded_bytes = 4711},
        .steps = 128,
        .sent_per_s = 2048,
        .received_per_s = NAN,
        .bytes_sent = 123456,
        .started_ns = 1000000000,
        .now_ns = 3500000000,
        .progress = {.round = 7,
                     .own_steps = 20,
                     .own_examples = 640,
                     .step = 28,
                     .loss = 0.5,
                     .accuracy = NAN,
                     .consensus = NAN,
                     .rate = 0.1,
                     .step_ns = 2500000,
                     .disk_free = 5000000000,
                     .memory = 2442360,
                     .state = "training"},
        .totals = {.exchanges = 42,
                   .memory = 4070600,
                   .implausible = 8,
                   .standing = GOSSIP_FINISHED,
                   .consensus = NAN},
        .members = w->members,
        .n_members = 2,
        .membership = {.view_hash = 0xab, .alive = 1, .suspect = 1, .probes = 11},
        .cluster_counters = {.datagrams = {.sent = 21, .bytes_received = 22}, .refused = 23, .deaths = 24},
        .entries = &w->entry,
        .n_entries = 1,
        .missing = &w->missing,
        .n_missing = 1,
        .events = w->events,
        .rounds = w->rounds,
        .edges = &w->edge,
        .n_edges = 1};
}

static int make_world(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct gossip_id peer = {{2}};
    struct base_reason why;
    const struct node_event event = {
        .event = "suspect", .id = &peer, .name = "two", .evidence = NODE_EVENT_TRUE};
    if (!w || node_events_open(NULL, (struct node_lines_bounds){0}, &w->events, &why))
        return -1;
    w->entry = (struct node_status_entry){.text = "10.0.0.1:7400",
                                          .shown = {.state = GOSSIP_ENTRY_MEMBER, .known = true, .id = peer}};
    w->missing = (struct gossip_missing){.peer = peer, .since_ns = 2000000000};
    node_events_tell(w->events, &event, BASE_LOG_INFO, "two may be dead");
    w->rounds = node_rounds_create();
    if (!w->rounds)
        return -1;
    make_members(w, &peer);
    w->edge = (struct node_status_edge){
        .edge = {.peer = peer,
                 .state = GOSSIP_EDGE_LIVE,
                 .epoch = 1,
                 .sequence = 42,
                 .exchanges = 42,
                 .implausible = 6,
                 .barred = true,
                 .trust = {.state = GOSSIP_DISTRUSTED, .looked = true, .lost = 0.25},
                 .standing = GOSSIP_AWAY,
                 .pace_ns = 3500000,
                 .answer_median_ns = 1500000},
        .name = "two",
        .traffic = {.sent = 1000, .received = 2000},
        .sent_per_s = 321,
        .received_per_s = NAN};
    make_status(w);
    *state = w;
    return 0;
}

static int free_world(void **state)
{
    struct world *w = *state;
    node_events_close(w->events);
    node_rounds_destroy(w->rounds);
    free(w);
    return 0;
}

static void has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in:\n%s", part, text);
}

static void expect_in_json(const struct world *w, const char *const parts[], size_t count)
{
    char *text = node_status_json(&w->status);
    assert_non_null(text);
    for (size_t i = 0; i < count; i++)
        has(text, parts[i]);
    free(text);
}

static void json_has_the_state_of_the_node(void **state)
{
    static const char *const parts[] = {
        "\"name\": \"one\"",      "\"id\": \"01000000",      "\"cluster\": \"p2pml\"",
        "\"version\": \"0.1.0\"", "\"state\": \"training\"", "\"round\": 7",
        "\"own_steps\": 20",      "\"own_examples\": 640",   "\"step\": 28",
        "\"loss\": 0.5",          "\"accuracy\": null",      "\"consensus\": null",
        "\"parameters\": 203530", "\"weight\": 0.25",        "\"vector\": 814120",
        "\"trainer\": 2442360",   "\"exchange\": 4070600",   "\"model\": \"mlp 784-256-10\"",
        "\"bytes_sent\": 123456", "\"uptime_s\": 2.5"};

    expect_in_json(*state, parts, sizeof parts / sizeof *parts);
}

static void json_has_members_entries_and_events(void **state)
{
    static const char *const parts[] = {"\"view_hash\": \"00000000000000ab\"",
                                        "\"suspect\": 1",
                                        "\"minority\": false",
                                        "\"probes\": 11",
                                        "\"sent\": 21",
                                        "\"bytes_received\": 22",
                                        "\"refused\": 23",
                                        "\"state\": \"suspect\"",
                                        "\"self\": true",
                                        "\"eligible\": true",
                                        "\"training\": true",
                                        "\"finished\": false",
                                        "\"boot\": 5",
                                        "\"incarnation\": 9",
                                        "\"slot\": 3",
                                        "\"slot\": null",
                                        "\"shard\": 4",
                                        "\"10.0.0.1:7400\"",
                                        "\"[::1]:1\"",
                                        "\"since\": 0.5",
                                        "\"linked\": true",
                                        "\"neighbour\": true",
                                        "\"entry\": \"10.0.0.1:7400\"",
                                        "\"state\": \"member\"",
                                        "\"missing_links\": [",
                                        "\"since\": 1.5",
                                        "\"event\": \"suspect\"",
                                        "\"member\": \"two\"",
                                        "\"evidence\": true"};

    expect_in_json(*state, parts, sizeof parts / sizeof *parts);
}

static void json_has_how_nodes_reach_each_other(void **state)
{
    struct world *w = *state;
    static const char *const direct[] = {"\"reach\": \"private\"",  "\"outside\": \"198.51.100.7:7400\"",
                                         "\"path\": \"direct\"",    "\"via\": null",
                                         "\"round_trip_ms\": 2.25", "\"rate\": 125000",
                                         "\"mtu\": 1280",           "\"forwarded_bytes\": 4711",
                                         "\"relay\": 1000000000.0", "\"relays\": [\n        \"two\""};
    static const char *const relayed[] = {"\"path\": \"relayed\"", "\"via\": \"three\"",
                                          "\"round_trip_ms\": null"};
    static const char *const unmapped[] = {"\"state\": \"off\"", "\"by\": null", "\"address\": null"};
    static const char *const mapped[] = {"\"path\": \"mapped\"", "\"state\": \"mapped\"", "\"by\": \"UPnP\"",
                                         "\"address\": \"198.51.100.7:7400\""};
    expect_in_json(w, direct, sizeof direct / sizeof *direct);
    expect_in_json(w, unmapped, sizeof unmapped / sizeof *unmapped);
    w->members[1].mapped = true;
    w->status.mapping =
        (struct node_cluster_mapping){.state = "mapped", .by = "UPnP", .address = "198.51.100.7:7400"};
    expect_in_json(w, mapped, sizeof mapped / sizeof *mapped);
    w->members[1].via = "three";
    w->members[1].path = (struct node_path){0};
    expect_in_json(w, relayed, sizeof relayed / sizeof *relayed);
}

static void metrics_say_which_edges_are_relayed_and_whether_a_relay_is_linked(void **state)
{
    struct world *w = *state;
    char *text = node_status_metrics(&w->status);
    has(text, "p2pml_private 1\n");
    has(text, "p2pml_reachable 0\n");
    has(text, "p2pml_relays 1\n");
    has(text, "p2pml_forwarded_bytes_total 4711\n");
    has(text, "name=\"two\"} 0.0022499999999999998\n");
    free(text);
    w->members[1].via = "three"; // what is relayed itself is no relay
    text = node_status_metrics(&w->status);
    has(text, "p2pml_relays 0\n");
    has(text, "# TYPE p2pml_edge_relayed gauge\np2pml_edge_relayed{peer=\"0200");
    has(text, "name=\"two\"} 1\n# HELP p2pml_edge_round_trip");
    free(text);
}

static void json_has_edges_and_the_condition(void **state)
{
    static const char *const parts[] = {"\"seq\": 42",
                                        "\"implausible\": 8",
                                        "\"standing\": \"finished\"",
                                        "\"implausible\": 6",
                                        "\"barred\": true",
                                        "\"distrusted\": true",
                                        "\"lost\": 0.25",
                                        "\"standing\": \"away\"",
                                        "\"epoch\": 1",
                                        "\"state\": \"live\"",
                                        "\"answer_ms\": 1.5",
                                        "\"bytes_received\": 2000",
                                        "\"condition\": \"fine\"",
                                        "\"condition_text\": \"Training with 1 other node;",
                                        "\"steps\": 128",
                                        "\"steps_per_s\": 12.5",
                                        "\"left_s\": 8.0",
                                        "\"members_here\": 2",
                                        "\"members_known\": 2",
                                        "\"slowest\": null",
                                        "\"step_ms\": 2.5",
                                        "\"step_ms\": 3.5",
                                        "\"sent_per_s\": 2048.0",
                                        "\"sent_per_s\": 321.0",
                                        "\"disk_free\": 5000000000",
                                        "\"step\": 24",
                                        "\"http\": \"10.0.0.9:7480\"",
                                        "\"http\": \"127.0.0.1:7481\""};

    expect_in_json(*state, parts, sizeof parts / sizeof *parts);
}

// Unix times have ten digits before the point.
static json_t *round_told(const struct world *w, uint64_t round)
{
    char *text = node_status_round(&w->status, round);
    json_t *told = json_loads(text ? text : "", 0, NULL);
    assert_non_null(told);
    free(text);
    return told;
}

static size_t events_told(const struct world *w, uint64_t round)
{
    json_t *told = round_told(w, round);
    const size_t count = json_array_size(json_object_get(told, "events"));
    json_decref(told);
    return count;
}

static void a_round_has_its_lines_names_and_events(void **state)
{
    struct world *w = *state;
    struct node_event event = {.event = "join", .name = "three", .time_us = 1700000005 * UINT64_C(1000000)};
    node_events_write(w->events, &event);
    node_rounds_put(w->rounds, 6, 1700000001.123456, "{\"round\":6,\"time\":1700000001.123456}");
    node_rounds_put(w->rounds, 7, 1700000009, "{\"round\":7,\"met\":[\"0200000000000000\"]}");
    json_t *told = round_told(w, 7), *rows = json_object_get(told, "rows");
    assert_int_equal(json_integer_value(json_object_get(told, "first")), 6);
    assert_int_equal(json_integer_value(json_object_get(told, "last")), 7);
    assert_int_equal(json_array_size(rows), 2);
    assert_float_equal(json_real_value(json_object_get(json_array_get(rows, 0), "time")), 1700000001.123456,
                       1e-6);
    assert_int_equal(json_object_size(json_object_get(told, "names")), 1); // of those that the rows name
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(told, "names"), "0200000000000000")), "two");
    assert_true(json_is_null(json_object_get(told, "events_from")));
    assert_true(json_is_object(json_object_get(told, "wait")));
    json_decref(told);
    assert_int_equal(events_told(w, 7), 2); // after the line before it: the other one is of today
    assert_int_equal(events_told(w, 6), 1); // up to the line after it
    told = round_told(w, 5);
    assert_int_equal(json_array_size(json_object_get(told, "rows")), 0);
    json_decref(told);
}

static void it_says_from_when_on_events_are_kept(void **state)
{
    struct world *w = *state;
    struct node_event event = {.event = "join", .name = "three"};
    for (unsigned i = 1; i <= NODE_EVENTS_KEPT + 1; i++) {
        event.time_us = i * UINT64_C(1000000);
        node_events_write(w->events, &event);
    }
    json_t *told = round_told(w, 0);
    assert_float_equal(json_number_value(json_object_get(told, "events_from")), 2, 1e-9);
    json_decref(told);
    char *text = node_status_json(&w->status); // which has fewer
    json_t *status = json_loads(text, 0, NULL);
    assert_in_range(json_array_size(json_object_get(status, "events")), 1, NODE_EVENTS_KEPT / 2);
    json_decref(status);
    free(text);
}

static void times_of_events_are_not_rounded(void **state)
{
    struct world *w = *state;
    char *text = node_status_json(&w->status);
    json_t *status = json_loads(text, 0, NULL), *line = json_loads(node_events_line(w->events, 0), 0, NULL);
    const json_t *shown = json_object_get(json_array_get(json_object_get(status, "events"), 0), "time");
    const json_t *written = json_object_get(line, "time");
    assert_true(json_is_real(shown) && json_real_value(written) > 1e9);
    assert_true(fabs(json_real_value(shown) - json_real_value(written)) <= 0.001);
    json_decref(status);
    json_decref(line);
    free(text);
}

static void metrics_keep_the_text_format(void **state)
{
    struct world *w = *state;
    char *text = node_status_metrics(&w->status);
    assert_non_null(text);
    has(text, "# TYPE p2pml_step gauge\np2pml_step 28\n");
    has(text, "# TYPE p2pml_own_steps_total counter\np2pml_own_steps_total 20\n");
    has(text, "p2pml_own_examples_total 640\n");
    has(text, "p2pml_members{state=\"alive\"} 1\n");
    has(text, "p2pml_members{state=\"dead\"} 0\n");
    has(text, "p2pml_datagrams_total{direction=\"sent\"} 21\n");
    has(text, "p2pml_datagram_bytes_total{direction=\"received\"} 22\n");
    has(text, "p2pml_deaths_total 24\n");
    has(text, "p2pml_member_health 0\n");
    has(text, "p2pml_implausible_total 8\n");
    has(text, "p2pml_edge_implausible_total{peer=");
    has(text, ",name=\"two\"} 6\n");
    has(text, "p2pml_edge_barred{peer=");
    has(text, "p2pml_edge_distrusted{peer=");
    has(text, "p2pml_edge_lost_ratio{peer=");
    has(text, "p2pml_edge_away{peer=");
    has(text, "p2pml_edge_exchanges_total{peer=\"02000000");
    has(text, ",name=\"two\"} 42\n");
    has(text, "p2pml_condition{condition=\"fine\"} 1\n");
    has(text, "p2pml_condition{condition=\"disk_full\"} 0\n");
    has(text, "p2pml_steps_planned 128\n");
    has(text, "p2pml_steps_per_second 12.5\n");
    has(text, "p2pml_time_left_seconds 8\n");
    has(text, "p2pml_step_compute_seconds 0.0025");
    has(text, "p2pml_disk_free_bytes 5000000000\n");
    assert_null(strstr(text, "slowest_member")); // a single node is not slow
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "test_accuracy_ratio")); // not measured: absent
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        assert_non_null(strchr(line, '\n'));
        assert_true(strncmp(line, "# HELP p2pml_", 13) == 0 || strncmp(line, "# TYPE p2pml_", 13) == 0 ||
                    strncmp(line, "p2pml_", 6) == 0);
    }
    free(text);
}

static void names_are_never_markup(void **state)
{
    struct world *w = *state;
    w->status.name = "a\"b\\c\nd";
    w->edge.name = "x\"} 1\ny";
    char *json = node_status_json(&w->status), *metrics = node_status_metrics(&w->status);
    assert_non_null(json);
    assert_non_null(metrics);
    has(json, "\"name\": \"a\\\"b\\\\c\\nd\"");
    has(metrics, "name=\"a\\\"b\\\\c\\nd\"");
    has(metrics, "name=\"x\\\"} 1\\ny\"");
    free(json);
    free(metrics);
}

static void a_node_without_others_has_a_status(void **state)
{
    struct world *w = *state;
    w->status.n_edges = 0;
    char *json = node_status_json(&w->status), *metrics = node_status_metrics(&w->status);
    has(json, "\"edges\": []");
    assert_null(strstr(metrics, "p2pml_edge_"));
    free(json);
    free(metrics);
}

static void the_model_that_replaced_the_own_one_and_who_is_kept_out_are_told(void **state)
{
    struct world *w = *state;
    static const char *const none[] = {"\"adopted\": null", "\"banned_s\": null"};
    static const char *const taken[] = {
        "\"adopted\": {",
        "\"why\": \"behind\"",
        "\"name\": \"two\"",
        "\"loss_of_nothing\": 2.3",
        ("\"text\": \"took the model of two at round 431: this node was far behind; on its own examples the "
         "loss was 0.3, that of its own model 0.4\""),
        "\"banned_s\": 3.5"};
    static const char *const merged[] = {
        "\"text\": \"took the mean of the models of 3 nodes at round 431: average.finish\""};
    expect_in_json(w, none, sizeof none / sizeof *none);
    w->status.progress.adopted = (struct node_adopted){.why = NODE_ADOPTED_BEHIND,
                                                       .donor = w->records[1].id,
                                                       .round = 431,
                                                       .own = 0.4,
                                                       .other = 0.3,
                                                       .nothing = 2.3};
    w->members[1].banned_ns = 3500000000;
    expect_in_json(w, taken, sizeof taken / sizeof *taken);
    w->status.progress.adopted = (struct node_adopted){
        .why = NODE_ADOPTED_MERGED, .nodes = 3, .round = 431, .own = NAN, .other = NAN, .nothing = NAN};
    expect_in_json(w, merged, sizeof merged / sizeof *merged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(json_has_the_state_of_the_node, make_world, free_world),
        cmocka_unit_test_setup_teardown(the_model_that_replaced_the_own_one_and_who_is_kept_out_are_told,
                                        make_world, free_world),
        cmocka_unit_test_setup_teardown(json_has_members_entries_and_events, make_world, free_world),
        cmocka_unit_test_setup_teardown(json_has_edges_and_the_condition, make_world, free_world),
        cmocka_unit_test_setup_teardown(json_has_how_nodes_reach_each_other, make_world, free_world),
        cmocka_unit_test_setup_teardown(metrics_say_which_edges_are_relayed_and_whether_a_relay_is_linked,
                                        make_world, free_world),
        cmocka_unit_test_setup_teardown(a_round_has_its_lines_names_and_events, make_world, free_world),
        cmocka_unit_test_setup_teardown(it_says_from_when_on_events_are_kept, make_world, free_world),
        cmocka_unit_test_setup_teardown(times_of_events_are_not_rounded, make_world, free_world),
        cmocka_unit_test_setup_teardown(metrics_keep_the_text_format, make_world, free_world),
        cmocka_unit_test_setup_teardown(names_are_never_markup, make_world, free_world),
        cmocka_unit_test_setup_teardown(a_node_without_others_has_a_status, make_world, free_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
