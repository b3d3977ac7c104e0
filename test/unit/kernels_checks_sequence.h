// The functions for decoders compared with plain references in double, and each gradient with central
// differences of its reference. The CPU paths, CUDA on a device and its code in the emulator run the same
// checks.
#ifndef TEST_UNIT_KERNELS_CHECKS_SEQUENCE_H
#define TEST_UNIT_KERNELS_CHECKS_SEQUENCE_H

#include "test/unit/kernels_checks.h"
#include "test/unit/kernels_differences.h"

// Sizes around the borders of lanes and of blocks of queries.
static const size_t widths[] = {1, 2, 7, 15, 16, 17, 31, 32, 33, 48, 65, 128, 200};
#define COUNT(list) (sizeof(list) / sizeof(list)[0])

// --- embedding ---

static inline void embedding_matches_its_definition(void **state)
{
    const struct kernels *k = *state;
    for (size_t i = 0; i < COUNT(widths); i++) {
        const size_t width = widths[i], tokens = 5, rows = 3 * tokens, words = 11;
        struct checks_vector token = checks_gaussian(k, words * width, 1.0);
        struct checks_vector place = checks_gaussian(k, tokens * width, 1.0);
        struct checks_vector out = checks_make(k, rows * width), grad = checks_gaussian(k, rows * width, 1.0);
        uint32_t host[15], *ids = k->alloc(sizeof host);
        assert_non_null(ids);
        for (size_t r = 0; r < rows; r++) {
            host[r] = (uint32_t)base_rng_below(&checks_rng, words);
        }
        k->upload(ids, host, sizeof host);
        checks_send(k, &out);
        k->sequence->embed(rows, tokens, width, ids, token.device, place.device, out.device);
        double *sum = doubles(rows * width), *expected = widen(&token);
        for (size_t r = 0; r < rows; r++) {
            for (size_t c = 0; c < width; c++) {
                sum[r * width + c] =
                    (double)token.host[host[r] * width + c] + (double)place.host[r % tokens * width + c];
                expected[host[r] * width + c] += (double)grad.host[r * width + c];
            }
        }
        compare("embed", k, &out, sum, EPS);
        k->sequence->embed_backward(rows, width, ids, grad.device, token.device);
        compare("embed backward", k, &token, expected, 16 * EPS);
        free(sum);
        free(expected);
        k->release(ids);
        checks_free(k, &token);
        checks_free(k, &place);
        checks_free(k, &out);
        checks_free(k, &grad);
    }
}

// --- LayerNorm ---

struct norm {
    size_t rows, cols;
    double *x, *gain, *bias, *grad;
};

static inline void norm_row(const struct norm *n, size_t r, double *out)
{
    double mean = 0.0, variance = 0.0;
    const double *x = n->x + r * n->cols, count = (double)n->cols;
    for (size_t c = 0; c < n->cols; c++) {
        mean += x[c] / count;
    }
    for (size_t c = 0; c < n->cols; c++) {
        variance += (x[c] - mean) * (x[c] - mean) / count;
    }
    for (size_t c = 0; c < n->cols; c++) {
        out[c] = (x[c] - mean) / sqrt(variance + (double)1e-5f) * n->gain[c] + n->bias[c];
    }
}

static inline double norm_value(const struct subject *subject)
{
    const struct norm *n = subject->of;
    double value = 0.0, *row = doubles(n->cols);
    for (size_t r = 0; r < n->rows; r++) {
        norm_row(n, r, row);
        for (size_t c = 0; c < n->cols; c++) {
            value += row[c] * n->grad[r * n->cols + c];
        }
    }
    free(row);
    return value;
}

struct norm_vectors {
    struct checks_vector x, gain, bias, grad, out, mean, inverse, grad_x, grad_gain, grad_bias;
};

static inline struct norm_vectors norm_make(const struct kernels *k, size_t rows, size_t cols)
{
    struct norm_vectors v = {checks_gaussian(k, rows * cols, 2.0),
                             checks_gaussian(k, cols, 1.0),
                             checks_gaussian(k, cols, 1.0),
                             checks_gaussian(k, rows * cols, 1.0),
                             checks_gaussian(k, rows * cols, 1.0),
                             checks_gaussian(k, rows, 1.0),
                             checks_gaussian(k, rows, 1.0),
                             checks_make(k, rows * cols),
                             checks_make(k, cols),
                             checks_make(k, cols)};
    refill(k, &v.grad_x, 3.0f); // the gradient is added to what is there
    refill(k, &v.grad_gain, NAN);
    refill(k, &v.grad_bias, NAN);
    return v;
}

