// kernels/decoder.h with activations in bf16: products on tensor cores with bias, GELU or residual in the
// same kernel where cuBLAS has one, else with a kernel of our own after them. Weights are rounded for each
// product, which moves 6 bytes per weight: little beside the 2 * rows operations on it.
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/products.h"

enum { ALIGNED = 128 }; // numbers of bf16 in 256 bytes

static size_t aligned(size_t count)
{
    return (count + ALIGNED - 1) / ALIGNED * ALIGNED;
}

static const void *activation(const struct kernels *k, size_t count, const float *x, void *room)
{
    (void)k;
    if (count > 0) {
        kernels_cuda_to_bf16(count, x, room);
        kernels_cuda_launched("activation");
    }
    return room;
}

static void layernorm_bf16(const struct kernels *k, size_t rows, size_t cols, const float *x,
                           const float *gain, const float *bias, void *out, float *mean, float *inverse)
{
    (void)k;
    if (rows > 0) {
        kernels_cuda_layernorm_bf16(rows, cols, x, gain, bias, out, mean, inverse);
        kernels_cuda_launched("layernorm");
    }
}

static void layernorm_backward_bf16(const struct kernels *k, const struct kernels_norm *n, const void *grad,
                                    const float *x, const float *gain, const float *mean,
                                    const float *inverse, const float *skip, float *grad_x, float *grad_gain,
                                    float *grad_bias)
{
    const size_t pair = 2 * n->cols, slabs = (n->rows + KERNELS_CUDA_SLAB - 1) / KERNELS_CUDA_SLAB,
                 sums = 2 * (slabs / KERNELS_CUDA_SLAB + 1) * pair;
    (void)k;
    float *parts = kernels_cuda_begin((slabs * pair + sums + pair) * sizeof *parts),
          *sum = parts + slabs * pair + sums;
    kernels_cuda_layernorm_backward_bf16(n->rows, n->cols, grad, x, gain, mean, inverse, skip, grad_x, parts);
    kernels_cuda_column_sum(slabs, pair, parts, parts + slabs * pair, sum);
    kernels_cuda_pair(n->cols, n->accumulate, sum, grad_gain, grad_bias);
    kernels_cuda_launched("layernorm_backward");
    kernels_cuda_end();
}

// --- attention: on tensor cores, or for widths without such a kernel with fp32 copies ---

static void attention_wide(const struct kernels_attention *shape, const void *qkv, void *out, float *log_sum)
{
    const size_t count = shape->sequences * shape->tokens * shape->heads * shape->width;
    float *wide = kernels_cuda_begin(4 * count * sizeof *wide), *wide_out = wide + 3 * count;
    kernels_cuda_to_fp32(3 * count, qkv, wide);
    kernels_cuda_attention(shape, wide, wide_out, log_sum);
    kernels_cuda_to_bf16(count, wide_out, out);
    kernels_cuda_end();
}

static void attention_bf16(const struct kernels *k, const struct kernels_attention *shape, const void *qkv,
                           float *scratch, void *out, float *log_sum)
{
    (void)k;
    (void)scratch;
    if (kernels_cuda_attention_bf16_takes(shape))
        kernels_cuda_attention_bf16(shape, qkv, out, log_sum);
    else
        attention_wide(shape, qkv, out, log_sum);
    kernels_cuda_launched("attention");
}

static void attention_backward_wide(const struct kernels_attention *shape, const void *qkv, const void *out,
                                    const float *log_sum, const void *grad, void *grad_qkv)
{
    const size_t heads = shape->sequences * shape->tokens * shape->heads, count = heads * shape->width;
    float *wide = kernels_cuda_begin((8 * count + heads) * sizeof *wide), *wide_out = wide + 3 * count,
          *wide_grad = wide + 4 * count, *to = wide + 5 * count, *back = wide + 8 * count;
    kernels_cuda_to_fp32(3 * count, qkv, wide);
    kernels_cuda_to_fp32(count, out, wide_out);
    kernels_cuda_to_fp32(count, grad, wide_grad);
    kernels_cuda_attention_backward(shape, wide, wide_out, log_sum, wide_grad, back, to);
    kernels_cuda_to_bf16(3 * count, to, grad_qkv);
    kernels_cuda_end();
}

