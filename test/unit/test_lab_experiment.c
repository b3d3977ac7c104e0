// The file of an experiment: what it may contain, what is refused with which message, and what each node gets
// from it.
#include "base/log.h"
#include "lab/experiment/experiment.h"
#include "topology/file.h"

#include <glob.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64]; // of the file under test

static int make_file(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/p2pml-experiment-XXXXXX.yaml");
    int file = mkstemps(path, 5);
    return file < 0 ? -1 : close(file);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static enum base_error load_with(const char *text, const char *const *settings, size_t n_settings,
                                 char *const *environment, struct lab_experiment *experiment,
                                 struct base_reason *why)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    const struct lab_experiment_source source = {
        .path = path, .settings = settings, .n_settings = n_settings, .environment = environment};
    *why = (struct base_reason){""};
    return lab_experiment_load(&source, experiment, why);
}

static enum base_error load(const char *text, struct lab_experiment *experiment, struct base_reason *why)
{
    return load_with(text, NULL, 0, NULL, experiment, why);
}

static void an_empty_file_is_eight_nodes_on_a_ring(void **state)
{
    (void)state;
    struct lab_experiment e;
    struct base_reason why;
    assert_int_equal(load("", &e, &why), BASE_OK);
    assert_int_equal(e.experiment.nodes, 8);
    assert_int_equal(e.node.topology.kind, 0);
    assert_true(lab_experiment_wants(&e, LAB_LONE) && lab_experiment_wants(&e, LAB_CENTRAL) &&
                lab_experiment_wants(&e, LAB_CENTRAL_TOTAL));
    // The name is that of the file, the directory that of the name.
    assert_int_equal(strncmp(e.experiment.name, "p2pml-experiment-", 17), 0);
    assert_null(strchr(e.experiment.name, '/'));
    assert_int_equal(strncmp(e.experiment.out, "run/p2pml-experiment-", 21), 0);
    lab_experiment_free(&e);
}