static inline void norm_free(const struct kernels *k, struct norm_vectors *v)
{
    struct checks_vector *all = &v->x;
    for (size_t i = 0; i < sizeof *v / sizeof *all; i++) {
        checks_free(k, &all[i]);
    }
}

static inline void norm_backward(const struct kernels *k, const struct norm_vectors *v,
                                 const struct kernels_norm *n, const float *skip)
{
    k->sequence->layernorm_backward(n, v->grad.device, v->x.device, v->gain.device, v->mean.device,
                                    v->inverse.device, skip, v->grad_x.device, v->grad_gain.device,
                                    v->grad_bias.device);
}

static inline void check_norm(const struct kernels *k, size_t rows, size_t cols)
{
    struct norm_vectors v = norm_make(k, rows, cols);
    struct norm n = {rows, cols, widen(&v.x), widen(&v.gain), widen(&v.bias), widen(&v.grad)};
    double *out = doubles(rows * cols);
    for (size_t r = 0; r < rows; r++) {
        norm_row(&n, r, out + r * cols);
    }
    k->sequence->layernorm(rows, cols, v.x.device, v.gain.device, v.bias.device, v.out.device, v.mean.device,
                           v.inverse.device);
    compare("layernorm", k, &v.out, out, 2e-5);
    struct kernels_norm norm = {rows, cols, false};
    norm_backward(k, &v, &norm, v.grad_x.device);
    struct subject of_x = {norm_value, n.x, &n}, of_gain = {norm_value, n.gain, &n};
    struct subject of_bias = {norm_value, n.bias, &n};
    compare_gradient("layernorm x", k, &v.grad_x, &of_x, 3.0, cols < 3 ? 5e-3 : 1e-4);
    compare_gradient("layernorm gain", k, &v.grad_gain, &of_gain, 0.0, 5e-5);
    compare_gradient("layernorm bias", k, &v.grad_bias, &of_bias, 0.0, 5e-5);
    refill(k, &v.grad_gain, 7.0f);
    refill(k, &v.grad_bias, -7.0f);
    norm.accumulate = true;
    norm_backward(k, &v, &norm, NULL);
    compare_gradient("layernorm x alone", k, &v.grad_x, &of_x, 0.0, cols < 3 ? 5e-3 : 1e-4);
    compare_gradient("layernorm gain, added", k, &v.grad_gain, &of_gain, 7.0, 5e-5);
    compare_gradient("layernorm bias, added", k, &v.grad_bias, &of_bias, -7.0, 5e-5);
    refill(k, &v.out, 5.0f);
    norm_backward(k, &v, &norm, v.out.device);
    compare_gradient("layernorm x beside another", k, &v.grad_x, &of_x, 5.0, cols < 3 ? 5e-3 : 1e-4);
    double *all[] = {n.x, n.gain, n.bias, n.grad, out};
    for (size_t i = 0; i < COUNT(all); i++) {
        free(all[i]);
    }
    norm_free(k, &v);
}

static inline void layernorm_matches_its_definition(void **state)
{
    for (size_t i = 0; i < COUNT(widths); i++) {
        check_norm(*state, 1 + i % 4, widths[i]);
    }
}

// --- GELU ---

static inline double gelu(double z)
{
    return 0.5 * z * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (z + 0.044715 * z * z * z)));
}

static inline void gelu_matches_its_definition(void **state)
{
    const struct kernels *k = *state;
    for (size_t i = 0; i < COUNT(widths); i++) {
        const size_t cols = widths[i], rows = 1 + i % 4, count = rows * cols;
        struct checks_vector z = checks_gaussian(k, count, 3.0), bias = checks_gaussian(k, cols, 1.0);
        struct checks_vector out = checks_make(k, count), grad = checks_gaussian(k, count, 1.0);
        z.host[0] = i % 2 ? 60.0f : -60.0f; // saturated: the identity, or zero
        checks_send(k, &z);
        checks_send(k, &out);
        k->sequence->bias_gelu(rows, cols, bias.device, z.device, out.device);
        double *bent = doubles(count), *slope = doubles(count), *back = doubles(count);
        for (size_t e = 0; e < count; e++) {
            const double at = (double)(z.host[e] + bias.host[e % cols]), step = 1e-5;
            bent[e] = gelu(at);
            slope[e] = (gelu(at + step) - gelu(at - step)) / (2.0 * step);
            back[e] = (double)grad.host[e] * slope[e];
        }
        compare("gelu", k, &out, bent, 2e-6);
        compare("gelu slope", k, &z, slope, 2e-5);
        k->sequence->gelu_backward(count, z.device, grad.device);
        compare("gelu backward", k, &grad, back, 2e-5);
        free(bent);
        free(slope);
        free(back);
        checks_free(k, &z);
        checks_free(k, &bias);
        checks_free(k, &out);
        checks_free(k, &grad);
    }
}

