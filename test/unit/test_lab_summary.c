// The mathematics of a summary on made-up models and nodes, and the file and the table made from it.
#include "base/file.h"
#include "base/log.h"
#include "lab/record/directory.h"
#include "lab/summary/summary.h"
#include "node/store/model_file.h"
#include "node/store/safetensors.h"
#include "test/support/temporary.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fabs(b);
}

static void mean_and_consensus_follow_their_definitions(void **state)
{
    (void)state;
    const float a[] = {1, 2, 0, 4}, b[] = {3, 2, 0, 0}, c[] = {2, 2, 0, 2};
    const float *models[] = {a, b, c};
    float mean[4];
    lab_models_mean(models, 3, 4, mean);
    assert_true(mean[0] == 2 && mean[1] == 2 && mean[2] == 0 && mean[3] == 2);
    // Squared distances 1+4, 1+4, 0; norm of the mean sqrt(12).
    assert_true(near(lab_models_consensus(models, 3, 4, mean), sqrt(10.0 / 3 / 12)));
    lab_models_mean(models, 1, 4, mean);
    assert_memory_equal(mean, a, sizeof a);
    assert_true(lab_models_consensus(models, 1, 4, mean) == 0);
}

static void the_consensus_around_a_mean_of_zero_is_zero_or_unknown(void **state)
{
    (void)state;
    const float up[] = {1, -1}, down[] = {-1, 1}, zero[] = {0, 0};
    const float *apart[] = {up, down}, *same[] = {zero, zero};
    float mean[2];
    lab_models_mean(apart, 2, 2, mean);
    assert_true(isnan(lab_models_consensus(apart, 2, 2, mean)));
    lab_models_mean(same, 2, 2, mean);
    assert_true(lab_models_consensus(same, 2, 2, mean) == 0);
}

static void the_mean_is_rounded_once(void **state)
{
    (void)state;
    enum { MODELS = 64 };
    float values[MODELS];
    const float *models[MODELS];
    float mean;
    for (size_t i = 0; i < MODELS; i++) {
        values[i] = i ? 1.0f : 16777216.0f; // sums in fp32 would lose each 1
        models[i] = &values[i];
    }
    lab_models_mean(models, MODELS, 1, &mean);
    assert_true(mean == (float)((16777216.0 + 63) / 64));
}

// A softmax model of 2 features and 2 classes, and three test examples.
struct world {
    char directory[TEMPORARY_BYTES];
    struct lab_experiment experiment;
    struct lab_workbench bench;
    struct lab_cluster cluster;
    struct lab_baselines baselines;
};

static void write_checkpoint(const char *directory, const float weights[4], const float bias[2])
{
    struct base_reason why = {""};
    struct node_tensor tensors[] = {
        {.name = "model.layers.0.weight", .shape = {2, 2}, .n_dims = 2, .bytes = 16, .data = weights},
        {.name = "model.layers.0.bias", .shape = {2}, .n_dims = 1, .bytes = 8, .data = bias},
    };
    char *path = lab_path("%s/checkpoint-10.safetensors", directory);
    if (base_directory_make(directory, 0777, &why) || node_safetensors_write(path, tensors, 2, NULL, 0, &why))
        fail_msg("%s", why.text);
    free(path);
}

static int make_world(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct base_reason why = {""};
    assert_non_null(w);
    temporary_make(w->directory, "summary");
    char *data = lab_path("%s/data", w->directory), *file = lab_path("%s/made-up.yaml", w->directory);
    char *text =
        lab_path("events: [{at: 2s, kill: 2}, {at: 3s, partition: [[0], [1]], for: 1s}]\n"
                 "experiment:\n  nodes: 3\n  out: %s\nmodel:\n  kind: softmax\ndata:\n  kind: libsvm\n"
                 "  train_file: %s\n  test_file: %s\n  features: 2\n  classes: 2\n",
                 w->directory, data, data);
    temporary_write(data, "0 1:1\n1 2:1\n1 1:0.25 2:1\n");
    temporary_write(file, text);
    const struct lab_experiment_source source = {.path = file};
    if (lab_experiment_load(&source, &w->experiment, &why) ||
        lab_workbench_load(&w->experiment, &w->bench, &why) || lab_workbench_open(&w->bench, &why) ||
        lab_cluster_prepare(&w->experiment, w->directory, &w->cluster, &why))
        fail_msg("%s", why.text);
    free(data);
    free(file);
    free(text);
    for (size_t i = 0; i < 3; i++) {
        w->cluster.nodes[i].process = (struct lab_process){.pid = 1}; // ended with status 0
        w->cluster.nodes[i].starts = 1;
    }
    lab_baselines_plan(&w->experiment, &w->baselines);
    *state = w;
    return 0;
}

