// GPT-2: forward and every gradient against a plain decoder in double, tensors as Hugging Face has them,
// first weights, dropout, gradients that are accumulated, and that it learns.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "train/model.h"
#include "train/tokens.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2, WIDTH = 8, HEADS = 2, CONTEXT = 5, WORDS = 7, BATCH = 3, ROWS = BATCH * CONTEXT };

static const struct kernels *kernels;

static struct train_model_spec spec_of(float dropout)
{
    return (struct train_model_spec){
        .kind = TRAIN_GPT2, .inputs = CONTEXT, .classes = WORDS, .decoder = {LAYERS, WIDTH, HEADS, dropout}};
}

static struct train_model *make(const struct train_model_spec *spec, size_t batch)
{
    struct train_model *model = NULL;
    struct base_reason why = {""};
    if (train_model_create(spec, kernels, batch, &model, &why) != BASE_OK) {
        fail_msg("%s", why.text);
    }
    return model;
}

// --- the plain decoder ---

struct plain {
    const double *at; // the next parameter, in the order of the vector
};

static const double *take(struct plain *p, size_t count)
{
    const double *values = p->at;
    p->at += count;
    return values;
}

static void norm(const double *x, const double *gain, const double *bias, double *out)
{
    for (size_t r = 0; r < ROWS; r++, x += WIDTH, out += WIDTH) {
        double mean = 0.0, variance = 0.0;
        for (size_t c = 0; c < WIDTH; c++) {
            mean += x[c] / WIDTH;
        }
        for (size_t c = 0; c < WIDTH; c++) {
            variance += (x[c] - mean) * (x[c] - mean) / WIDTH;
        }
        for (size_t c = 0; c < WIDTH; c++) {
            out[c] = (x[c] - mean) / sqrt(variance + 1e-5) * gain[c] + bias[c];
        }
    }
}

static void linear(const double *x, size_t inputs, size_t outputs, const double *w, const double *bias,
                   double *y)
{
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t o = 0; o < outputs; o++) {
            double sum = bias[o];
            for (size_t i = 0; i < inputs; i++) {
                sum += x[r * inputs + i] * w[i * outputs + o];
            }
            y[r * outputs + o] = sum;
        }
    }
}

static void attend(const double *qkv, double *out)
{
    const size_t size = WIDTH / HEADS;
    for (size_t at = 0; at < (size_t)ROWS * HEADS; at++) {
        const size_t row = at / HEADS, head = at % HEADS, first = row / CONTEXT * CONTEXT;
        double share[CONTEXT], sum = 0.0;
        for (size_t key = first; key <= row; key++) {
            double score = 0.0;
            for (size_t c = 0; c < size; c++) {
                score +=
                    qkv[row * 3 * WIDTH + head * size + c] * qkv[key * 3 * WIDTH + WIDTH + head * size + c];
            }
            share[key - first] = exp(score / sqrt((double)size));
            sum += share[key - first];
        }
        for (size_t c = 0; c < size; c++) {
            double mixed = 0.0;
            for (size_t key = first; key <= row; key++) {
                mixed += share[key - first] / sum * qkv[key * 3 * WIDTH + 2 * WIDTH + head * size + c];
            }
            out[row * WIDTH + head * size + c] = mixed;
        }
    }
}

static void block(struct plain *p, double *x)
{
    double normal[ROWS * WIDTH], wide[ROWS * 4 * WIDTH], branch[ROWS * WIDTH];
    const double *w = take(p, WIDTH);
    norm(x, w, take(p, WIDTH), normal);
    w = take(p, WIDTH * 3 * WIDTH);
    linear(normal, WIDTH, 3 * WIDTH, w, take(p, 3 * WIDTH), wide);
    attend(wide, normal);
    w = take(p, WIDTH * WIDTH);
    linear(normal, WIDTH, WIDTH, w, take(p, WIDTH), branch);
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        x[i] += branch[i];
    }
    w = take(p, WIDTH);
    norm(x, w, take(p, WIDTH), normal);
    w = take(p, WIDTH * 4 * WIDTH);
    linear(normal, WIDTH, 4 * WIDTH, w, take(p, 4 * WIDTH), wide);
    for (size_t i = 0; i < ROWS * 4 * WIDTH; i++) {
        const double z = wide[i];
        wide[i] = 0.5 * z * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (z + 0.044715 * z * z * z)));
    }
    w = take(p, 4 * WIDTH * WIDTH);
    linear(wide, 4 * WIDTH, WIDTH, w, take(p, WIDTH), branch);
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        x[i] += branch[i];
    }
}

