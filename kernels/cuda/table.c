// The CUDA table, and its training functions: the launches of each.
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/memory.h"

static void bias_add(size_t rows, size_t cols, const float *bias, float *z)
{
    if (rows > 0 && cols > 0) {
        kernels_cuda_bias(rows, cols, bias, z, 0);
        kernels_cuda_launched("bias_add");
    }
}

static void bias_add_relu(size_t rows, size_t cols, const float *bias, float *z)
{
    if (rows > 0 && cols > 0) {
        kernels_cuda_bias(rows, cols, bias, z, 1);
        kernels_cuda_launched("bias_add_relu");
    }
}

static void relu_backward(size_t count, const float *activation, float *grad)
{
    if (count > 0) {
        kernels_cuda_relu_backward(count, activation, grad);
        kernels_cuda_launched("relu_backward");
    }
}

static void column_sum(size_t rows, size_t cols, const float *z, float *sum)
{
    if (cols > 0) {
        const size_t slabs = rows / KERNELS_CUDA_SLAB + 1;
        float *parts = kernels_cuda_begin(2 * slabs * cols * sizeof *parts);
        kernels_cuda_column_sum(rows, cols, z, parts, sum);
        kernels_cuda_launched("column_sum");
        kernels_cuda_end();
    }
}

static void softmax_cross_entropy(size_t rows, size_t cols, float *logits, const uint32_t *labels,
                                  float scale, struct kernels_loss *loss)
{
    BASE_ASSERT(cols > 0);
    struct kernels_cuda_loss total = {0};
    if (rows > 0) {
        struct kernels_cuda_loss *row_losses = kernels_cuda_begin((rows + 1) * sizeof *row_losses);
        kernels_cuda_softmax(rows, cols, logits, labels, scale, row_losses, row_losses + rows);
        kernels_cuda_launched("softmax_cross_entropy");
        kernels_cuda_download(&total, row_losses + rows, sizeof total);
        kernels_cuda_end();
    }
    *loss = (struct kernels_loss){.loss_sum = total.loss_sum, .correct = (size_t)total.correct};
}

static void sgd_step(size_t count, const struct kernels_sgd *o, const float *grad, const float *correction,
                     float *m, float *x)
{
    BASE_ASSERT(m || o->momentum == 0.0f);
    if (count > 0) {
        const struct kernels_cuda_sgd options = {o->rate, o->momentum, o->weight_decay};
        kernels_cuda_sgd(count, options, grad, correction, m, x);
        kernels_cuda_launched("sgd_step");
    }
}

static void adamw_step(size_t count, const struct kernels_adamw *o, const float *grad,
                       const float *correction, float *m, float *v, float *x)
{
    if (count > 0) {
        const struct kernels_cuda_adamw options = {.rate = o->rate,
                                                   .beta1 = (float)o->beta1,
                                                   .rest1 = (float)(1.0 - o->beta1),
                                                   .beta2 = (float)o->beta2,
                                                   .rest2 = (float)(1.0 - o->beta2),
                                                   .epsilon = o->epsilon,
                                                   .weight_decay = o->weight_decay,
                                                   .unbias1 = 1.0f / o->correction1,
                                                   .unbias2 = 1.0f / o->correction2};
        kernels_cuda_adamw(count, options, grad, correction, m, v, x);
        kernels_cuda_launched("adamw_step");
    }
}

static void lion_step(size_t count, const struct kernels_lion *o, const float *grad, const float *correction,
                      float *m, float *x)
{
    if (count > 0) {
        const struct kernels_cuda_lion options = {.rate = o->rate,
                                                  .beta1 = (float)o->beta1,
                                                  .rest1 = (float)(1.0 - o->beta1),
                                                  .beta2 = (float)o->beta2,
                                                  .rest2 = (float)(1.0 - o->beta2),
                                                  .weight_decay = o->weight_decay};
        kernels_cuda_lion(count, options, grad, correction, m, x);
        kernels_cuda_launched("lion_step");
    }
}

// host and coding: registry.c
#define TABLE_MEMBERS                                                                                        \
    .name = "cuda", .shares_host = false, .alloc = kernels_cuda_alloc, .release = kernels_cuda_release,      \
    .upload = kernels_cuda_upload, .download = kernels_cuda_download, .wait = kernels_cuda_wait,             \
    .bias_add = bias_add, .bias_add_relu = bias_add_relu, .relu_backward = relu_backward,                    \
    .column_sum = column_sum, .softmax_cross_entropy = softmax_cross_entropy, .sgd_step = sgd_step,          \
    .adamw_step = adamw_step, .lion_step = lion_step, .select = &kernels_cuda_select,                        \
    .values = &kernels_cuda_values, .apply = &kernels_cuda_apply, .vectors = &kernels_cuda_vectors,          \
    .sequence = &kernels_cuda_sequence

const struct kernels kernels_cuda_table_bf16 = {
    TABLE_MEMBERS,
    .gemm = kernels_cuda_gemm_bf16,
    .decoder = &kernels_cuda_decoder,
    .image = &kernels_cuda_image_bf16,
};

const struct kernels kernels_cuda_table = {
    TABLE_MEMBERS,
    .gemm = kernels_cuda_gemm,
    .decoder = &kernels_decoder_plain,
    .image = &kernels_cuda_image,
    .bf16 = &kernels_cuda_table_bf16,
};
