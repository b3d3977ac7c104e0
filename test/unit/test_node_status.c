// /status and /metrics from one snapshot: every key of the contract, NaN, hostile names, the text format's
// rules.
#include "node/status.h"
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
    struct node_roster *roster;
};

static int make_world(void **state)
{
    static char *peers[] = {"10.0.0.1:7400"};
    static const struct node_texts texts = {.items = peers, .count = 1};
    struct world *w = calloc(1, sizeof *w);
    struct node_roster_options options = {
        .self = {{1}}, .name = "one", .address = "127.0.0.1:7400", .peers = &texts};
    struct gossip_id peer = {{2}};
    if (!w || node_roster_create(&options, &w->roster) != BASE_OK)
        return -1;
    if (node_roster_up(w->roster, &peer, "two", "10.0.0.2:7400", 5) != BASE_OK)
        return -1;
    w->edge = (struct node_status_edge){.edge = {.peer = peer,
                                                 .state = GOSSIP_EDGE_LIVE,
                                                 .epoch = 1,
                                                 .sequence = 42,
                                                 .exchanges = 42,
                                                 .answer_median_ns = 1500000},
                                        .name = "two",
                                        .traffic = {.sent = 1000, .received = 2000}};
    w->status = (struct node_status){.name = "one",
                                     .cluster = "p2pml",
                                     .version = "0.1.0",
                                     .model = "mlp 784-256-10",
                                     .id = {{1}},
                                     .parameters = 203530,
                                     .bytes_sent = 123456,
                                     .started_ns = 1000000000,
                                     .now_ns = 3500000000,
                                     .progress = {.round = 7,
                                                  .step = 28,
                                                  .loss = 0.5,
                                                  .accuracy = NAN,
                                                  .consensus = NAN,
                                                  .rate = 0.1,
                                                  .state = "training"},
                                     .totals = {.exchanges = 42, .consensus = NAN},
                                     .roster = w->roster,
                                     .edges = &w->edge,
                                     .n_edges = 1};
    *state = w;
    return 0;
}

static int free_world(void **state)
{
    struct world *w = *state;
    node_roster_destroy(w->roster);
    free(w);
    return 0;
}

static void has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in:\n%s", part, text);
}

static void json_has_every_key(void **state)
{
    struct world *w = *state;
    char *text = node_status_json(&w->status);
    static const char *const parts[] = {"\"name\": \"one\"",
                                        "\"id\": \"01000000",
                                        "\"cluster\": \"p2pml\"",
                                        "\"version\": \"0.1.0\"",
                                        "\"state\": \"training\"",
                                        "\"round\": 7",
                                        "\"step\": 28",
                                        "\"loss\": 0.5",
                                        "\"accuracy\": null",
                                        "\"consensus\": null",
                                        "\"parameters\": 203530",
                                        "\"model\": \"mlp 784-256-10\"",
                                        "\"bytes_sent\": 123456",
                                        "\"uptime_s\": 2.5",
                                        "\"address\": \"10.0.0.1:7400\"",
                                        "\"state\": \"unknown\"",
                                        "\"state\": \"alive\"",
                                        "\"seq\": 42",
                                        "\"epoch\": 1",
                                        "\"state\": \"live\"",
                                        "\"answer_ms\": 1.5",
                                        "\"bytes_received\": 2000"};
    assert_non_null(text);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        has(text, parts[i]);
    free(text);
}

static void metrics_keep_the_text_format(void **state)
{
    struct world *w = *state;
    char *text = node_status_metrics(&w->status);
    assert_non_null(text);
    has(text, "# TYPE p2pml_steps_total counter\np2pml_steps_total 28\n");
    has(text, "p2pml_members{state=\"alive\"} 1\n");
    has(text, "p2pml_edge_exchanges_total{peer=\"02000000");
    has(text, ",name=\"two\"} 42\n");
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "test_accuracy_ratio")); // not measured: not there
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

static void nobody_around_is_fine(void **state)
{
    struct world *w = *state;
    w->status.n_edges = 0;
    char *json = node_status_json(&w->status), *metrics = node_status_metrics(&w->status);
    has(json, "\"edges\": []");
    assert_null(strstr(metrics, "p2pml_edge_"));
    free(json);
    free(metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(json_has_every_key, make_world, free_world),
        cmocka_unit_test_setup_teardown(metrics_keep_the_text_format, make_world, free_world),
        cmocka_unit_test_setup_teardown(names_are_never_markup, make_world, free_world),
        cmocka_unit_test_setup_teardown(nobody_around_is_fine, make_world, free_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
