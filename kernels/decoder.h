// The operations that a layer of a transformer decoder calls: products together with the operations before
// and after them (bias, GELU, residual), LayerNorm, attention, the loss. Activations are the numbers between
// two of these calls. A backend may store them as bf16, which halves their memory and traffic. The residual
// stream, parameters, gradients of parameters and statistics are fp32 on every backend.
//
// Activations are `void *`: `activation_bytes` each, row-major without gaps, 16-byte aligned. All pointers
// are in the backend's memory, except `k`, the table in use. Threads: as kernels.h says.
#ifndef KERNELS_DECODER_H
#define KERNELS_DECODER_H

#include "kernels/sequence.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kernels;
struct kernels_loss;

// y [rows, outputs] = x [rows, inputs] W [inputs, outputs] + b [outputs].
struct kernels_linear {
    size_t rows, inputs, outputs;
    bool accumulate; // gradients of W and b are added to, not overwritten
};

struct kernels_decoder {
    size_t activation_bytes; // 4: fp32; 2: bf16

    // x as an activation: x itself, or a copy in `room`, which is large enough for `count` activations.
    const void *(*activation)(const struct kernels *k, size_t count, const float *x, void *room);

    // As in kernels/sequence.h; out, qkv and their gradients, and `grad` are activations.
    void (*layernorm)(const struct kernels *k, size_t rows, size_t cols, const float *x, const float *gain,
                      const float *bias, void *out, float *mean, float *inverse);
    void (*layernorm_backward)(const struct kernels *k, const struct kernels_norm *norm, const void *grad,
                               const float *x, const float *gain, const float *mean, const float *inverse,
                               const float *skip, float *grad_x, float *grad_gain, float *grad_bias);
    void (*attention)(const struct kernels *k, const struct kernels_attention *shape, const void *qkv,
                      float *scratch, void *out, float *log_sum);
    void (*attention_backward)(const struct kernels *k, const struct kernels_attention *shape,
                               const void *qkv, const void *out, const float *log_sum, const void *grad,
                               float *scratch, void *grad_qkv);

    // x, y: activations.
    void (*linear)(const struct kernels *k, const struct kernels_linear *l, const void *x, const float *w,
                   const float *bias, void *y);
    // y = gelu(x W + b). kept [rows, outputs]: activations for linear_backward.
    void (*linear_gelu)(const struct kernels *k, const struct kernels_linear *l, const void *x,
                        const float *w, const float *bias, void *kept, void *y);
    // y = skip + x W + b in fp32. skip NULL: zeros.
    void (*linear_add)(const struct kernels *k, const struct kernels_linear *l, const void *x, const float *w,
                       const float *bias, const float *skip, float *y);
    // The gradients of W, b and x from `grad`, that of y. `kept` not NULL: x is the y of a linear_gelu that
    // kept it, and grad_x is the gradient before the GELU. scratch: [outputs], used with `accumulate`.
    void (*linear_backward)(const struct kernels *k, const struct kernels_linear *l, const void *x,
                            const float *w, const void *grad, const void *kept, float *scratch, float *grad_w,
                            float *grad_bias, void *grad_x);

    // The logits of a tied head: y [rows, kernels_logits_stride(outputs)] = x W^T, W [outputs, inputs], no b.
    // The numbers of a row after the first `outputs` are zeros.
    size_t logits_multiple;
    void (*logits)(const struct kernels *k, const struct kernels_linear *l, const void *x, const float *w,
                   void *y);
    // As softmax_cross_entropy in kernels.h: y becomes its gradient.
    void (*cross_entropy)(const struct kernels *k, const struct kernels_linear *l, void *y,
                          const uint32_t *labels, float scale, struct kernels_loss *loss);
    void (*logits_backward)(const struct kernels *k, const struct kernels_linear *l, const void *x,
                            const float *w, const void *grad, float *grad_w, void *grad_x);
    // y as [rows, outputs] in host memory.
    void (*download_logits)(const struct kernels *k, const struct kernels_linear *l, const void *y,
                            float *to_host);
};

// fp32 activations, with the operations of the table in use.
extern const struct kernels_decoder kernels_decoder_plain;

// The size of `count` activations, in floats; rounded up, so that memory behind them is aligned for any use.
static inline size_t kernels_activation_floats(const struct kernels_decoder *decoder, size_t count)
{
    return (count * decoder->activation_bytes + 63) / 64 * 16;
}

static inline size_t kernels_logits_stride(const struct kernels_decoder *decoder, size_t outputs)
{
    const size_t multiple = decoder->logits_multiple;
    return (outputs + multiple - 1) / multiple * multiple;
}

#endif
