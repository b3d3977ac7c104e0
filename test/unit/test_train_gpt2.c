// GPT-2: the forward pass and every gradient compared with a plain decoder in double, dropout, and
// accumulated gradients.
#include "base/rng.h"
#include "test/support/gpt2_small.h"
#include "train/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

// --- the two side by side ---

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
    for (size_t i = 0; i < b.count; i++) { // larger than first weights, so that every part matters
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

static void logits_match_the_plain_decoder(void **state)
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

static void gradients_match_central_differences(void **state)
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

static void gradients_accumulate(void **state)
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

// With one seed the same numbers are dropped: differences show the gradient of the others.
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
    for (size_t i = 0; i < ROWS * WORDS; i++) { // nothing is dropped outside training
        close_to("logit", i, (double)logits[i], expected[i], 2e-5);
    }
    free(gradient);
    close_bench(&b);
}

int main(void)
{
    struct base_reason why;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_match_the_plain_decoder),
        cmocka_unit_test(gradients_match_central_differences),
        cmocka_unit_test(gradients_accumulate),
        cmocka_unit_test(dropout_has_its_gradient),
    };
    if (kernels_open("cpu", 1, &kernels, &why)) {
        return 1;
    }
    return cmocka_run_group_tests_name("train gpt2", tests, NULL, NULL);
}
