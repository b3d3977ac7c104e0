// Every kernel of a table compared with a plain reference in double. The CPU paths and CUDA run the same
// checks; vectors are in the table's own memory, with guard values behind their ends.
#ifndef TEST_UNIT_KERNELS_CHECKS_H
#define TEST_UNIT_KERNELS_CHECKS_H

#include "test/unit/kernels_optimizers.h"

// --- matrix product ---

struct checks_shape {
    size_t m, n, k;
    bool ta, tb;
    float alpha, beta;
    bool few; // factors that bf16 represents exactly
};

static inline void checks_quarters(const struct kernels *k, struct checks_vector *v)
{
    for (size_t i = 0; i < v->count; i++) {
        v->host[i] = roundf(4.0f * v->host[i]) / 4.0f;
    }
    checks_send(k, v);
}

// One product of k terms, summed in any order, has an error of at most (k + 2) eps/2 of the sum of
// magnitudes; the test allows eps.
static inline void checks_gemm_one(const struct kernels *k, const struct checks_shape *s)
{
    struct checks_vector a = checks_gaussian(k, s->m * s->k, 1.0), b = checks_gaussian(k, s->k * s->n, 1.0);
    struct checks_vector c = checks_gaussian(k, s->m * s->n, 1.0);
    if (s->few) {
        checks_quarters(k, &a);
        checks_quarters(k, &b);
    }
    if (s->beta == 0.0f) { // C is only written: its old contents must not matter
        for (size_t i = 0; i < c.count; i++) {
            c.host[i] = NAN;
        }
        checks_send(k, &c);
    }
    k->gemm(s->ta, s->tb, s->m, s->n, s->k, s->alpha, a.device, b.device, s->beta, c.device);
    float *found = checks_result(k, &c);
    for (size_t i = 0; i < s->m; i++) {
        for (size_t j = 0; j < s->n; j++) {
            double sum = 0.0, magnitude = 0.0;
            for (size_t l = 0; l < s->k; l++) {
                const double x = (double)(s->ta ? a.host[l * s->m + i] : a.host[i * s->k + l]);
                const double y = (double)(s->tb ? b.host[j * s->k + l] : b.host[l * s->n + j]);
                sum += x * y;
                magnitude += fabs(x * y);
            }
            const size_t at = i * s->n + j;
            const double old = s->beta == 0.0f ? 0.0 : (double)s->beta * (double)c.host[at];
            const double bound =
                ((double)s->k + 2.0) * EPS * (fabs((double)s->alpha) * magnitude + fabs(old));
            checks_close("gemm", s->n, at, (double)found[at], (double)s->alpha * sum + old, bound);
        }
    }
    free(found);
    checks_free(k, &a);
    checks_free(k, &b);
    checks_free(k, &c);
}

static inline void checks_gemm_transposes(const struct kernels *k, size_t m, size_t n, size_t depth)
{
    for (unsigned t = 0; t < 4; t++) {
        struct checks_shape s = {m, n, depth, (t & 1) != 0, (t & 2) != 0, 1.0f, 0.0f, false};
        checks_gemm_one(k, &s);
        s.alpha = -0.75f;
        s.beta = 1.5f;
        checks_gemm_one(k, &s);
    }
}

static inline void checks_gemm(void **state)
{
    const struct kernels *k = *state;
    for (size_t i = 0; i < CHECKS_SIZES; i++) {
        const size_t s = checks_sizes[i];
        checks_gemm_transposes(k, s, 5, 7);
        checks_gemm_transposes(k, 6, s, 9);
        checks_gemm_transposes(k, 3, 11, s);
    }
    for (size_t i = 1; i <= 70; i += 3) {
        checks_gemm_transposes(k, i, i + 1, i + 2);
    }
    checks_gemm_transposes(k, 64, 256, 100); // the shapes of a step of an MLP
    checks_gemm_transposes(k, 100, 256, 64);
    checks_gemm_transposes(k, 130, 127, 129);
    checks_gemm_transposes(k, 20, 500, 128); // packed in more than one panel
    checks_gemm_transposes(k, 60, 610, 300); // in two parts of terms
    checks_gemm_transposes(k, 530, 10, 300); // through the transpose, twice
    checks_gemm_one(
        k, &(struct checks_shape){520, 600, 256, false, false, 1.0f, 0.5f, false}); // two groups of rows
    checks_gemm_one(k, &(struct checks_shape){610, 530, 256, true, false, 1.0f, 0.5f, false}); // two panels
    checks_gemm_one(
        k, &(struct checks_shape){1400, 1600, 2, true, false, 1.0f, 0.0f, false}); // larger than the caches
}

