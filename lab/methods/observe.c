// The sample of a moment: scores of the averaged model and of every node's model, and their distance.
#include "lab/methods/engine.h"

#include <math.h>
#include <stdlib.h>

static enum base_error score_node(struct rounds_world *world, size_t node)
{
    struct lab_score score;
    const struct lab_rounds_options *options = world->options;
    enum base_error error = lab_score_model(
        options->bench, lab_shard_trainer_model(options->shard_trainers, node), world->x[node], &score);
    if (error)
        return error;
    struct lab_row *row = &world->node[node].row;
    row->accuracy = score.accuracy;
    row->measured = !isnan(score.accuracy);
    row->test_loss = score.loss;
    row->rmse = score.rmse;
    row->regression = score.regression;
    return BASE_OK;
}

static enum base_error score_all(struct rounds_world *world, const float *mean, struct lab_sample *sample)
{
    struct lab_score score;
    double worst = INFINITY, best = -INFINITY, sum = 0;
    enum base_error error = rounds_each(world, score_node);
    if (!error)
        error = lab_score_model(world->options->bench, world->options->bench->model, mean, &score);
    if (error)
        return error;
    for (size_t i = 0; i < world->n; i++) {
        double accuracy = world->node[i].row.accuracy;
        if (world->gone[i])
            continue;
        worst = fmin(worst, accuracy);
        best = fmax(best, accuracy);
        sum += accuracy;
    }
    sample->accuracy = score.accuracy;
    sample->loss = score.loss;
    sample->rmse = score.rmse;
    sample->regression = score.regression;
    sample->worst = worst;
    sample->best = best;
    sample->mean = sum / (double)world->living;
    return BASE_OK;
}

// Bytes are the sum over all nodes, also the dead ones; loss and step are means over the living ones.
static void count_all(const struct rounds_world *world, struct lab_sample *sample)
{
    double loss = 0, steps = 0;
    for (size_t i = 0; i < world->n; i++) {
        sample->bytes += world->node[i].row.bytes_sent;
        if (world->gone[i])
            continue;
        loss += world->node[i].row.loss;
        steps += (double)world->node[i].row.step;
    }
    sample->step = (uint64_t)(steps / (double)world->living);
    sample->train_loss = loss / (double)world->living;
}

enum base_error rounds_observe(struct rounds_world *world, struct lab_sample *sample, struct base_reason *why)
{
    struct rounds_spread spread;
    struct lab_sample p = {.round = world->round,
                           .time = (double)(world->end_ns - world->begin_ns) / 1e9,
                           .nodes = world->living,
                           .accuracy = NAN,
                           .loss = NAN,
                           .worst = NAN,
                           .mean = NAN,
                           .best = NAN};
    float *mean = malloc(world->d * sizeof *mean);
    enum base_error error = mean ? rounds_mean(world, world->x, mean, &spread) : BASE_ENOMEM;
    if (!error && world->options->shard_trainers)
        error = score_all(world, mean, &p);
    free(mean);
    if (error)
        return base_fail(why, error, "cannot measure round %llu: %s", (unsigned long long)world->round,
                         base_error_name(error));
    count_all(world, &p);
    if (!world->options->shard_trainers) {
        if (!world->round)
            world->energy = spread.distance;
        p.consensus = world->energy > 0 ? spread.distance / world->energy : 0;
    } else if (spread.norm > 0) {
        p.consensus = sqrt(spread.distance / (double)world->living / spread.norm);
    } else {
        p.consensus = spread.distance > 0 ? NAN : 0;
    }
    *sample = p;
    return BASE_OK;
}