static int remove_world(void **state)
{
    struct world *w = *state;
    temporary_remove(w->directory);
    lab_cluster_free(&w->cluster);
    lab_workbench_close(&w->bench);
    lab_experiment_free(&w->experiment);
    free(w);
    return 0;
}

static void the_checkpoints_of_the_nodes_are_averaged(void **state)
{
    struct world *w = *state;
    struct lab_average average;
    // Their mean is the identity, which is right for all three examples; each node alone is wrong for some.
    write_checkpoint(w->cluster.nodes[0].directory, (float[]){3, 0, 0, 1}, (float[]){9, 0});
    write_checkpoint(w->cluster.nodes[1].directory, (float[]){0, 0, 0, 1}, (float[]){-9, 0});
    write_checkpoint(w->cluster.nodes[2].directory, (float[]){0, 0, 0, 1}, (float[]){0, 0});
    assert_int_equal(lab_average_nodes(&w->bench, &w->cluster, &average), BASE_OK);
    assert_int_equal(average.nodes, 3);
    assert_true(near(average.score.accuracy, 1));
    // Squared distances 4+81, 1+81, 1+0; the norm of the mean is sqrt(2).
    assert_true(near(average.consensus, sqrt(168.0 / 3 / 2)));
    // -log softmax of differences 1, 1, 0.75.
    double loss = (2 * log1p(exp(-1)) + log1p(exp(-0.75))) / 3;
    assert_true(near(average.score.loss, loss));
    struct node_model_file file;
    struct base_reason why;
    char *path = lab_path("%s/" NODE_MODEL_AVERAGED, w->cluster.nodes[0].directory);
    assert_int_equal(lab_average_write(&average, &w->bench, w->cluster.nodes[0].directory, &why), BASE_OK);
    assert_int_equal(node_model_read(path, train_model_spec(w->bench.model), &file, &why), BASE_OK);
    assert_memory_equal(file.parameters, ((float[]){1, 0, 0, 1, 0, 0}), 6 * sizeof(float));
    assert_string_equal(file.about.origin, "the mean of 3 nodes");
    node_model_free(&file);
    unlink(path);
    free(path);
    lab_average_free(&average);
}

static void nodes_without_an_orderly_end_are_left_out(void **state)
{
    struct world *w = *state;
    struct lab_average average;
    char *path = lab_path("%s/checkpoint-10.safetensors", w->cluster.nodes[1].directory);
    write_checkpoint(w->cluster.nodes[0].directory, (float[]){1, 0, 0, 1}, (float[]){0, 0});
    write_checkpoint(w->cluster.nodes[1].directory, (float[]){7, 7, 7, 7}, (float[]){7, 7});
    write_checkpoint(w->cluster.nodes[2].directory, (float[]){1, 0, 0, 1}, (float[]){0, 0});
    w->cluster.nodes[1].process.status = 1 << 8; // exit status 1
    assert_int_equal(lab_average_nodes(&w->bench, &w->cluster, &average), BASE_OK);
    assert_true(average.nodes == 2 && near(average.score.accuracy, 1) && average.consensus == 0);
    lab_average_free(&average);
    w->cluster.nodes[1].process.status = 0;
    // an event ended it: its model is from the middle of the training
    w->cluster.nodes[1].gone = LAB_HAS_LEFT;
    assert_int_equal(lab_average_nodes(&w->bench, &w->cluster, &average), BASE_OK);
    assert_true(average.nodes == 2 && average.consensus == 0);
    lab_average_free(&average);
    w->cluster.nodes[1].gone = LAB_HERE;
    temporary_write(path, "not a checkpoint"); // reported on stderr
    assert_int_equal(lab_average_nodes(&w->bench, &w->cluster, &average), BASE_OK);
    assert_true(average.nodes == 2 && average.consensus == 0);
    lab_average_free(&average);
    for (size_t i = 0; i < 3; i++)
        w->cluster.nodes[i].process.status = 9; // killed
    assert_int_equal(lab_average_nodes(&w->bench, &w->cluster, &average), BASE_OK);
    assert_true(average.nodes == 0 && isnan(average.score.accuracy) && isnan(average.consensus));
    assert_null(average.model);
    free(path);
}

