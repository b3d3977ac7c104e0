// kernels/decoder.h compared with plain references in double, computed from the numbers that the kernels get:
// activations that a backend stores as bf16 are rounded before. The CPU's tables, CUDA's code in the emulator
// and a device run the same checks.
#ifndef TEST_UNIT_KERNELS_CHECKS_DECODER_H
#define TEST_UNIT_KERNELS_CHECKS_DECODER_H

#include "test/unit/kernels_activations.h"

// --- LayerNorm ---

// Odd widths, those of whole fours up to the kept ones, and beyond them; more rows than a slab.
static const struct {
    size_t rows, cols;
} acts_norms[] = {{3, 7}, {1, 8}, {5, 128}, {130, 100}, {9, 768}, {2, 1024}, {2, 1028}, {257, 12}};

static inline void acts_norm_reference(const struct norm *n, double *grad_x, double *grad_gain,
                                       double *grad_bias)
{
    for (size_t r = 0; r < n->rows; r++) {
        const double *x = n->x + r * n->cols, *grad = n->grad + r * n->cols, count = (double)n->cols;
        double mean = 0.0, variance = 0.0, level = 0.0, slope = 0.0;
        for (size_t c = 0; c < n->cols; c++) {
            mean += x[c] / count;
        }
        for (size_t c = 0; c < n->cols; c++) {
            variance += (x[c] - mean) * (x[c] - mean) / count;
        }
        const double inverse = 1.0 / sqrt(variance + (double)1e-5f);
        for (size_t c = 0; c < n->cols; c++) {
            level += grad[c] * n->gain[c] / count;
            slope += grad[c] * n->gain[c] * (x[c] - mean) * inverse / count;
        }
        for (size_t c = 0; c < n->cols; c++) {
            const double normal = (x[c] - mean) * inverse;
            grad_x[r * n->cols + c] += inverse * (grad[c] * n->gain[c] - level - normal * slope);
            grad_gain[c] += grad[c] * normal;
            grad_bias[c] += grad[c];
        }
    }
}

static inline void acts_norm_one(const struct kernels *k, size_t rows, size_t cols, bool skips)
{
    const struct kernels_decoder *d = k->decoder;
    struct norm_vectors v = norm_make(k, rows, cols);
    struct acts out = acts_blank(k, rows * cols), grad = acts_gaussian(k, rows * cols, 1.0);
    struct norm n = {rows,           cols,           widen(&v.x),
                     widen(&v.gain), widen(&v.bias), acts_doubles(grad.host, rows * cols)};
    double *row = doubles(rows * cols), *grad_x = doubles(rows * cols), *gain = doubles(cols),
           *bias = doubles(cols);
    for (size_t r = 0; r < rows; r++) {
        norm_row(&n, r, row + r * cols);
    }
    d->layernorm(k, rows, cols, v.x.device, v.gain.device, v.bias.device, out.device, v.mean.device,
                 v.inverse.device);
    acts_compare("layernorm", k, &out, row);
    for (size_t i = 0; i < rows * cols && skips; i++) {
        grad_x[i] = 3.0; // what norm_make writes there
    }
    for (size_t c = 0; c < cols && skips; c++) {
        gain[c] = bias[c] = 2.0;
    }
    refill(k, &v.grad_gain, skips ? 2.0f : NAN);
    refill(k, &v.grad_bias, skips ? 2.0f : NAN);
    acts_norm_reference(&n, grad_x, gain, bias);
    const struct kernels_norm norm = {rows, cols, skips};
    d->layernorm_backward(k, &norm, grad.device, v.x.device, v.gain.device, v.mean.device, v.inverse.device,
                          skips ? v.grad_x.device : NULL, v.grad_x.device, v.grad_gain.device,
                          v.grad_bias.device);
    acts_compare_floats("layernorm x", k, &v.grad_x, grad_x);
    acts_compare_floats("layernorm gain", k, &v.grad_gain, gain);
    acts_compare_floats("layernorm bias", k, &v.grad_bias, bias);
    double *all[] = {n.x, n.gain, n.bias, n.grad, row, grad_x, gain, bias};
    for (size_t i = 0; i < COUNT(all); i++) {
        free(all[i]);
    }
    acts_free(k, &out);
    acts_free(k, &grad);
    norm_free(k, &v);
}