// Logits [ROWS, WORDS]; returns the mean cross entropy.
static double plain_decoder(const double *parameters, const uint32_t *ids, const uint32_t *labels,
                            double *logits)
{
    struct plain p = {parameters};
    const double *wte = take(&p, WORDS * WIDTH), *wpe = take(&p, CONTEXT * WIDTH);
    double x[ROWS * WIDTH], normal[ROWS * WIDTH], loss = 0.0;
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        x[i] = wte[ids[i / WIDTH] * WIDTH + i % WIDTH] + wpe[i / WIDTH % CONTEXT * WIDTH + i % WIDTH];
    }
    for (size_t layer = 0; layer < LAYERS; layer++) {
        block(&p, x);
    }
    const double *gain = take(&p, WIDTH);
    norm(x, gain, take(&p, WIDTH), normal);
    for (size_t r = 0; r < ROWS; r++) {
        double sum = 0.0;
        for (size_t word = 0; word < WORDS; word++) {
            double logit = 0.0;
            for (size_t c = 0; c < WIDTH; c++) {
                logit += normal[r * WIDTH + c] * wte[word * WIDTH + c];
            }
            logits[r * WORDS + word] = logit;
            sum += exp(logit);
        }
        loss += (log(sum) - logits[r * WORDS + labels[r]]) / ROWS;
    }
    return loss;
}

// --- the two beside each other ---

struct bench {
    struct train_model *model;
    size_t count;
    float *parameters, *gradient;
    double *exact;
    uint32_t ids[ROWS], labels[ROWS];
};

static struct bench open_bench(float dropout)
{
    const struct train_model_spec spec = spec_of(dropout);
    struct bench b = {.model = make(&spec, BATCH)};
    struct base_rng rng;
    b.count = train_model_parameters(b.model);
    b.parameters = calloc(b.count, sizeof *b.parameters);
    b.gradient = calloc(b.count, sizeof *b.gradient);
    b.exact = calloc(b.count, sizeof *b.exact);
    assert_true(b.parameters && b.gradient && b.exact);
    train_model_initialise(b.model, 3, b.parameters);
    base_rng_seed(&rng, 11);
    for (size_t i = 0; i < b.count; i++) { // larger than first weights: every part matters
        b.parameters[i] += (float)(0.3 * base_rng_normal(&rng));
        b.exact[i] = (double)b.parameters[i];
    }
    for (size_t i = 0; i < ROWS; i++) {
        b.ids[i] = (uint32_t)base_rng_below(&rng, WORDS);
        b.labels[i] = (uint32_t)base_rng_below(&rng, WORDS);
    }
    return b;
}

static void close_bench(struct bench *b)
{
    train_model_destroy(b->model);
    free(b->parameters);
    free(b->gradient);
    free(b->exact);
}

static double gradient_of(struct bench *b)
{
    struct kernels_loss loss;
    train_model_gradient(b->model, b->parameters, b->ids, b->labels, BATCH, 1.0f, b->gradient, &loss);
    return loss.loss_sum / ROWS;
}

static void close_to(const char *what, size_t i, double found, double expected, double bound)
{
    if (!(fabs(found - expected) <= bound)) {
        fail_msg("%s %zu: found %.9g, expected %.9g", what, i, found, expected);
    }
}

static void answers_as_the_plain_one(void **state)
{
    (void)state;
    struct bench b = open_bench(0.0f);
    double expected[ROWS * WORDS];
    float logits[ROWS * WORDS];
    const double loss = plain_decoder(b.exact, b.ids, b.labels, expected);
    train_model_logits(b.model, b.parameters, b.ids, BATCH, logits);
    for (size_t i = 0; i < ROWS * WORDS; i++) {
        close_to("logit", i, (double)logits[i], expected[i], 2e-5);
    }
    close_to("loss", 0, gradient_of(&b), loss, 1e-5);
    close_bench(&b);
}

