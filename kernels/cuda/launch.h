// Shared by the C files (the table) and the device files (CUDA C++): one function per kernel, which launches
// it on the default stream. All pointers inside the arguments are device memory.
#ifndef KERNELS_CUDA_LAUNCH_H
#define KERNELS_CUDA_LAUNCH_H

#include "kernels/image.h"
#include "kernels/sequence.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// --- training (train.cu) ---

struct kernels_cuda_sgd {
    float rate, momentum, weight_decay;
};

struct kernels_cuda_adamw {
    float rate, beta1, rest1, beta2, rest2, epsilon, weight_decay, unbias1, unbias2; // rest: 1 - beta
};

struct kernels_cuda_lion {
    float rate, beta1, rest1, beta2, rest2, weight_decay;
};

// Sums over the rows of a batch, on the device.
struct kernels_cuda_loss {
    double loss_sum;
    uint64_t correct;
};

// rows * cols below 2^32. bias may be NULL.
void kernels_cuda_bias(size_t rows, size_t cols, const float *bias, float *z, int relu);
void kernels_cuda_relu_backward(size_t count, const float *activation, float *grad);
#define KERNELS_CUDA_SLAB 128u // rows of a block of column_sum
// parts: temporary; 2 * (rows / KERNELS_CUDA_SLAB + 1) * cols.
void kernels_cuda_column_sum(size_t rows, size_t cols, const float *z, float *parts, float *sum);
void kernels_cuda_softmax(size_t rows, size_t cols, float *logits, const uint32_t *labels, float scale,
                          struct kernels_cuda_loss *row_losses, struct kernels_cuda_loss *total);
void kernels_cuda_loss_total(size_t rows, struct kernels_cuda_loss *row_losses,
                             struct kernels_cuda_loss *total);
void kernels_cuda_sgd(size_t count, struct kernels_cuda_sgd options, const float *grad,
                      const float *correction, float *m, float *x);
void kernels_cuda_adamw(size_t count, struct kernels_cuda_adamw options, const float *grad,
                        const float *correction, float *m, float *v, float *x);
void kernels_cuda_lion(size_t count, struct kernels_cuda_lion options, const float *grad,
                       const float *correction, float *m, float *x);
// Rounds to nearest, ties to even; NaN and infinity stay.
void kernels_cuda_to_bf16(size_t count, const float *from, uint16_t *to);
void kernels_cuda_to_fp32(size_t count, const uint16_t *from, float *to);
// The first `cols` numbers of each row of `stride`.
void kernels_cuda_rows_to_fp32(size_t rows, size_t cols, size_t stride, const uint16_t *from, float *to);
// sums [2][count] become two vectors, or are added to them.
void kernels_cuda_pair(size_t count, int accumulate, const float *sums, float *first, float *second);

// --- images (conv.cu, pool.cu, group_norm.cu): as in kernels/image.h ---

// columns [images * out_height * out_width][size * size * channels]: the window of each output.
void kernels_cuda_columns(const struct kernels_conv *c, const float *x, float *columns);
// dx: for each pixel the sum over the windows that contain it.
void kernels_cuda_columns_back(const struct kernels_conv *c, const float *columns, float *dx);
void kernels_cuda_max_pool(const struct kernels_pool *p, const float *x, uint32_t *place, float *y);
void kernels_cuda_max_pool_backward(const struct kernels_pool *p, const uint32_t *place, const float *dy,
                                    float *dx);
void kernels_cuda_mean_pool(const struct kernels_pool *p, const float *x, float *y);
void kernels_cuda_mean_pool_backward(const struct kernels_pool *p, const float *dy, float *dx);
void kernels_cuda_shortcut(const struct kernels_shortcut *s, const float *x, float *y);
void kernels_cuda_shortcut_backward(const struct kernels_shortcut *s, const float *dy, float *dx);
void kernels_cuda_group_norm(const struct kernels_group_norm *n, const float *x, const float *gamma,
                             const float *beta, float *kept, float *y);
// parts [images][2][channels]: sums of dy times the normalised x, and of dy. dx may be NULL.
void kernels_cuda_group_norm_backward(const struct kernels_group_norm *n, const float *x, const float *gamma,
                                      const float *kept, const float *dy, float *parts, float *dx);

// --- sequences (sequence.cu, layernorm.cu, attention.cu, attention_bf16.cu): as in kernels/sequence.h ---

// rows * width and rows * cols below 2^32.
void kernels_cuda_embed(size_t rows, size_t tokens, size_t width, const uint32_t *ids, const float *token,
                        const float *place, float *out);
// order: temporary; 5 * rows, of which the first 3 * rows are 0 before the launch.
void kernels_cuda_embed_backward(size_t rows, size_t width, const uint32_t *ids, const float *grad,
                                 uint32_t *order, float *token);