static inline void acts_norm_matches(void **state)
{
    for (size_t i = 0; i < COUNT(acts_norms); i++) {
        acts_norm_one(*state, acts_norms[i].rows, acts_norms[i].cols, false);
        acts_norm_one(*state, acts_norms[i].rows, acts_norms[i].cols, true);
    }
}

// --- products ---

// A linear map and its numbers in double: x, w and bias as the kernels get them, sums as they should be.
struct map {
    struct kernels_linear l;
    struct acts x;
    struct checks_vector w, bias;
    double *sum; // x W + b
};

// Weights that bf16 represents exactly: the reference does not round them.
static inline void acts_round(const struct kernels *k, struct checks_vector *v)
{
    for (size_t i = 0; i < v->count; i++) {
        v->host[i] = acts_wide(acts_half(v->host[i]));
    }
    checks_send(k, v);
}

static inline struct map map_make(const struct kernels *k, struct kernels_linear l)
{
    struct map m = {l, acts_gaussian(k, l.rows * l.inputs, 1.0),
                    checks_gaussian(k, l.inputs * l.outputs, 0.3), checks_gaussian(k, l.outputs, 1.0),
                    doubles(l.rows * l.outputs)};
    acts_round(k, &m.w);
    acts_round(k, &m.bias);
    for (size_t at = 0; at < l.rows * l.outputs; at++) {
        const size_t r = at / l.outputs, o = at % l.outputs;
        m.sum[at] = (double)m.bias.host[o];
        for (size_t i = 0; i < l.inputs; i++) {
            m.sum[at] += (double)m.x.host[r * l.inputs + i] * (double)m.w.host[i * l.outputs + o];
        }
    }
    return m;
}

static inline void map_free(const struct kernels *k, struct map *m)
{
    acts_free(k, &m->x);
    checks_free(k, &m->w);
    checks_free(k, &m->bias);
    free(m->sum);
}

static inline void acts_forward_one(const struct kernels *k, struct kernels_linear l)
{
    const struct kernels_decoder *d = k->decoder;
    const size_t count = l.rows * l.outputs;
    struct map m = map_make(k, l);
    struct acts y = acts_blank(k, count), kept = acts_blank(k, count), bent = acts_blank(k, count);
    struct checks_vector skip = checks_gaussian(k, count, 1.0), sum = checks_make(k, count);
    d->linear(k, &l, m.x.device, m.w.device, m.bias.device, y.device);
    acts_compare("linear", k, &y, m.sum);
    refill(k, &sum, NAN);
    d->linear_add(k, &l, m.x.device, m.w.device, m.bias.device, NULL, sum.device);
    acts_compare_floats("linear_add without skip", k, &sum, m.sum);
    double *expected = doubles(count);
    for (size_t i = 0; i < count; i++) {
        expected[i] = m.sum[i] + (double)skip.host[i];
    }
    refill(k, &sum, NAN);
    d->linear_add(k, &l, m.x.device, m.w.device, m.bias.device, skip.device, sum.device);
    acts_compare_floats("linear_add", k, &sum, expected);
    for (size_t i = 0; i < count; i++) {
        expected[i] = gelu(m.sum[i]);
    }
    d->linear_gelu(k, &l, m.x.device, m.w.device, m.bias.device, kept.device, bent.device);
    acts_compare("linear_gelu", k, &bent, expected);
    acts_fetch(k, &kept); // nothing behind its end
    free(expected);
    acts_free(k, &y);
    acts_free(k, &kept);
    acts_free(k, &bent);
    checks_free(k, &skip);
    checks_free(k, &sum);
    map_free(k, &m);
}

