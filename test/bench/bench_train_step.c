// How long a training step takes on one thread, in processor time, since other programs may use the machine.
// A step is train_trainer_step: the next batch of a shuffled epoch, gradient, update. test/bench/steps runs
// it beside torch_step.py.
//
//   bench_train_step                 prints the names of the rows
//   bench_train_step ROW [seconds]   a line of JSON: median and least time of a step; of its batch alone
//                                    (data_ms); floor_ms, the time of its products at gflops, the best rate
//                                    of one large product in the same run; memory, counted and as the
//                                    process used it
#include "base/rng.h"
#include "test/support/bench.h"
#include "train/feed.h"
#include "train/loaders.h"
#include "train/plan.h"
#include "train/tokens.h"
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXAMPLES = 4096, TOKENS = 65536, STEPS_MAX = 200000, SQUARE = 512, PRODUCTS = 20 };

struct row {
    const char *name;
    struct train_model_spec spec;
    size_t batch;
    struct train_augment augment;
};
#define IMAGE(model, side, depth)                                                                            \
    {                                                                                                        \
        .kind = model, .inputs = (side) * (side) * (depth), .classes = 10, .image = { side, side, depth }    \
    }
#define MLP(...)                                                                                             \
    {                                                                                                        \
        .kind = TRAIN_MLP, .inputs = 784, .classes = 10, .hidden = {__VA_ARGS__},                            \
        .n_hidden = sizeof((size_t[]){__VA_ARGS__}) / sizeof(size_t)                                         \
    }

static const struct row rows[] = {
    {.name = "softmax", .spec = {.kind = TRAIN_SOFTMAX, .inputs = 784, .classes = 10}, .batch = 64},
    {.name = "mlp-256", .spec = MLP(256), .batch = 64},
    {.name = "mlp-512-512", .spec = MLP(512, 512), .batch = 64},
    {.name = "mlp-512-512-b256", .spec = MLP(512, 512), .batch = 256},
    {.name = "lenet", .spec = IMAGE(TRAIN_LENET, 28, 1), .batch = 64},
    {.name = "cnn", .spec = IMAGE(TRAIN_CNN, 28, 1), .batch = 64},
    {.name = "resnet20",
     .spec = IMAGE(TRAIN_RESNET20, 32, 3),
     .batch = 64,
     .augment = {.crop = 4, .flip = true}},
    {.name = "gpt",
     .spec = {.kind = TRAIN_GPT2,
              .inputs = 64,
              .classes = 96,
              .decoder = {.layers = 4, .width = 128, .heads = 4}},
     .batch = 16},
};

static double used_ms(void)
{
    return bench_clock(CLOCK_THREAD_CPUTIME_ID) * 1e-6;
}

static void check(enum base_error error, const struct base_reason *why)
{
    if (error) {
        fprintf(stderr, "bench_train_step: %s\n", why->text);
        exit(1);
    }
}

static void fill_text(const struct row *row, struct train_dataset *data)
{
    static uint8_t ids[2 * TOKENS];
    struct base_rng rng;
    struct base_reason why;
    base_rng_seed(&rng, 7);
    for (size_t i = 0; i < TOKENS; i++) {
        ids[2 * i] = (uint8_t)base_rng_below(&rng, row->spec.classes);
    }
    const struct train_bytes bytes = {"ids", ids, sizeof ids};
    check(train_tokens_parse(&bytes, row->spec.classes, row->spec.inputs, data, &why), &why);
}

static void fill(const struct row *row, struct train_dataset *data)
{
    struct base_rng rng;
    const size_t features = row->spec.inputs;
    if (row->spec.kind == TRAIN_GPT2) {
        fill_text(row, data);
        return;
    }
    base_rng_seed(&rng, 7);
    *data = (struct train_dataset){.examples = EXAMPLES,
                                   .features = features,
                                   .classes = row->spec.classes,
                                   .height = row->spec.image.height,
                                   .width = row->spec.image.width,
                                   .channels = row->spec.image.channels};
    data->x = aligned_alloc(64, EXAMPLES * features * sizeof *data->x);
    data->labels = malloc(EXAMPLES * sizeof *data->labels);
    if (!data->x || !data->labels) {
        abort();
    }
    for (size_t i = 0; i < EXAMPLES * features; i++) {
        data->x[i] = (float)base_rng_uniform(&rng);
    }
    for (size_t i = 0; i < EXAMPLES; i++) {
        data->labels[i] = (uint32_t)base_rng_below(&rng, row->spec.classes);
    }
}

static struct train_options options_of(const struct row *row)
{
    struct train_options options = {
        .optimizer = TRAIN_SGD, .rate = 0.01, .steps = 1000, .batch = row->batch, .augment = row->augment};
    if (row->spec.kind == TRAIN_GPT2) {
        options.optimizer = TRAIN_ADAMW;
        options.rate = 1e-3;
        options.weight_decay = 0.1;
        options.beta1 = 0.9;
        options.beta2 = 0.99;
        options.epsilon = 1e-8;
    }
    return options;
}

// The vectors of training, the batch, and what the layers keep for it.
static double counted_kib(const struct row *row, const struct train_plan *plan)
{
    size_t scratch = 0, widest = 0, floats = 0;
    const size_t x = row->batch * row->spec.inputs;
    const size_t vectors = row->spec.kind == TRAIN_GPT2 ? 5 : 3; // model, gradient, correction; two moments
    for (size_t i = 0; i < plan->n_layers; i++) {
        struct train_layer_floats of = {0};
        const struct train_layer *layer = &plan->layers[i];
        layer->type->floats(layer, row->batch, &of);
        const size_t y = row->batch * train_shape_count(&layer->out);
        widest = i + 1 < plan->n_layers && y > widest ? y : widest;
        scratch = of.scratch > scratch ? of.scratch : scratch;
        floats += of.kept + y;
    }
    floats += vectors * plan->parameters + scratch + 2 * widest + x;
    floats += row->spec.kind == TRAIN_GPT2 ? x : row->batch; // labels
    return (double)floats * sizeof(float) / 1024.0;
}

