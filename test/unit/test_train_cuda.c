// Training over a table made of the device code in the emulator, beside the CPU's table: losses, parameters,
// scores and logits. The device's memory is sealed (kernels_cuda_emulator.h), so a layer, the trainer or the
// feed that touches it from the host ends the test. Products use the CPU's code in place of cuBLAS.
#include "kernels_cuda_emulator.h"

#include "kernels/cuda/attention.cu"
#include "kernels/cuda/attention_bf16.cu"
#include "kernels/cuda/conv.cu"
#include "kernels/cuda/decoder.c"
#include "kernels/cuda/decoder.cu"
#include "kernels/cuda/group_norm.cu"
#include "kernels/cuda/image.c"
#include "kernels/cuda/layernorm.cu"
#include "kernels/cuda/pool.cu"
#include "kernels/cuda/select.cu"
#include "kernels/cuda/sequence.c"
#include "kernels/cuda/sequence.cu"
#include "kernels/cuda/table.c"
#include "kernels/cuda/train.cu"
#include "kernels/cuda/vectors.c"
#include "kernels/cuda/vectors.cu"

#include "kernels_cuda_products.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "kernels/cpu/cpu.h"
#include "train/loaders.h"
#include "train/tokens.h"
#include "train/trainer.h"

#include <math.h>

const struct kernels_select kernels_cuda_select = {0}; // not used in training
const struct kernels_values kernels_cuda_values = {0};
const struct kernels_apply kernels_cuda_apply = {0};

enum { STEPS = 3, BATCH = 8, LOGITS = 2, SEALED = 256 << 20 };

static struct kernels device, device_bf16; // with a host, as kernels/registry.c completes them

// A model, its data and the options of its training.
struct course {
    struct train_model_spec spec;
    struct train_options options;
    const struct train_dataset *data;
    bool corrected;
};

struct outcome {
    size_t count, logits_count;
    double loss[STEPS];
    size_t correct[STEPS];
    float *parameters, *logits;
    struct train_score score;
};

static void *must(void *memory)
{
    assert_non_null(memory);
    return memory;
}

static void fill(struct base_rng *rng, float scale, size_t count, float *values)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = scale * (float)base_rng_normal(rng);
    }
}

// Evaluation and logits for the parameters, which are in host memory.
static void measure(const struct kernels *k, const struct course *course, struct train_model *model,
                    struct outcome *outcome)
{
    const size_t bytes = outcome->count * sizeof(float), inputs = course->spec.inputs;
    const struct train_dataset *data = course->data;
    const size_t labels = train_dataset_labels(data);
    float *parameters = must(k->alloc(bytes)), *x = must(calloc(LOGITS * inputs, sizeof *x));
    uint32_t *after = must(calloc(LOGITS * inputs, sizeof *after));
    k->upload(parameters, outcome->parameters, bytes);
    train_model_evaluate(model, parameters, data, &outcome->score);
    for (size_t i = 0; i < LOGITS; i++) {
        if (data->tokens) {
            train_tokens_window(data, i, 0, (uint32_t *)(void *)x + i * inputs, after + i * inputs);
        } else {
            memcpy(x + i * inputs, data->x + i * inputs, inputs * sizeof *x);
        }
    }
    outcome->logits_count = LOGITS * labels * course->spec.classes;
    outcome->logits = must(calloc(outcome->logits_count, sizeof *outcome->logits));
    train_model_logits(model, parameters, x, LOGITS, outcome->logits);
    k->release(parameters);
    free(x);
    free(after);
}

static void train(const struct kernels *k, const struct course *course, struct outcome *outcome)
{
    struct train_model *model = NULL;
    struct train_trainer *trainer = NULL;
    struct base_reason why = {""};
    struct base_rng rng;
    struct train_options options = course->options;
    options.uncorrected = !course->corrected;
    if (train_model_create(&course->spec, k, BATCH, &model, &why)) {
        fail_msg("%s", why.text);
    }
    outcome->count = train_model_parameters(model);
    outcome->parameters = must(calloc(outcome->count, sizeof *outcome->parameters));
    train_model_initialise(model, 3, outcome->parameters);
    if (train_trainer_create(&options, model, course->data, outcome->parameters, &trainer, &why)) {
        fail_msg("%s", why.text);
    }
    if (course->corrected) {
        base_rng_seed(&rng, 7);
        fill(&rng, 0.001f, outcome->count, train_trainer_correction(trainer));
        train_trainer_store(trainer);
    }
    for (size_t i = 0; i < STEPS; i++) {
        struct kernels_loss loss;
        size_t rows;
        train_trainer_step(trainer, course->corrected, &loss, &rows);
        outcome->loss[i] = loss.loss_sum / (double)rows;
        outcome->correct[i] = loss.correct;
    }
    train_trainer_fetch(trainer);
    memcpy(outcome->parameters, train_trainer_model(trainer), outcome->count * sizeof(float));
    measure(k, course, model, outcome);
    train_trainer_destroy(trainer);
    train_model_destroy(model);
}

