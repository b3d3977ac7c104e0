// Embedding, LayerNorm, GELU, attention and dropout on the CPU: plain C that gcc and clang vectorise,
// compiled once for each instruction set by the file that includes it and names KERNELS_SEQUENCE and
// KERNELS_PRODUCT.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/rows.h"

#include <math.h>
#include <string.h>

#define NORM_EPSILON 1e-5f

static void embed(size_t rows, size_t tokens, size_t width, const uint32_t *ids, const float *token,
                  const float *place, float *restrict out)
{
    for (size_t r = 0; r < rows; r++, out += width) {
        const float *of_token = token + (size_t)ids[r] * width, *of_place = place + r % tokens * width;
        for (size_t c = 0; c < width; c++)
            out[c] = of_token[c] + of_place[c];
    }
}

static void embed_backward(size_t rows, size_t width, const uint32_t *ids, const float *grad,
                           float *restrict token)
{
    for (size_t r = 0; r < rows; r++, grad += width) {
        float *of_token = token + (size_t)ids[r] * width;
        for (size_t c = 0; c < width; c++)
            of_token[c] += grad[c];
    }
}

// --- LayerNorm ---

static float sum_of_squares(size_t count, const float *x, float mean)
{
    float lane[LANES] = {0.0f}, rest = 0.0f;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            const float d = x[i + l] - mean;
            lane[l] += d * d;
        }
    }
    for (; i < count; i++)
        rest += (x[i] - mean) * (x[i] - mean);
    return lanes_sum(lane) + rest;
}

static void layernorm(size_t rows, size_t cols, const float *restrict x, const float *restrict gain,
                      const float *restrict bias, float *restrict out, float *restrict mean,
                      float *restrict inverse)
{
    for (size_t r = 0; r < rows; r++, x += cols, out += cols) {
        const float m = row_sum(cols, x) / (float)cols;
        const float s = 1.0f / sqrtf(sum_of_squares(cols, x, m) / (float)cols + NORM_EPSILON);
        mean[r] = m;
        inverse[r] = s;
        for (size_t c = 0; c < cols; c++)
            out[c] = (x[c] - m) * s * gain[c] + bias[c];
    }
}

static float row_product(size_t count, const float *a, const float *b)
{
    float lane[LANES] = {0.0f}, rest = 0.0f;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += a[i + l] * b[i + l];
    for (; i < count; i++)
        rest += a[i] * b[i];
    return lanes_sum(lane) + rest;
}

// The sum of grad * gain times the normalised x. gcc vectorises one sum in a loop, but not two.
static float normal_product(size_t count, const float *grad, const float *gain, const float *x, float mean,
                            float inverse)
{
    float lane[LANES] = {0.0f}, rest = 0.0f;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += grad[i + l] * gain[i + l] * ((x[i + l] - mean) * inverse);
    for (; i < count; i++)
        rest += grad[i] * gain[i] * ((x[i] - mean) * inverse);
    return lanes_sum(lane) + rest;
}

// What the gradient of x is added to: nothing, another vector, or the contents of grad_x. It is a constant
// wherever norm_gradients is inlined, so that each loop reads only the vectors that it needs.
enum norm_skip { SKIP_NONE, SKIP_OTHER, SKIP_SELF };

static inline __attribute__((always_inline)) void
norm_gradients(size_t cols, const float *restrict grad, const float *restrict x, const float *restrict gain,
               float mean, float inverse, const float *restrict skip, enum norm_skip kind,
               float *restrict grad_x, float *restrict grad_gain, float *restrict grad_bias)
{
    const float level = row_product(cols, grad, gain) / (float)cols;
    const float slope = normal_product(cols, grad, gain, x, mean, inverse) / (float)cols;
    for (size_t c = 0; c < cols; c++) {
        const float normal = (x[c] - mean) * inverse, g = grad[c];
        const float base = kind == SKIP_OTHER ? skip[c] : kind == SKIP_SELF ? grad_x[c] : 0.0f;
        grad_x[c] = base + inverse * (g * gain[c] - level - normal * slope);
        grad_gain[c] += g * normal;
        grad_bias[c] += g;
    }
}