static void keys_that_the_runner_sets_are_refused(void **state)
{
    static const struct {
        const char *text, *key;
    } cases[] = {
        {"node:\n  name: a\n", "node.name"},
        {"node:\n  dir: a\n", "node.dir"},
        {"node:\n  group: a\n", "node.group"},
        {"node:\n  listen: 127.0.0.1:1\n", "node.listen"},
        {"node:\n  http: 127.0.0.1:1\n", "node.http"},
        {"node:\n  identity: a\n", "node.identity"},
        {"cluster:\n  secret_file: a\n", "cluster.secret_file"},
        {"cluster:\n  allow_file: a\n", "cluster.allow_file"},
        {"cluster:\n  operator: a\n", "cluster.operator"},
        {"cluster:\n  join_rate: 1\n", "cluster.join_rate"},
        {"\npeers: [a:1]\n", "peers"},
        {"data:\n  shard: 1\n", "data.shard"},
        {"data:\n  shards: 2\n", "data.shards"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lab_experiment e;
        struct base_reason why;
        char begin[128];
        assert_int_equal(load(cases[i].text, &e, &why), BASE_EINVAL);
        snprintf(begin, sizeof begin, "%s:2: %s: found in an experiment, expected only", path, cases[i].key);
        if (strncmp(why.text, begin, strlen(begin)) != 0)
            fail_msg("%s", why.text);
        assert_non_null(strstr(why.text, "leave it out"));
        assert_null(e.schema.keys);
    }
}

static void refused_keys_are_refused_from_everywhere(void **state)
{
    (void)state;
    static const char *const settings[] = {"node.listen=127.0.0.1:7400"};
    char variable[] = "P2PML_DATA_SHARD=3", *environment[] = {variable, NULL};
    struct lab_experiment e;
    struct base_reason why;
    assert_int_equal(load_with("", settings, 1, NULL, &e, &why), BASE_EINVAL);
    assert_int_equal(strncmp(why.text, "--set: node.listen: ", 20), 0);
    assert_int_equal(load_with("", NULL, 0, environment, &e, &why), BASE_EINVAL);
    assert_int_equal(strncmp(why.text, "P2PML_DATA_SHARD: data.shard: ", 30), 0);
}

static void wrong_values_are_named_with_their_place(void **state)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"experiment:\n  nodes: 1\n",
         ":2: experiment.nodes: found \"1\", expected a whole number from 2 to 10000"},
        {"experiment:\n  nodes: 10001\n",
         ":2: experiment.nodes: found \"10001\", expected a whole number from 2 to 10000"},
        {"experiment:\n  nods: 3\n", "did you mean experiment.nodes?"},
        {"experiment:\n  name: a/b\n", ":2: experiment.name: found \"a/b\", expected a name"},
        {"experiment:\n  name: ..\n", ":2: experiment.name: found \"..\", expected a name"},
        {"experiment:\n  baselines: [lone, centre]\n",
         ":2: experiment.baselines: found \"centre\", expected lone, central or central_total"},
        {"experiment:\n  targets: [0.9, 93]\n",
         ":2: experiment.targets: found \"93\", expected an accuracy above 0 and at most 1"},
        {"experiment:\n  targets: [high]\n", ":2: experiment.targets: found \"high\", expected an accuracy"},
        {"sim:\n  stragglers:\n    - {node: 8, factor: 5}\n", ":3: sim.stragglers: "},
        {"sim:\n  stragglers:\n    - {node: 1, factor: 0}\n", ":3: sim.stragglers: "},
        {"sim:\n  stragglers:\n    - {node: 1, faktor: 5}\n", ":3: sim.stragglers: "},
        {"sim:\n  links:\n    - {between: [[0], [9]], latency: 5ms}\n", ":3: sim.links: "},
        {"sim:\n  links:\n    - {between: [[0], [1]], latency: -5ms}\n", ":3: sim.links: "},
        {"sim:\n  links:\n    - {between: [[0], [1]], lag: 5ms}\n", ":3: sim.links: "},
        {"attackers:\n  - {node: 8, kind: sign}\n",
         ":2: attackers: node: found \"8\", expected a node from 0 to 7"},
        {"attackers:\n  - {node: 1, kind: evil}\n",
         ":2: attackers: kind: found \"evil\", expected one of sign, noise, big, one-entry, alie, ipm, drift, spike, "
         "replay, negated, freeride, labels, moments, stall, finished, donor, ghosts"},
        {"attackers:\n  - {node: 1, sort: sign}\n",
         ":2: attackers: an attacker: found the entry sort, expected"},
        {"attackers:\n  - {node: 1}\n",
         ":2: attackers: expected node and kind, such as {node: 3, kind: sign}"},
        {"attackers:\n  - {node: 1, kind: sign}\n  - {node: [0, 1], kind: noise}\n",
         ":3: attackers: node: found node 1 a second time"},
        {"attackers:\n  - {node: 1, kind: replay, factor: 2}\n",
         ":2: attackers: factor: the kind replay has none; leave it out"},
        {"attackers:\n  - {node: 1, kind: sign, factor: 0}\n",
         ":2: attackers: factor: found \"0\", expected"},
        {"attackers:\n  - {node: [0, 1, 2, 3, 4, 5, 6, 7], kind: sign}\n",
         "attackers: found all 8 nodes, expected at least one honest node"},
        {"attackers:\n  - {node: 1, kind: moments}\n",
         ":1: attackers: found the kind moments, expected it only with train.optimizer adamw"},
        {"sim:\n  loss: 0.6\n", ":2: sim.loss: found \"0.6\", expected"},
        {"experiment.time_limit: soon\n", ":1: experiment.time_limit: found \"soon\", expected a duration"},
        {"average:\n  ratio: 2\n", ":2: average.ratio: found \"2\", expected a number"},
        // Checks that span several keys, with the number of nodes filled in.
        {"data:\n  train_count: 5\n",
         "data.shards: found 8, expected at most the number of training examples, 5"},
        {"data:\n  kind: idx\n", "data.train_images: found \"\", expected a file"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lab_experiment e;
        struct base_reason why;
        assert_int_not_equal(load(cases[i].text, &e, &why), BASE_OK);
        if (!strstr(why.text, cases[i].said))
            fail_msg("expected '%s' in '%s'", cases[i].said, why.text);
        assert_null(e.schema.keys);
    }
}

// The file is valid; only `check` refuses it.
static void only_refused_by(enum base_error (*check)(const struct lab_experiment *, struct base_reason *),
                            const char *text, const char *said)
{
    struct lab_experiment e;
    struct base_reason why;
    if (load(text, &e, &why))
        fail_msg("%s\nrefused: %s", text, why.text);
    assert_int_equal(check(&e, &why), BASE_EINVAL);
    if (!strstr(why.text, said))
        fail_msg("expected '%s' in '%s'", said, why.text);
    lab_experiment_free(&e);
}

