#include "lab/summary/samples.h"

#include "base/array.h"
#include "node/setup.h"

#include <math.h>
#include <stdlib.h>

struct moment { // one line of one node's metrics.jsonl
    size_t node, order;
    struct lab_row row; // bytes_sent: of all its processes so far
};
struct reading {
    struct moment *moments; // [count]
    size_t count, node;
    struct lab_row row;
    uint64_t earlier_bytes;
};
struct standing {         // of one node, at a time
    bool known, measured; // measured: since its latest start
    struct lab_row row;
};
struct sweep {
    const struct lab_samples_source *source;
    struct lab_recorder recorder;
    struct standing *nodes; // [cluster->count]
    struct lab_sample held; // not written yet: the final sample may be of the same round, with more data
    bool holds;
    double begin; // unix seconds
    double next_round;
    uint64_t every;
};

// A restarted process counts from 0.
static void count_on(struct reading *r, const struct lab_row *last)
{
    if (r->row.bytes_sent < last->bytes_sent)
        r->earlier_bytes += last->bytes_sent;
}

static bool take_line(void *context, const char *line, size_t bytes)
{
    struct reading *r = context;
    struct lab_row last = r->row;
    if (!lab_row_parse(line, bytes, &r->row) || isnan(r->row.time))
        return false;
    count_on(r, &last);
    struct moment moment = {r->node, r->count, r->row};
    moment.row.bytes_sent += r->earlier_bytes;
    return base_array_add(&r->moments, &r->count, &moment, sizeof moment);
}