static void gradients_are_right(void **state)
{
    (void)state;
    struct bench b = open_bench(0.0f);
    double unused[ROWS * WORDS];
    (void)gradient_of(&b);
    for (size_t i = 0; i < b.count; i++) {
        const double at = b.exact[i], step = 1e-5;
        b.exact[i] = at + step;
        const double above = plain_decoder(b.exact, b.ids, b.labels, unused);
        b.exact[i] = at - step;
        const double below = plain_decoder(b.exact, b.ids, b.labels, unused);
        b.exact[i] = at;
        close_to("gradient", i, (double)b.gradient[i], (above - below) / (2.0 * step), 1e-5);
    }
    close_bench(&b);
}

static void gradients_add_up(void **state)
{
    (void)state;
    struct bench b = open_bench(0.0f);
    (void)gradient_of(&b);
    float *once = malloc(b.count * sizeof *once);
    assert_non_null(once);
    memcpy(once, b.gradient, b.count * sizeof *once);
    train_model_prepare(b.model, 0, true);
    (void)gradient_of(&b);
    for (size_t i = 0; i < b.count; i++) {
        close_to("gradient", i, (double)b.gradient[i], 2.0 * (double)once[i], 1e-6);
    }
    free(once);
    close_bench(&b);
}

// With the same seed the same numbers are dropped: differences see the gradient of what is left.
static void dropout_has_its_gradient(void **state)
{
    (void)state;
    struct bench b = open_bench(0.3f);
    train_model_prepare(b.model, 77, false);
    const double first = gradient_of(&b);
    float *gradient = malloc(b.count * sizeof *gradient);
    assert_non_null(gradient);
    memcpy(gradient, b.gradient, b.count * sizeof *gradient);
    for (size_t i = 0; i < b.count; i += 3) {
        const float at = b.parameters[i], step = 0x1p-7f;
        b.parameters[i] = at + step;
        const double above = gradient_of(&b);
        b.parameters[i] = at - step;
        const double below = gradient_of(&b);
        b.parameters[i] = at;
        close_to("gradient", i, (double)gradient[i], (above - below) / (2.0 * (double)step),
                 2e-3 + 0.02 * fabs((double)gradient[i]));
    }
    train_model_prepare(b.model, 78, false);
    assert_true(fabs(gradient_of(&b) - first) > 1e-4); // others are dropped
    double expected[ROWS * WORDS];
    float logits[ROWS * WORDS];
    (void)plain_decoder(b.exact, b.ids, b.labels, expected);
    train_model_logits(b.model, b.parameters, b.ids, BATCH, logits);
    for (size_t i = 0; i < ROWS * WORDS; i++) { // nothing is dropped where nothing is learnt
        close_to("logit", i, (double)logits[i], expected[i], 2e-5);
    }
    free(gradient);
    close_bench(&b);
}

// --- names, shapes, first weights ---

static void has_the_tensors_of_hugging_face(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t shape[2], n_dims;
    } expected[] = {{"wte.weight", {WORDS, WIDTH}, 2},
                    {"wpe.weight", {CONTEXT, WIDTH}, 2},
                    {"h.0.ln_1.weight", {WIDTH}, 1},
                    {"h.0.ln_1.bias", {WIDTH}, 1},
                    {"h.0.attn.c_attn.weight", {WIDTH, 3 * WIDTH}, 2},
                    {"h.0.attn.c_attn.bias", {3 * WIDTH}, 1},
                    {"h.0.attn.c_proj.weight", {WIDTH, WIDTH}, 2},
                    {"h.0.attn.c_proj.bias", {WIDTH}, 1},
                    {"h.0.ln_2.weight", {WIDTH}, 1},
                    {"h.0.ln_2.bias", {WIDTH}, 1},
                    {"h.0.mlp.c_fc.weight", {WIDTH, 4 * WIDTH}, 2},
                    {"h.0.mlp.c_fc.bias", {4 * WIDTH}, 1},
                    {"h.0.mlp.c_proj.weight", {4 * WIDTH, WIDTH}, 2},
                    {"h.0.mlp.c_proj.bias", {WIDTH}, 1}};
    const struct train_model_spec spec = spec_of(0.0f);
    struct train_model *model = make(&spec, 1);
    size_t count = 0;
    const struct train_tensor *tensors = train_model_tensors(model, &count);
    assert_int_equal(count, 2 + 12 * LAYERS + 2);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_string_equal(tensors[i].name, expected[i].name);
        assert_string_equal(tensors[i].abroad.name, expected[i].name);
        assert_int_equal(tensors[i].n_dims, expected[i].n_dims);
        assert_memory_equal(tensors[i].shape, expected[i].shape, expected[i].n_dims * sizeof(size_t));
    }
    assert_string_equal(tensors[count - 2].name, "ln_f.weight");
    assert_string_equal(tensors[count - 1].name, "ln_f.bias");
    train_model_destroy(model);
}