static void layernorm_backward(const struct kernels_norm *n, const float *grad, const float *x,
                               const float *gain, const float *mean, const float *inverse, const float *skip,
                               float *grad_x, float *grad_gain, float *grad_bias)
{
    const size_t cols = n->cols;
    if (!n->accumulate) {
        memset(grad_gain, 0, cols * sizeof *grad_gain);
        memset(grad_bias, 0, cols * sizeof *grad_bias);
    }
    for (size_t r = 0; r < n->rows; r++) {
        const size_t at = r * cols;
        if (!skip) {
            norm_gradients(cols, grad + at, x + at, gain, mean[r], inverse[r], NULL, SKIP_NONE, grad_x + at,
                           grad_gain, grad_bias);
        } else if (skip == grad_x) {
            norm_gradients(cols, grad + at, x + at, gain, mean[r], inverse[r], NULL, SKIP_SELF, grad_x + at,
                           grad_gain, grad_bias);
        } else {
            norm_gradients(cols, grad + at, x + at, gain, mean[r], inverse[r], skip + at, SKIP_OTHER,
                           grad_x + at, grad_gain, grad_bias);
        }
    }
}

// --- GELU: z * logistic(2u), u = sqrt(2/pi) (z + 0.044715 z^3), which is its tanh form ---

#define GELU_LINEAR 1.59576912f   // 2 sqrt(2/pi)
#define GELU_CUBIC  0.0713548163f // the same times 0.044715

// logistic(t) = numerator / (1 + e) with e = exp(-|t|), so with no exponent above 0; the numerator is e below
// 0, else 1. Bound and choice use bit operations: gcc would turn conditions into branches, and the loops
// around them would become scalar. A NaN gives a number, but callers multiply it by the value from which t
// was computed, so that their result is NaN.
static inline float logistic(float t)
{
    const union float_bits lowest = {.f = -EXP_LOWEST}, one = {.f = 1.0f}, sign = {.f = t};
    const uint32_t magnitude = sign.u & 0x7fffffffu, below = 0u - (sign.u >> 31);
    const union float_bits level = {.u = (magnitude < lowest.u ? magnitude : lowest.u) | 0x80000000u};
    const union float_bits e = {.f = exp_bounded(level.f)}, part = {.u = (e.u & below) | (one.u & ~below)};
    return part.f / (1.0f + e.f);
}

static void bias_gelu(size_t rows, size_t cols, const float *restrict bias, float *restrict z,
                      float *restrict out)
{
    for (size_t r = 0; r < rows; r++, z += cols, out += cols) {
        for (size_t c = 0; c < cols; c++) {
            const float v = z[c] + bias[c], square = v * v;
            const float share = logistic(v * (GELU_LINEAR + GELU_CUBIC * square));
            out[c] = v * share;
            z[c] = share + v * (share * (1.0f - share)) * (GELU_LINEAR + 3.0f * GELU_CUBIC * square);
        }
    }
}

static void gelu_backward(size_t count, const float *restrict slope, float *restrict grad)
{
    for (size_t i = 0; i < count; i++)
        grad[i] *= slope[i];
}

static void residual(size_t rows, size_t cols, const float *restrict bias, const float *restrict x,
                     float *restrict out)
{
    for (size_t r = 0; r < rows; r++, x += cols, out += cols)
        for (size_t c = 0; c < cols; c++)
            out[c] = x[c] + bias[c];
}

// --- attention ---
//
// For one head of one sequence and a block of BLOCK queries, the scores are kept transposed, [keys, BLOCK]:
// the keys that a block may see are then a prefix of the rows of k and v, and the softmax runs down the
// columns, all queries of the block side by side. Products read and write the columns of a head where they
// lie.

#define BLOCK KERNELS_ATTENTION_BLOCK

// One head of one sequence; its gradients and `out` lie as q, k, v and the output do.
struct head {
    size_t tokens, width, stride, out_stride; // of a token in qkv and in the output
    float scale;
    const float *q, *k, *v;
    float *scores, *grad_scores; // [tokens, BLOCK]
    float *most, *sum;           // [BLOCK]
};

// Head i of sequence s.
static struct head head_at(const struct kernels_attention *shape, size_t s, size_t i, const float *qkv,
                           float *scratch)
{
    const size_t all = shape->heads * shape->width, scores = shape->tokens * BLOCK;
    const float *q = qkv + s * shape->tokens * 3 * all + i * shape->width;
    return (struct head){.tokens = shape->tokens,
                         .width = shape->width,
                         .stride = 3 * all,
                         .out_stride = all,
                         .scale = 1.0f / sqrtf((float)shape->width),
                         .q = q,
                         .k = q + all,
                         .v = q + 2 * all,
                         .scores = scratch,
                         .grad_scores = scratch + scores,
                         .most = scratch + 2 * scores,
                         .sum = scratch + 2 * scores + BLOCK};
}