static void give_rows(struct world *w)
{
    static const double accuracies[] = {0.5, 0.75, 0.25};
    for (size_t i = 0; i < 3; i++) {
        struct lab_row *row = &w->cluster.nodes[i].tail.row;
        row->accuracy = accuracies[i];
        row->test_loss = 1 + (double)i;
        row->bytes_sent = 100 * (i + 1);
        row->bytes_received = 10;
        row->delta_bytes = 50;
        row->dense_bytes = 4000;
        row->exchanges = 5;
        row->step = w->bench.view.train.steps;
        row->own_steps = w->bench.view.train.steps;
        w->cluster.nodes[i].tail.lines = 1;
    }
}

static void totals_are_sums_over_all_nodes(void **state)
{
    struct world *w = *state;
    struct lab_totals totals;
    give_rows(w);
    lab_totals_of(&w->cluster, &totals);
    assert_true(totals.worst.accuracy == 0.25 && totals.worst.loss == 3);
    assert_true(totals.mean.accuracy == 0.5 && totals.mean.loss == 2);
    assert_true(totals.best.accuracy == 0.75 && totals.best.loss == 2);
    assert_true(totals.nodes == 3 && totals.bytes_sent == 600 && totals.bytes_received == 30 &&
                totals.delta_bytes == 150 && totals.dense_bytes == 12000 && totals.exchanges == 15);
    assert_true(totals.times_less == 20);
    w->cluster.nodes[2].process.status = 9; // what it sent still counts
    lab_totals_of(&w->cluster, &totals);
    assert_true(totals.worst.accuracy == 0.5 && totals.nodes == 2 && totals.bytes_sent == 600);
}

static void baselines_train_as_planned(void **state)
{
    struct world *w = *state;
    struct lab_signals signals;
    struct lab_display display;
    struct lab_spread spread;
    struct base_reason why = {""};
    FILE *out = fopen("/dev/null", "w");
    assert_non_null(out);
    assert_int_equal(w->baselines.count, 5);
    w->baselines.count = 0; // again, with fewer steps
    w->experiment.node.train.steps = 4;
    w->bench.view.train.steps = 4;
    lab_baselines_plan(&w->experiment, &w->baselines);
    lab_display_start(out, &display);
    assert_int_equal(lab_signals_open(&signals, &why), BASE_OK);
    if (lab_baselines_run(&w->bench, &signals, &display, &w->baselines, &why))
        fail_msg("%s", why.text);
    lab_signals_close(&signals);
    fclose(out);
    const struct lab_baseline_run *total = lab_baseline_find(&w->baselines, LAB_CENTRAL_TOTAL);
    const struct lab_baseline_run *central = lab_baseline_find(&w->baselines, LAB_CENTRAL);
    assert_true(total->done && total->steps == 12 && total->examples == 3 && !isnan(total->score.accuracy));
    assert_true(central->done && central->steps == 4 && central->examples == 3);
    assert_true(total->score.loss < central->score.loss); // it learns
    lab_lone_spread(&w->baselines, &spread);
    assert_int_equal(spread.runs, 3);
    assert_true(spread.worst.accuracy <= spread.mean.accuracy &&
                spread.mean.accuracy <= spread.best.accuracy);
    for (size_t i = 0; i < w->baselines.count; i++)
        assert_true(w->baselines.runs[i].kind != LAB_LONE || w->baselines.runs[i].examples == 1);
}