static void attention_backward_bf16(const struct kernels *k, const struct kernels_attention *shape,
                                    const void *qkv, const void *out, const float *log_sum, const void *grad,
                                    float *scratch, void *grad_qkv)
{
    (void)k;
    (void)scratch;
    if (kernels_cuda_attention_bf16_takes(shape)) {
        float *back = kernels_cuda_begin(shape->sequences * shape->heads * shape->tokens * sizeof *back);
        kernels_cuda_attention_backward_bf16(shape, qkv, out, log_sum, grad, back, grad_qkv);
        kernels_cuda_end();
    } else {
        attention_backward_wide(shape, qkv, out, log_sum, grad, grad_qkv);
    }
    kernels_cuda_launched("attention_backward");
}

// --- products ---

// The weights of a product, and its bias as bf16 or fp32, in the memory of factors.
struct factors {
    uint16_t *w, *bias16;
    float *bias32;
};

static struct factors factors_begin(const struct kernels_linear *l, const float *w, const float *bias)
{
    const size_t of_w = aligned(l->inputs * l->outputs), of_bias = aligned(l->outputs);
    uint16_t *memory = kernels_cuda_factors_begin((of_w + 3 * of_bias) * sizeof *memory);
    const struct factors f = {memory, memory + of_w, (float *)(void *)(memory + of_w + of_bias)};
    kernels_cuda_to_bf16(l->inputs * l->outputs, w, f.w);
    if (bias) {
        kernels_cuda_to_bf16(l->outputs, bias, f.bias16);
        kernels_cuda_copy(f.bias32, bias, l->outputs * sizeof *bias);
    }
    return f;
}

static void factors_end(const char *what)
{
    kernels_cuda_launched(what);
    kernels_cuda_factors_end();
}

static struct kernels_cuda_multiply forward_of(const struct kernels_linear *l, const void *x,
                                               const struct factors *f)
{
    return (struct kernels_cuda_multiply){
        .m = l->rows, .n = l->outputs, .k = l->inputs, .a = x, .b = f->w, .narrow = true};
}

static void multiply_only(const struct kernels_cuda_multiply *with)
{
    struct kernels_cuda_multiply product = *with;
    product.after = KERNELS_CUDA_NOTHING;
    const bool done = kernels_cuda_multiply(&product);
    BASE_ASSERT(done);
}

static bool is_empty(const struct kernels_linear *l)
{
    return l->rows == 0 || l->inputs == 0 || l->outputs == 0;
}

static void linear(const struct kernels *k, const struct kernels_linear *l, const void *x, const float *w,
                   const float *bias, void *y)
{
    (void)k;
    if (is_empty(l))
        return;
    const struct factors f = factors_begin(l, w, bias);
    struct kernels_cuda_multiply product = forward_of(l, x, &f);
    product.d = y;
    product.after = KERNELS_CUDA_BIAS;
    product.bias = f.bias16;
    if (!kernels_cuda_multiply(&product)) {
        multiply_only(&product);
        kernels_cuda_bias_bf16(l->rows, l->outputs, bias, y);
    }
    factors_end("linear");
}

// `kept` is the argument of the GELU.
static void linear_gelu(const struct kernels *k, const struct kernels_linear *l, const void *x,
                        const float *w, const float *bias, void *kept, void *y)
{
    (void)k;
    if (is_empty(l))
        return;
    const struct factors f = factors_begin(l, w, bias);
    struct kernels_cuda_multiply product = forward_of(l, x, &f);
    product.d = y;
    product.after = KERNELS_CUDA_BIAS_GELU;
    product.bias = f.bias16;
    product.kept = kept;
    if (!kernels_cuda_multiply(&product)) {
        product.d = kept;
        multiply_only(&product);
        kernels_cuda_bias_gelu_bf16(l->rows, l->outputs, bias, kept, y);
    }
    factors_end("linear_gelu");
}