// scores [keys, block] = scale * keys [keys, width] times queries [block, width], transposed.
static void score(const struct head *h, size_t count, size_t block, float scale, const float *keys,
                  size_t stride_k, const float *queries, size_t stride_q, float *scores)
{
    KERNELS_PRODUCT(&(struct kernels_cpu_product){.transpose_b = true,
                                                  .m = count,
                                                  .n = block,
                                                  .k = h->width,
                                                  .alpha = scale,
                                                  .a = keys,
                                                  .b = queries,
                                                  .c = scores,
                                                  .stride_a = stride_k,
                                                  .stride_b = stride_q,
                                                  .stride_c = block});
}

// to [keys, width] = alpha * scores [keys, block] times rows [block, width] + beta * to
static void sum_of_queries(const struct head *h, size_t count, size_t block, float alpha, const float *scores,
                           const float *rows, size_t stride, float beta, float *to)
{
    KERNELS_PRODUCT(&(struct kernels_cpu_product){.m = count,
                                                  .n = h->width,
                                                  .k = block,
                                                  .alpha = alpha,
                                                  .beta = beta,
                                                  .a = scores,
                                                  .b = rows,
                                                  .c = to,
                                                  .stride_a = block,
                                                  .stride_b = stride,
                                                  .stride_c = h->stride});
}

// to [block, width] = alpha * scores [keys, block], transposed, times rows [keys, width]
static void sum_of_keys(const struct head *h, size_t count, size_t block, float alpha, const float *scores,
                        const float *rows, float *to, size_t stride)
{
    KERNELS_PRODUCT(&(struct kernels_cpu_product){.transpose_a = true,
                                                  .m = block,
                                                  .n = h->width,
                                                  .k = count,
                                                  .alpha = alpha,
                                                  .a = scores,
                                                  .b = rows,
                                                  .c = to,
                                                  .stride_a = block,
                                                  .stride_b = h->stride,
                                                  .stride_c = stride});
}

// Scores become exp(score - level), or 0 if the key comes after the query.
static void exp_scores(size_t first, size_t block, const float *restrict level, float *restrict scores)
{
    for (size_t key = 0; key < first + block; key++, scores += block) {
        for (size_t c = 0; c < block; c++)
            scores[c] = exp_nonpositive(scores[c] - level[c]);
        memset(scores, 0, (key > first ? key - first : 0) * sizeof *scores);
    }
}

static void column_most(size_t first, size_t block, const float *restrict scores, float *restrict most)
{
    for (size_t c = 0; c < block; c++)
        most[c] = -INFINITY;
    for (size_t key = 0; key < first + block; key++, scores += block) {
        const int32_t start = key > first ? (int32_t)(key - first) : 0, end = (int32_t)block;
        for (int32_t c = 0; c < end; c++) {
            const float seen = c >= start ? scores[c] : -INFINITY;
            most[c] = seen > most[c] ? seen : most[c];
        }
    }
}

static void column_sums(size_t rows, size_t cols, const float *restrict z, float *restrict sum)
{
    memset(sum, 0, cols * sizeof *sum);
    for (size_t r = 0; r < rows; r++, z += cols)
        for (size_t c = 0; c < cols; c++)
            sum[c] += z[c];
}

static void head_forward(const struct head *h, float *out, float *log_sum)
{
    for (size_t first = 0; first < h->tokens; first += BLOCK) {
        const size_t left = h->tokens - first, block = left < BLOCK ? left : BLOCK, keys = first + block;
        float *to = out + first * h->out_stride;
        score(h, keys, block, h->scale, h->k, h->stride, h->q + first * h->stride, h->stride, h->scores);
        column_most(first, block, h->scores, h->most);
        exp_scores(first, block, h->most, h->scores);
        column_sums(keys, block, h->scores, h->sum);
        sum_of_keys(h, keys, block, 1.0f, h->scores, h->v, to, h->out_stride);
        for (size_t c = 0; c < block; c++, to += h->out_stride) {
            const float share = 1.0f / h->sum[c];
            for (size_t w = 0; w < h->width; w++)
                to[w] *= share;
            log_sum[first + c] = h->most[c] + logf(h->sum[c]);
        }
    }
}