static void near(const char *what, size_t i, double found, double expected, double bound)
{
    if (!(fabs(found - expected) <= bound * (1.0 + fabs(expected)))) {
        fail_msg("%s %zu: found %.9g, expected %.9g within %g", what, i, found, expected, bound);
    }
}

static void compare(const struct outcome *found, const struct outcome *expected, double bound)
{
    double most = 0.0;
    for (size_t i = 0; i < STEPS; i++) {
        near("loss of step", i, found->loss[i], expected->loss[i], bound);
        assert_int_equal(found->correct[i], expected->correct[i]);
    }
    for (size_t i = 0; i < expected->count; i++) {
        const double off = fabs((double)found->parameters[i] - (double)expected->parameters[i]);
        most = off > most ? off : most;
        near("parameter", i, (double)found->parameters[i], (double)expected->parameters[i], bound);
    }
    for (size_t i = 0; i < expected->logits_count; i++) {
        near("logit", i, (double)found->logits[i], (double)expected->logits[i], 10 * bound);
    }
    near("loss", 0, found->score.loss, expected->score.loss, bound);
    near("accuracy", 0, found->score.accuracy, expected->score.accuracy, bound);
    printf("loss %.4f to %.4f; %zu parameters, off by at most %.1e\n", expected->loss[0],
           expected->loss[STEPS - 1], expected->count, most);
}

// Twice on the device, bit for bit the same, and once on the CPU.
static void is_alike(const struct course *course, double bound)
{
    struct outcome cpu = {0}, one = {0}, two = {0};
    train(&kernels_cpu_scalar, course, &cpu);
    train(&device, course, &one);
    train(&device, course, &two);
    assert_true(cpu.loss[0] != cpu.loss[STEPS - 1]);
    assert_memory_equal(one.parameters, two.parameters, one.count * sizeof *one.parameters);
    assert_memory_equal(one.logits, two.logits, one.logits_count * sizeof *one.logits);
    assert_memory_equal(one.loss, two.loss, sizeof one.loss);
    compare(&one, &cpu, bound);
    struct outcome *all[] = {&cpu, &one, &two};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]->parameters);
        free(all[i]->logits);
    }
}

// With factors in bf16: not the same numbers, but close ones.
static void is_near_in_bf16(const struct course *course)
{
    struct outcome cpu = {0}, narrow = {0};
    double most = 0.0;
    train(&kernels_cpu_scalar, course, &cpu);
    train(&device_bf16, course, &narrow);
    for (size_t i = 0; i < STEPS; i++) {
        near("loss of step", i, narrow.loss[i], cpu.loss[i], 0.01);
    }
    for (size_t i = 0; i < cpu.count; i++) {
        const double off = fabs((double)narrow.parameters[i] - (double)cpu.parameters[i]);
        most = off > most ? off : most;
    }
    near("loss", 0, narrow.score.loss, cpu.score.loss, 0.01);
    printf("bf16: loss %.4f to %.4f, parameters off by at most %.1e\n", narrow.loss[0],
           narrow.loss[STEPS - 1], most);
    assert_true(most > 1e-7 && most < 0.01);
    free(cpu.parameters), free(cpu.logits), free(narrow.parameters), free(narrow.logits);
}

// --- the models ---

static struct train_dataset digits(size_t examples)
{
    struct train_dataset data;
    struct base_reason why = {""};
    if (train_dataset_make_digits(5, 0, examples, &data, &why)) {
        fail_msg("%s", why.text);
    }
    return data;
}

