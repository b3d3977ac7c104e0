// A decoder's operations with fp32 activations: compositions of the table's own functions.
#include "kernels/kernels.h"

static const void *activation(const struct kernels *k, size_t count, const float *x, void *room)
{
    (void)k;
    (void)count;
    (void)room;
    return x;
}

static void layernorm(const struct kernels *k, size_t rows, size_t cols, const float *x, const float *gain,
                      const float *bias, void *out, float *mean, float *inverse)
{
    k->sequence->layernorm(rows, cols, x, gain, bias, out, mean, inverse);
}

static void layernorm_backward(const struct kernels *k, const struct kernels_norm *norm, const void *grad,
                               const float *x, const float *gain, const float *mean, const float *inverse,
                               const float *skip, float *grad_x, float *grad_gain, float *grad_bias)
{
    k->sequence->layernorm_backward(norm, grad, x, gain, mean, inverse, skip, grad_x, grad_gain, grad_bias);
}

static void attention(const struct kernels *k, const struct kernels_attention *shape, const void *qkv,
                      float *scratch, void *out, float *log_sum)
{
    k->sequence->attention(shape, qkv, scratch, out, log_sum);
}

static void attention_backward(const struct kernels *k, const struct kernels_attention *shape,
                               const void *qkv, const void *out, const float *log_sum, const void *grad,
                               float *scratch, void *grad_qkv)
{
    k->sequence->attention_backward(shape, qkv, out, log_sum, grad, scratch, grad_qkv);
}

static void linear(const struct kernels *k, const struct kernels_linear *l, const void *x, const float *w,
                   const float *bias, void *y)
{
    k->gemm(false, false, l->rows, l->outputs, l->inputs, 1.0f, x, w, 0.0f, y);
    k->bias_add(l->rows, l->outputs, bias, y);
}

// `kept` is the slope of GELU, computed in the memory of the product.
static void linear_gelu(const struct kernels *k, const struct kernels_linear *l, const void *x,
                        const float *w, const float *bias, void *kept, void *y)
{
    k->gemm(false, false, l->rows, l->outputs, l->inputs, 1.0f, x, w, 0.0f, kept);
    k->sequence->bias_gelu(l->rows, l->outputs, bias, kept, y);
}

static void linear_add(const struct kernels *k, const struct kernels_linear *l, const void *x, const float *w,
                       const float *bias, const float *skip, float *y)
{
    if (!skip) {
        linear(k, l, x, w, bias, y);
        return;
    }
    k->sequence->residual(l->rows, l->outputs, bias, skip, y);
    k->gemm(false, false, l->rows, l->outputs, l->inputs, 1.0f, x, w, 1.0f, y);
}

static void linear_backward(const struct kernels *k, const struct kernels_linear *l, const void *x,
                            const float *w, const void *grad, const void *kept, float *scratch, float *grad_w,
                            float *grad_bias, void *grad_x)
{
    const struct kernels_sgd add = {.rate = -1.0f}; // to -= -1 * from
    k->gemm(true, false, l->inputs, l->outputs, l->rows, 1.0f, x, grad, l->accumulate ? 1.0f : 0.0f, grad_w);
    k->column_sum(l->rows, l->outputs, grad, l->accumulate ? scratch : grad_bias);
    if (l->accumulate)
        k->sgd_step(l->outputs, &add, scratch, NULL, NULL, grad_bias);
    k->gemm(false, true, l->rows, l->inputs, l->outputs, 1.0f, grad, w, 0.0f, grad_x);
    if (kept)
        k->sequence->gelu_backward(l->rows * l->inputs, kept, grad_x);
}

static void logits(const struct kernels *k, const struct kernels_linear *l, const void *x, const float *w,
                   void *y)
{
    k->gemm(false, true, l->rows, l->outputs, l->inputs, 1.0f, x, w, 0.0f, y);
}

static void cross_entropy(const struct kernels *k, const struct kernels_linear *l, void *y,
                          const uint32_t *labels, float scale, struct kernels_loss *loss)
{
    k->softmax_cross_entropy(l->rows, l->outputs, y, labels, scale, loss);
}

static void logits_backward(const struct kernels *k, const struct kernels_linear *l, const void *x,
                            const float *w, const void *grad, float *grad_w, void *grad_x)
{
    k->gemm(true, false, l->outputs, l->inputs, l->rows, 1.0f, grad, x, l->accumulate ? 1.0f : 0.0f, grad_w);
    k->gemm(false, false, l->rows, l->inputs, l->outputs, 1.0f, grad, w, 0.0f, grad_x);
}

static void download_logits(const struct kernels *k, const struct kernels_linear *l, const void *y,
                            float *to_host)
{
    k->download(to_host, y, l->rows * l->outputs * sizeof *to_host);
}

const struct kernels_decoder kernels_decoder_plain = {
    .activation_bytes = sizeof(float),
    .activation = activation,
    .layernorm = layernorm,
    .layernorm_backward = layernorm_backward,
    .attention = attention,
    .attention_backward = attention_backward,
    .linear = linear,
    .linear_gelu = linear_gelu,
    .linear_add = linear_add,
    .linear_backward = linear_backward,
    .logits_multiple = 1,
    .logits = logits,
    .cross_entropy = cross_entropy,
    .logits_backward = logits_backward,
    .download_logits = download_logits,
};
