// Whole training steps of multilayer perceptrons with SGD, beside a plain loop in C over OpenBLAS (the floor
// column) that a careful programmer writes in an afternoon; one thread, taken in turn, in processor time of
// the thread. With --drift both subtract a correction. Arguments: --seconds S for each model (2), --drift.
#include "test/support/bench.h"
#include "test/support/cpu_kernels.h"

#include "kernels/cpu/cpu.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 784, CLASSES = 10, LAYERS = 3 };

struct plain {
    size_t batch, width[LAYERS + 1];
    const float *x, *correction;
    const uint32_t *labels;
    float *w[LAYERS], *b[LAYERS], *gw[LAYERS], *gb[LAYERS], *y[LAYERS], *dy[LAYERS];
};

static void forward(const struct plain *p)
{
    const size_t rows = p->batch;
    const float *in = p->x;
    for (size_t l = 0; l < LAYERS; l++) {
        const size_t from = p->width[l], to = p->width[l + 1];
        kernels_cpu_gemm(false, false, rows, to, from, 1, in, p->w[l], 0, p->y[l]);
        for (size_t i = 0; i < p->batch; i++)
            for (size_t j = 0; j < to; j++) {
                const float z = p->y[l][i * to + j] + p->b[l][j];
                p->y[l][i * to + j] = l + 1 < LAYERS && z < 0 ? 0 : z;
            }
        in = p->y[l];
    }
}

static void loss_gradient(const struct plain *p)
{
    for (size_t i = 0; i < p->batch; i++) {
        const float *z = p->y[LAYERS - 1] + i * CLASSES;
        float *d = p->dy[LAYERS - 1] + i * CLASSES, top = z[0], sum = 0;
        for (size_t j = 1; j < CLASSES; j++)
            top = z[j] > top ? z[j] : top;
        for (size_t j = 0; j < CLASSES; j++)
            sum += d[j] = expf(z[j] - top);
        for (size_t j = 0; j < CLASSES; j++)
            d[j] = (d[j] / sum - (j == p->labels[i] ? 1.0f : 0.0f)) / (float)p->batch;
    }
}

static void backward(const struct plain *p)
{
    const size_t rows = p->batch;
    for (size_t l = LAYERS; l-- > 0;) {
        const size_t from = p->width[l], to = p->width[l + 1];
        kernels_cpu_gemm(true, false, from, to, rows, 1, l ? p->y[l - 1] : p->x, p->dy[l], 0, p->gw[l]);
        memset(p->gb[l], 0, to * sizeof(float));
        for (size_t i = 0; i < p->batch; i++)
            for (size_t j = 0; j < to; j++)
                p->gb[l][j] += p->dy[l][i * to + j];
        if (l == 0)
            continue;
        kernels_cpu_gemm(false, true, rows, from, to, 1, p->dy[l], p->w[l], 0, p->dy[l - 1]);
        for (size_t i = 0; i < p->batch * from; i++)
            p->dy[l - 1][i] = p->y[l - 1][i] > 0 ? p->dy[l - 1][i] : 0;
    }
}

static void descend(float *restrict x, const float *restrict g, const float *restrict c, size_t count)
{
    for (size_t i = 0; c && i < count; i++)
        x[i] -= 0.01f * (g[i] - c[i]);
    for (size_t i = 0; !c && i < count; i++)
        x[i] -= 0.01f * g[i];
}

static void plain_step(void *context)
{
    const struct plain *p = context;
    const float *c = p->correction;
    forward(p);
    loss_gradient(p);
    backward(p);
    for (size_t l = 0; l < LAYERS; l++) {
        const size_t weights = p->width[l] * p->width[l + 1];
        descend(p->w[l], p->gw[l], c, weights);
        descend(p->b[l], p->gb[l], c ? c + weights : NULL, p->width[l + 1]);
        c = c ? c + weights + p->width[l + 1] : NULL;
    }
}

struct ours {
    struct train_trainer *trainer;
    bool drift;
};