static inline void gelu_keeps_nan(void **state)
{
    const struct kernels *k = *state;
    struct checks_vector z = checks_gaussian(k, 40, 1.0), bias = checks_gaussian(k, 40, 1.0);
    struct checks_vector out = checks_gaussian(k, 40, 1.0);
    z.host[3] = z.host[37] = NAN;
    checks_send(k, &z);
    k->sequence->bias_gelu(1, 40, bias.device, z.device, out.device);
    float *found = checks_result(k, &out);
    for (size_t i = 0; i < 40; i++) {
        assert_true(isnan(found[i]) == (i == 3 || i == 37));
    }
    free(found);
    checks_free(k, &z);
    checks_free(k, &bias);
    checks_free(k, &out);
}

static inline void residual_adds(void **state)
{
    const struct kernels *k = *state;
    struct checks_vector x = checks_gaussian(k, 3 * 33, 1.0), bias = checks_gaussian(k, 33, 1.0);
    struct checks_vector out = checks_gaussian(k, 3 * 33, 1.0);
    k->sequence->residual(3, 33, bias.device, x.device, out.device);
    float *found = checks_result(k, &out);
    for (size_t i = 0; i < x.count; i++) {
        assert_true(found[i] == x.host[i] + bias.host[i % 33]);
    }
    free(found);
    checks_free(k, &x);
    checks_free(k, &bias);
    checks_free(k, &out);
}

// --- attention ---

struct attention {
    struct kernels_attention shape;
    double *qkv, *grad, *out; // out: as last computed
};

static inline void attend(const struct attention *a)
{
    const struct kernels_attention *s = &a->shape;
    const size_t all = s->heads * s->width, stride = 3 * all;
    double *share = doubles(s->tokens);
    for (size_t at = 0; at < s->sequences * s->heads * s->tokens; at++) {
        const size_t query = at % s->tokens, head = at / s->tokens % s->heads;
        const size_t first = at / s->tokens / s->heads * s->tokens;
        const double *q = a->qkv + (first + query) * stride + head * s->width;
        double *out = a->out + (first + query) * all + head * s->width, sum = 0.0;
        for (size_t key = 0; key <= query; key++) {
            const double *of_key = a->qkv + (first + key) * stride + all + head * s->width;
            double score = 0.0;
            for (size_t w = 0; w < s->width; w++) {
                score += q[w] * of_key[w];
            }
            share[key] = exp(score / sqrt((double)s->width));
            sum += share[key];
        }
        memset(out, 0, s->width * sizeof *out);
        for (size_t key = 0; key <= query; key++) {
            const double *value = a->qkv + (first + key) * stride + 2 * all + head * s->width;
            for (size_t w = 0; w < s->width; w++) {
                out[w] += share[key] / sum * value[w];
            }
        }
    }
    free(share);
}

static inline double attention_value(const struct subject *subject)
{
    const struct attention *a = subject->of;
    double value = 0.0;
    attend(a);
    for (size_t i = 0; i < a->shape.sequences * a->shape.tokens * a->shape.heads * a->shape.width; i++) {
        value += a->out[i] * a->grad[i];
    }
    return value;
}

static inline void check_attention(const struct kernels *k, struct kernels_attention shape, bool gradient)
{
    const size_t rows = shape.sequences * shape.tokens, all = shape.heads * shape.width;
    struct checks_vector qkv = checks_gaussian(k, 3 * rows * all, 1.0);
    struct checks_vector out = checks_gaussian(k, rows * all, 1.0);
    struct checks_vector grad = checks_gaussian(k, rows * all, 1.0);
    struct checks_vector log_sum = checks_gaussian(k, rows * shape.heads, 1.0);
    struct checks_vector scratch = checks_gaussian(k, kernels_attention_scratch(&shape), 1.0);
    struct checks_vector grad_qkv = checks_gaussian(k, 3 * rows * all, 1.0);
    struct attention a = {shape, widen(&qkv), widen(&grad), doubles(rows * all)};
    attend(&a);
    k->sequence->attention(&shape, qkv.device, scratch.device, out.device, log_sum.device);
    compare("attention", k, &out, a.out, 1e-5);
    if (gradient) {
        k->sequence->attention_backward(&shape, qkv.device, out.device, log_sum.device, grad.device,
                                        scratch.device, grad_qkv.device);
        struct subject subject = {attention_value, a.qkv, &a};
        compare_gradient("attention backward", k, &grad_qkv, &subject, 0.0, 5e-5);
    }
    free(checks_result(k, &scratch));
    free(checks_result(k, &log_sum));
    free(a.qkv);
    free(a.grad);
    free(a.out);
    struct checks_vector *vectors[] = {&qkv, &out, &grad, &log_sum, &scratch, &grad_qkv};
    for (size_t i = 0; i < COUNT(vectors); i++) {
        checks_free(k, vectors[i]);
    }
}

