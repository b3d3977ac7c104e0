// What nodes answer as a summary and samples: means over those that have begun, the last point from /status,
// merged models, edges once, members that are silent.
#include "lab/collect/gather.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NEAR 1e-9

static struct lab_answers cluster(bool merged, bool regression)
{
    struct lab_answers answers = {.silent = json_array()};
    const char *score = regression ? "r2" : "accuracy";
    // b answers a second later; a began 8 s before its answer, b 5 s before its own.
    json_t *b =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:i, s:i, s:b, s:[{s:s}]}", "id", "bb", "name",
                  "bob", "step", 60, "steps", 100, "round", 15, "loss", 0.5, score, 0.8, "consensus", 0.25,
                  "bytes_sent", 700, "bytes_received", 30, "merged", merged, "edges", "peer", "aa");
    json_t *of_b = json_pack("{s:[f,f], s:[i,i], s:[i,i], s:[i,i], s:[f,f], s:[n,f]}", "at", 5.0, 3.0, "step",
                             10, 50, "round", 2, 12, "bytes_sent", 100, 500, "loss", 3.0, 1.0, score, 0.5);
    json_t *a = json_pack("{s:s, s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:i, s:i, s:b, s:[{s:s}, {s:s}]}", "id",
                          "aa", "name", "ada", "step", 100, "steps", 100, "round", 25, "loss", 0.25, score,
                          0.9, "consensus", 0.75, "bytes_sent", 1300, "bytes_received", 40, "merged", merged,
                          "edges", "peer", "bb", "peer", "cc");
    json_t *of_a = json_pack("{s:[f,f,f], s:[i,i,i], s:[i,i,i], s:[i,i,i], s:[f,n,f], s:[n,f,f]}", "at", 8.0,
                             5.0, 1.0, "step", 8, 40, 80, "round", 2, 10, 20, "bytes_sent", 100, 600, 1000,
                             "loss", 2.0, 1.0, score, 0.25, 0.75);
    assert_true(a && b && of_a && of_b);
    assert_int_equal(lab_answers_add(&answers, &(struct lab_answer){101, b, of_b}), BASE_OK);
    assert_int_equal(lab_answers_add(&answers, &(struct lab_answer){100, a, of_a}), BASE_OK);
    assert_int_equal(lab_answers_add(&answers, &(struct lab_answer){103, json_incref(a), json_incref(of_a)}),
                     BASE_OK); // known
    assert_int_equal(answers.count, 2);
    return answers;
}

static void each_moment_is_the_mean_of_the_nodes_that_have_begun(void **state)
{
    (void)state;
    struct lab_answers answers = cluster(false, false);
    struct lab_sample *samples = NULL;
    size_t count = 0;
    assert_int_equal(lab_answers_samples(&answers, &samples, &count), BASE_OK);
    assert_int_equal(count, 4);
    assert_int_equal(samples[0].nodes, 1); // b begins 4 s later
    assert_int_equal(samples[0].step, 4);  // and counts with 0 steps until then: the mean never falls
    assert_float_equal(samples[0].time, 0, NEAR);
    assert_true(isnan(samples[0].worst) && isnan(samples[0].mean));
    assert_float_equal(samples[1].time, 3, NEAR); // a only: b's first point is at 4 s
    assert_int_equal(samples[1].nodes, 1);
    assert_float_equal(samples[1].train_loss, 2, NEAR); // as before: this point has no loss
    assert_float_equal(samples[2].time, 7, NEAR);       // both: b's second point is at 6 s
    assert_int_equal(samples[2].nodes, 2);
    assert_int_equal(samples[2].step, 65);
    assert_int_equal(samples[2].round, 16);
    assert_int_equal(samples[2].bytes, 1500);
    assert_float_equal(samples[2].worst, 0.5, NEAR);
    assert_float_equal(samples[2].mean, 0.625, NEAR);
    assert_float_equal(samples[2].best, 0.75, NEAR);
    assert_float_equal(samples[3].time, 9, NEAR); // the latest answer
    assert_int_equal(samples[3].step, 80);
    assert_int_equal(samples[3].bytes, 2000);
    assert_float_equal(samples[3].consensus, 0.5, NEAR);
    assert_float_equal(samples[3].train_loss, 0.375, NEAR);
    assert_true(isnan(samples[3].accuracy)); // nobody has the averaged model
    free(samples);
    lab_answers_free(&answers);
}

