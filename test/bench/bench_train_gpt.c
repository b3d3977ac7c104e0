// How long a step of a small GPT takes: 4 layers, 128 wide, 4 heads, context 64, batch 16, vocabulary 96,
// AdamW, one thread. Wall time and processor time of the whole of train_trainer_step; torch_gpt.py is the
// same in eager PyTorch. Processor time is what counts on a machine that others use, too.
//
//   bench_train_gpt [seconds]
#include "base/rng.h"
#include "test/support/bench.h"
#include "train/loaders.h"
#include "train/plan.h"
#include "train/tokens.h"
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>

enum { CONTEXT = 64, BATCH = 16, WORDS = 96, TOKENS = 65536, STEPS_MAX = 100000 };

static void fill(struct train_dataset *data)
{
    static uint8_t ids[2 * TOKENS];
    struct base_rng rng;
    struct base_reason why;
    base_rng_seed(&rng, 7);
    for (size_t i = 0; i < TOKENS; i++) {
        ids[2 * i] = (uint8_t)base_rng_below(&rng, WORDS);
    }
    if (train_tokens_parse(&(struct train_bytes){"ids", ids, sizeof ids}, WORDS, CONTEXT, data, &why) !=
        BASE_OK) {
        abort();
    }
}

// Vectors of training, and what the layers keep for a batch.
static double counted_kib(const struct train_model_spec *spec)
{
    struct train_plan plan;
    struct base_reason why;
    double floats = 0.0;
    size_t scratch = 0, widest = 0;
    if (train_plan_create(spec, &plan, &why) != BASE_OK) {
        abort();
    }
    for (size_t i = 0; i < plan.n_layers; i++) {
        struct train_layer_floats of = {0};
        const struct train_layer *layer = &plan.layers[i];
        layer->type->floats(layer, BATCH, &of);
        const size_t y = BATCH * train_shape_count(&layer->out);
        widest = i + 1 < plan.n_layers && y > widest ? y : widest;
        scratch = of.scratch > scratch ? of.scratch : scratch;
        floats += (double)of.kept + (double)y;
    }
    // model, gradient, correction, two moments
    floats += 5.0 * (double)plan.parameters + (double)scratch + 2.0 * (double)widest;
    train_plan_destroy(&plan);
    return 4.0 * floats / 1024.0;
}

// cpu_ns: processor time of a step.
static void print_cost(const struct train_model_spec *spec, double cpu_ns)
{
    struct train_plan plan;
    struct train_layer_cost cost;
    struct base_reason why;
    if (train_plan_create(spec, &plan, &why) != BASE_OK) {
        abort();
    }
    train_plan_cost(&plan, BATCH, &cost);
    printf("gflop forward=%.3f backward=%.3f rate=%.1f GFLOP/s of processor time\n",
           cost.forward_flops * 1e-9, cost.backward_flops * 1e-9,
           (cost.forward_flops + cost.backward_flops) / cpu_ns);
    train_plan_destroy(&plan);
}

static void take_steps(struct train_trainer *trainer, const struct train_model_spec *spec, double seconds)
{
    static double wall[STEPS_MAX], used[STEPS_MAX];
    size_t steps = 0;
    for (double end = bench_now() + seconds * 1e9; steps < STEPS_MAX && (steps < 3 || bench_now() < end);
         steps++) {
        struct kernels_loss loss;
        size_t rows;
        const double start = bench_now(), begun = bench_clock(CLOCK_PROCESS_CPUTIME_ID);
        train_trainer_step(trainer, false, &loss, &rows);
        used[steps] = bench_clock(CLOCK_PROCESS_CPUTIME_ID) - begun;
        wall[steps] = bench_now() - start;
    }
    bench_print_steps("gpt_step_wall_ms", wall, steps);
    bench_print_steps("gpt_step_cpu_ms", used, steps);
    print_cost(spec, used[steps / 2]);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? strtod(argv[1], NULL) : 3.0;
    const struct train_model_spec spec = {.kind = TRAIN_GPT2,
                                          .inputs = CONTEXT,
                                          .classes = WORDS,
                                          .decoder = {.layers = 4, .width = 128, .heads = 4}};
    const struct train_options options = {.optimizer = TRAIN_ADAMW,
                                          .rate = 1e-3,
                                          .weight_decay = 0.1,
                                          .beta1 = 0.9,
                                          .beta2 = 0.99,
                                          .epsilon = 1e-8,
                                          .steps = 1000,
                                          .batch = BATCH};
    const struct kernels *kernels;
    struct base_reason why;
    struct train_model *model;
    struct train_trainer *trainer;
    struct train_dataset data;
    const long before = bench_status_kib("RssAnon:");
    fill(&data);
    if (kernels_open("cpu", 1, &kernels, &why) != BASE_OK ||
        train_model_create(&spec, kernels, BATCH, &model, &why) != BASE_OK) {
        fprintf(stderr, "bench_train_gpt: %s\n", why.text);
        return 1;
    }
    float *x = calloc(train_model_parameters(model), sizeof *x);
    if (x == NULL) {
        abort();
    }
    train_model_initialise(model, 1, x);
    if (train_trainer_create(&options, model, &data, x, &trainer, &why) != BASE_OK) {
        fprintf(stderr, "bench_train_gpt: %s\n", why.text);
        return 1;
    }
    free(x);
    printf("%s\n", kernels_describe(kernels));
    take_steps(trainer, &spec, seconds);
    printf("memory counted_kib=%.0f anonymous_kib=%ld\n", counted_kib(&spec),
           bench_status_kib("RssAnon:") - before);
    train_trainer_destroy(trainer);
    train_model_destroy(model);
    train_dataset_destroy(&data);
    return 0;
}