static inline void attention_matches_its_definition(void **state)
{
    static const size_t tokens[] = {1, 2, 5, 16, 31, 32, 33, 63, 64, 65, 100};
    for (size_t i = 0; i < COUNT(tokens); i++) {
        check_attention(*state, (struct kernels_attention){1 + i % 2, tokens[i], 1 + i % 3, 3 + 15 * (i % 3)},
                        false);
    }
    check_attention(*state, (struct kernels_attention){2, 3, 2, 4}, true);
    check_attention(*state, (struct kernels_attention){1, 1, 1, 1}, true);
    check_attention(*state, (struct kernels_attention){1, 37, 1, 17}, true);
}

// The shares of large scores do not overflow: an offset common to all of them changes nothing.
static inline void attention_is_stable(void **state)
{
    const struct kernels *k = *state;
    const struct kernels_attention shape = {1, 40, 1, 16};
    struct checks_vector qkv = checks_gaussian(k, 3 * 40 * 16, 1.0), out = checks_gaussian(k, 40 * 16, 1.0);
    struct checks_vector log_sum = checks_gaussian(k, 40, 1.0);
    struct checks_vector scratch = checks_gaussian(k, kernels_attention_scratch(&shape), 1.0);
    for (size_t r = 0; r < 40; r++) {
        qkv.host[r * 48] = 100.0f; // the same part of q and k: every score is about 2500
        qkv.host[r * 48 + 16] = 100.0f;
    }
    checks_send(k, &qkv);
    struct attention a = {shape, widen(&qkv), NULL, doubles(40 * 16)};
    for (size_t r = 0; r < 40; r++) {
        a.qkv[r * 48] = 0.0; // the same shares without it
    }
    attend(&a);
    k->sequence->attention(&shape, qkv.device, scratch.device, out.device, log_sum.device);
    compare("attention", k, &out, a.out, 2e-3); // for scores around 2500 a unit in the last place is 2.4e-4
    free(a.qkv);
    free(a.out);
    checks_free(k, &qkv);
    checks_free(k, &out);
    checks_free(k, &log_sum);
    checks_free(k, &scratch);
}

// --- dropout ---

static inline void dropout_drops_alike_forward_and_backward(void **state)
{
    const struct kernels *k = *state;
    enum { N = 200000 };
    static const float parts[] = {0.0f, 0.1f, 0.5f, 0.9f};
    for (size_t i = 0; i < COUNT(parts); i++) {
        struct checks_vector x = checks_make(k, N), again = checks_make(k, N), other = checks_make(k, N);
        refill(k, &x, 1.0f);
        refill(k, &again, 2.0f);
        refill(k, &other, 1.0f);
        k->sequence->dropout(N, 77 + i, parts[i], x.device, x.device);
        k->sequence->dropout(N, 77 + i, parts[i], again.device, again.device);
        k->sequence->dropout(N, 78 + i, parts[i], other.device, other.device);
        float *a = checks_result(k, &x), *b = checks_result(k, &again), *c = checks_result(k, &other);
        size_t dropped = 0, both = 0;
        for (size_t e = 0; e < N; e++) {
            assert_true(a[e] == 0.0f || a[e] == 1.0f / (1.0f - parts[i]));
            assert_true((a[e] == 0.0f) == (b[e] == 0.0f)); // one stream drops the same elements
            dropped += a[e] == 0.0f;
            both += a[e] == 0.0f && c[e] == 0.0f;
        }
        const double p = (double)parts[i], deviation = sqrt(p * (1.0 - p) / N);
        checks_close("dropped", N, i, (double)dropped / N, p, 5.0 * deviation);
        checks_close("dropped twice", N, i, (double)both / N, p * p, 5.0 * sqrt(p * p * (1.0 - p * p) / N));
        free(a);
        free(b);
        free(c);
        checks_free(k, &x);
        checks_free(k, &again);
        checks_free(k, &other);
    }
}

#define CHECKS_SEQUENCE                                                                                      \
    {"embedding", embedding_matches_its_definition}, {"layernorm", layernorm_matches_its_definition},        \
        {"gelu", gelu_matches_its_definition}, {"gelu keeps nan", gelu_keeps_nan},                           \
        {"residual", residual_adds}, {"attention", attention_matches_its_definition},                        \
        {"attention of large scores", attention_is_stable},                                                  \
    {                                                                                                        \
        "dropout", dropout_drops_alike_forward_and_backward                                                  \
    }

#endif