// Factors in bf16 (kernels->bf16): the same products if bf16 represents their factors exactly.
static inline void checks_gemm_bf16(void **state)
{
    const struct kernels *k = *state;
    static const size_t shapes[][3] = {{2, 2, 1}, {5, 7, 9}, {64, 256, 100}, {100, 10, 64}, {33, 65, 129}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (unsigned t = 0; t < 4; t++) {
            struct checks_shape s = {shapes[i][0], shapes[i][1],          shapes[i][2],        (t & 1) != 0,
                                     (t & 2) != 0, t < 2 ? 1.0f : -0.75f, t < 2 ? 0.0f : 1.5f, true};
            checks_gemm_one(k->bf16, &s);
        }
    }
    checks_gemm_one(k->bf16, &(struct checks_shape){1, 1, 1000, false, true, 1.0f, 0.0f, false}); // fp32
}

// --- loops ---

static inline void checks_bias(void **state)
{
    const struct kernels *k = *state;
    for (size_t i = 0; i < CHECKS_SIZES; i++) {
        const size_t rows = 1 + i % 5, cols = checks_sizes[i];
        for (int relu = 0; relu < 2; relu++) {
            struct checks_vector z = checks_gaussian(k, rows * cols, 1.0),
                                 bias = checks_gaussian(k, cols, 1.0);
            (relu ? k->bias_add_relu : k->bias_add)(rows, cols, bias.device, z.device);
            float *found = checks_result(k, &z);
            for (size_t e = 0; e < z.count; e++) {
                const float sum = z.host[e] + bias.host[e % cols]; // one rounding: exact agreement
                assert_true(found[e] == (relu && sum < 0.0f ? 0.0f : sum));
            }
            free(found);
            checks_free(k, &z);
            checks_free(k, &bias);
        }
    }
}

static inline void checks_relu_keeps_nan(void **state)
{
    const struct kernels *k = *state;
    struct checks_vector z = checks_gaussian(k, 40, 1.0), bias = checks_gaussian(k, 40, 1.0);
    z.host[3] = z.host[37] = NAN;
    checks_send(k, &z);
    k->bias_add_relu(1, 40, bias.device, z.device);
    float *found = checks_result(k, &z);
    for (size_t i = 0; i < 40; i++) {
        assert_true(isnan(found[i]) == (i == 3 || i == 37));
    }
    free(found);
    checks_free(k, &z);
    checks_free(k, &bias);
}

static inline void checks_relu_backward(void **state)
{
    const struct kernels *k = *state;
    for (size_t i = 0; i < CHECKS_SIZES; i++) {
        const size_t n = checks_sizes[i];
        struct checks_vector a = checks_gaussian(k, n, 1.0), g = checks_gaussian(k, n, 1.0);
        for (size_t e = 0; e < n; e++) { // activations as they occur: never negative, often exactly 0
            a.host[e] = a.host[e] < 0.0f ? 0.0f : a.host[e];
        }
        checks_send(k, &a);
        k->relu_backward(n, a.device, g.device);
        float *found = checks_result(k, &g);
        for (size_t e = 0; e < n; e++) {
            assert_true(found[e] == (a.host[e] > 0.0f ? g.host[e] : 0.0f));
        }
        free(found);
        checks_free(k, &a);
        checks_free(k, &g);
    }
}

static inline void checks_column_sum(void **state)
{
    const struct kernels *k = *state;
    for (size_t i = 0; i < CHECKS_SIZES; i++) {
        const size_t rows = checks_sizes[CHECKS_SIZES - 1 - i], cols = checks_sizes[i];
        struct checks_vector z = checks_gaussian(k, rows * cols, 1.0), sum = checks_gaussian(k, cols, 1.0);
        k->column_sum(rows, cols, z.device, sum.device);
        float *found = checks_result(k, &sum);
        for (size_t c = 0; c < cols; c++) {
            double expected = 0.0, magnitude = 0.0;
            for (size_t r = 0; r < rows; r++) {
                expected += (double)z.host[r * cols + c];
                magnitude += fabs((double)z.host[r * cols + c]);
            }
            checks_close("column_sum", cols, c, (double)found[c], expected, (double)rows * EPS * magnitude);
        }
        free(found);
        checks_free(k, &z);
        checks_free(k, &sum);
    }
}