static char *summary_text(struct world *w, struct lab_summary *summary, char **table)
{
    struct base_reason why = {""};
    uint8_t *text = NULL;
    size_t bytes = 0, table_bytes = 0;
    char *path = lab_path("%s/summary.json", w->directory);
    struct lab_history histories[LAB_NODES_MAX];
    lab_histories_read(&w->cluster, histories);
    *summary = (struct lab_summary){
        .experiment = &w->experiment,
        .cluster = &w->cluster,
        .bench = &w->bench,
        .baselines = &w->baselines,
        .histories = histories,
        .average = {.score = {.accuracy = 0.875, .loss = 0.5}, .consensus = 0.0625, .nodes = 3},
        .file = "made-up.yaml",
        .directory = w->directory,
        .version = "0.0.0",
        .status = "complete",
        .kind = "run",
        .points = "/nowhere"};
    if (lab_summary_write(summary, path, &why) || base_file_read(path, 1 << 20, &text, &bytes, &why))
        fail_msg("%s", why.text);
    FILE *out = open_memstream(table, &table_bytes);
    assert_non_null(out);
    lab_summary_print(summary, out);
    fclose(out);
    lab_histories_free(histories);
    free(path);
    return (char *)text;
}

static void expect(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("expected '%s' in:\n%s", part, text);
}

static void file_and_table_have_the_same_values(void **state)
{
    struct world *w = *state;
    struct lab_summary summary;
    char *table = NULL;
    give_rows(w);
    w->cluster.nodes[2].tail.row.merged = true; // accuracy: of the merged model
    w->cluster.nodes[2].tail.row.own_accuracy = 0.625;
    char *text = summary_text(w, &summary, &table);
    expect(text, "\"own_accuracy\": null");
    expect(text, "\"own_accuracy\": 0.625");
    expect(text, "\"experiment\": \"made-up\"");
    expect(text, "\"model\": \"softmax 2-2\"");
    expect(text, "\"changed\": {");
    expect(text, "\"model.kind\": \"softmax\"");
    expect(text, "\"events\": ");
    assert_null(strstr(text, "\"experiment.out\""));
    assert_null(strstr(text, "\"train.rate\"")); // the default
    expect(text, "\"simulated\": null");
    expect(text, "\"seeds\": \"experiment 0; model ");
    expect(table, "  seeds      experiment 0; model ");
    expect(text, "\"averaged\": {\n    \"accuracy\": 0.875,\n    \"loss\": 0.5,\n    \"nodes\": 3\n  }");
    expect(text, "\"consensus\": 0.0625");
    expect(text, "\"dense_over_sent\": 20.0");
    expect(text, "\"sent_per_node\": 200");
    expect(text, "\"name\": \"node-02\",\n      \"status\": \"done\",\n      \"succeeded\": true,\n      "
                 "\"accuracy\": 0.25");
    expect(table, "made-up: 3 nodes on a ring; softmax 2-2");
    expect(table, "averaged model                87.50%     0.5000");
    expect(table, "worst node                    25.00%     3.0000");
    expect(table, "round      step  own steps  exchanges");
    expect(text, "\"own_steps\": ");
    expect(table, "20.0 times as much");
    expect(table, "mean of the lone nodes             -          -"); // nothing has been trained here
    free(text);
    free(table);
}

static void a_node_that_adopted_its_progress_is_named(void **state)
{
    struct world *w = *state;
    const struct node_config *planned = &w->bench.view;
    give_rows(w);
    for (size_t i = 0; i < 3; i++)
        w->cluster.nodes[i].tail.row.exchanges = 1000000;
    assert_null(lab_shortfall_text(&w->cluster, planned));
    w->bench.view.average.local_steps = w->bench.view.train.steps / 400;
    w->cluster.nodes[1].tail.row.exchanges = 400 / 20; // in a line of three
    assert_null(lab_shortfall_text(&w->cluster, planned));
    w->cluster.nodes[1].tail.row.exchanges--;
    char *few = lab_shortfall_text(&w->cluster, planned);
    assert_string_equal(few, "node-01 made 19 exchanges");
    free(few);
    w->cluster.nodes[1].tail.row.exchanges = 1000000;
    for (size_t i = 0; i < 3; i++)
        w->cluster.nodes[i].tail.row.own_steps = i; // `step` says that all have reached the end
    char *text = lab_shortfall_text(&w->cluster, planned);
    assert_non_null(text);
    expect(text, "node-00 took 0 of ");
    expect(text, " steps, node-01 1, node-02 2");
    free(text);
    w->cluster.happenings[0].begun = true; // kills node-02
    text = lab_shortfall_text(&w->cluster, planned);
    assert_true(text && strstr(text, "node-01 1") && !strstr(text, "node-02"));
    free(text);
    w->cluster.happenings[1].begun = true; // a partition of the other two
    assert_null(lab_shortfall_text(&w->cluster, planned));
    w->cluster.happenings[1].instead = "the run ended first"; // explains nothing
    text = lab_shortfall_text(&w->cluster, planned);
    assert_non_null(text);
    free(text);
}