static int by_time(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;
    if (x->row.time != y->row.time)
        return x->row.time < y->row.time ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static void read_all(const struct lab_cluster *cluster, struct reading *r)
{
    for (size_t i = 0; i < cluster->count; i++) {
        struct lab_lines lines;
        r->node = i;
        r->row = lab_row_empty();
        r->earlier_bytes = 0;
        lab_lines_start(cluster->nodes[i].tail.file.path, &lines);
        lab_lines_read(&lines, take_line, r);
        lab_lines_close(&lines);
    }
    if (r->count)
        qsort(r->moments, r->count, sizeof *r->moments, by_time);
}

// The latest start of a node by an event, -INFINITY without one. INFINITY: an event has ended it.
static double runs_since(const struct lab_cluster *cluster, size_t node, double time)
{
    double since = -INFINITY;
    for (size_t i = 0; i < cluster->schedule->count; i++) {
        const struct lab_event *event = &cluster->schedule->items[i];
        if (event->kind == LAB_PARTITION || event->node != node || !(cluster->happenings[i].time <= time))
            continue;
        if (event->kind == LAB_START)
            since = cluster->happenings[i].time;
        else if (event->kind != LAB_STOP)
            since = INFINITY;
    }
    return since;
}

// A node that was started again has another model than before, which it has not measured yet.
static void take_moment(struct sweep *sweep, const struct moment *moment)
{
    struct standing *node = &sweep->nodes[moment->node];
    const double since = runs_since(sweep->source->cluster, moment->node, moment->row.time);
    const bool measured = moment->row.measured || (node->measured && node->row.time >= since);
    *node = (struct standing){.known = true, .measured = measured, .row = moment->row};
}

// Over the nodes present at that time; false: none is.
static bool sum_up(const struct sweep *sweep, double time, struct lab_sample *sample, double *mean_round)
{
    const struct lab_cluster *cluster = sweep->source->cluster;
    double count = 0, measured = 0, rounds = 0, steps = 0, accuracy = 0, loss = 0;
    *sample = (struct lab_sample){
        .accuracy = NAN, .loss = NAN, .worst = INFINITY, .best = -INFINITY, .consensus = NAN};
    for (size_t i = 0; i < cluster->count; i++) {
        const struct lab_row *row = &sweep->nodes[i].row;
        if (!sweep->nodes[i].known)
            continue;
        sample->bytes += row->bytes_sent;
        if (row->time < runs_since(cluster, i, time))
            continue; // it has ended, or has not made a round since it was started
        count++;
        rounds += (double)row->round;
        steps += (double)row->step;
        loss += row->loss;
        if (!sweep->nodes[i].measured)
            continue; // worst, mean and best are those of the other nodes
        measured++;
        accuracy += row->accuracy;
        sample->worst = row->accuracy < sample->worst ? row->accuracy : sample->worst;
        sample->best = row->accuracy > sample->best ? row->accuracy : sample->best;
    }
    *mean_round = rounds / count;
    sample->nodes = (uint64_t)count;
    sample->round = (uint64_t)(rounds / count);
    sample->step = (uint64_t)(steps / count);
    sample->time = time - sweep->begin;
    sample->mean = accuracy / measured;
    sample->train_loss = loss / count;
    return count > 0;
}

static enum base_error look(struct sweep *sweep, double time, struct base_reason *why)
{
    struct lab_sample sample;
    double mean_round;
    if (!sweep->every || !sum_up(sweep, time, &sample, &mean_round) || mean_round < sweep->next_round)
        return BASE_OK;
    sweep->next_round = (floor(mean_round / (double)sweep->every) + 1) * (double)sweep->every;
    enum base_error error = sweep->holds ? lab_recorder_add(&sweep->recorder, &sweep->held, why) : BASE_OK;
    sweep->held = sample;
    sweep->holds = true;
    return error;
}

// The seed model, before the first round.
static enum base_error add_first(struct sweep *sweep, struct base_reason *why)
{
    const struct lab_workbench *bench = sweep->source->bench;
    const struct lab_cluster *cluster = sweep->source->cluster;
    struct lab_score score = lab_score_unknown();
    float *start = malloc(bench->parameters * sizeof *start);
    struct lab_sample sample = {.train_loss = NAN};
    if (!start || node_setup_start(&bench->view, bench->model, start, NULL) ||
        lab_score_model(bench, bench->model, start, &score))
        score = lab_score_unknown();
    free(start);
    for (size_t i = 0; i < cluster->count; i++)
        sample.nodes += !lab_set_has(&cluster->schedule->late, i);
    sample.accuracy = sample.worst = sample.mean = sample.best = score.accuracy;
    sample.loss = score.loss;
    return lab_recorder_add(&sweep->recorder, &sample, why);
}

static enum base_error add_last(struct sweep *sweep, double time, struct base_reason *why)
{
    const struct lab_average *average = sweep->source->average;
    struct lab_totals totals;
    struct lab_sample sample;
    double mean_round;
    if (!sum_up(sweep, time, &sample, &mean_round))
        return BASE_OK;
    lab_totals_of(sweep->source->cluster, &totals);
    sample.bytes = totals.bytes_sent;
    sample.nodes = average->nodes;
    sample.accuracy = average->score.accuracy;
    sample.loss = average->score.loss;
    sample.consensus = average->consensus;
    sample.worst = totals.worst.accuracy;
    sample.mean = totals.mean.accuracy;
    sample.best = totals.best.accuracy;
    if (sweep->holds && sweep->held.round < sample.round) {
        enum base_error error = lab_recorder_add(&sweep->recorder, &sweep->held, why);
        if (error)
            return error;
    }
    return lab_recorder_add(&sweep->recorder, &sample, why);
}

static enum base_error go_through(struct sweep *sweep, const struct reading *r, struct lab_samples_span *span,
                                  struct base_reason *why)
{
    double last = NAN;
    enum base_error error = add_first(sweep, why);
    sweep->begin = r->count ? r->moments[0].row.time : 0;
    for (size_t i = 0; i < r->count && !error; i++) {
        const struct moment *moment = &r->moments[i];
        const struct standing *node = &sweep->nodes[moment->node];
        bool more = !node->known || moment->row.round > node->row.round;
        take_moment(sweep, moment);
        last = more ? moment->row.time : last;
        error = look(sweep, moment->row.time, why);
    }
    span->seconds = last - sweep->begin;
    return error || isnan(last) ? error : add_last(sweep, last, why);
}

enum base_error lab_samples_write(const struct lab_samples_source *source, const char *path,
                                  struct lab_samples_span *span, struct base_reason *why)
{
    struct reading r = {0};
    struct base_reason ignored;
    uint64_t every = source->bench->view.train.eval_rounds;
    struct sweep sweep = {.source = source, .every = every, .next_round = (double)every};
    *span = (struct lab_samples_span){0};
    sweep.nodes = calloc(source->cluster->count, sizeof *sweep.nodes);
    if (!sweep.nodes)
        return base_fail(why, BASE_ENOMEM, "no memory for the rounds of %zu nodes", source->cluster->count);
    enum base_error error = lab_recorder_open(path, &sweep.recorder, why);
    if (!error) {
        read_all(source->cluster, &r);
        error = go_through(&sweep, &r, span, why);
    }
    enum base_error closed = lab_recorder_close(&sweep.recorder, error ? &ignored : why);
    free(r.moments);
    free(sweep.nodes);
    return error ? error : closed;
}