// The gradients through y = gelu(u V + a) W + b: kept comes from linear_gelu.
static inline void acts_backward_one(const struct kernels *k, struct kernels_linear l, bool bends)
{
    const struct kernels_decoder *d = k->decoder;
    const double base = l.accumulate ? 2.0 : 0.0;
    struct map before = map_make(k, (struct kernels_linear){l.rows, 16, l.inputs, false});
    struct map m = map_make(k, l);
    struct acts kept = acts_blank(k, l.rows * l.inputs), grad = acts_gaussian(k, l.rows * l.outputs, 1.0);
    struct acts grad_x = acts_blank(k, l.rows * l.inputs);
    struct checks_vector grad_w = checks_make(k, m.w.count), grad_b = checks_make(k, l.outputs),
                         scratch = checks_gaussian(k, l.outputs, 1.0);
    double *of_x = doubles(l.rows * l.inputs), *of_w = doubles(m.w.count), *of_b = doubles(l.outputs);
    if (bends) {
        d->linear_gelu(k, &before.l, before.x.device, before.w.device, before.bias.device, kept.device,
                       m.x.device);
        acts_fetch(k, &m.x);
    }
    refill(k, &grad_w, l.accumulate ? 2.0f : NAN);
    refill(k, &grad_b, l.accumulate ? 2.0f : NAN);
    for (size_t i = 0; i < m.w.count; i++) {
        of_w[i] = base;
    }
    for (size_t o = 0; o < l.outputs; o++) {
        of_b[o] = base;
    }
    for (size_t at = 0; at < l.rows * l.outputs; at++) {
        const size_t r = at / l.outputs, o = at % l.outputs;
        of_b[o] += (double)grad.host[at];
        for (size_t i = 0; i < l.inputs; i++) {
            of_w[i * l.outputs + o] += (double)m.x.host[r * l.inputs + i] * (double)grad.host[at];
            of_x[r * l.inputs + i] += (double)m.w.host[i * l.outputs + o] * (double)grad.host[at];
        }
    }
    for (size_t i = 0; i < l.rows * l.inputs && bends; i++) {
        of_x[i] *= (gelu(before.sum[i] + 1e-5) - gelu(before.sum[i] - 1e-5)) / 2e-5;
    }
    d->linear_backward(k, &l, m.x.device, m.w.device, grad.device, bends ? kept.device : NULL, scratch.device,
                       grad_w.device, grad_b.device, grad_x.device);
    acts_compare_floats("linear_backward w", k, &grad_w, of_w);
    acts_compare_floats("linear_backward bias", k, &grad_b, of_b);
    if (bends && k->decoder->activation_bytes == sizeof(float)) {
        acts_fetch(k, &grad_x); // the slope by differences is not exact enough
    } else {
        acts_compare("linear_backward x", k, &grad_x, of_x);
    }
    free(of_x), free(of_w), free(of_b);
    map_free(k, &before), map_free(k, &m);
    acts_free(k, &kept), acts_free(k, &grad), acts_free(k, &grad_x);
    checks_free(k, &grad_w), checks_free(k, &grad_b), checks_free(k, &scratch);
}

// Widths with and without products that cuBLAS combines with what follows.
static const struct kernels_linear acts_maps[] = {
    {3, 16, 24, false}, {130, 7, 9, false}, {1, 8, 8, true}, {20, 48, 16, false}, {300, 16, 10, true}};

static inline void acts_linear_matches(void **state)
{
    for (size_t i = 0; i < COUNT(acts_maps); i++) {
        acts_forward_one(*state, acts_maps[i]);
        acts_backward_one(*state, acts_maps[i], false);
        acts_backward_one(*state, acts_maps[i], true);
    }
}

// Rows of logits as the kernels store them; zeros behind the first `outputs`.
static inline void acts_rows_end_in_zeros(struct acts *y, const struct kernels_linear *l, size_t stride)
{
    for (size_t r = 0; r < l->rows; r++) {
        for (size_t o = l->outputs; o < stride; o++) {
            assert_true(y->host[r * stride + o] == 0.0f);
        }
    }
}

