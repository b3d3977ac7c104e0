// How long a training step takes: MLP 784-256-10, batch 64, SGD, one thread. `train_step_ms` is gradient and
// update on batches that lie ready, the same work as torch_step.py; `trainer_step_ms` is the whole of
// train_trainer_step, with the gathering of the batch from the shard. `memory` is what the process holds
// beyond the vectors and data it asked for.
//
//   bench_train_step [seconds]
#include "base/rng.h"
#include "test/support/bench.h"
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>

enum { INPUTS = 784, HIDDEN = 256, CLASSES = 10, BATCH = 64, BATCHES = 16, STEPS_MAX = 200000 };

static void fill(struct train_dataset *data, size_t examples)
{
    struct base_rng rng;
    base_rng_seed(&rng, 7);
    *data = (struct train_dataset){.examples = examples, .features = INPUTS, .classes = CLASSES};
    data->x = aligned_alloc(64, examples * INPUTS * sizeof *data->x);
    data->labels = malloc(examples * sizeof *data->labels);
    if (data->x == NULL || data->labels == NULL) {
        abort();
    }
    for (size_t i = 0; i < examples * INPUTS; i++) {
        data->x[i] = (float)base_rng_uniform(&rng);
    }
    for (size_t i = 0; i < examples; i++) {
        data->labels[i] = (uint32_t)base_rng_below(&rng, CLASSES);
    }
}

static void bench_step(struct train_model *model, const struct train_dataset *data, float *x, double seconds,
                       double *times)
{
    const struct kernels *k = train_model_kernels(model);
    const struct kernels_sgd sgd = {.rate = 0.01f};
    const size_t count = train_model_parameters(model);
    float *gradient = k->alloc(count * sizeof *gradient);
    if (gradient == NULL) {
        abort();
    }
    size_t steps = 0;
    for (double end = bench_now() + seconds * 1e9; steps < STEPS_MAX && bench_now() < end; steps++) {
        const size_t first = steps % BATCHES * BATCH;
        struct kernels_loss loss;
        const double start = bench_now();
        train_model_gradient(model, x, data->x + first * INPUTS, data->labels + first, BATCH, 1.0f, gradient,
                             &loss);
        k->sgd_step(count, &sgd, gradient, NULL, NULL, x);
        times[steps] = bench_now() - start;
    }
    bench_print_steps("train_step_ms", times, steps);
    k->release(gradient);
}

static void bench_trainer(struct train_trainer *trainer, double seconds, double *times)
{
    size_t steps = 0;
    for (double end = bench_now() + seconds * 1e9; steps < STEPS_MAX && bench_now() < end; steps++) {
        struct kernels_loss loss;
        size_t rows;
        const double start = bench_now();
        train_trainer_step(trainer, false, &loss, &rows);
        times[steps] = bench_now() - start;
    }
    bench_print_steps("trainer_step_ms", times, steps);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? strtod(argv[1], NULL) : 2.0;
    const struct train_model_spec spec = {
        .kind = TRAIN_MLP, .inputs = INPUTS, .classes = CLASSES, .hidden = {HIDDEN}, .n_hidden = 1};
    const struct train_options options = {
        .optimizer = TRAIN_SGD, .rate = 0.01, .steps = 1000, .batch = BATCH};
    const struct kernels *kernels;
    struct base_reason why;
    struct train_model *model;
    struct train_trainer *trainer;
    struct train_dataset data;
    fill(&data, BATCH * BATCHES);
    double *times = calloc(STEPS_MAX, sizeof *times);
    if (times == NULL || kernels_open("cpu", 1, &kernels, &why) != BASE_OK ||
        train_model_create(&spec, kernels, BATCH, &model, &why) != BASE_OK) {
        fprintf(stderr, "bench_train_step: %s\n", times == NULL ? "out of memory" : why.text);
        return 1;
    }
    const size_t count = train_model_parameters(model);
    float *x = kernels->alloc(count * sizeof *x);
    if (x == NULL) {
        abort();
    }
    train_model_initialise(model, 1, x);
    if (train_trainer_create(&options, model, &data, x, &trainer, &why) != BASE_OK) {
        fprintf(stderr, "bench_train_step: %s\n", why.text);
        return 1;
    }
    printf("%s\n", kernels_describe(kernels));
    bench_step(model, &data, x, seconds, times);
    bench_trainer(trainer, seconds, times);
    // x, gradient (freed: reused or returned), the trainer's x, correction and gradient; the examples; the
    // touched times.
    const double data_kib = (double)(data.examples * INPUTS * sizeof *data.x) / 1024.0;
    const double vectors_kib = (double)(4 * count * sizeof *x) / 1024.0;
    printf("memory rss_kib=%ld anonymous_kib=%ld vectors_kib=%.0f data_kib=%.0f beyond_kib=%.0f\n",
           bench_status_kib("VmRSS:"), bench_status_kib("RssAnon:"), vectors_kib, data_kib,
           (double)bench_status_kib("VmRSS:") - vectors_kib - data_kib);
    train_trainer_destroy(trainer);
    train_model_destroy(model);
    kernels->release(x);
    free(times);
    free(data.x);
    free(data.labels);
    return 0;
}