// Operations of the products of a step: each weight meets each position of its layer's output once forward
// and twice backward. Half of the attention's scores are beyond the causal limit, and backward computes them
// again.
static double operations(const struct row *row, const struct train_plan *plan)
{
    double sum = 0;
    for (size_t i = 0; i < plan->n_layers; i++) {
        const struct train_layer *layer = &plan->layers[i];
        const struct train_shape *out = &layer->out;
        const double places = (double)(row->batch * out->positions * out->height * out->width);
        const bool text = row->spec.kind == TRAIN_GPT2, block = text && i > 0 && i + 1 < plan->n_layers;
        for (size_t t = 0; t < layer->n_tensors && !(text && i == 0); t++)
            sum += layer->tensors[t].n_dims > 1 ? 6.0 * places * (double)layer->tensors[t].count : 0;
        if (block)
            sum += 7.0 * places * (double)(layer->in.positions * layer->in.channels);
        if (text && i + 1 == plan->n_layers) // the head shares its weights with the embedding
            sum += 6.0 * places * (double)(row->spec.classes * layer->in.channels);
    }
    return sum;
}

static double time_steps(struct train_trainer *trainer, double seconds, double *times, size_t *steps)
{
    const double end = used_ms() + seconds * 1e3;
    for (*steps = 0; *steps < STEPS_MAX && (*steps < 3 || used_ms() < end); ++*steps) {
        struct kernels_loss loss;
        size_t labels;
        const double start = used_ms();
        train_trainer_step(trainer, false, &loss, &labels);
        times[*steps] = used_ms() - start;
    }
    return bench_median(times, *steps);
}

// The mean for a batch alone, beginnings of epochs included.
static double time_data(const struct row *row, const struct kernels *kernels,
                        const struct train_dataset *data)
{
    struct train_feed feed;
    struct base_reason why = {"out of memory"};
    const size_t batches = 4 * data->examples / row->batch;
    check(train_feed_create(kernels, data, &row->augment, row->batch, 7, 0, &feed), &why);
    const double start = used_ms();
    for (size_t i = 0; i < batches; i++) {
        train_feed_next(&feed);
    }
    const double used = used_ms() - start;
    train_feed_destroy(&feed);
    return used / (double)batches;
}

// GFLOP/s of one large product, the best of several.
static double peak(const struct kernels *kernels)
{
    const size_t count = (size_t)SQUARE * SQUARE;
    float *a = bench_alloc(count * sizeof *a), *b = bench_alloc(count * sizeof *b),
          *c = bench_alloc(count * sizeof *c);
    double times[PRODUCTS];
    bench_fill(BENCH_GAUSSIAN, 1, a, count);
    bench_fill(BENCH_GAUSSIAN, 2, b, count);
    for (size_t i = 0; i < PRODUCTS; i++) {
        const double start = used_ms();
        kernels->gemm(false, false, SQUARE, SQUARE, SQUARE, 1.0f, a, b, 0.0f, c);
        times[i] = used_ms() - start;
    }
    bench_free(a);
    bench_free(b);
    bench_free(c);
    return 2.0 * (double)count * SQUARE / bench_minimum(times, PRODUCTS) * 1e-6;
}

static void measure(const struct row *row, double seconds)
{
    static double times[STEPS_MAX];
    const struct train_options options = options_of(row);
    const struct kernels *kernels;
    struct base_reason why;
    struct train_model *model;
    struct train_trainer *trainer;
    struct train_dataset data = {0};
    struct train_plan plan;
    size_t steps;
    fill(row, &data);
    check(kernels_open("cpu", 1, &kernels, &why), &why);
    const double gflops = peak(kernels);
    const long before = bench_status_kib("RssAnon:");
    check(train_plan_create(&row->spec, &plan, &why), &why);
    check(train_model_create(&row->spec, kernels, row->batch, &model, &why), &why);
    float *x = calloc(plan.parameters, sizeof *x);
    if (!x) {
        abort();
    }
    train_model_initialise(model, 1, x);
    check(train_trainer_create(&options, model, &data, x, &trainer, &why), &why);
    free(x);
    const double ms = time_steps(trainer, seconds, times, &steps);
    const long took = bench_status_kib("RssAnon:") - before - (long)(steps * sizeof *times / 1024);
    printf("{\"row\": \"%s\", \"path\": \"%s\", \"steps\": %zu, \"ms\": %.5f, \"ms_min\": %.5f, "
           "\"data_ms\": %.5f, \"floor_ms\": %.5f, \"gflops\": %.1f, \"counted_kib\": %.0f, "
           "\"took_kib\": %ld}\n",
           row->name, kernels_describe(kernels), steps, ms, times[0], time_data(row, kernels, &data),
           operations(row, &plan) / gflops * 1e-6, gflops, counted_kib(row, &plan), took);
    train_plan_destroy(&plan);
    train_trainer_destroy(trainer);
    train_model_destroy(model);
    train_dataset_destroy(&data);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 2 ? strtod(argv[2], NULL) : 1.0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (argc < 2) {
            puts(rows[i].name);
        } else if (strcmp(argv[1], rows[i].name) == 0) {
            measure(&rows[i], seconds);
            return 0;
        }
    }
    if (argc >= 2) {
        fprintf(stderr, "bench_train_step: found row '%s', expected one that it lists without arguments\n",
                argv[1]);
    }
    return argc >= 2;
}