// The loss of the logits and their gradient, in double.
static inline double acts_entropy(const struct kernels_linear *l, const float *y, const uint32_t *labels,
                                  double scale, double *grad, size_t *correct)
{
    double loss = 0.0;
    *correct = 0;
    for (size_t r = 0; r < l->rows; r++) {
        const float *row = y + r * l->outputs;
        double sum = 0.0;
        size_t most = 0;
        for (size_t o = 0; o < l->outputs; o++) {
            sum += exp((double)row[o]);
            most = row[o] > row[most] ? o : most;
        }
        for (size_t o = 0; o < l->outputs; o++) {
            grad[r * l->outputs + o] = scale * (exp((double)row[o]) / sum - (o == labels[r] ? 1.0 : 0.0));
        }
        loss += log(sum) - (double)row[labels[r]];
        *correct += most == labels[r];
    }
    return loss;
}

static inline void acts_logits_one(const struct kernels *k, struct kernels_linear l)
{
    const struct kernels_decoder *d = k->decoder;
    const size_t stride = kernels_logits_stride(d, l.outputs), count = l.rows * l.outputs;
    struct acts x = acts_gaussian(k, l.rows * l.inputs, 1.0), y = acts_blank(k, l.rows * stride),
                grad_x = acts_blank(k, l.rows * l.inputs);
    struct checks_vector w = checks_gaussian(k, l.outputs * l.inputs, 0.3), grad_w = checks_make(k, w.count);
    float *host = calloc(count, sizeof *host);
    double *of_y = doubles(count), *of_x = doubles(x.count), *of_w = doubles(w.count), *grad = doubles(count);
    uint32_t *labels = calloc(l.rows, sizeof *labels), *on_device = k->alloc(l.rows * sizeof *labels);
    struct kernels_loss loss;
    size_t correct;
    assert_true(host && labels && on_device);
    acts_round(k, &w);
    for (size_t r = 0; r < l.rows; r++) {
        labels[r] = (uint32_t)base_rng_below(&checks_rng, l.outputs);
    }
    k->upload(on_device, labels, l.rows * sizeof *labels);
    for (size_t at = 0; at < count * l.inputs; at++) {
        const size_t i = at % l.inputs, o = at / l.inputs % l.outputs, r = at / l.inputs / l.outputs;
        of_y[r * l.outputs + o] += (double)x.host[r * l.inputs + i] * (double)w.host[o * l.inputs + i];
    }
    d->logits(k, &l, x.device, w.device, y.device);
    d->download_logits(k, &l, y.device, host);
    acts_near("logits", k, count, host, of_y);
    const double expected = acts_entropy(&l, host, labels, 0.25, grad, &correct);
    d->cross_entropy(k, &l, y.device, on_device, 0.25f, &loss);
    checks_close("loss", l.outputs, 0, loss.loss_sum, expected, 1e-5 * (1.0 + fabs(expected)));
    assert_int_equal(loss.correct, correct);
    acts_fetch(k, &y);
    acts_rows_end_in_zeros(&y, &l, stride);
    for (size_t i = 0; i < w.count; i++) {
        of_w[i] = l.accumulate ? 2.0 : 0.0;
    }
    for (size_t at = 0; at < count; at++) {
        const size_t r = at / l.outputs, o = at % l.outputs;
        host[at] = y.host[r * stride + o];
        for (size_t i = 0; i < l.inputs; i++) {
            of_x[r * l.inputs + i] += (double)w.host[o * l.inputs + i] * (double)host[at];
            of_w[o * l.inputs + i] += (double)x.host[r * l.inputs + i] * (double)host[at];
        }
    }
    acts_near("gradient of logits", k, count, host, grad);
    refill(k, &grad_w, l.accumulate ? 2.0f : NAN);
    d->logits_backward(k, &l, x.device, w.device, y.device, grad_w.device, grad_x.device);
    acts_compare_floats("logits_backward w", k, &grad_w, of_w);
    acts_compare("logits_backward x", k, &grad_x, of_x);
    free(host), free(labels), free(of_y), free(of_x), free(of_w), free(grad);
    k->release(on_device);
    acts_free(k, &x), acts_free(k, &y), acts_free(k, &grad_x);
    checks_free(k, &w), checks_free(k, &grad_w);
}