static void attention(const struct kernels_attention *shape, const float *qkv, float *scratch, float *out,
                      float *log_sum)
{
    for (size_t s = 0; s < shape->sequences; s++) {
        for (size_t i = 0; i < shape->heads; i++, log_sum += shape->tokens) {
            const struct head h = head_at(shape, s, i, qkv, scratch);
            head_forward(&h, out + s * h.tokens * h.out_stride + i * h.width, log_sum);
        }
    }
}

// Gradients of attention weights (shares) become those of scores: share * (grad - back), where back is the
// sum of share * grad over the keys.
static void grad_of_scores(size_t keys, size_t block, const float *restrict shares,
                           const float *restrict back, float *restrict grad)
{
    for (size_t key = 0; key < keys; key++, shares += block, grad += block)
        for (size_t c = 0; c < block; c++)
            grad[c] = shares[c] * (grad[c] - back[c]);
}

// The gradients of q, k and v from the queries first .. first + block - 1. The last block comes first: it
// sees all keys and overwrites their gradients, to which the others add.
static void block_backward(const struct head *h, size_t first, size_t block, const float *out,
                           const float *log_sum, const float *grad, float *grad_q)
{
    const size_t keys = first + block, all = h->out_stride;
    const float *q = h->q + first * h->stride, *of_block = grad + first * all;
    const float beta = keys < h->tokens ? 1.0f : 0.0f;
    score(h, keys, block, h->scale, h->k, h->stride, q, h->stride, h->scores);
    exp_scores(first, block, log_sum + first, h->scores);
    for (size_t c = 0; c < block; c++)
        h->sum[c] = row_product(h->width, of_block + c * all, out + (first + c) * all);
    sum_of_queries(h, keys, block, 1.0f, h->scores, of_block, all, beta, grad_q + 2 * all);
    score(h, keys, block, 1.0f, h->v, h->stride, of_block, all, h->grad_scores);
    grad_of_scores(keys, block, h->scores, h->sum, h->grad_scores);
    sum_of_queries(h, keys, block, h->scale, h->grad_scores, q, h->stride, beta, grad_q + all);
    sum_of_keys(h, keys, block, h->scale, h->grad_scores, h->k, grad_q + first * h->stride, h->stride);
}

static void attention_backward(const struct kernels_attention *shape, const float *qkv, const float *out,
                               const float *log_sum, const float *grad, float *scratch, float *grad_qkv)
{
    for (size_t s = 0; s < shape->sequences; s++) {
        for (size_t i = 0; i < shape->heads; i++, log_sum += shape->tokens) {
            const struct head h = head_at(shape, s, i, qkv, scratch);
            const size_t at = s * h.tokens * h.out_stride + i * h.width;
            for (size_t end = h.tokens; end > 0; end = (end - 1) / BLOCK * BLOCK) {
                const size_t first = (end - 1) / BLOCK * BLOCK;
                block_backward(&h, first, end - first, out + at, log_sum, grad + at, grad_qkv + (h.q - qkv));
            }
        }
    }
}

// --- dropout ---

// A bijection of 32 bits in which every bit of the argument affects every bit of the result (the multipliers
// and shifts are those of MurmurHash3's finaliser, Appleby 2011).
static inline uint32_t mix(uint32_t x)
{
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    return x ^ (x >> 16);
}

static void dropout(size_t count, uint64_t stream, float part, const float *x, float *out)
{
    const uint32_t low = mix((uint32_t)stream), high = mix((uint32_t)(stream >> 32) ^ low);
    const uint32_t bound = (uint32_t)((double)part * 4294967296.0);
    const float factor = 1.0f / (1.0f - part);
    BASE_ASSERT(part >= 0.0f && part < 1.0f && count <= UINT32_MAX);
    for (uint32_t i = 0; i < (uint32_t)count; i++) {
        union float_bits kept = {.f = x[i] * factor};
        kept.u &= mix((i ^ low) + high) < bound ? 0u : ~0u;
        out[i] = kept.f;
    }
}

const struct kernels_sequence KERNELS_SEQUENCE = {
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