static void run_and_sim_refuse_what_they_cannot_do(void **state)
{
    (void)state;
    only_refused_by(lab_experiment_check_run, "experiment:\n  nodes: 65\n",
                    ":2: experiment.nodes: found 65, expected at most 64 with p2pml run");
    only_refused_by(lab_experiment_check_run, "average:\n  method: choco\n",
                    ":2: average.method: this method is not an exchange between two nodes");
    only_refused_by(lab_experiment_check_run, "sim:\n  vector: 5\n", ":2: sim.vector: found in an");
    only_refused_by(lab_experiment_check_run, "attackers:\n  - {node: 1, kind: sign}\n",
                    ":1: attackers: found in an experiment of p2pml run, expected only with p2pml sim");
    only_refused_by(lab_experiment_check_sim,
                    "sim: {engine: rounds}\nattackers:\n  - {node: 1, kind: sign}\n",
                    ":2: attackers: found with sim.engine rounds, expected sim.engine nodes");
    only_refused_by(lab_experiment_check_sim, "experiment:\n  nodes: 1025\n",
                    ":2: experiment.nodes: found 1025, expected at most 1024 with sim.engine nodes");
    only_refused_by(lab_experiment_check_sim, "sim: {engine: nodes}\naverage:\n  method: dpsgd\n",
                    ":3: average.method: this method");
    only_refused_by(lab_experiment_check_sim, "sim: {engine: nodes, vector: 5}\n",
                    "sim.vector: found it with");
    only_refused_by(lab_experiment_check_sim, "experiment:\n  nodes: 1025\nsim: {engine: rounds}\n",
                    ":2: experiment.nodes: found 1025, expected at most 1024 that train");
    only_refused_by(lab_experiment_check_sim,
                    "experiment:\n  nodes: 1025\nsim: {vector: 9}\nevents:\n  - {at: 1s, kill: 0}\n",
                    ": events: found events, expected none for more than 1024 nodes");
}

static void the_engine_follows_the_method(void **state)
{
    static const struct {
        const char *text;
        enum lab_engine engine;
    } cases[] = {{"", LAB_ENGINE_NODES},
                 {"average.method: local\n", LAB_ENGINE_NODES},
                 {"average.method: model-average\n", LAB_ENGINE_NODES},
                 {"average.method: allreduce\n", LAB_ENGINE_ROUNDS},
                 {"sim.engine: rounds\n", LAB_ENGINE_ROUNDS},
                 {"{sim.vector: 100, experiment.nodes: 10000}\n", LAB_ENGINE_ROUNDS}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lab_experiment e;
        struct base_reason why;
        if (load(cases[i].text, &e, &why) || lab_experiment_check_sim(&e, &why))
            fail_msg("%s\nrefused: %s", cases[i].text, why.text);
        assert_int_equal(lab_experiment_engine(&e), cases[i].engine);
        lab_experiment_free(&e);
    }
}

static void nodes_and_groups_have_generated_names(void **state)
{
    (void)state;
    char name[LAB_NODE_NAME_BYTES];
    struct lab_experiment e;
    struct base_reason why;
    assert_string_equal(lab_node_name(7, name), "node-07");
    assert_string_equal(lab_node_name(1023, name), "node-1023");
    assert_int_equal(load("experiment.group_size: 3\n", &e, &why), BASE_OK);
    assert_string_equal(lab_group_name(&e, 2, name), "group-00");
    assert_string_equal(lab_group_name(&e, 3, name), "group-01");
    e.experiment.group_size = 0;
    assert_string_equal(lab_group_name(&e, 3, name), "");
    lab_experiment_free(&e);
}

static void later_sources_win(void **state)
{
    (void)state;
    static const char *const settings[] = {"train.steps=40", "experiment.nodes=3"};
    char steps[] = "P2PML_TRAIN_STEPS=30", nodes[] = "P2PML_EXPERIMENT_NODES=5",
         node[] = "P2PML_NODE=/bin/true", *environment[] = {steps, nodes, node, NULL};
    struct lab_experiment e;
    struct base_reason why;
    const char *text = "train:\n  steps: 20\nexperiment:\n  nodes: 4\n";
    assert_int_equal(load_with(text, NULL, 0, environment, &e, &why), BASE_OK);
    assert_true(e.node.train.steps == 30 && e.experiment.nodes == 5);
    lab_experiment_free(&e);
    assert_int_equal(load_with(text, settings, 2, environment, &e, &why), BASE_OK);
    assert_true(e.node.train.steps == 40 && e.experiment.nodes == 3);
    lab_experiment_free(&e);
}