static inline void acts_logits_match(void **state)
{
    static const struct kernels_linear heads[] = {
        {3, 8, 11, false}, {70, 16, 64, true}, {5, 12, 130, false}, {2, 4, 3100, false}};
    for (size_t i = 0; i < COUNT(heads); i++) {
        acts_logits_one(*state, heads[i]);
    }
}

static inline void acts_conversion_rounds(void **state)
{
    const struct kernels *k = *state;
    static const size_t counts[] = {1, 4, 7, 1000, 1028};
    for (size_t i = 0; i < COUNT(counts); i++) {
        struct checks_vector x = checks_gaussian(k, counts[i], 1.0);
        struct acts room = acts_blank(k, counts[i]);
        const void *found = k->decoder->activation(k, counts[i], x.device, room.device);
        if (k->decoder->activation_bytes == sizeof(float)) {
            assert_ptr_equal(found, x.device);
        } else {
            assert_ptr_equal(found, room.device);
            acts_fetch(k, &room);
            for (size_t e = 0; e < counts[i]; e++) {
                assert_true(room.host[e] == acts_wide(acts_half(x.host[e])));
            }
        }
        checks_free(k, &x);
        acts_free(k, &room);
    }
}

// --- attention ---

// Beside the CPU's, from the same numbers.
static inline void acts_attention_one(const struct kernels *k, struct kernels_attention shape)
{
    const struct kernels *plain = kernels_cpu_table("scalar");
    const size_t rows = shape.sequences * shape.tokens, all = shape.heads * shape.width;
    struct acts qkv = acts_gaussian(k, 3 * rows * all, 1.0), grad = acts_gaussian(k, rows * all, 1.0);
    struct acts out = acts_blank(k, rows * all), grad_qkv = acts_blank(k, 3 * rows * all);
    struct checks_vector log_sum = checks_make(k, rows * shape.heads),
                         scratch = checks_gaussian(k, kernels_attention_scratch(&shape), 1.0);
    float *of_out = calloc(rows * all, sizeof(float)), *of_sum = calloc(rows * shape.heads, sizeof(float)),
          *of_grad = calloc(3 * rows * all, sizeof(float)), *room = calloc(scratch.count, sizeof(float));
    assert_true(of_out && of_sum && of_grad && room);
    refill(k, &log_sum, NAN);
    plain->sequence->attention(&shape, qkv.host, room, of_out, of_sum);
    plain->sequence->attention_backward(&shape, qkv.host, of_out, of_sum, grad.host, room, of_grad);
    k->decoder->attention(k, &shape, qkv.device, scratch.device, out.device, log_sum.device);
    k->decoder->attention_backward(k, &shape, qkv.device, out.device, log_sum.device, grad.device,
                                   scratch.device, grad_qkv.device);
    double *d_out = acts_doubles(of_out, rows * all), *d_sum = acts_doubles(of_sum, log_sum.count),
           *d_grad = acts_doubles(of_grad, 3 * rows * all);
    acts_compare("attention", k, &out, d_out);
    acts_compare_floats("log_sum", k, &log_sum, d_sum);
    acts_compare("attention_backward", k, &grad_qkv, d_grad);
    free(d_out), free(d_sum), free(d_grad), free(of_out), free(of_sum), free(of_grad), free(room);
    acts_free(k, &qkv), acts_free(k, &grad), acts_free(k, &out), acts_free(k, &grad_qkv);
    checks_free(k, &log_sum), checks_free(k, &scratch);
}

static inline void acts_attention_matches(void **state)
{
    static const struct kernels_attention shapes[] = {
        {2, 5, 3, 8}, {1, 70, 2, 20}, {1, 65, 1, 16}, {2, 130, 1, 64}, {1, 33, 2, 128}};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        acts_attention_one(*state, shapes[i]);
    }
}

#define CHECKS_DECODER                                                                                       \
    {"activations", acts_conversion_rounds}, {"decoder: layernorm", acts_norm_matches},                      \
        {"decoder: linear", acts_linear_matches}, {"decoder: logits", acts_logits_match},                    \
    {                                                                                                        \
        "decoder: attention", acts_attention_matches                                                         \
    }

#endif