static void linear_add(const struct kernels *k, const struct kernels_linear *l, const void *x, const float *w,
                       const float *bias, const float *skip, float *y)
{
    (void)k;
    if (is_empty(l))
        return;
    const struct factors f = factors_begin(l, w, bias);
    struct kernels_cuda_multiply product = forward_of(l, x, &f);
    product.d = y;
    product.narrow = false;
    product.add = skip;
    product.after = KERNELS_CUDA_BIAS;
    product.bias = f.bias32;
    if (!kernels_cuda_multiply(&product)) {
        if (skip) {
            kernels_cuda_residual(l->rows, l->outputs, bias, skip, y);
            product.add = y;
        }
        multiply_only(&product);
        if (!skip)
            kernels_cuda_bias(l->rows, l->outputs, bias, y, 0);
    }
    factors_end("linear_add");
}

static void bias_backward(const struct kernels_linear *l, const void *grad, float *scratch, float *grad_bias)
{
    const size_t slabs = l->rows / KERNELS_CUDA_SLAB + 1;
    float *parts = kernels_cuda_begin(2 * slabs * l->outputs * sizeof *parts);
    kernels_cuda_column_sum_bf16(l->rows, l->outputs, grad, parts, l->accumulate ? scratch : grad_bias);
    kernels_cuda_end();
    if (l->accumulate) {
        const struct kernels_cuda_add add = {l->outputs, 1.0f, scratch, grad_bias};
        kernels_cuda_add(&add, 1);
    }
}

static void linear_backward(const struct kernels *k, const struct kernels_linear *l, const void *x,
                            const float *w, const void *grad, const void *kept, float *scratch, float *grad_w,
                            float *grad_bias, void *grad_x)
{
    (void)k;
    if (is_empty(l))
        return;
    const struct kernels_cuda_multiply of_w = {.transpose_a = true,
                                               .m = l->inputs,
                                               .n = l->outputs,
                                               .k = l->rows,
                                               .a = x,
                                               .b = grad,
                                               .add = l->accumulate ? grad_w : NULL,
                                               .d = grad_w};
    multiply_only(&of_w);
    bias_backward(l, grad, scratch, grad_bias);
    const struct factors f = factors_begin(l, w, NULL);
    const struct kernels_cuda_multiply of_x = {.transpose_b = true,
                                               .m = l->rows,
                                               .n = l->inputs,
                                               .k = l->outputs,
                                               .a = grad,
                                               .b = f.w,
                                               .d = grad_x,
                                               .narrow = true,
                                               .after =
                                                   kept ? KERNELS_CUDA_GELU_BACKWARD : KERNELS_CUDA_NOTHING,
                                               .kept = (uint16_t *)kept};
    if (!kernels_cuda_multiply(&of_x)) {
        multiply_only(&of_x);
        kernels_cuda_gelu_backward_bf16(l->rows * l->inputs, kept, grad_x);
    }
    factors_end("linear_backward");
}

enum { LOGITS_MULTIPLE = 64 }; // of numbers in a row, so that tiles of products and loads are aligned

static size_t stride_of(const struct kernels_linear *l)
{
    return kernels_logits_stride(&kernels_cuda_decoder, l->outputs);
}

// W with zero rows up to the stride of the logits.
static uint16_t *head_begin(const struct kernels_linear *l, const float *w)
{
    const size_t used = l->outputs * l->inputs, all = stride_of(l) * l->inputs;
    uint16_t *w16 = kernels_cuda_factors_begin(all * sizeof *w16);
    kernels_cuda_to_bf16(used, w, w16);
    kernels_cuda_clear(w16 + used, (all - used) * sizeof *w16);
    return w16;
}