static void expect_text(char *text, const char *expected)
{
    if (!text)
        fail_msg("expected '%s', found none", expected);
    assert_string_equal(text, expected);
    free(text);
}

static void a_node_that_failed_or_diverged_is_named(void **state)
{
    struct world *w = *state;
    struct lab_summary summary;
    char *table = NULL;
    give_rows(w);
    assert_null(lab_trouble_text(&w->cluster));
    w->cluster.nodes[1].tail.row.diverged = true;
    w->cluster.nodes[1].tail.row.returns = 3;
    expect_text(lab_trouble_text(&w->cluster), "node-01 has diverged (3 returns to its last good model)");
    lab_node_pretend_end(&w->cluster.nodes[1], 1);
    lab_node_pretend_end(&w->cluster.nodes[2], 1);
    expect_text(
        lab_trouble_text(&w->cluster),
        "node-01 ended with exit status 1 and has diverged (3 returns to its last good model), node-02 "
        "ended with exit status 1");
    w->cluster.nodes[2].gone = LAB_KILLED; // by an event
    lab_node_pretend_end(&w->cluster.nodes[1], 0);
    expect_text(lab_trouble_text(&w->cluster), "node-01 has diverged (3 returns to its last good model)");
    w->cluster.nodes[1].tail.row.diverged = false; // it has recovered
    assert_null(lab_trouble_text(&w->cluster));
    char *text = summary_text(w, &summary, &table);
    expect(text, "\"trouble\": null,\n  \"unmerged\": null");
    expect(table, "averaged model                87.50%     0.5000  the mean of the nodes' models");
    free(text);
    free(table);
}

static void a_node_whose_record_was_cut_off_did_not_idle(void **state)
{
    struct world *w = *state;
    struct lab_node *node = &w->cluster.nodes[1];
    give_rows(w);
    for (size_t i = 0; i < 3; i++)
        w->cluster.nodes[i].tail.row.exchanges = 1000000;
    node->process = (struct lab_process){.pid = 77, .status = W_EXITCODE(1, 0)};
    node->tail.row.own_steps = node->tail.row.step = 1; // of more
    strcpy(node->tail.row.state, "training");
    assert_null(lab_shortfall_text(&w->cluster, &w->bench.view));
    expect_text(
        lab_trouble_text(&w->cluster),
        "node-01 ended with exit status 1 (its metrics.jsonl ends at step 1, so its figures are old; a full "
        "disk?)");
    node->process.status = 0;
    expect_text(lab_trouble_text(&w->cluster),
                "node-01 (its metrics.jsonl ends at step 1, so its figures are old; a full disk?)");
    node->process.status = SIGKILL; // then the line says what it had done
    free(lab_trouble_text(&w->cluster));
    char *text = lab_shortfall_text(&w->cluster, &w->bench.view);
    expect(text, "node-01 took 1 of");
    free(text);
    node->process.status = 0;
    strcpy(node->tail.row.state, "finished");
    assert_null(lab_trouble_text(&w->cluster));
}

// The table of a summary after `change`.
static char *table_of(struct world *w, void (*change)(struct lab_summary *summary))
{
    struct lab_summary summary;
    struct lab_history histories[LAB_NODES_MAX];
    char *table = NULL;
    size_t bytes;
    give_rows(w);
    free(summary_text(w, &summary, &table));
    free(table);
    lab_histories_read(&w->cluster, histories);
    summary.histories = histories;
    change(&summary);
    FILE *out = open_memstream(&table, &bytes);
    assert_non_null(out);
    lab_summary_print(&summary, out);
    fclose(out);
    lab_histories_free(histories);
    return table;
}