void kernels_cuda_bias_gelu(size_t rows, size_t cols, const float *bias, float *z, float *out);
void kernels_cuda_gelu_backward(size_t count, const float *slope, float *grad);
void kernels_cuda_residual(size_t rows, size_t cols, const float *bias, const float *x, float *out);
void kernels_cuda_dropout(size_t count, uint64_t stream, float part, const float *x, float *out);
void kernels_cuda_layernorm(size_t rows, size_t cols, const float *x, const float *gain, const float *bias,
                            float *out, float *mean, float *inverse);
void kernels_cuda_layernorm_backward(size_t rows, size_t cols, const float *grad, const float *x,
                                     const float *gain, const float *mean, const float *inverse,
                                     const float *skip, float *grad_x);
// parts [slabs of rows][2][cols]: sums of the gradients of gain and bias.
void kernels_cuda_layernorm_parts(size_t rows, size_t cols, const float *grad, const float *x,
                                  const float *mean, const float *inverse, float *parts);
void kernels_cuda_attention(const struct kernels_attention *shape, const float *qkv, float *out,
                            float *log_sum);
// back: temporary; [sequences][heads][tokens].
void kernels_cuda_attention_backward(const struct kernels_attention *shape, const float *qkv,
                                     const float *out, const float *log_sum, const float *grad, float *back,
                                     float *grad_qkv);
// Causal attention with bf16 factors and fp32 sums on tensor cores, for devices from sm_80
// (attention_bf16.cu). qkv, out, grad and grad_qkv are bf16, aligned to 16 bytes.
int kernels_cuda_attention_bf16_takes(const struct kernels_attention *shape); // does not ask the device
void kernels_cuda_attention_bf16(const struct kernels_attention *shape, const uint16_t *qkv, uint16_t *out,
                                 float *log_sum);
// back: as above.
void kernels_cuda_attention_backward_bf16(const struct kernels_attention *shape, const uint16_t *qkv,
                                          const uint16_t *out, const float *log_sum, const uint16_t *grad,
                                          float *back, uint16_t *grad_qkv);

// --- decoders with activations in bf16 (decoder.cu) ---

void kernels_cuda_layernorm_bf16(size_t rows, size_t cols, const float *x, const float *gain,
                                 const float *bias, uint16_t *out, float *mean, float *inverse);
// parts [slabs of rows][2][cols]: sums of the gradients of gain and bias.
void kernels_cuda_layernorm_backward_bf16(size_t rows, size_t cols, const uint16_t *grad, const float *x,
                                          const float *gain, const float *mean, const float *inverse,
                                          const float *skip, float *grad_x, float *parts);
// parts: temporary, as for kernels_cuda_column_sum.
void kernels_cuda_column_sum_bf16(size_t rows, size_t cols, const uint16_t *z, float *parts, float *sum);
// z becomes z + bias; out = gelu(z + bias).
void kernels_cuda_bias_bf16(size_t rows, size_t cols, const float *bias, uint16_t *z);
void kernels_cuda_bias_gelu_bf16(size_t rows, size_t cols, const float *bias, uint16_t *z, uint16_t *out);
// grad *= gelu'(z)
void kernels_cuda_gelu_backward_bf16(size_t count, const uint16_t *z, uint16_t *grad);

// As kernels_cuda_softmax, on rows of `stride` numbers, a multiple of 4, whose ends become 0; without the
// total.
void kernels_cuda_softmax_bf16(size_t rows, size_t cols, size_t stride, uint16_t *logits,
                               const uint32_t *labels, float scale, struct kernels_cuda_loss *row_losses);

// --- selection (select.cu, gather.cu) ---

#define KERNELS_CUDA_TILE    4096u // elements that a block handles at a time
#define KERNELS_CUDA_BINS    4096u // KERNELS_BINS
#define KERNELS_CUDA_FLOORS  8u
#define KERNELS_CUDA_RUN     16u // adjacent elements in a sample
#define KERNELS_CUDA_REDUCED 64u // additional places that a reduction in two steps needs

struct kernels_cuda_vector {
    const float *x, *r; // r may be NULL
    size_t count;
    int aligned; // both to 16 bytes
};

// The statistics of a pass, or of a part of it.
struct kernels_cuda_seen {
    double a_energy, x_energy;
    uint32_t largest;
};

// Assigns tiles in order and passes counts from tile to tile.
struct kernels_cuda_order {
    uint32_t *tickets; // 0 before the launch
    uint64_t *words;   // [tiles], 0 before the launch
    uint64_t *entries; // the sum over all tiles
    size_t tiles;
};

struct kernels_cuda_gather {
    struct kernels_cuda_vector vector; // from `first` on
    struct kernels_cuda_order order;
    size_t first, room; // entries beyond `room` are counted, not written
    uint32_t floor;
    uint32_t *index;
    float *value;
    struct kernels_cuda_seen *seen; // [tiles]
};

// order.entries becomes the number of magnitudes of at least `high`, plus 2^31 times the number in [low,
// high).
struct kernels_cuda_keep {
    struct kernels_cuda_order order;
    size_t count, ties;
    uint32_t low, high;
    uint32_t *index;
    float *value;
};

