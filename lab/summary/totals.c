// Totals of the rows of all nodes and of the baselines.
#include "lab/summary/summary.h"

#include <math.h>

struct gathering { // of scores
    struct lab_score worst, best, sum;
    size_t count;
};

static void gather(struct gathering *gathering, const struct lab_score *score)
{
    if (isnan(score->accuracy))
        return;
    if (!gathering->count || score->accuracy < gathering->worst.accuracy)
        gathering->worst = *score;
    if (!gathering->count || score->accuracy > gathering->best.accuracy)
        gathering->best = *score;
    gathering->sum.accuracy += score->accuracy;
    gathering->sum.loss += score->loss;
    gathering->sum.rmse += score->rmse;
    gathering->count++;
}

static void conclude(const struct gathering *gathering, struct lab_score *worst, struct lab_score *mean,
                     struct lab_score *best)
{
    *worst = *mean = *best = lab_score_unknown();
    if (!gathering->count)
        return;
    double count = (double)gathering->count;
    *worst = gathering->worst;
    *best = gathering->best;
    *mean = (struct lab_score){gathering->sum.accuracy / count, gathering->sum.loss / count,
                               gathering->sum.rmse / count, gathering->worst.regression};
}

void lab_totals_of(const struct lab_cluster *cluster, struct lab_totals *totals)
{
    struct gathering gathering = {0};
    *totals = (struct lab_totals){0};
    for (size_t i = 0; i < cluster->count; i++) {
        const struct lab_node *node = &cluster->nodes[i];
        const struct lab_row row = lab_tail_row(&node->tail);
        const struct lab_score score = {row.accuracy, row.test_loss, row.rmse, row.regression};
        if (lab_node_counts(node))
            gather(&gathering, &score);
        totals->own_steps += row.own_steps;
        totals->bytes_sent += row.bytes_sent;
        totals->bytes_received += row.bytes_received;
        totals->delta_bytes += row.delta_bytes;
        totals->dense_bytes += row.dense_bytes;
        totals->exchanges += row.exchanges;
    }
    conclude(&gathering, &totals->worst, &totals->mean, &totals->best);
    totals->nodes = gathering.count;
    totals->times_less = totals->bytes_sent ? (double)totals->dense_bytes / (double)totals->bytes_sent : NAN;
}

void lab_lone_spread(const struct lab_baselines *baselines, struct lab_spread *spread)
{
    struct gathering gathering = {0};
    for (size_t i = 0; i < baselines->count; i++)
        if (baselines->runs[i].kind == LAB_LONE && baselines->runs[i].done)
            gather(&gathering, &baselines->runs[i].score);
    conclude(&gathering, &spread->worst, &spread->mean, &spread->best);
    spread->runs = gathering.count;
}

const struct lab_baseline_run *lab_baseline_find(const struct lab_baselines *baselines,
                                                 enum lab_baseline kind)
{
    for (size_t i = 0; i < baselines->count; i++)
        if (baselines->runs[i].kind == kind)
            return &baselines->runs[i];
    return NULL;
}
