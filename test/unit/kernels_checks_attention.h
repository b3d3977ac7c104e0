// Attention on tensor cores compared with its definition in double, computed from the same bf16 numbers. The
// launches on a device and their code in the emulator run the same checks.
#ifndef TEST_UNIT_KERNELS_CHECKS_ATTENTION_H
#define TEST_UNIT_KERNELS_CHECKS_ATTENTION_H

#include "kernels_twin.h"

struct attention_checks {
    const struct kernels *memory; // whose functions for memory are used
    const struct kernels_attention *shapes;
    size_t count;
    int (*takes)(const struct kernels_attention *shape);
    void (*forward)(const struct kernels_attention *shape, const uint16_t *qkv, uint16_t *out,
                    float *log_sum);
    void (*backward)(const struct kernels_attention *shape, const uint16_t *qkv, const uint16_t *out,
                     const float *log_sum, const uint16_t *grad, float *back, uint16_t *grad_qkv);
};

// The numbers of one shape in double; `weight`: of one query to all keys, `slope`: its gradient.
struct attention_reference {
    struct kernels_attention shape;
    double *qkv, *grad, *out, *log_sum, *grad_qkv;
    double *weight, *slope;
};

static inline double attention_widen(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static inline uint16_t attention_narrow(float value) // finite
{
    const uint32_t bits = twin_bits(value);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline double *attention_zeros(size_t count)
{
    double *zeros = calloc(count + 1, sizeof *zeros);
    assert_non_null(zeros);
    return zeros;
}

// One query; of qkv, `q` is its row of the head, `k` that of key 0, and v follows `all` numbers later.
static inline void attention_query(struct attention_reference *r, size_t query, size_t of_head, size_t q,
                                   size_t k, size_t out)
{
    const struct kernels_attention *s = &r->shape;
    const size_t all = s->heads * s->width, stride = 3 * all;
    const double scale = 1.0 / sqrt((double)s->width);
    double max = -INFINITY, sum = 0.0, back = 0.0;
    for (size_t key = 0; key <= query; key++) {
        double score = 0.0, slope = 0.0;
        for (size_t w = 0; w < s->width; w++) {
            score += r->qkv[q + w] * r->qkv[k + key * stride + w] * scale;
            slope += r->grad[out + w] * r->qkv[k + all + key * stride + w];
        }
        r->weight[key] = score;
        r->slope[key] = slope;
        max = fmax(max, score);
    }
    for (size_t key = 0; key <= query; key++) {
        sum += exp(r->weight[key] - max);
    }
    r->log_sum[of_head + query] = max + log(sum);
    for (size_t key = 0; key <= query; key++) {
        r->weight[key] = exp(r->weight[key] - max) / sum;
        back += r->weight[key] * r->slope[key];
    }
    for (size_t key = 0; key <= query; key++) {
        const double weight = r->weight[key], slope = weight * (r->slope[key] - back) * scale;
        for (size_t w = 0; w < s->width; w++) {
            r->out[out + w] += weight * r->qkv[k + all + key * stride + w];
            r->grad_qkv[q + w] += slope * r->qkv[k + key * stride + w];
            r->grad_qkv[k + key * stride + w] += slope * r->qkv[q + w];
            r->grad_qkv[k + all + key * stride + w] += weight * r->grad[out + w];
        }
    }
}

static inline struct attention_reference attention_refer(const struct kernels_attention *s,
                                                         const uint16_t *qkv, const uint16_t *grad)
{
    const size_t rows = s->sequences * s->tokens, all = s->heads * s->width;
    struct attention_reference r = {*s,
                                    attention_zeros(3 * rows * all),
                                    attention_zeros(rows * all),
                                    attention_zeros(rows * all),
                                    attention_zeros(rows * s->heads),
                                    attention_zeros(3 * rows * all),
                                    attention_zeros(s->tokens),
                                    attention_zeros(s->tokens)};
    for (size_t i = 0; i < 3 * rows * all; i++) {
        r.qkv[i] = attention_widen(qkv[i]);
    }
    for (size_t i = 0; i < rows * all; i++) {
        r.grad[i] = attention_widen(grad[i]);
    }
    for (size_t at = 0; at < rows * s->heads; at++) {
        const size_t query = at % s->tokens, head = at / s->tokens % s->heads;
        const size_t first = at / s->tokens / s->heads * s->tokens, column = head * s->width;
        attention_query(&r, query, at - query, (first + query) * 3 * all + column,
                        first * 3 * all + all + column, (first + query) * all + column);
    }
    return r;
}

static inline void attention_reference_free(struct attention_reference *r)
{
    double *all[] = {r->qkv, r->grad, r->out, r->log_sum, r->grad_qkv, r->weight, r->slope};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
}

// Each row of a head within a hundredth of its largest number: shares and results are rounded to 8 bits.
static inline void attention_check_out(const struct attention_reference *r, const uint16_t *out)
{
    const size_t width = r->shape.width, rows = r->shape.sequences * r->shape.tokens * r->shape.heads;
    for (size_t row = 0; row < rows; row++) {
        const double *expected = r->out + row * width;
        double largest = 0.0;
        for (size_t w = 0; w < width; w++) {
            largest = fmax(largest, fabs(expected[w]));
        }
        for (size_t w = 0; w < width; w++) {
            checks_close("attention bf16 out", r->shape.tokens, row * width + w,
                         attention_widen(out[row * width + w]), expected[w], 1e-2 * largest);
        }
    }
}

// `part`: 0 for q, 1 for k, 2 for v.
static inline void attention_check_gradient(const struct attention_reference *r, const uint16_t *grad_qkv,
                                            size_t part)
{
    const size_t all = r->shape.heads * r->shape.width, rows = r->shape.sequences * r->shape.tokens;
    double error = 0.0, size = 0.0;
    for (size_t e = 0; e < rows * all; e++) {
        const size_t at = e / all * 3 * all + part * all + e % all;
        const double found = attention_widen(grad_qkv[at]), expected = r->grad_qkv[at];
        if (!isfinite(found)) {
            fail_msg("attention bf16, %zu tokens, gradient %zu of part %zu: %g", r->shape.tokens, e, part,
                     found);
        }
        error += (found - expected) * (found - expected);
        size += expected * expected;
    }
    // Of a single token the gradients of q and k are zeros.
    if (!(sqrt(error) <= 1e-2 * sqrt(size) + 1e-6)) {
        fail_msg("attention bf16, %zu tokens, width %zu, part %zu of the gradient: error %g of %g",
                 r->shape.tokens, r->shape.width, part, sqrt(error), sqrt(size));
    }
}

// Results start as NaN, so that a number which is not written is found.
static inline void *attention_poisoned(const struct kernels *k, size_t bytes)
{
    void *host = malloc(bytes + 1);
    assert_non_null(host);
    memset(host, 0xff, bytes);
    void *device = twin_send(k, host, bytes);
    free(host);
    return device;
}

struct attention_results {
    uint16_t *out, *grad_qkv;
    float *log_sum;
};

static inline struct attention_results attention_run(const struct attention_checks *c,
                                                     const struct kernels_attention *s, const uint16_t *qkv,
                                                     const uint16_t *grad)
{
    const struct kernels *k = c->memory;
    const size_t rows = s->sequences * s->tokens, all = s->heads * s->width, halves = sizeof(uint16_t);
    uint16_t *qkv_there = twin_send(k, qkv, 3 * rows * all * halves),
             *grad_there = twin_send(k, grad, rows * all * halves),
             *out = attention_poisoned(k, rows * all * halves),
             *grad_qkv = attention_poisoned(k, 3 * rows * all * halves);
    float *log_sum = attention_poisoned(k, rows * s->heads * sizeof *log_sum),
          *back = attention_poisoned(k, rows * s->heads * sizeof *back);
    c->forward(s, qkv_there, out, log_sum);
    c->backward(s, qkv_there, out, log_sum, grad_there, back, grad_qkv);
    const struct attention_results results = {twin_fetch(k, out, rows * all * halves),
                                              twin_fetch(k, grad_qkv, 3 * rows * all * halves),
                                              twin_fetch(k, log_sum, rows * s->heads * sizeof *log_sum)};
    void *inputs[] = {twin_fetch(k, qkv_there, 3 * rows * all * halves),
                      twin_fetch(k, grad_there, rows * all * halves)};
    twin_same("attention bf16 qkv", s->tokens, inputs[0], qkv, 3 * rows * all * halves);
    twin_same("attention bf16 grad", s->tokens, inputs[1], grad, rows * all * halves);
    free(twin_fetch(k, back, rows * s->heads * sizeof *back));
    free(inputs[0]);
    free(inputs[1]);
    return results;
}

// `offset` is added to the first number of every q and k: all scores of a head grow by offset^2 /
// sqrt(width), and its shares stay. bf16 does not have the gradients of q and k then, which cancel.
static inline void attention_check(const struct attention_checks *c, const struct kernels_attention *s,
                                   float offset)
{
    const size_t rows = s->sequences * s->tokens, all = s->heads * s->width;
    uint16_t *qkv = malloc(3 * rows * all * sizeof *qkv), *grad = malloc(rows * all * sizeof *grad);
    assert_non_null(qkv);
    assert_non_null(grad);
    for (size_t i = 0; i < 3 * rows * all; i++) {
        const int first = i % s->width == 0 && i % (3 * all) < 2 * all;
        qkv[i] = attention_narrow(first && offset != 0.0f ? offset : twin_element(TWIN_GAUSSIAN));
    }
    for (size_t i = 0; i < rows * all; i++) {
        grad[i] = attention_narrow(twin_element(TWIN_GAUSSIAN));
    }
    assert_true(c->takes(s));
    struct attention_reference r = attention_refer(s, qkv, grad);
    struct attention_results found = attention_run(c, s, qkv, grad), again = attention_run(c, s, qkv, grad);
    attention_check_out(&r, found.out);
    for (size_t i = 0; i < rows * s->heads; i++) {
        checks_close("attention bf16 log_sum", s->tokens, i, (double)found.log_sum[i], r.log_sum[i],
                     1e-3 + 4 * EPS * fabs(r.log_sum[i]));
    }
    for (size_t part = offset != 0.0f ? 2 : 0; part < 3; part++) {
        attention_check_gradient(&r, found.grad_qkv, part);
    }
    twin_same("attention bf16 out", s->tokens, again.out, found.out, rows * all * sizeof *qkv);
    twin_same("attention bf16 log_sum", s->tokens, again.log_sum, found.log_sum, rows * s->heads * 4);
    twin_same("attention bf16 grad_qkv", s->tokens, again.grad_qkv, found.grad_qkv,
              3 * rows * all * sizeof *qkv);
    void *memory[] = {qkv,           grad,      found.out,      found.grad_qkv,
                      found.log_sum, again.out, again.grad_qkv, again.log_sum};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) {
        free(memory[i]);
    }
    attention_reference_free(&r);
}

static inline void attention_bf16_matches_its_definition(void **state)
{
    const struct attention_checks *c = *state;
    for (size_t i = 0; i < c->count; i++) {
        attention_check(c, &c->shapes[i], 0.0f);
    }
}

static inline void attention_bf16_is_stable(void **state)
{
    attention_check(*state, &(struct kernels_attention){1, 70, 2, 16}, 100.0f);
}

static inline void attention_bf16_takes_some_widths(void **state)
{
    const struct attention_checks *c = *state;
    for (size_t width = 0; width <= 256; width++) {
        const int taken = width == 16 || width == 32 || width == 64 || width == 96 || width == 128;
        assert_int_equal(c->takes(&(struct kernels_attention){1, 1, 1, width}) != 0, taken);
    }
    assert_false(c->takes(&(struct kernels_attention){0, 1, 1, 64}));
    assert_false(c->takes(&(struct kernels_attention){1, 0, 1, 64}));
    assert_false(c->takes(&(struct kernels_attention){1, 1, 0, 64}));
}

#define CHECKS_ATTENTION_BF16                                                                                \
    {"attention bf16", attention_bf16_matches_its_definition},                                               \
        {"attention bf16 of large scores", attention_bf16_is_stable},                                        \
    {                                                                                                        \
        "attention bf16 takes some widths", attention_bf16_takes_some_widths                                 \
    }

#endif
