#include "test/support/sim_model.h"

#include "lab/sim/sim_queue.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DECAY 0.02f

enum { WIDTH = SIM_FEATURES + 1, BEST_STEPS = 400 };

void sim_model_create(struct sim_model *model, size_t shards, uint64_t seed)
{
    float centre[SIM_CLASSES][SIM_FEATURES];
    struct base_rng rng;

    base_rng_seed_stream(&rng, seed, 0x6d6f64);
    model->shards = shards;
    model->shard = sim_must(calloc(shards, sizeof *model->shard));
    for (size_t c = 0; c < SIM_CLASSES; c++)
        for (size_t f = 0; f < SIM_FEATURES; f++)
            centre[c][f] = (float)base_rng_normal(&rng);
    for (size_t s = 0; s < shards; s++) {
        struct sim_shard *shard = &model->shard[s];
        for (size_t e = 0; e < SIM_EXAMPLES; e++) {
            bool usual = base_rng_below(&rng, 8) > 0;
            size_t c =
                usual ? (s + base_rng_below(&rng, 2)) % SIM_CLASSES : base_rng_below(&rng, SIM_CLASSES);
            shard->label[e] = (uint8_t)c;
            for (size_t f = 0; f < SIM_FEATURES; f++)
                shard->feature[e][f] = centre[c][f] + 0.7f * (float)base_rng_normal(&rng);
            shard->feature[e][SIM_FEATURES] = 1;
        }
    }
}

void sim_model_destroy(struct sim_model *model)
{
    free(model->shard);
}

// The loss of one example; p[SIM_CLASSES] becomes the gradient by the scores.
static double scores(const struct sim_shard *shard, size_t example, const float *x, float *p)
{
    float most = -INFINITY, sum = 0;

    for (size_t c = 0; c < SIM_CLASSES; c++) {
        p[c] = 0;
        for (size_t f = 0; f < WIDTH; f++)
            p[c] += x[c * WIDTH + f] * shard->feature[example][f];
        most = p[c] > most ? p[c] : most;
    }
    for (size_t c = 0; c < SIM_CLASSES; c++)
        sum += p[c] = expf(p[c] - most);
    for (size_t c = 0; c < SIM_CLASSES; c++)
        p[c] /= sum;
    double loss = -log((double)p[shard->label[example]] + 1e-30);
    p[shard->label[example]] -= 1;
    return loss;
}

static void add_gradient(const struct sim_shard *shard, size_t example, const float *x, float scale, float *g)
{
    float p[SIM_CLASSES];

    (void)scores(shard, example, x, p);
    for (size_t c = 0; c < SIM_CLASSES; c++)
        for (size_t f = 0; f < WIDTH; f++)
            g[c * WIDTH + f] += scale * p[c] * shard->feature[example][f];
}

void sim_model_step(const struct sim_model *model, size_t shard, struct base_rng *rng, float rate,
                    const float *correction, float *x)
{
    float g[SIM_PARAMETERS];

    for (size_t j = 0; j < SIM_PARAMETERS; j++)
        g[j] = DECAY * x[j] - (correction ? correction[j] : 0);
    for (size_t i = 0; i < SIM_BATCH; i++)
        add_gradient(&model->shard[shard], base_rng_below(rng, SIM_EXAMPLES), x, 1.0f / SIM_BATCH, g);
    for (size_t j = 0; j < SIM_PARAMETERS; j++)
        x[j] -= rate * g[j];
}

double sim_model_loss(const struct sim_model *model, const bool *in, const float *x)
{
    double loss = 0, decay = 0;
    float p[SIM_CLASSES];
    size_t count = 0;

    for (size_t s = 0; s < model->shards; s++)
        for (size_t e = 0; in[s] && e < SIM_EXAMPLES; e++, count++)
            loss += scores(&model->shard[s], e, x, p);
    for (size_t j = 0; j < SIM_PARAMETERS; j++)
        decay += 0.5 * (double)DECAY * (double)x[j] * (double)x[j];
    return count ? loss / (double)count + decay : 0;
}

double sim_model_best(const struct sim_model *model, const bool *in, float *x)
{
    float g[SIM_PARAMETERS], speed[SIM_PARAMETERS] = {0};
    size_t count = 0;

    for (size_t s = 0; s < model->shards; s++)
        count += in[s] ? SIM_EXAMPLES : 0;
    memset(x, 0, SIM_PARAMETERS * sizeof *x);
    for (size_t step = 0; count && step < BEST_STEPS; step++) {
        for (size_t j = 0; j < SIM_PARAMETERS; j++)
            g[j] = DECAY * x[j];
        for (size_t s = 0; s < model->shards; s++)
            for (size_t e = 0; in[s] && e < SIM_EXAMPLES; e++)
                add_gradient(&model->shard[s], e, x, 1.0f / (float)count, g);
        for (size_t j = 0; j < SIM_PARAMETERS; j++) {
            speed[j] = 0.9f * speed[j] - 0.1f * g[j];
            x[j] += speed[j];
        }
    }
    return sim_model_loss(model, in, x);
}