static void it_says_how_many_edges_were_relayed_and_who_forwarded(void **state)
{
    (void)state;
    struct lab_answers answers = cluster(false, false);
    json_t *ada = answers.items[0].status;
    json_object_set_new(json_array_get(json_object_get(ada, "edges"), 0), "path", json_string("direct"));
    json_t *summary = lab_answers_summary(&answers, 9), *paths = json_object_get(summary, "paths");
    assert_int_equal(json_integer_value(json_object_get(paths, "direct")), 1); // cc is not there
    assert_int_equal(json_integer_value(json_object_get(paths, "relayed")), 0);
    assert_int_equal(json_object_size(json_object_get(paths, "forwarded_bytes")), 0);
    json_decref(summary);
    json_object_set_new(json_array_get(json_object_get(answers.items[1].status, "edges"), 0), "path",
                        json_string("mapped")); // as the other end of that edge says
    summary = lab_answers_summary(&answers, 9);
    assert_string_equal(json_string_value(json_object_get(summary, "collected")),
                        "From the pages of 2 nodes; 0 edges were direct, 1 came over a port of a router, 0 "
                        "went over other nodes");
    json_decref(summary);
    json_object_set_new(json_array_get(json_object_get(ada, "edges"), 0), "path", json_string("relayed"));
    json_object_set_new(answers.items[1].status, "forwarded_bytes", json_integer(5900000));
    summary = lab_answers_summary(&answers, 9);
    assert_string_equal(
        json_string_value(json_object_get(summary, "collected")),
        "From the pages of 2 nodes; 0 edges were direct, 1 went over other nodes; bob forwarded "
        "5.9 MB for others");
    json_decref(summary);
    lab_answers_free(&answers);
}

static double at(const json_t *object, const char *outer, const char *inner, const char *key)
{
    const json_t *found = json_object_get(json_object_get(object, outer), inner);
    return json_number_value(key ? json_object_get(found, key) : found);
}

static void the_summary_has_nodes_edges_and_who_is_silent(void **state)
{
    (void)state;
    struct lab_answers answers = cluster(false, false);
    json_t *summary = lab_answers_summary(&answers, 9);
    assert_non_null(summary);
    assert_string_equal(json_string_value(json_object_get(summary, "status")),
                        "running"); // b has 40 steps to go
    assert_float_equal(at(summary, "node", "worst", "accuracy"), 0.8, NEAR);
    assert_float_equal(at(summary, "node", "best", "accuracy"), 0.9, NEAR);
    assert_float_equal(at(summary, "bytes", "sent", NULL), 2000, NEAR);
    assert_true(json_is_null(json_object_get(json_object_get(summary, "averaged"), "accuracy")));
    const json_t *graph = json_object_get(summary, "graph"), *edges = json_object_get(graph, "edges");
    assert_int_equal(json_array_size(edges), 1); // both ends report it; cc is not there
    assert_string_equal(json_string_value(json_array_get(json_object_get(graph, "nodes"), 0)), "ada");
    assert_int_equal(json_array_size(json_object_get(summary, "per_node")), 2);
    assert_string_equal(json_string_value(json_object_get(summary, "collected")),
                        "From the pages of 2 nodes");
    json_decref(summary);
    json_array_append_new(answers.silent, json_string("cyd"));
    json_array_append_new(answers.silent, json_string("dan"));
    summary = lab_answers_summary(&answers, 9);
    assert_string_equal(json_string_value(json_object_get(summary, "status")), "incomplete");
    assert_string_equal(json_string_value(json_object_get(summary, "collected")),
                        "From the pages of 2 nodes; no answer from cyd, dan");
    json_decref(summary);
    lab_answers_free(&answers);
}

static void merged_models_are_the_averaged_model(void **state)
{
    (void)state;
    struct lab_answers answers = cluster(true, true);
    json_object_set_new(answers.items[1].status, "step", json_integer(100));
    json_t *summary = lab_answers_summary(&answers, 9);
    assert_string_equal(json_string_value(json_object_get(summary, "measure")), "R2");
    assert_string_equal(json_string_value(json_object_get(summary, "status")), "complete");
    assert_float_equal(at(summary, "averaged", "accuracy", NULL), 0.85, NEAR);
    json_decref(summary);
    lab_answers_free(&answers);
}

static void a_node_without_a_history_has_one_point(void **state)
{
    (void)state;
    struct lab_answers answers = {.silent = json_array()};
    json_t *status = json_pack("{s:s, s:s, s:i}", "id", "aa", "name", "ada", "step", 3);
    assert_int_equal(lab_answers_add(&answers, &(struct lab_answer){7, status, NULL}), BASE_OK);
    struct lab_sample *samples = NULL;
    size_t count = 0;
    assert_int_equal(lab_answers_samples(&answers, &samples, &count), BASE_OK);
    assert_int_equal(count, 1);
    assert_int_equal(samples[0].step, 3);
    assert_float_equal(samples[0].time, 0, NEAR);
    json_t *summary = lab_answers_summary(&answers, 0);
    assert_non_null(summary);
    json_decref(summary);
    free(samples);
    lab_answers_free(&answers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_says_how_many_edges_were_relayed_and_who_forwarded),
        cmocka_unit_test(each_moment_is_the_mean_of_the_nodes_that_have_begun),
        cmocka_unit_test(the_summary_has_nodes_edges_and_who_is_silent),
        cmocka_unit_test(merged_models_are_the_averaged_model),
        cmocka_unit_test(a_node_without_a_history_has_one_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