static void is_unwritten(struct lab_summary *summary)
{
    summary->unwritten = true;
}

static void a_summary_that_is_not_there_is_not_named(void **state)
{
    char *table = table_of(*state, is_unwritten);
    expect(table, "/summary.json could not be written");
    assert_null(strstr(table, "all numbers are in"));
    free(table);
}

static void nodes_that_keep_their_own_models_are_named(void **state)
{
    struct world *w = *state;
    struct node_config config = w->bench.view;
    give_rows(w);
    config.average.finish = NODE_FINISH_MERGE;
    for (size_t i = 0; i < 3; i++)
        w->cluster.nodes[i].tail.row.merged = true;
    assert_null(lab_unmerged_text(&w->cluster, &config, 0)); // one model
    assert_null(lab_unmerged_text(&w->cluster, &config, NAN));
    expect_text(lab_unmerged_text(&w->cluster, &config, 0.1), "3 nodes hold different models");
    w->cluster.nodes[2].tail.row.merged = false;
    expect_text(lab_unmerged_text(&w->cluster, &config, 0.1), "node-02 keeps its own model");
    w->cluster.nodes[0].tail.row.merged = false;
    expect_text(lab_unmerged_text(&w->cluster, &config, 0.1), "node-00, node-02 keep their own models");
    lab_node_pretend_end(&w->cluster.nodes[0], 1); // its model counts nowhere
    expect_text(lab_unmerged_text(&w->cluster, &config, 0.1), "node-02 keeps its own model");
    config.average.finish = NODE_FINISH_NONE;
    assert_null(lab_unmerged_text(&w->cluster, &config, 0.1));
    config.average.finish = NODE_FINISH_MERGE;
    config.node.linger_ns = 0; // nobody waits for a merge
    assert_null(lab_unmerged_text(&w->cluster, &config, 0.1));
}

static void a_model_that_knows_nothing_is_named(void **state)
{
    struct world *w = *state;
    assert_null(lab_unlearned_text(&w->bench, &(struct lab_score){.accuracy = 0.9, .loss = 0.69}));
    assert_null(lab_unlearned_text(&w->bench, &(struct lab_score){.accuracy = NAN, .loss = NAN}));
    expect_text(
        lab_unlearned_text(&w->bench, &(struct lab_score){.accuracy = 0.5, .loss = 0.75}),
        "the averaged model is no better than one that knows nothing: loss 0.75, that one's is 0.6931");
}

static void is_of_two(struct lab_summary *summary)
{
    summary->average.nodes = 2;
}

static void a_mean_of_some_models_says_so(void **state)
{
    char *table = table_of(*state, is_of_two);
    expect(table, "averaged model                87.50%     0.5000  the mean of 2 of 3 models");
    free(table);
}

