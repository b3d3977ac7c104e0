// How long a training step takes on one thread, in processor time, since other programs may use the machine.
// A step is train_trainer_step: the next batch of a shuffled epoch, gradient, update. test/bench/steps runs
// it beside torch_step.py.
//
//   bench_train_step                 prints the names of the rows
//   bench_train_step ROW [seconds [DEVICE]]
//                                    a line of JSON: median and least time of a step; of its batch alone
//                                    (data_ms); floor_ms, the time of its products at gflops, the best rate
//                                    of one large product in the same run; memory, counted and as the
//                                    process used it. DEVICE: cpu, cuda or cuda-bf16; on a device the times
//                                    are wall times, and row gpt2 (GPT-2 124M, 16 x 1,024 tokens) exists
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

enum { EXAMPLES = 4096, TOKENS = 65536, STEPS_MAX = 200000, PRODUCTS = 20 };
enum { SQUARE = 512, SQUARE_DEVICE = 8192 }; // the large product

struct row {
    const char *name;
    struct train_model_spec spec;
    size_t batch;
    struct train_augment augment;
    bool on_device; // too long for a CPU
};
#define IMAGE(model, side, depth)                                                                            \
    {                                                                                                        \
        .kind = model, .inputs = (side) * (side) * (depth), .classes = 10, .image = { side, side, depth }    \
    }
#define MLP(layers, ...)                                                                                     \
    {                                                                                                        \
        .kind = TRAIN_MLP, .inputs = 784, .classes = 10, .hidden = {__VA_ARGS__}, .n_hidden = layers         \
    }

static const struct row rows[] = {
    {.name = "softmax", .spec = {.kind = TRAIN_SOFTMAX, .inputs = 784, .classes = 10}, .batch = 64},
    {.name = "mlp-256", .spec = MLP(1, 256), .batch = 64},
    {.name = "mlp-512-512", .spec = MLP(2, 512, 512), .batch = 64},
    {.name = "mlp-512-512-b256", .spec = MLP(2, 512, 512), .batch = 256},
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
    {.name = "gpt2",
     .spec = {.kind = TRAIN_GPT2,
              .inputs = 1024,
              .classes = 50257,
              .decoder = {.layers = 12, .width = 768, .heads = 12}},
     .batch = 16,
     .on_device = true},
};

static clockid_t used_clock = CLOCK_THREAD_CPUTIME_ID;

static double used_ms(void)
{
    return bench_clock(used_clock) * 1e-6;
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
        const uint64_t id = base_rng_below(&rng, row->spec.classes);
        ids[2 * i] = (uint8_t)id;
        ids[2 * i + 1] = (uint8_t)(id >> 8);
    }
    const struct train_bytes bytes = {"ids", ids, sizeof ids};
    check(train_tokens_parse(&bytes, 2, row->spec.classes, row->spec.inputs, data, &why), &why);
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
static double counted_kib(const struct row *row, const struct kernels *kernels, const struct train_plan *plan)
{
    size_t scratch = 0, widest = 0, floats = 0;
    const size_t x = row->batch * row->spec.inputs;
    const size_t vectors = row->spec.kind == TRAIN_GPT2 ? 5 : 3; // model, gradient, correction; two moments
    for (size_t i = 0; i < plan->n_layers; i++) {
        struct train_layer_floats of = {0};
        const struct train_layer *layer = &plan->layers[i];
        layer->type->floats(layer, kernels, row->batch, &of);
        const size_t y = of.y > 0 ? of.y : row->batch * train_shape_count(&layer->out);
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

static float *copy_of(const struct kernels *kernels, const float *host, size_t count)
{
    float *device = kernels->alloc(count * sizeof *device);
    if (!device) {
        abort();
    }
    kernels->upload(device, host, count * sizeof *host);
    return device;
}

// GFLOP/s of one large product, the best of several.
static double peak(const struct kernels *kernels)
{
    const size_t side = kernels->shares_host ? SQUARE : SQUARE_DEVICE, count = side * side;
    float *host = bench_alloc(count * sizeof *host);
    bench_fill(BENCH_GAUSSIAN, 1, host, count);
    float *a = copy_of(kernels, host, count), *b = copy_of(kernels, host, count),
          *c = copy_of(kernels, host, count);
    bench_free(host);
    double times[PRODUCTS];
    for (size_t i = 0; i < PRODUCTS; i++) {
        const double start = used_ms();
        kernels->gemm(false, false, side, side, side, 1.0f, a, b, 0.0f, c);
        kernels->wait();
        times[i] = used_ms() - start;
    }
    kernels->release(a);
    kernels->release(b);
    kernels->release(c);
    return 2.0 * (double)count * (double)side / bench_minimum(times, PRODUCTS) * 1e-6;
}

// "cuda-bf16" is the device "cuda" with that precision.
static const struct kernels *open_device(const char *device)
{
    const char *rest = strchr(device, '-');
    char name[16];
    const struct kernels *kernels;
    struct base_reason why;
    (void)snprintf(name, sizeof name, "%.*s", (int)(rest ? (size_t)(rest - device) : strlen(device)), device);
    check(kernels_open(name, 1, &kernels, &why), &why);
    if (rest) {
        check(kernels_take_bf16(&kernels, &why), &why);
    }
    used_clock = kernels->shares_host ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    return kernels;
}

static void measure(const struct row *row, double seconds, const char *device)
{
    static double times[STEPS_MAX];
    const struct train_options options = options_of(row);
    const struct kernels *kernels = open_device(device);
    struct base_reason why;
    struct train_model *model;
    struct train_trainer *trainer;
    struct train_dataset data = {0};
    struct train_plan plan;
    size_t steps;
    fill(row, &data);
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
           operations(row, &plan) / gflops * 1e-6, gflops, counted_kib(row, kernels, &plan), took);
    train_plan_destroy(&plan);
    train_trainer_destroy(trainer);
    train_model_destroy(model);
    train_dataset_destroy(&data);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 2 ? strtod(argv[2], NULL) : 1.0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (argc < 2 && !rows[i].on_device) {
            puts(rows[i].name);
        } else if (argc >= 2 && strcmp(argv[1], rows[i].name) == 0) {
            measure(&rows[i], seconds, argc > 3 ? argv[3] : "cpu");
            return 0;
        }
    }
    if (argc >= 2) {
        fprintf(stderr, "bench_train_step: found row '%s', expected one that it lists without arguments\n",
                argv[1]);
    }
    return argc >= 2;
}