static double deviation(const float *values, size_t count)
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)values[i] * (double)values[i];
    }
    return sqrt(sum / (double)count);
}

static void begins_as_gpt2(void **state)
{
    (void)state;
    const struct train_model_spec spec = {
        .kind = TRAIN_GPT2, .inputs = 64, .classes = 96, .decoder = {4, 64, 4, 0.0f}};
    struct train_model *model = make(&spec, 1);
    size_t count = 0;
    const struct train_tensor *t = train_model_tensors(model, &count);
    float *x = malloc(train_model_parameters(model) * sizeof *x);
    assert_non_null(x);
    train_model_initialise(model, 5, x);
    for (size_t i = 0; i < count; i++) {
        const bool bias = strstr(t[i].name, "bias") != NULL, gain = !bias && strstr(t[i].name, "ln_") != NULL;
        const bool branch = !bias && strstr(t[i].name, "c_proj") != NULL;
        const double expected = bias ? 0.0 : gain ? 1.0 : branch ? 0.02 / sqrt(8.0) : 0.02;
        close_to(t[i].name, i, deviation(x + t[i].offset, t[i].count), expected,
                 bias || gain ? 0.0 : 0.05 * expected);
    }
    free(x);
    train_model_destroy(model);
}

static void refuses_what_cannot_be(void **state)
{
    (void)state;
    const struct {
        struct train_model_spec spec;
        const char *part;
    } wrong[] = {
        {{.kind = TRAIN_GPT2, .inputs = 5, .classes = 7, .decoder = {0, 8, 2, 0.0f}}, "0 layers"},
        {{.kind = TRAIN_GPT2, .inputs = 5, .classes = 7, .decoder = {2, 8, 3, 0.0f}}, "8 wide with 3 heads"},
        {{.kind = TRAIN_GPT2, .inputs = 5, .classes = 7, .decoder = {2, 0, 3, 0.0f}}, "0 wide with 3 heads"},
        {{.kind = TRAIN_GPT2, .inputs = 5, .classes = 7, .decoder = {2, 8, 2, 1.0f}}, "a dropout of 1"},
        {{.kind = TRAIN_GPT2, .inputs = 5, .classes = 7, .decoder = {2, 1u << 30, 2, 0.0f}}, "1073741824"},
        {{.kind = TRAIN_GPT2, .inputs = 5, .classes = 7, .loss = TRAIN_MSE, .decoder = {2, 8, 2, 0.0f}},
         "cross-entropy only"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct base_reason why = {""};
        assert_int_equal(train_spec_check(&wrong[i].spec, &why), BASE_EINVAL);
        if (strstr(why.text, wrong[i].part) == NULL) {
            fail_msg("'%s' lacks '%s'", why.text, wrong[i].part);
        }
    }
}

static void is_told_in_words(void **state)
{
    (void)state;
    const struct train_model_spec spec = spec_of(0.0f);
    struct train_model_spec back = {.kind = TRAIN_MLP};
    struct base_reason why = {""};
    char text[LIMIT_MODEL_TEXT_BYTES];
    train_spec_describe(&spec, text, sizeof text);
    assert_string_equal(text, "gpt2 2 layers, 8 wide, 2 heads, context 5, vocabulary 7");
    assert_int_equal(train_spec_parse(text, &back, &why), BASE_OK);
    assert_memory_equal(&back.decoder, &spec.decoder, sizeof spec.decoder);
    assert_int_equal(back.inputs, CONTEXT);
    assert_int_equal(back.classes, WORDS);
    assert_int_equal(
        train_spec_parse("gpt2 2 layers, 8 wide, 2 heads, context 5, vocabulary 7x", &back, &why),
        BASE_EFORMAT);
}

// --- it learns ---

static struct train_dataset counting_text(void)
{
    char text[601] = {0};
    for (size_t i = 0; i < 600; i++) { // the next token follows from the last two
        text[i] = (char)('a' + (i % 2 == 0 ? i / 2 % 3 : (i / 2 + 1) % 3 + 3));
    }
    const struct train_text_options options = {.text = TRAIN_TEXT_CHARACTERS, .context = CONTEXT};
    const char *path = "gpt2_text.tmp";
    struct train_dataset data = {0};
    struct base_reason why = {""};
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
    if (train_dataset_load_text(path, &options, &data, &why) != BASE_OK) {
        fail_msg("%s", why.text);
    }
    (void)remove(path);
    return data;
}

static void learns(void **state)
{
    (void)state;
    struct train_dataset data = counting_text();
    struct train_model_spec spec = spec_of(0.1f);
    spec.classes = data.classes;
    struct train_model *model = make(&spec, 16);
    const struct train_options options = {.optimizer = TRAIN_ADAMW,
                                          .rate = 0.01,
                                          .weight_decay = 0.01,
                                          .beta1 = 0.9,
                                          .beta2 = 0.99,
                                          .epsilon = 1e-8,
                                          .steps = 250,
                                          .batch = 16,
                                          .seed = 4};
    float *start = malloc(train_model_parameters(model) * sizeof *start);
    struct train_trainer *trainer = NULL;
    struct base_reason why = {""};
    struct train_score before, after;
    assert_non_null(start);
    train_model_initialise(model, 1, start);
    if (train_trainer_create(&options, model, &data, start, &trainer, &why) != BASE_OK) {
        fail_msg("%s", why.text);
    }
    train_model_evaluate(model, train_trainer_model(trainer), &data, &before);
    close_to("loss at first", 0, before.loss, log(6.0), 0.1);
    for (size_t i = 0; i < options.steps; i++) {
        struct kernels_loss loss;
        size_t rows;
        train_trainer_step(trainer, false, &loss, &rows);
        assert_int_equal(rows, 16 * CONTEXT); // labels, which the loss is a sum over
    }
    train_model_evaluate(model, train_trainer_model(trainer), &data, &after);
    printf("loss %.4f -> %.4f, right %.3f\n", before.loss, after.loss, after.accuracy);
    assert_true(after.loss < 0.3 && after.accuracy > 0.9);
    train_trainer_destroy(trainer);
    train_model_destroy(model);
    train_dataset_destroy(&data);
    free(start);
}

static void refuses_other_data(void **state)
{
    (void)state;
    struct train_dataset data = counting_text();
    struct train_model_spec spec = spec_of(0.0f);
    const struct train_options options = {.rate = 0.1, .steps = 1, .batch = 4};
    struct train_trainer *trainer = NULL;
    struct base_reason why = {""};
    float start[8192] = {0};
    spec.classes = 5; // ids reach 5
    struct train_model *small = make(&spec, 4);
    assert_int_equal(train_trainer_create(&options, small, &data, start, &trainer, &why), BASE_EINVAL);
    const struct train_model_spec mlp = {.kind = TRAIN_SOFTMAX, .inputs = CONTEXT, .classes = 6};
    struct train_model *other = make(&mlp, 4);
    assert_int_equal(train_trainer_create(&options, other, &data, start, &trainer, &why), BASE_EINVAL);
    assert_string_equal(why.text, "the data are text, the model 'softmax 5-6' takes numbers");
    train_model_destroy(small);
    train_model_destroy(other);
    train_dataset_destroy(&data);
}

int main(void)
{
    struct base_reason why;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_as_the_plain_one),
        cmocka_unit_test(gradients_are_right),
        cmocka_unit_test(gradients_add_up),
        cmocka_unit_test(dropout_has_its_gradient),
        cmocka_unit_test(has_the_tensors_of_hugging_face),
        cmocka_unit_test(begins_as_gpt2),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(is_told_in_words),
        cmocka_unit_test(learns),
        cmocka_unit_test(refuses_other_data),
    };
    if (kernels_open("cpu", 1, &kernels, &why) != BASE_OK) {
        return 1;
    }
    return cmocka_run_group_tests_name("train gpt2", tests, NULL, NULL);
}