// --- softmax and cross entropy ---

struct checks_softmax_row {
    double max, sum, loss;
    bool correct;
};

static inline struct checks_softmax_row checks_softmax_reference(const float *z, size_t cols, uint32_t label)
{
    struct checks_softmax_row row = {.max = (double)z[0]};
    size_t best = 0;
    for (size_t c = 1; c < cols; c++) {
        best = z[c] > z[best] ? c : best;
    }
    row.max = (double)z[best];
    for (size_t c = 0; c < cols; c++) {
        row.sum += exp((double)z[c] - row.max);
    }
    row.loss = log(row.sum) - ((double)z[label] - row.max);
    row.correct = best == label;
    return row;
}

// Rounding z - max has an error of eps/2 * |z - max|, which exp turns into a relative error; the sum adds
// sqrt(cols) roundings or, at worst, cols/16 + 16.
static inline void checks_softmax_one(const struct kernels *k, size_t rows, size_t cols, double spread,
                                      bool ties)
{
    struct checks_vector z = checks_gaussian(k, rows * cols, spread);
    const float scale = 1.0f / (float)rows;
    uint32_t *labels = malloc(rows * sizeof *labels), *device_labels = k->alloc(rows * sizeof *labels);
    assert_non_null(labels);
    assert_non_null(device_labels);
    for (size_t i = 0; ties && i < z.count; i++) {
        z.host[i] = roundf(z.host[i]);
    }
    for (size_t r = 0; r < rows; r++) {
        labels[r] = (uint32_t)base_rng_below(&checks_rng, cols);
    }
    checks_send(k, &z);
    k->upload(device_labels, labels, rows * sizeof *labels);
    struct kernels_loss loss = {.loss_sum = -1.0, .correct = 12345};
    k->softmax_cross_entropy(rows, cols, z.device, device_labels, scale, &loss);
    float *found = checks_result(k, &z);
    double loss_sum = 0.0, loss_bound = 0.0;
    size_t correct = 0;
    for (size_t r = 0; r < rows; r++) {
        const float *logits = z.host + r * cols;
        const struct checks_softmax_row row = checks_softmax_reference(logits, cols, labels[r]);
        for (size_t c = 0; c < cols; c++) {
            const double shifted = (double)logits[c] - row.max, p = exp(shifted) / row.sum;
            const double relative = EPS * (8.0 + fabs(shifted) + (double)cols / 16.0);
            const double bound = (relative * p + EPS) * (double)scale;
            checks_close("softmax", cols, r * cols + c, (double)found[r * cols + c],
                         (p - (c == labels[r] ? 1.0 : 0.0)) * (double)scale, bound);
        }
        loss_sum += row.loss;
        loss_bound += EPS * (24.0 + fabs(row.max) + (double)cols / 16.0 + row.loss);
        correct += row.correct;
    }
    checks_close("loss", cols, rows, loss.loss_sum, loss_sum, loss_bound);
    assert_int_equal(loss.correct, correct);
    free(found);
    free(labels);
    k->release(device_labels);
    checks_free(k, &z);
}

static inline void checks_softmax(void **state)
{
    const struct kernels *k = *state;
    for (size_t i = 0; i < CHECKS_SIZES; i++) {
        const size_t s = checks_sizes[i];
        checks_softmax_one(k, 1 + i % 7, s, 3.0, false);
        checks_softmax_one(k, 1 + i % 7, s, 30.0, false); // saturated: most terms underflow
        checks_softmax_one(k, 1 + i % 7, s, 1.0, true);   // whole numbers: many ties for the largest
        checks_softmax_one(k, s, 10, 3.0, false);
    }
    checks_softmax_one(k, 3, 5000, 3.0, false);
    checks_softmax_one(k, 3, 40, 0.0, true); // constant rows
    checks_softmax_one(k, 7, 2, 1.0, true);
}

