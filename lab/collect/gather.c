#include "lab/collect/gather.h"

#include "base/array.h"
#include "base/limits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void lab_answers_free(struct lab_answers *answers)
{
    for (size_t i = 0; i < answers->count; i++) {
        json_decref(answers->items[i].status);
        json_decref(answers->items[i].history);
    }
    free(answers->items);
    json_decref(answers->silent);
    *answers = (struct lab_answers){0};
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static double real_of(const json_t *value)
{
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static double number_of(const json_t *object, const char *key)
{
    return real_of(json_object_get(object, key));
}

static uint64_t count_of(const json_t *value)
{
    json_int_t count = json_integer_value(value);
    return count > 0 ? (uint64_t)count : 0;
}

static const char *score_key(const json_t *object)
{
    return json_object_get(object, "r2") ? "r2" : "accuracy";
}

static size_t index_of(const struct lab_answers *answers, const char *id)
{
    size_t i = 0;
    while (i < answers->count && strcmp(text_of(answers->items[i].status, "id"), id) != 0)
        i++;
    return i;
}

static int by_name(const void *a, const void *b)
{
    const struct lab_answer *one = a, *other = b;
    return strcmp(text_of(one->status, "name"), text_of(other->status, "name"));
}

enum base_error lab_answers_add(struct lab_answers *answers, const struct lab_answer *answer)
{
    if (index_of(answers, text_of(answer->status, "id")) < answers->count) {
        json_decref(answer->status);
        json_decref(answer->history);
        return BASE_OK;
    }
    if (!base_array_add(&answers->items, &answers->count, answer, sizeof *answer))
        return BASE_ENOMEM;
    qsort(answers->items, answers->count, sizeof *answers->items, by_name);
    return BASE_OK;
}

// -- samples

// A moment of one node.
struct moment {
    double time, loss, score; // NAN: not known
    uint64_t round, step, bytes;
};

static size_t points_of(const struct lab_answer *answer)
{
    return json_array_size(json_object_get(answer->history, "at"));
}

static double time_at(const struct lab_answer *answer, size_t point)
{
    return answer->at - real_of(json_array_get(json_object_get(answer->history, "at"), point));
}

// What is not known at a point stays as it was.
static void advance(const struct lab_answer *answer, size_t point, struct moment *now)
{
    const json_t *h = answer->history;
    const double loss = real_of(json_array_get(json_object_get(h, "loss"), point)),
                 score = real_of(json_array_get(json_object_get(h, score_key(h)), point));
    now->time = time_at(answer, point);
    now->loss = isnan(loss) ? now->loss : loss;
    now->score = isnan(score) ? now->score : score;
    now->round = count_of(json_array_get(json_object_get(h, "round"), point));
    now->step = count_of(json_array_get(json_object_get(h, "step"), point));
    now->bytes = count_of(json_array_get(json_object_get(h, "bytes_sent"), point));
}

static struct moment latest(const struct lab_answer *answer)
{
    const json_t *s = answer->status;
    return (struct moment){.time = answer->at,
                           .loss = number_of(s, "loss"),
                           .score = number_of(s, score_key(s)),
                           .round = count_of(json_object_get(s, "round")),
                           .step = count_of(json_object_get(s, "step")),
                           .bytes = count_of(json_object_get(s, "bytes_sent"))};
}

struct mean {
    double sum, least, most;
    size_t count;
};

static void mean_add(struct mean *mean, double value)
{
    if (isnan(value))
        return;
    mean->least = mean->count ? fmin(mean->least, value) : value;
    mean->most = mean->count ? fmax(mean->most, value) : value;
    mean->sum += value;
    mean->count++;
}

static double mean_of(const struct mean *mean)
{
    return mean->count ? mean->sum / (double)mean->count : (double)NAN;
}

static struct lab_sample sample_of(const struct moment *moments, size_t count, double time)
{
    struct mean rounds = {0}, steps = {0}, losses = {0}, scores = {0};
    uint64_t bytes = 0;
    size_t begun = 0;
    for (size_t i = 0; i < count; i++) {
        const bool has_begun = moments[i].time <= time; // NAN: no point of it is known
        mean_add(&rounds, has_begun ? (double)moments[i].round : 0.0);
        mean_add(&steps, has_begun ? (double)moments[i].step : 0.0);
        if (!has_begun)
            continue;
        begun++;
        mean_add(&losses, moments[i].loss);
        mean_add(&scores, moments[i].score);
        bytes += moments[i].bytes;
    }
    const bool scored = scores.count > 0;
    return (struct lab_sample){.round = rounds.count ? (uint64_t)mean_of(&rounds) : 0,
                               .step = steps.count ? (uint64_t)mean_of(&steps) : 0,
                               .time = time,
                               .bytes = bytes,
                               .nodes = begun,
                               .accuracy = NAN,
                               .loss = NAN,
                               .worst = scored ? scores.least : (double)NAN,
                               .mean = mean_of(&scores),
                               .best = scored ? scores.most : (double)NAN,
                               .consensus = NAN,
                               .train_loss = mean_of(&losses)};
}

static struct mean mean_of_statuses(const struct lab_answers *answers, const char *key)
{
    struct mean mean = {0};
    for (size_t i = 0; i < answers->count; i++)
        mean_add(&mean, number_of(answers->items[i].status, key));
    return mean;
}

// The models that were merged are one model, whose accuracy every node reports.
static double merged_score(const struct lab_answers *answers)
{
    struct mean scores = {0};
    for (size_t i = 0; i < answers->count; i++) {
        const json_t *status = answers->items[i].status;
        if (!json_is_true(json_object_get(status, "merged")))
            return NAN;
        mean_add(&scores, number_of(status, score_key(status)));
    }
    return mean_of(&scores);
}

static const struct lab_answer *with_most_points(const struct lab_answers *answers)
{
    const struct lab_answer *best = &answers->items[0];
    for (size_t i = 1; i < answers->count; i++)
        if (points_of(&answers->items[i]) > points_of(best))
            best = &answers->items[i];
    return best;
}

static void fill(const struct lab_answers *answers, struct moment *moments, size_t *next,
                 struct lab_sample *samples, size_t count)
{
    const struct lab_answer *grid = with_most_points(answers);
    for (size_t i = 0; i < answers->count; i++)
        moments[i] = (struct moment){.time = NAN, .loss = NAN, .score = NAN};
    for (size_t k = 0; k + 1 < count; k++) {
        double time = time_at(grid, k);
        for (size_t i = 0; i < answers->count; i++)
            while (next[i] < points_of(&answers->items[i]) && time_at(&answers->items[i], next[i]) <= time)
                advance(&answers->items[i], next[i]++, &moments[i]);
        samples[k] = sample_of(moments, answers->count, time);
    }
    double end = -INFINITY;
    for (size_t i = 0; i < answers->count; i++) {
        moments[i] = latest(&answers->items[i]);
        end = fmax(end, moments[i].time);
    }
    const struct mean consensus = mean_of_statuses(answers, "consensus");
    samples[count - 1] = sample_of(moments, answers->count, end);
    samples[count - 1].consensus = mean_of(&consensus);
    samples[count - 1].accuracy = merged_score(answers);
    const double began = samples[0].time;
    for (size_t k = 0; k < count; k++)
        samples[k].time -= began;
}

enum base_error lab_answers_samples(const struct lab_answers *answers, struct lab_sample **samples,
                                    size_t *count)
{
    BASE_ASSERT(answers->count > 0);
    *count = points_of(with_most_points(answers)) + 1;
    struct moment *moments = calloc(answers->count, sizeof *moments);
    size_t *next = calloc(answers->count, sizeof *next);
    *samples = calloc(*count, sizeof **samples);
    const bool room = moments && next && *samples;
    if (room)
        fill(answers, moments, next, *samples, *count);
    else
        free(*samples);
    free(moments);
    free(next);
    return room ? BASE_OK : BASE_ENOMEM;
}

// -- the summary

static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *copy(const json_t *value)
{
    return value ? json_deep_copy(value) : json_null();
}

static json_t *score_json(double score)
{
    return json_pack("{s:o, s:n}", "accuracy", real(score), "loss");
}

static json_t *node_json(const json_t *status)
{
    static const char *const keys[] = {"consensus",    "round",     "step",       "own_steps",
                                       "own_examples", "exchanges", "bytes_sent", "bytes_received"};
    json_t *node = json_pack("{s:o, s:o, s:b, s:o, s:n, s:o}", "name", copy(json_object_get(status, "name")),
                             "status", copy(json_object_get(status, "condition")), "succeeded", 1, "accuracy",
                             real(number_of(status, score_key(status))), "loss", "training_loss",
                             real(number_of(status, "loss")));
    for (size_t i = 0; node && i < sizeof keys / sizeof *keys; i++)
        json_object_set_new(node, keys[i], copy(json_object_get(status, keys[i])));
    return node;
}

// Only the end whose router forwards a port knows that a link came over it.
static bool is_mapped(const json_t *status, const char *peer)
{
    const json_t *edge;
    size_t i;
    json_array_foreach(json_object_get(status, "edges"), i, edge)
        if (strcmp(text_of(edge, "peer"), peer) == 0)
            return strcmp(text_of(edge, "path"), "mapped") == 0;
    return false;
}

enum { DIRECT, MAPPED, RELAYED, PATHS };

// Pairs by the way of their link, as the first of the two says that has answered.
static void count_paths(const struct lab_answers *answers, size_t paths[PATHS])
{
    for (size_t i = 0; i < answers->count; i++) {
        const json_t *edge;
        size_t k;
        json_array_foreach(json_object_get(answers->items[i].status, "edges"), k, edge) {
            const size_t other = index_of(answers, text_of(edge, "peer"));
            const char *path = text_of(edge, "path");
            const bool mapped =
                strcmp(path, "mapped") == 0 ||
                (other < answers->count &&
                 is_mapped(answers->items[other].status, text_of(answers->items[i].status, "id")));
            if (other > i && path[0])
                paths[strcmp(path, "relayed") == 0 ? RELAYED : mapped ? MAPPED : DIRECT]++;
        }
    }
}

static json_t *paths_json(const struct lab_answers *answers)
{
    size_t paths[PATHS] = {0};
    json_t *forwarded = json_object();
    count_paths(answers, paths);
    for (size_t i = 0; i < answers->count; i++) {
        const json_t *status = answers->items[i].status;
        const uint64_t bytes = count_of(json_object_get(status, "forwarded_bytes"));
        if (bytes > 0)
            json_object_set_new(forwarded, text_of(status, "name"), json_integer((json_int_t)bytes));
    }
    return json_pack("{s:I, s:I, s:I, s:o}", "direct", (json_int_t)paths[DIRECT], "mapped",
                     (json_int_t)paths[MAPPED], "relayed", (json_int_t)paths[RELAYED], "forwarded_bytes",
                     forwarded);
}

// Each pair once.
static void add_edges(const struct lab_answers *answers, size_t node, json_t *edges)
{
    const json_t *edge;
    size_t i;
    json_array_foreach(json_object_get(answers->items[node].status, "edges"), i, edge) {
        size_t other = index_of(answers, text_of(edge, "peer"));
        if (other >= answers->count || other == node)
            continue;
        json_t *pair =
            json_pack("[i, i]", (int)(node < other ? node : other), (int)(node < other ? other : node));
        bool known = false;
        for (size_t k = 0; k < json_array_size(edges) && !known; k++)
            known = json_equal(json_array_get(edges, k), pair);
        if (known)
            json_decref(pair);
        else
            json_array_append_new(edges, pair);
    }
}

static json_t *graph_json(const struct lab_answers *answers)
{
    json_t *names = json_array(), *edges = json_array();
    for (size_t i = 0; i < answers->count; i++) {
        json_array_append_new(names, copy(json_object_get(answers->items[i].status, "name")));
        add_edges(answers, i, edges);
    }
    return json_pack("{s:s, s:o, s:n, s:o, s:[]}", "kind", "edges in use", "nodes", names, "order", "edges",
                     edges, "gone");
}

static bool is_over(const struct lab_answers *answers)
{
    for (size_t i = 0; i < answers->count; i++) {
        const json_t *status = answers->items[i].status, *steps = json_object_get(status, "steps");
        if (count_of(steps) == 0 || count_of(json_object_get(status, "step")) < count_of(steps))
            return false;
    }
    return true;
}

// "; 5 edges were direct, 1 over a port of a router, 1 over other nodes; n0 forwarded 5.9 MB". Nothing if all
// were simply direct.
static json_t *with_paths(json_t *note, const struct lab_answers *answers)
{
    json_t *paths = paths_json(answers);
    const json_t *bytes;
    const char *name;
    const json_int_t relayed = json_integer_value(json_object_get(paths, "relayed")),
                     mapped = json_integer_value(json_object_get(paths, "mapped"));
    char forwarded[64] = "";
    snprintf(forwarded, sizeof forwarded, ", %lld came over a port of a router", (long long)mapped);
    if (relayed > 0 || mapped > 0) {
        json_t *longer =
            json_sprintf("%s; %lld edges were direct%s, %lld went over other nodes", json_string_value(note),
                         (long long)json_integer_value(json_object_get(paths, "direct")),
                         mapped > 0 ? forwarded : "", (long long)relayed);
        json_decref(note);
        note = longer;
    }
    json_object_foreach(json_object_get(paths, "forwarded_bytes"), name, bytes) {
        json_t *longer = json_sprintf("%s; %s forwarded %.1f MB for others", json_string_value(note), name,
                                      1e-6 * (double)json_integer_value(bytes));
        json_decref(note);
        note = longer;
    }
    json_decref(paths);
    return note;
}

// "3 nodes; n2 and n4 have not answered"
static json_t *note_json(const struct lab_answers *answers)
{
    json_t *note =
        json_sprintf("From the pages of %zu %s", answers->count, answers->count == 1 ? "node" : "nodes");
    const json_t *name;
    size_t i, count = json_array_size(answers->silent);
    json_array_foreach(answers->silent, i, name) {
        json_t *longer =
            json_sprintf("%s%s%s%s", json_string_value(note), i == 0 ? "; no answer from " : ", ",
                         json_string_value(name), i + 1 == count ? "" : "");
        json_decref(note);
        note = longer;
    }
    return with_paths(note, answers);
}

static json_t *head_json(const struct lab_answers *answers)
{
    const json_t *first = answers->items[0].status;
    json_t *settings =
        json_pack("{s:{s:o}, s:{s:o}}", "average", "ratio", copy(json_object_get(first, "ratio")), "train",
                  "steps", copy(json_object_get(first, "steps")));
    const char *status = json_array_size(answers->silent) > 0 ? "incomplete"
                         : is_over(answers)                   ? "complete"
                                                              : "running";
    return json_pack("{s:i, s:s, s:s, s:n, s:s, s:o, s:s, s:i, s:o, s:o, s:o, s:o}", "format", 2, "measure",
                     json_object_get(first, "r2") ? "R2" : "accuracy", "kind", "collect", "engine", "method",
                     "edge-ref", "experiment", copy(json_object_get(first, "cluster")), "status", status,
                     "nodes", (int)answers->count, "settings", settings, "model",
                     copy(json_object_get(first, "model")), "parameters",
                     copy(json_object_get(first, "parameters")), "collected", note_json(answers));
}

json_t *lab_answers_summary(const struct lab_answers *answers, double seconds)
{
    BASE_ASSERT(answers->count > 0);
    const struct mean scores = mean_of_statuses(answers, score_key(answers->items[0].status)),
                      consensus = mean_of_statuses(answers, "consensus"),
                      sent = mean_of_statuses(answers, "bytes_sent"),
                      received = mean_of_statuses(answers, "bytes_received");
    const bool scored = scores.count > 0;
    json_t *nodes = json_array(), *head = head_json(answers);
    for (size_t i = 0; i < answers->count; i++)
        json_array_append_new(nodes, node_json(answers->items[i].status));
    json_t *results = json_pack(
        "{s:o, s:{s:o, s:o, s:o}, s:o, s:{s:I, s:I, s:I}, s:[], s:{s:o}, s:o, s:[], s:o, s:o}", "averaged",
        score_json(merged_score(answers)), "node", "worst", score_json(scored ? scores.least : (double)NAN),
        "mean", score_json(mean_of(&scores)), "best", score_json(scored ? scores.most : (double)NAN),
        "consensus", real(mean_of(&consensus)), "bytes", "sent", (json_int_t)sent.sum, "sent_per_node",
        (json_int_t)(sent.sum / (double)answers->count), "received", (json_int_t)received.sum, "targets",
        "seconds", "cluster", real(seconds), "per_node", nodes, "events", "graph", graph_json(answers),
        "paths", paths_json(answers));
    if (!head || !results || json_object_update(head, results)) {
        json_decref(head);
        head = NULL;
    }
    json_decref(results);
    return head;
}