static void out_on_the_command_line_takes_precedence(void **state)
{
    (void)state;
    struct lab_experiment e;
    struct base_reason why;
    assert_int_equal(load("experiment:\n  name: some\n  out: there\n", &e, &why), BASE_OK);
    assert_string_equal(e.experiment.out, "there");
    lab_experiment_free(&e);
    const struct lab_experiment_source source = {.path = path, .out = "here"};
    assert_int_equal(lab_experiment_load(&source, &e, &why), BASE_OK);
    assert_string_equal(e.experiment.out, "here");
    assert_string_equal(e.experiment.name, "some");
    lab_experiment_free(&e);
}

static void the_view_is_a_node_of_the_experiment(void **state)
{
    (void)state;
    struct lab_experiment e;
    struct node_config view;
    struct base_reason why;
    assert_int_equal(load("experiment:\n  nodes: 5\n  seed: 10\nmodel:\n  seed: 2\ntrain:\n  seed: 3\n"
                          "data:\n  seed: 4\ntopology:\n  seed: 5\n",
                          &e, &why),
                     BASE_OK);
    lab_experiment_view(&e, &view);
    assert_int_equal(view.data.shards, 5);
    assert_true(view.model.seed == 12 && view.train.seed == 13 && view.data.seed == 14 &&
                view.topology.seed == 15);
    assert_true(e.node.model.seed == 2); // the experiment itself does not change
    // The origins are those of the node's own table, so that its checks name the file of the experiment.
    assert_non_null(strstr(node_schema_origin(&node_config_schema, &view, "topology.seed"), ".yaml:11"));
    view.data.shard = 5;
    assert_int_equal(node_config_check(&view, &why), BASE_EINVAL);
    lab_experiment_free(&e);
}

// A graph contains every node of the experiment and no other.
static void a_graph_must_name_all_nodes_of_the_experiment(void **state)
{
    (void)state;
    static const struct {
        unsigned nodes;
        const char *message; // after the name of the file
    } cases[] = {{3, NULL},
                 {2, ":2: there is no node 'node-02'; the nodes are 'node-00' to 'node-01'"},
                 {4, ": not connected: no line names the node 'node-03'"}};
    static const char lines[] = "node-00 node-01\nnode-01 node-02\n";
    char graph[] = "/tmp/p2pml-graph-XXXXXX", text[256], expected[256];
    int file = mkstemp(graph);
    assert_true(file >= 0);
    assert_int_equal(write(file, lines, sizeof lines - 1), sizeof lines - 1);
    close(file);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lab_experiment e;
        struct topology_graph *made = NULL;
        struct base_reason why;
        snprintf(text, sizeof text, "experiment:\n  nodes: %u\ntopology:\n  kind: file\n  file: %s\n",
                 cases[i].nodes, graph);
        assert_int_equal(load(text, &e, &why) == BASE_OK, !cases[i].message);
        if (cases[i].message) {
            snprintf(expected, sizeof expected, "%s:5: topology.file: %s%s", path, graph, cases[i].message);
            assert_string_equal(why.text, expected);
            continue;
        }
        assert_int_equal(lab_experiment_graph(&e, &made, &why), BASE_OK);
        assert_int_equal(topology_graph_nodes(made), 3);
        topology_graph_destroy(made);
        lab_experiment_free(&e);
    }
    unlink(graph);
}

static void the_view_is_settled_after_the_checks(void **state)
{
    (void)state;
    struct lab_experiment e;
    struct node_config view;
    struct base_reason why;
    assert_int_equal(load("average:\n  method: model-average\n", &e, &why), BASE_OK);
    lab_experiment_view(&e, &view);
    assert_true(view.average.ratio == 1 && !view.average.drift_correction);
    assert_true(e.node.average.ratio == 0);
    lab_experiment_free(&e);
    assert_int_not_equal(load("average:\n  method: model-average\n  ratio: 1/8\n", &e, &why), BASE_OK);
    assert_non_null(
        strstr(why.text, ".yaml:3: average.ratio: found 0.125; leave the key out, or set it to 1"));
}