static void logits(const struct kernels *k, const struct kernels_linear *l, const void *x, const float *w,
                   void *y)
{
    (void)k;
    if (is_empty(l))
        return;
    const struct kernels_cuda_multiply product = {.transpose_b = true,
                                                  .m = l->rows,
                                                  .n = stride_of(l),
                                                  .k = l->inputs,
                                                  .a = x,
                                                  .b = head_begin(l, w),
                                                  .d = y,
                                                  .narrow = true};
    multiply_only(&product);
    factors_end("logits");
}

static void cross_entropy(const struct kernels *k, const struct kernels_linear *l, void *y,
                          const uint32_t *labels, float scale, struct kernels_loss *loss)
{
    struct kernels_cuda_loss total = {0};
    (void)k;
    if (!is_empty(l)) {
        struct kernels_cuda_loss *rows = kernels_cuda_begin((l->rows + 1) * sizeof *rows);
        kernels_cuda_softmax_bf16(l->rows, l->outputs, stride_of(l), y, labels, scale, rows);
        kernels_cuda_loss_total(l->rows, rows, rows + l->rows);
        kernels_cuda_launched("cross_entropy");
        kernels_cuda_download(&total, rows + l->rows, sizeof total);
        kernels_cuda_end();
    }
    *loss = (struct kernels_loss){.loss_sum = total.loss_sum, .correct = (size_t)total.correct};
}

// The gradient of `count` rows of W from `first` on.
static void rows_of_head(const struct kernels_linear *l, const uint16_t *x, const uint16_t *grad,
                         size_t first, size_t count, float *grad_w)
{
    const struct kernels_cuda_multiply product = {.transpose_a = true,
                                                  .m = count,
                                                  .n = l->inputs,
                                                  .k = l->rows,
                                                  .stride_a = stride_of(l),
                                                  .a = grad + first,
                                                  .b = x,
                                                  .add = l->accumulate ? grad_w + first * l->inputs : NULL,
                                                  .d = grad_w + first * l->inputs};
    if (count > 0)
        multiply_only(&product);
}

// A product whose number of rows is no multiple of 8 is slow: the last rows of W get a product of their own.
static void logits_backward(const struct kernels *k, const struct kernels_linear *l, const void *x,
                            const float *w, const void *grad, float *grad_w, void *grad_x)
{
    const size_t whole = l->outputs / LOGITS_MULTIPLE * LOGITS_MULTIPLE;
    (void)k;
    if (is_empty(l))
        return;
    rows_of_head(l, x, grad, 0, whole, grad_w);
    rows_of_head(l, x, grad, whole, l->outputs - whole, grad_w);
    const struct kernels_cuda_multiply of_x = {.m = l->rows,
                                               .n = l->inputs,
                                               .k = stride_of(l),
                                               .a = grad,
                                               .b = head_begin(l, w),
                                               .d = grad_x,
                                               .narrow = true};
    multiply_only(&of_x);
    factors_end("logits_backward");
}

static void download_logits(const struct kernels *k, const struct kernels_linear *l, const void *y,
                            float *to_host)
{
    (void)k;
    if (!is_empty(l)) {
        const size_t bytes = l->rows * l->outputs * sizeof *to_host;
        float *wide = kernels_cuda_begin(bytes);
        kernels_cuda_rows_to_fp32(l->rows, l->outputs, stride_of(l), y, wide);
        kernels_cuda_launched("download_logits");
        kernels_cuda_download(to_host, wide, bytes);
        kernels_cuda_end();
    }
}

const struct kernels_decoder kernels_cuda_decoder = {
    .activation_bytes = sizeof(uint16_t),
    .activation = activation,
    .layernorm = layernorm_bf16,
    .layernorm_backward = layernorm_backward_bf16,
    .attention = attention_bf16,
    .attention_backward = attention_backward_bf16,
    .linear = linear,
    .linear_gelu = linear_gelu,
    .linear_add = linear_add,
    .linear_backward = linear_backward,
    .logits_multiple = LOGITS_MULTIPLE,
    .logits = logits,
    .cross_entropy = cross_entropy,
    .logits_backward = logits_backward,
    .download_logits = download_logits,
};