// The CPU's loops of their own. In the emulator of a GPU these 93,000 rows, a block each, take a minute.
static inline void checks_softmax_two_classes(void **state)
{
    const struct kernels *k = *state;
    for (size_t rows = 1020; rows < 1050; rows++) {
        checks_softmax_one(k, rows, 2, 3.0, false);
        checks_softmax_one(k, rows, 2, 30.0, false);
        checks_softmax_one(k, rows, 2, 1.0, true);
    }
}

// With two logits 0 and -d the second share is e^-d / (1 + e^-d), however small: that shows the relative
// error of exp. A third logit has no share.
static inline void checks_softmax_exp_of(const struct kernels *k, size_t cols)
{
    const size_t rows = 20000;
    struct checks_vector z = checks_make(k, cols * rows);
    uint32_t *labels = k->alloc(rows * sizeof *labels); // zeroed: label 0
    assert_non_null(labels);
    for (size_t r = 0; r < rows; r++) {
        z.host[cols * r] = 0.0f;
        z.host[cols * r + cols - 1] = -1000.0f;
        z.host[cols * r + 1] = (float)(-86.0 * (double)r / (double)rows);
    }
    checks_send(k, &z);
    struct kernels_loss loss;
    k->softmax_cross_entropy(rows, cols, z.device, labels, 1.0f, &loss);
    float *found = checks_result(k, &z);
    for (size_t r = 0; r < rows; r++) {
        const double e = exp((double)z.host[cols * r + 1]), expected = e / (1.0 + e);
        checks_close("exp", rows, r, (double)found[cols * r + 1], expected, 4e-7 * expected);
    }
    free(found);
    k->release(labels);
    checks_free(k, &z);
}

static inline void checks_softmax_exp(void **state)
{
    checks_softmax_exp_of(*state, 2);
    checks_softmax_exp_of(*state, 3);
}

static inline void checks_softmax_nan_of(const struct kernels *k, size_t cols)
{
    for (size_t at = 0; at < cols; at++) {
        struct checks_vector z = checks_gaussian(k, 2 * cols, 1.0);
        uint32_t host_labels[2] = {(uint32_t)at, 0}, *labels = k->alloc(sizeof host_labels);
        assert_non_null(labels);
        z.host[at] = NAN;
        z.host[cols] = 100.0f; // the second row is valid
        checks_send(k, &z);
        k->upload(labels, host_labels, sizeof host_labels);
        struct kernels_loss loss;
        k->softmax_cross_entropy(2, cols, z.device, labels, 1.0f, &loss);
        float *found = checks_result(k, &z);
        assert_true(isnan(found[at]) && !isnan(found[cols]));
        free(found);
        assert_true(isnan(loss.loss_sum));
        assert_int_equal(loss.correct, 1);
        k->release(labels);
        checks_free(k, &z);
    }
}

static inline void checks_softmax_nan(void **state)
{
    checks_softmax_nan_of(*state, 2);
    checks_softmax_nan_of(*state, 20);
}

// New memory is zero, and what is uploaded is downloaded unchanged.
static inline void checks_memory(void **state)
{
    const struct kernels *k = *state;
    unsigned char out[1000], in[1000];
    for (size_t bytes = 0; bytes <= sizeof out; bytes += 37) {
        unsigned char *memory = k->alloc(bytes);
        assert_non_null(memory);
        memset(out, 0xff, sizeof out);
        k->download(out, memory, bytes);
        for (size_t i = 0; i < bytes; i++) {
            assert_int_equal(out[i], 0);
            in[i] = (unsigned char)base_rng_u64(&checks_rng);
        }
        k->upload(memory, in, bytes);
        k->download(out, memory, bytes);
        assert_memory_equal(in, out, bytes);
        k->release(memory);
    }
    k->release(NULL);
    assert_null(k->alloc(SIZE_MAX - 8));
}

#define CHECKS_TESTS                                                                                         \
    {"memory", checks_memory}, {"gemm", checks_gemm}, {"bias", checks_bias},                                 \
        {"relu keeps NaN", checks_relu_keeps_nan}, {"relu backward", checks_relu_backward},                  \
        {"column sum", checks_column_sum}, {"softmax", checks_softmax},                                      \
        {"softmax of two classes", checks_softmax_two_classes}, {"softmax exp", checks_softmax_exp},         \
        {"softmax NaN", checks_softmax_nan}, {"sgd", checks_sgd}, {"adamw", checks_adamw},                   \
    {                                                                                                        \
        "lion", checks_lion                                                                                  \
    }

#endif