static void baselines_can_be_left_out(void **state)
{
    (void)state;
    struct lab_experiment e;
    struct base_reason why;
    assert_int_equal(load("experiment:\n  baselines: []\n", &e, &why), BASE_OK);
    for (int kind = 0; kind < LAB_BASELINES; kind++)
        assert_false(lab_experiment_wants(&e, (enum lab_baseline)kind));
    lab_experiment_free(&e);
    assert_int_equal(load("experiment:\n  baselines: [central]\n", &e, &why), BASE_OK);
    assert_true(lab_experiment_wants(&e, LAB_CENTRAL) && !lab_experiment_wants(&e, LAB_CENTRAL_TOTAL) &&
                !lab_experiment_wants(&e, LAB_LONE));
    lab_experiment_free(&e);
}

static void a_written_experiment_reads_back_the_same(void **state)
{
    (void)state;
    struct lab_experiment e, again;
    struct base_reason why;
    assert_int_equal(load("experiment:\n  nodes: 3\n  name: one\n  seed: 7\naverage:\n  ratio: 1/100\n"
                          "train:\n  schedule: [0.5:0.1]\n",
                          &e, &why),
                     BASE_OK);
    char *text = lab_experiment_write(&e);
    assert_non_null(text);
    if (load(text, &again, &why))
        fail_msg("%s", why.text);
    char *second = lab_experiment_write(&again);
    assert_non_null(second);
    assert_string_equal(text, second);
    free(text);
    free(second);
    lab_experiment_free(&e);
    lab_experiment_free(&again);
}

static void the_help_lists_only_keys_that_an_experiment_accepts(void **state)
{
    (void)state;
    char *help = lab_experiment_help();
    assert_non_null(help);
    assert_non_null(strstr(help, "experiment.nodes = 8\n"));
    assert_non_null(strstr(help, "average.ratio = auto\n"));
    assert_null(strstr(help, "node.listen ="));
    assert_null(strstr(help, "peers ="));
    free(help);
}

// Data files, which are in no checkout, are assumed to exist.
static void every_experiment_of_configs_is_valid(void **state)
{
    (void)state;
    static const char *const settings[] = {"data.train_images=/dev/null", "data.train_labels=/dev/null",
                                           "data.test_images=/dev/null",  "data.test_labels=/dev/null",
                                           "data.train_file=/dev/null",   "data.test_file=/dev/null",
                                           "model.init=/dev/null"}; // the last one only where it is needed
    static const char *const folders[] = {"data.train_file=" P2PML_SOURCE_DIR "/configs"};
    glob_t files;
    assert_int_equal(glob(P2PML_SOURCE_DIR "/configs/*.yaml", 0, NULL, &files), 0);
    assert_true(files.gl_pathc >= 6);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        struct lab_experiment e;
        struct base_reason why = {""};
        const bool images = strstr(files.gl_pathv[i], "images") != NULL;
        const size_t count = sizeof settings / sizeof *settings - (!strstr(files.gl_pathv[i], "finetune"));
        const struct lab_experiment_source source = {.path = files.gl_pathv[i],
                                                     .settings = images ? folders : settings,
                                                     .n_settings = images ? 1 : count};
        if (lab_experiment_load(&source, &e, &why))
            fail_msg("%s", why.text);
        assert_true(strstr(files.gl_pathv[i], e.experiment.name));
        lab_experiment_free(&e);
    }
    globfree(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_file_is_eight_nodes_on_a_ring),
        cmocka_unit_test(keys_that_the_runner_sets_are_refused),
        cmocka_unit_test(refused_keys_are_refused_from_everywhere),
        cmocka_unit_test(wrong_values_are_named_with_their_place),
        cmocka_unit_test(run_and_sim_refuse_what_they_cannot_do),
        cmocka_unit_test(the_engine_follows_the_method),
        cmocka_unit_test(nodes_and_groups_have_generated_names),
        cmocka_unit_test(later_sources_win),
        cmocka_unit_test(out_on_the_command_line_takes_precedence),
        cmocka_unit_test(the_view_is_a_node_of_the_experiment),
        cmocka_unit_test(a_graph_must_name_all_nodes_of_the_experiment),
        cmocka_unit_test(the_view_is_settled_after_the_checks),
        cmocka_unit_test(baselines_can_be_left_out),
        cmocka_unit_test(a_written_experiment_reads_back_the_same),
        cmocka_unit_test(the_help_lists_only_keys_that_an_experiment_accepts),
        cmocka_unit_test(every_experiment_of_configs_is_valid),
    };
    base_log_configure(BASE_LOG_ERROR, BASE_LOG_TEXT, ""); // no warnings of checks
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