static void lenet_trains_alike(void **state)
{
    (void)state;
    struct train_dataset data = digits(20);
    const struct course course = {
        .spec = {.kind = TRAIN_LENET, .inputs = 784, .classes = 10, .image = {28, 28, 1}},
        .options = {.optimizer = TRAIN_SGD,
                    .rate = 0.05,
                    .momentum = 0.9,
                    .weight_decay = 0.001,
                    .steps = STEPS,
                    .batch = BATCH,
                    .micro_batch = 3,
                    .clip_norm = 1.0,
                    .proximal = 0.1,
                    .augment = {.crop = 2},
                    .seed = 1},
        .data = &data,
        .corrected = true};
    is_alike(&course, 1e-5);
    is_near_in_bf16(&course);
    train_dataset_destroy(&data);
}

static void a_cnn_trains_alike(void **state)
{
    (void)state;
    struct train_dataset data = digits(6);
    const struct course course = {
        .spec = {.kind = TRAIN_CNN, .inputs = 784, .classes = 10, .image = {28, 28, 1}},
        .options = {.optimizer = TRAIN_ADAMW,
                    .rate = 0.001,
                    .beta1 = 0.9,
                    .beta2 = 0.99,
                    .epsilon = 0.001, // so that gradients that are only rounding stay small
                    .steps = STEPS,
                    .batch = 2,
                    .seed = 1},
        .data = &data};
    is_alike(&course, 1e-5);
    train_dataset_destroy(&data);
}

// Coloured noise of 10 x 10.
static void resnet20_trains_alike(void **state)
{
    (void)state;
    enum { EXAMPLES = 6, INPUTS = 10 * 10 * 3 };
    static float x[EXAMPLES * INPUTS];
    uint32_t labels[EXAMPLES] = {0, 1, 2, 3, 0, 1};
    struct base_rng rng;
    base_rng_seed(&rng, 11);
    fill(&rng, 1.0f, EXAMPLES * INPUTS, x);
    const struct train_dataset data = {.examples = EXAMPLES,
                                       .features = INPUTS,
                                       .classes = 4,
                                       .x = x,
                                       .height = 10,
                                       .width = 10,
                                       .channels = 3,
                                       .labels = labels,
                                       .whole = EXAMPLES};
    const struct course course = {
        .spec = {.kind = TRAIN_RESNET20, .inputs = INPUTS, .classes = 4, .image = {10, 10, 3}},
        .options = {.optimizer = TRAIN_SGD,
                    .rate = 0.01,
                    .momentum = 0.9,
                    .steps = STEPS,
                    .batch = 3,
                    .micro_batch = 2,
                    .augment = {.crop = 1, .flip = true},
                    .seed = 1},
        .data = &data};
    is_alike(&course, 1e-4);
}

static struct train_dataset some_text(size_t context)
{
    char text[401] = {0};
    struct train_dataset data = {0};
    struct base_reason why = {""};
    struct base_rng rng;
    base_rng_seed(&rng, 3);
    for (size_t i = 0; i < 400; i++) { // some letters are more frequent than others
        text[i] = (char)('a' + base_rng_below(&rng, 1 + base_rng_below(&rng, 20)));
    }
    const struct train_text_options options = {.text = TRAIN_TEXT_CHARACTERS, .context = context};
    const char *path = "train_cuda_text.tmp";
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
    if (train_dataset_load_text(path, &options, &data, &why)) {
        fail_msg("%s", why.text);
    }
    (void)remove(path);
    return data;
}

static void a_decoder_trains_alike(void **state)
{
    (void)state;
    struct train_dataset data = some_text(20);
    struct course course = {.spec = {.kind = TRAIN_GPT2,
                                     .inputs = 20,
                                     .classes = data.classes,
                                     .decoder = {.layers = 2, .width = 24, .heads = 3, .dropout = 0.1f}},
                            .options = {.optimizer = TRAIN_ADAMW,
                                        .rate = 0.001,
                                        .weight_decay = 0.01,
                                        .beta1 = 0.9,
                                        .beta2 = 0.99,
                                        .epsilon = 0.001,
                                        .schedule = {.decay = TRAIN_DECAY_COSINE, .warmup = 1},
                                        .steps = STEPS,
                                        .batch = 5,
                                        .micro_batch = 2,
                                        .clip_norm = 0.5,
                                        .seed = 4},
                            .data = &data,
                            .corrected = true};
    is_alike(&course, 2e-5);
    is_near_in_bf16(&course);
    course.spec.decoder.width = 32; // heads of 16 columns: attention on tensor cores
    course.spec.decoder.heads = 2;
    is_near_in_bf16(&course);
    train_dataset_destroy(&data);
}