struct kernels_cuda_histogram {
    struct kernels_cuda_vector vector;
    size_t tiles;
    uint32_t floor, shift;
    uint64_t *bins;                 // [KERNELS_CUDA_BINS], 0 before the launch
    struct kernels_cuda_seen *seen; // [blocks]
};

struct kernels_cuda_count {
    struct kernels_cuda_vector vector;
    size_t tiles;
    uint32_t floors[KERNELS_CUDA_FLOORS];
    uint64_t *counts;               // [KERNELS_CUDA_FLOORS], 0 before the launch
    struct kernels_cuda_seen *seen; // [blocks]
};

struct kernels_cuda_pick {
    struct kernels_cuda_vector vector;
    size_t entries;
    const uint32_t *index;
    float *value;
};

struct kernels_cuda_sample {
    struct kernels_cuda_vector vector;
    size_t samples;
    uint32_t *magnitude;
};

void kernels_cuda_gather(const struct kernels_cuda_gather *gather);
void kernels_cuda_keep(const struct kernels_cuda_keep *keep);
void kernels_cuda_histogram(const struct kernels_cuda_histogram *histogram, unsigned blocks);
void kernels_cuda_count(const struct kernels_cuda_count *count, unsigned blocks);
void kernels_cuda_pick(const struct kernels_cuda_pick *pick);
void kernels_cuda_sample(const struct kernels_cuda_sample *sample);
// Reduces all places to one, in their order; `places` has KERNELS_CUDA_REDUCED more after `count`.
void kernels_cuda_reduce(struct kernels_cuda_seen *places, size_t count, struct kernels_cuda_seen *result);

// --- values (values.cu) ---

struct kernels_cuda_section {
    unsigned format;    // enum kernels_format
    size_t block_bytes; // of KERNELS_VALUES_BLOCK entries
    size_t count;
    float *value;
    uint8_t *out;      // where it is written
    const uint8_t *in; // where it is read
    uint32_t *broken;  // valid: 0 before the launch, 1 if the writer could not have produced the bytes
};

void kernels_cuda_values_write(const struct kernels_cuda_section *section);
void kernels_cuda_values_read(const struct kernels_cuda_section *section);
void kernels_cuda_values_valid(const struct kernels_cuda_section *section);

// --- exchange (apply.cu) ---

// Entries as in kernels/apply.h: index may be NULL.
struct kernels_cuda_entries {
    const uint32_t *index;
    const float *value;
    size_t count, first;
};

struct kernels_cuda_exchange {
    float *x, *pending, *r, *correction, *correction_sum; // as in kernels/apply.h: some may be NULL
    float weight, gain;
    struct kernels_cuda_entries mine, theirs;
    uint64_t *hash; // the change is added to it
};

struct kernels_cuda_hash {
    const float *x;
    size_t count, first;
    int magnitudes;
    uint64_t *hash;    // the result is added to it
    uint32_t *largest; // bits of the largest magnitude, 0 before the launch
};

void kernels_cuda_exchange(const struct kernels_cuda_exchange *exchange);
void kernels_cuda_hash(const struct kernels_cuda_hash *hash, unsigned blocks);
void kernels_cuda_largest(const struct kernels_cuda_hash *hash, unsigned blocks);

// --- whole vectors (vectors.cu), as in kernels/vectors.h; `seen`: [blocks] ---

struct kernels_cuda_add {
    size_t count;
    float part;
    const float *from;
    float *to;
};

struct kernels_cuda_fade {
    size_t count;
    float part;
    float *x, *sum; // scale: no sum
};

struct kernels_cuda_hold {
    size_t count;
    float part;
    const float *x, *r;
    float *copy, *held; // copy may be NULL
};

struct kernels_cuda_settle {
    size_t count;
    const float *pending; // may be NULL
    float *v;
    struct kernels_cuda_seen *seen; // the largest
};

struct kernels_cuda_moments {
    size_t count;
    const float *mine, *theirs;
    float *v, *pending; // pending may be NULL
    int whole;
};

struct kernels_cuda_energy {
    size_t count;
    const float *x, *y;             // y may be NULL
    struct kernels_cuda_seen *seen; // x_energy
};

void kernels_cuda_add(const struct kernels_cuda_add *add, unsigned blocks);
void kernels_cuda_scale(const struct kernels_cuda_fade *fade, unsigned blocks);
void kernels_cuda_fade(const struct kernels_cuda_fade *fade, unsigned blocks);
void kernels_cuda_hold(const struct kernels_cuda_hold *hold, unsigned blocks);
void kernels_cuda_settle(const struct kernels_cuda_settle *settle, unsigned blocks);
void kernels_cuda_moments(const struct kernels_cuda_moments *moments, unsigned blocks);
void kernels_cuda_energy(const struct kernels_cuda_energy *energy, unsigned blocks);

#ifdef __cplusplus
}
#endif

#endif