static void our_step(void *context)
{
    const struct ours *ours = context;
    struct kernels_loss loss;
    size_t rows;
    train_trainer_step(ours->trainer, ours->drift, &loss, &rows);
}

static float *zeros(size_t count)
{
    return memset(bench_alloc(count * sizeof(float)), 0, count * sizeof(float));
}

static struct plain make_plain(size_t batch, size_t hidden, const struct train_dataset *data,
                               const float *start)
{
    struct plain p = {
        .batch = batch, .width = {INPUTS, hidden, hidden, CLASSES}, .x = data->x, .labels = data->labels};
    for (size_t l = 0; l < LAYERS; l++) {
        const size_t weights = p.width[l] * p.width[l + 1];
        p.w[l] = zeros(weights);
        p.gw[l] = zeros(weights);
        p.b[l] = zeros(p.width[l + 1]);
        p.gb[l] = zeros(p.width[l + 1]);
        p.y[l] = zeros(batch * p.width[l + 1]);
        p.dy[l] = zeros(batch * p.width[l + 1]);
        memcpy(p.w[l], start, weights * sizeof *start);
        start += weights + p.width[l + 1];
    }
    return p;
}

static void free_plain(const struct plain *p)
{
    for (size_t l = 0; l < LAYERS; l++) {
        float *const all[] = {p->w[l], p->gw[l], p->b[l], p->gb[l], p->y[l], p->dy[l]};
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
            bench_free(all[i]);
    }
}

static void measure(size_t hidden, size_t batch, bool drift, double seconds)
{
    const struct train_model_spec spec = {
        .kind = TRAIN_MLP, .inputs = INPUTS, .classes = CLASSES, .hidden = {hidden, hidden}, .n_hidden = 2};
    const struct train_options options = {
        .optimizer = TRAIN_SGD, .rate = 0.01, .steps = 1000, .batch = batch, .uncorrected = !drift};
    struct train_dataset data = {
        .examples = batch, .features = INPUTS, .classes = CLASSES, .x = zeros(batch * INPUTS)};
    struct train_model *model = NULL;
    struct ours ours = {.drift = drift};
    struct bench_time times[2];
    char name[64];
    data.labels = calloc(batch, sizeof *data.labels);
    bench_fill(BENCH_GAUSSIAN, 1, data.x, batch * INPUTS);
    enum base_error error = train_model_create(&spec, cpu_kernels(), batch, &model, NULL);
    BASE_ASSERT(!error && data.labels);
    const size_t count = train_model_parameters(model);
    float *start = zeros(count), *correction = zeros(count);
    train_model_initialise(model, 1, start);
    error = train_trainer_create(&options, model, &data, start, &ours.trainer, NULL);
    BASE_ASSERT(!error);
    struct plain plain = make_plain(batch, hidden, &data, start);
    plain.correction = drift ? correction : NULL;
    const struct bench_case cases[] = {{plain_step, NULL, &plain}, {our_step, NULL, &ours}};
    bench_alternate_by(CLOCK_THREAD_CPUTIME_ID, cases, 2, seconds, times);
    snprintf(name, sizeof name, "784-%zu-%zu-10, batch %zu%s", hidden, hidden, batch, drift ? ", drift" : "");
    bench_print(&(struct bench_result){
        .bench = "train_mlp", .name = name, .count = count, .time = times[1], .floor_ns = times[0].ns});
    free_plain(&plain);
    train_trainer_destroy(ours.trainer);
    train_model_destroy(model);
    bench_free(start);
    bench_free(correction);
    bench_free(data.x);
    free(data.labels);
}

int main(int argc, char **argv)
{
    static const size_t models[][2] = {{1024, 64}, {1024, 32}, {5120, 16}, {5120, 64}};
    const double seconds = strtod(bench_option(argc, argv, "--seconds", "2"), NULL);
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        measure(models[i][0], models[i][1], bench_flag(argc, argv, "--drift"), seconds);
    return 0;
}