static void lion_trains_alike(void **state)
{
    (void)state;
    struct train_dataset data = digits(20);
    const struct course course = {
        .spec = {.kind = TRAIN_MLP, .inputs = 784, .classes = 10, .hidden = {16}, .n_hidden = 1},
        .options = {.optimizer = TRAIN_LION,
                    .rate = 0.0001,
                    .weight_decay = 0.01,
                    .beta1 = 0.9,
                    .beta2 = 0.99,
                    .steps = STEPS,
                    .batch = BATCH,
                    .seed = 2},
        .data = &data};
    is_alike(&course, 1e-4);
    train_dataset_destroy(&data);
}

// A tall and two wide hidden matrices, one of them of a convolution; AdamW between them. Newton-Schulz
// multiplies what is only rounding in a gradient of low rank by up to 3.4445^5.
static void muon_trains_alike(void **state)
{
    (void)state;
    struct train_dataset data = digits(20);
    const struct course course = {
        .spec = {.kind = TRAIN_LENET, .inputs = 784, .classes = 10, .image = {28, 28, 1}},
        .options = {.optimizer = TRAIN_MUON,
                    .rate = 0.001,
                    .weight_decay = 0.01,
                    .beta1 = 0.9,
                    .beta2 = 0.99,
                    .epsilon = 0.001,
                    .steps = STEPS,
                    .batch = BATCH,
                    .seed = 2},
        .data = &data,
        .corrected = true};
    is_alike(&course, 1e-4);
    is_near_in_bf16(&course);
    train_dataset_destroy(&data);
}

// The host computes its loss: outputs are downloaded, gradients uploaded.
static void a_regression_trains_alike(void **state)
{
    (void)state;
    enum { EXAMPLES = 12, INPUTS = 4, OUTPUTS = 2 };
    float x[EXAMPLES * INPUTS], targets[EXAMPLES * OUTPUTS];
    struct base_rng rng;
    base_rng_seed(&rng, 13);
    fill(&rng, 1.0f, EXAMPLES * INPUTS, x);
    fill(&rng, 1.0f, EXAMPLES * OUTPUTS, targets);
    const struct train_dataset data = {.examples = EXAMPLES,
                                       .features = INPUTS,
                                       .x = x,
                                       .outputs = OUTPUTS,
                                       .targets = targets,
                                       .whole = EXAMPLES};
    const struct course course = {
        .spec = {.kind = TRAIN_MLP,
                 .inputs = INPUTS,
                 .classes = OUTPUTS,
                 .hidden = {5},
                 .n_hidden = 1,
                 .loss = TRAIN_MSE},
        .options = {.optimizer = TRAIN_SGD, .rate = 0.1, .steps = STEPS, .batch = 5, .seed = 2},
        .data = &data};
    is_alike(&course, 1e-5);
}

static void sparse_rows_are_refused(void **state)
{
    (void)state;
    const struct train_model_spec spec = {.kind = TRAIN_LOGISTIC, .inputs = 4, .classes = 2};
    struct train_model *model = NULL;
    struct base_reason why = {""};
    assert_int_equal(train_model_create(&spec, &device, BATCH, &model, &why), BASE_EINVAL);
    assert_string_equal(why.text, "layer 'layers.0' (rows) does not run on 'cuda'; set device.kind to cpu");
}

int main(void)
{
    emulator_seal(SEALED);
    device = kernels_cuda_table;
    device.host = &kernels_cpu_scalar;
    device.coding = kernels_cpu_scalar.coding;
    device_bf16 = *device.bf16;
    device_bf16.host = device.host;
    device_bf16.coding = device.coding;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lenet_trains_alike),        cmocka_unit_test(a_cnn_trains_alike),
        cmocka_unit_test(resnet20_trains_alike),     cmocka_unit_test(a_decoder_trains_alike),
        cmocka_unit_test(muon_trains_alike),         cmocka_unit_test(lion_trains_alike),
        cmocka_unit_test(a_regression_trains_alike), cmocka_unit_test(sparse_rows_are_refused),
    };
    const int failed = cmocka_run_group_tests_name("train on CUDA's device code", tests, NULL, NULL);
    emulator_free();
    return failed;
}
