// kernels/sequence.h on the device.
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/memory.h"

static void assert_count(size_t rows, size_t cols)
{
    BASE_ASSERT(rows <= INT32_MAX && cols <= INT32_MAX && rows * cols <= UINT32_MAX);
}

static void embed(size_t rows, size_t tokens, size_t width, const uint32_t *ids, const float *token,
                  const float *place, float *out)
{
    assert_count(rows, width);
    if (rows > 0) {
        kernels_cuda_embed(rows, tokens, width, ids, token, place, out);
        kernels_cuda_launched("embed");
    }
}

static void embed_backward(size_t rows, size_t width, const uint32_t *ids, const float *grad, float *token)
{
    assert_count(rows, width);
    if (rows > 0) {
        uint32_t *order = kernels_cuda_begin(5 * rows * sizeof *order);
        kernels_cuda_clear(order, 3 * rows * sizeof *order);
        kernels_cuda_embed_backward(rows, width, ids, grad, order, token);
        kernels_cuda_launched("embed_backward");
        kernels_cuda_end();
    }
}

static void layernorm(size_t rows, size_t cols, const float *x, const float *gain, const float *bias,
                      float *out, float *mean, float *inverse)
{
    assert_count(rows, cols);
    if (rows > 0) {
        kernels_cuda_layernorm(rows, cols, x, gain, bias, out, mean, inverse);
        kernels_cuda_launched("layernorm");
    }
}

static void layernorm_backward(const struct kernels_norm *n, const float *grad, const float *x,
                               const float *gain, const float *mean, const float *inverse, const float *skip,
                               float *grad_x, float *grad_gain, float *grad_bias)
{
    const size_t pair = 2 * n->cols, slabs = (n->rows + KERNELS_CUDA_SLAB - 1) / KERNELS_CUDA_SLAB,
                 sums = 2 * (slabs / KERNELS_CUDA_SLAB + 1) * pair;
    assert_count(n->rows, n->cols);
    float *parts = kernels_cuda_begin((slabs * pair + sums + pair) * sizeof *parts),
          *sum = parts + slabs * pair + sums;
    kernels_cuda_layernorm_parts(n->rows, n->cols, grad, x, mean, inverse, parts);
    kernels_cuda_column_sum(slabs, pair, parts, parts + slabs * pair, sum);
    kernels_cuda_pair(n->cols, n->accumulate, sum, grad_gain, grad_bias);
    kernels_cuda_layernorm_backward(n->rows, n->cols, grad, x, gain, mean, inverse, skip, grad_x);
    kernels_cuda_launched("layernorm_backward");
    kernels_cuda_end();
}

static void bias_gelu(size_t rows, size_t cols, const float *bias, float *z, float *out)
{
    assert_count(rows, cols);
    if (rows > 0) {
        kernels_cuda_bias_gelu(rows, cols, bias, z, out);
        kernels_cuda_launched("bias_gelu");
    }
}

static void gelu_backward(size_t count, const float *slope, float *grad)
{
    if (count > 0) {
        kernels_cuda_gelu_backward(count, slope, grad);
        kernels_cuda_launched("gelu_backward");
    }
}

static void residual(size_t rows, size_t cols, const float *bias, const float *x, float *out)
{
    assert_count(rows, cols);
    if (rows > 0) {
        kernels_cuda_residual(rows, cols, bias, x, out);
        kernels_cuda_launched("residual");
    }
}

static void assert_attention(const struct kernels_attention *shape)
{
    const size_t heads = shape->sequences * shape->heads;
    BASE_ASSERT(shape->tokens > 0 && shape->width > 0 && heads <= INT32_MAX / shape->tokens &&
                heads * shape->tokens <= INT32_MAX / (shape->width / 64 + 1));
}

// Scores stay within blocks, so `scratch` is not used.
static void attention(const struct kernels_attention *shape, const float *qkv, float *scratch, float *out,
                      float *log_sum)
{
    (void)scratch;
    assert_attention(shape);
    kernels_cuda_attention(shape, qkv, out, log_sum);
    kernels_cuda_launched("attention");
}

static void attention_backward(const struct kernels_attention *shape, const float *qkv, const float *out,
                               const float *log_sum, const float *grad, float *scratch, float *grad_qkv)
{
    (void)scratch;
    assert_attention(shape);
    float *back = kernels_cuda_begin(shape->sequences * shape->heads * shape->tokens * sizeof *back);
    kernels_cuda_attention_backward(shape, qkv, out, log_sum, grad, back, grad_qkv);
    kernels_cuda_launched("attention_backward");
    kernels_cuda_end();
}

static void dropout(size_t count, uint64_t stream, float part, const float *x, float *out)
{
    BASE_ASSERT(part >= 0.0f && part < 1.0f && count <= UINT32_MAX);
    if (count > 0) {
        kernels_cuda_dropout(count, stream, part, x, out);
        kernels_cuda_launched("dropout");
    }
}

const struct kernels_sequence kernels_cuda_sequence = {
    .embed = embed,
    .embed_backward = embed_backward,
    .layernorm = layernorm,
    .layernorm_backward = layernorm_backward,
    .bias_gelu = bias_gelu,
    .gelu_backward = gelu_backward,
    .residual = residual,
    .attention = attention,
    .attention_backward = attention_backward,
    .dropout = dropout,
};