static void events_are_listed_with_their_effects(void **state)
{
    struct world *w = *state;
    struct lab_summary summary;
    char *table = NULL;
    give_rows(w);
    w->cluster.happenings[0].time = 100;
    w->cluster.happenings[0].present.words[0] = 7;
    w->cluster.happenings[1].instead = "the run ended first";
    w->cluster.nodes[2].gone = LAB_KILLED;
    w->cluster.nodes[2].process.status = 9;
    temporary_write(w->cluster.nodes[0].events,
                    "{\"time\":100.5,\"event\":\"dead\",\"member\":\"node-02\"}\n");
    for (size_t i = 0; i < 3; i++)
        lab_journal_read(&w->cluster.nodes[i].journal);
    char *text = summary_text(w, &summary, &table);
    expect(text, "\"event\": \"kill\",\n      \"node\": \"node-02\",\n      \"groups\": null,\n      "
                 "\"at\": 2.0,\n      \"for\": null,\n      \"happened\": true,\n      \"instead\": null");
    expect(text, "\"detected\": {\n        \"seen\": 1,\n        \"of\": 2,\n        \"median\": 0.5,\n"
                 "        \"last\": 0.5\n      }");
    expect(text, "\"rewired\": {\n        \"seen\": 0,\n        \"of\": 2,\n        \"median\": null,\n");
    expect(text, "\"node\": \"node-01\",\n          \"detected\": null,\n");
    expect(text, "\"happened\": false,\n      \"instead\": \"the run ended first\"");
    expect(text, "\"gone\": \"killed\"");
    expect(text, "\"false_deaths\": 0");
    expect(table, "    2.0 s  node-02 was killed\n           known as dead by 1 of 2, the last after 0.50 s");
    expect(table, "the network was partitioned for 1 s: did not happen: the run ended first");
    expect(table, "killed by an event");
    expect(text, "\"at_round\": null,\n      \"for_rounds\": null,\n      \"round\": null");
    assert_null(strstr(text, "nan"));
    free(text);
    free(table);
    for (size_t i = 0; i < 2; i++) { // the same at rounds
        w->cluster.schedule->items[i].by_round = true;
        w->cluster.schedule->items[i].at_round = 20 + i;
    }
    w->cluster.train_time = 96.5;
    w->cluster.happenings[0].round = 22;
    text = summary_text(w, &summary, &table);
    expect(text, "\"at\": 3.5,\n      \"for\": null,\n      \"happened\": true");
    expect(text, "\"at_round\": 20,\n      \"for_rounds\": null,\n      \"round\": 22");
    expect(table, "    3.5 s  round 22  node-02 was killed\n");
    expect(table, "      -    round 21  the network was partitioned");
    free(text);
    free(table);
}

static void unknown_values_are_null(void **state)
{
    struct world *w = *state;
    struct lab_summary summary;
    char *table = NULL;
    w->baselines.count = 0;
    for (size_t i = 0; i < 3; i++)
        w->cluster.nodes[i].process.status = 9;
    char *text = summary_text(w, &summary, &table);
    expect(text, "\"worst\": {\n      \"accuracy\": null,\n      \"loss\": null");
    expect(text, "\"lone\": null");
    expect(text, "\"central\": null");
    expect(text, "\"dense_over_sent\": null");
    expect(text, "\"status\": \"killed by signal 9 (Killed)\"");
    assert_null(strstr(text, "nan"));
    assert_null(strstr(table, "nan"));
    assert_null(strstr(table, "central"));
    free(text);
    free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mean_and_consensus_follow_their_definitions),
        cmocka_unit_test(the_consensus_around_a_mean_of_zero_is_zero_or_unknown),
        cmocka_unit_test(the_mean_is_rounded_once),
        cmocka_unit_test_setup_teardown(the_checkpoints_of_the_nodes_are_averaged, make_world, remove_world),
        cmocka_unit_test_setup_teardown(nodes_without_an_orderly_end_are_left_out, make_world, remove_world),
        cmocka_unit_test_setup_teardown(totals_are_sums_over_all_nodes, make_world, remove_world),
        cmocka_unit_test_setup_teardown(baselines_train_as_planned, make_world, remove_world),
        cmocka_unit_test_setup_teardown(file_and_table_have_the_same_values, make_world, remove_world),
        cmocka_unit_test_setup_teardown(a_node_that_adopted_its_progress_is_named, make_world, remove_world),
        cmocka_unit_test_setup_teardown(a_node_that_failed_or_diverged_is_named, make_world, remove_world),
        cmocka_unit_test_setup_teardown(a_node_whose_record_was_cut_off_did_not_idle, make_world,
                                        remove_world),
        cmocka_unit_test_setup_teardown(a_summary_that_is_not_there_is_not_named, make_world, remove_world),
        cmocka_unit_test_setup_teardown(nodes_that_keep_their_own_models_are_named, make_world, remove_world),
        cmocka_unit_test_setup_teardown(a_model_that_knows_nothing_is_named, make_world, remove_world),
        cmocka_unit_test_setup_teardown(a_mean_of_some_models_says_so, make_world, remove_world),
        cmocka_unit_test_setup_teardown(events_are_listed_with_their_effects, make_world, remove_world),
        cmocka_unit_test_setup_teardown(unknown_values_are_null, make_world, remove_world),
    };
    base_log_configure(BASE_LOG_ERROR, BASE_LOG_TEXT, "");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
