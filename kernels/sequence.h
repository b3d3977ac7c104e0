// The operations of a transformer decoder other than matrix products: embedding, LayerNorm, GELU, causal
// attention, dropout. Matrices are row-major fp32 in the backend's memory; a row is one token, and the tokens
// of a sequence follow each other: rows = sequences * tokens.
//
// Functions have no effect except on their outputs; any thread, as kernels.h says. The CPU paths give the
// same bits, except for the products inside attention.
#ifndef KERNELS_SEQUENCE_H
#define KERNELS_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kernels_attention {
    size_t sequences, tokens, heads; // every head has `width` columns; a token has heads * width numbers
    size_t width;
};

// Floats of workspace for one head at a time: the scores of a block of queries and their gradients; two
// numbers per query.
#define KERNELS_ATTENTION_BLOCK 32u
static inline size_t kernels_attention_scratch(const struct kernels_attention *shape)
{
    const size_t block = KERNELS_ATTENTION_BLOCK;
    return 2 * shape->tokens * block + 2 * block;
}

struct kernels_norm {
    size_t rows, cols;
    bool accumulate;
};

struct kernels_sequence {
    // out[r, :] = token[ids[r], :] + place[r % tokens, :]; ids are below the rows of `token`.
    void (*embed)(size_t rows, size_t tokens, size_t width, const uint32_t *ids, const float *token,
                  const float *place, float *out);
    // token[ids[r], :] += grad[r, :], in the order of the rows. The gradient of `place` is a column_sum over
    // [sequences, tokens * width].
    void (*embed_backward)(size_t rows, size_t width, const uint32_t *ids, const float *grad, float *token);

    // LayerNorm (Ba, Kiros, Hinton 2016): out = (x - mean) * inverse * gain + bias for each row, where
    // inverse is 1 / sqrt(variance + 1e-5). mean[rows] and inverse[rows] are kept for backward.
    void (*layernorm)(size_t rows, size_t cols, const float *x, const float *gain, const float *bias,
                      float *out, float *mean, float *inverse);
    // grad: of out. grad_x becomes skip + the gradient of x: `skip`, the gradient that reaches x around the
    // branch, may be grad_x itself; NULL means zeros. The gradients of gain and bias are overwritten, or with
    // norm->accumulate added to.
    void (*layernorm_backward)(const struct kernels_norm *norm, const float *grad, const float *x,
                               const float *gain, const float *mean, const float *inverse, const float *skip,
                               float *grad_x, float *grad_gain, float *grad_bias);

    // With t = z + bias: out = gelu(t), and z becomes the slope gelu'(t), which backward needs. This is the
    // tanh form (Hendrycks, Gimpel 2016, section 2) that GPT-2 uses: gelu(t) = 0.5 t (1 + tanh(sqrt(2/pi) (t
    // + 0.044715 t^3))). NaN stays NaN.
    void (*bias_gelu)(size_t rows, size_t cols, const float *bias, float *z, float *out);
    void (*gelu_backward)(size_t count, const float *slope, float *grad); // grad *= slope

    // out[r, c] = x[r, c] + bias[c]; a product with beta 1 then adds the branch of a residual block.
    void (*residual)(size_t rows, size_t cols, const float *bias, const float *x, float *out);

    // Causal attention, softmax(q k^T / sqrt(width)) v over the tokens up to each one (Vaswani et al. 2017,
    // section 3.2.1). qkv [rows, 3 * heads * width]: q of all heads, then k, then v, in the order of GPT-2's
    // c_attn; out [rows, heads * width]. log_sum [sequences, heads, tokens] is kept for backward, which
    // recomputes the attention weights instead of storing tokens^2 of them (Dao et al. 2022). `scratch`:
    // kernels_attention_scratch floats, forward and backward.
    void (*attention)(const struct kernels_attention *shape, const float *qkv, float *scratch, float *out,
                      float *log_sum);
    // grad: of out. Writes grad_qkv.
    void (*attention_backward)(const struct kernels_attention *shape, const float *qkv, const float *out,
                               const float *log_sum, const float *grad, float *scratch, float *grad_qkv);

    // out[i] becomes 0 with probability `part`, else x[i] / (1 - part). The decision for element i depends
    // only on `stream` and i, so backward drops the same elements as forward. 0 <= part < 1; count below
    // 2^32. out may be x.
    void (*dropout)(size_t count, uint64_t stream, float part, const float *x, float *out);
};

#endif
