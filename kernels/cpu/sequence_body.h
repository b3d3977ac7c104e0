// Embedding, LayerNorm, GELU, attention and dropout on the CPU: plain C that gcc and clang vectorise,
// compiled once for each instruction set by the file that includes it and names KERNELS_SEQUENCE and
// KERNELS_GEMM.
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
        for (size_t c = 0; c < width; c++) {
            out[c] = of_token[c] + of_place[c];
        }
    }
}

static void embed_backward(size_t rows, size_t width, const uint32_t *ids, const float *grad,
                           float *restrict token)
{
    for (size_t r = 0; r < rows; r++, grad += width) {
        float *of_token = token + (size_t)ids[r] * width;
        for (size_t c = 0; c < width; c++) {
            of_token[c] += grad[c];
        }
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
    for (; i < count; i++) {
        rest += (x[i] - mean) * (x[i] - mean);
    }
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
        for (size_t c = 0; c < cols; c++) {
            out[c] = (x[c] - m) * s * gain[c] + bias[c];
        }
    }
}

static float row_product(size_t count, const float *a, const float *b)
{
    float lane[LANES] = {0.0f}, rest = 0.0f;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            lane[l] += a[i + l] * b[i + l];
        }
    }
    for (; i < count; i++) {
        rest += a[i] * b[i];
    }
    return lanes_sum(lane) + rest;
}

// Of grad * gain times the normalised x. gcc vectorises one sum in a loop, but not two.
static float normal_product(size_t count, const float *grad, const float *gain, const float *x, float mean,
                            float inverse)
{
    float lane[LANES] = {0.0f}, rest = 0.0f;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            lane[l] += grad[i + l] * gain[i + l] * ((x[i + l] - mean) * inverse);
        }
    }
    for (; i < count; i++) {
        rest += grad[i] * gain[i] * ((x[i] - mean) * inverse);
    }
    return lanes_sum(lane) + rest;
}

// To which the gradient of x is added: nothing, another vector, or the contents of grad_x. It is a constant
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
        if (skip == NULL) {
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
// around them would become scalar. NaN gives a number: callers multiply it by the value from which t was
// computed.
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
    for (size_t i = 0; i < count; i++) {
        grad[i] *= slope[i];
    }
}

static void residual(size_t rows, size_t cols, const float *restrict bias, const float *restrict x,
                     float *restrict out)
{
    for (size_t r = 0; r < rows; r++, x += cols, out += cols) {
        for (size_t c = 0; c < cols; c++) {
            out[c] = x[c] + bias[c];
        }
    }
}

// --- attention ---
//
// For one head of one sequence and a block of BLOCK queries, the scores are kept transposed, [keys, BLOCK]:
// the keys that a block may see are then a prefix of the rows of k and v, no product needs a transposed right
// factor, and the softmax runs down the columns, all queries of the block side by side.

#define BLOCK KERNELS_ATTENTION_BLOCK

struct head {
    size_t tokens, width, stride; // stride: floats of a token in qkv
    float scale;
    float *k, *v, *grad_k, *grad_v;   // [tokens, width]
    float *scores, *grad_scores;      // [tokens, BLOCK]
    float *q, *q_turned;              // [BLOCK, width], [width, BLOCK]
    float *grad, *grad_turned, *part; // of the output: [BLOCK, width], [width, BLOCK]; a result
    float *most, *sum;                // [BLOCK]
};

static struct head divide(const struct kernels_attention *shape, float *scratch)
{
    const size_t all = shape->tokens * shape->width, block = BLOCK * shape->width;
    const size_t scores = shape->tokens * BLOCK;
    struct head h = {.tokens = shape->tokens,
                     .width = shape->width,
                     .stride = 3 * shape->heads * shape->width,
                     .scale = 1.0f / sqrtf((float)shape->width)};
    float **const parts[] = {&h.k,        &h.v,    &h.grad_k,      &h.grad_v, &h.scores, &h.grad_scores, &h.q,
                             &h.q_turned, &h.grad, &h.grad_turned, &h.part,   &h.most,   &h.sum};
    const size_t sizes[] = {all,   all,   all,   all,   scores, scores, block,
                            block, block, block, block, BLOCK,  BLOCK};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        *parts[i] = scratch;
        scratch += sizes[i];
    }
    return h;
}

// Rows of `width` out of a matrix with `stride`, as [rows, width].
static void collect(size_t rows, size_t width, size_t stride, const float *restrict from, float *restrict to)
{
    for (size_t r = 0; r < rows; r++) {
        memcpy(to + r * width, from + r * stride, width * sizeof *to);
    }
}

static void spread(size_t rows, size_t width, size_t stride, const float *restrict from, float *restrict to)
{
    for (size_t r = 0; r < rows; r++) {
        memcpy(to + r * stride, from + r * width, width * sizeof *to);
    }
}

static void turn(size_t rows, size_t cols, const float *restrict from, float *restrict to)
{
    for (size_t c = 0; c < cols; c++) {
        for (size_t r = 0; r < rows; r++) {
            to[c * rows + r] = from[r * cols + c];
        }
    }
}

// The scores of the queries `first` .. first + block - 1 with all keys up to the last of them.
static void score(const struct head *h, size_t first, size_t block, const float *qkv)
{
    collect(block, h->width, h->stride, qkv + first * h->stride, h->q);
    turn(block, h->width, h->q, h->q_turned);
    KERNELS_GEMM(false, false, first + block, block, h->width, h->scale, h->k, h->q_turned, 0.0f, h->scores);
}

// Scores become exp(score - level), or 0 if the key comes after the query.
static void exp_scores(size_t first, size_t block, const float *restrict level, float *restrict scores)
{
    for (size_t key = 0; key < first + block; key++, scores += block) {
        for (size_t c = 0; c < block; c++) {
            scores[c] = exp_nonpositive(scores[c] - level[c]);
        }
        memset(scores, 0, (key > first ? key - first : 0) * sizeof *scores);
    }
}

static void column_most(size_t first, size_t block, const float *restrict scores, float *restrict most)
{
    for (size_t c = 0; c < block; c++) {
        most[c] = -INFINITY;
    }
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
    for (size_t r = 0; r < rows; r++, z += cols) {
        for (size_t c = 0; c < cols; c++) {
            sum[c] += z[c];
        }
    }
}

static void head_forward(const struct head *h, const float *qkv, size_t out_stride, float *out,
                         float *log_sum)
{
    for (size_t first = 0; first < h->tokens; first += BLOCK) {
        const size_t left = h->tokens - first, block = left < BLOCK ? left : BLOCK, keys = first + block;
        score(h, first, block, qkv);
        column_most(first, block, h->scores, h->most);
        exp_scores(first, block, h->most, h->scores);
        column_sums(keys, block, h->scores, h->sum);
        KERNELS_GEMM(true, false, block, h->width, keys, 1.0f, h->scores, h->v, 0.0f, h->part);
        for (size_t c = 0; c < block; c++) {
            const float share = 1.0f / h->sum[c];
            float *to = out + (first + c) * out_stride;
            const float *from = h->part + c * h->width;
            for (size_t w = 0; w < h->width; w++) {
                to[w] = from[w] * share;
            }
            log_sum[first + c] = h->most[c] + logf(h->sum[c]);
        }
    }
}

static void attention(const struct kernels_attention *shape, const float *qkv, float *scratch, float *out,
                      float *log_sum)
{
    const struct head h = divide(shape, scratch);
    const size_t all = shape->heads * shape->width;
    for (size_t s = 0; s < shape->sequences; s++) {
        for (size_t i = 0; i < shape->heads; i++) {
            const float *of = qkv + s * h.tokens * h.stride + i * h.width;
            collect(h.tokens, h.width, h.stride, of + all, h.k);
            collect(h.tokens, h.width, h.stride, of + 2 * all, h.v);
            head_forward(&h, of, all, out + s * h.tokens * all + i * h.width,
                         log_sum + (s * shape->heads + i) * h.tokens);
        }
    }
}

// Gradients of shares become those of scores: share * (grad - back), back = sum of share * grad over keys.
static void grad_of_scores(size_t keys, size_t block, const float *restrict shares,
                           const float *restrict back, float *restrict grad)
{
    for (size_t key = 0; key < keys; key++, shares += block, grad += block) {
        for (size_t c = 0; c < block; c++) {
            grad[c] = shares[c] * (grad[c] - back[c]);
        }
    }
}

// k and v are collected; their gradients are added to.
static void head_backward(const struct head *h, const float *qkv, size_t out_stride, const float *out,
                          const float *log_sum, const float *grad, float *grad_qkv)
{
    for (size_t first = 0; first < h->tokens; first += BLOCK) {
        const size_t left = h->tokens - first, block = left < BLOCK ? left : BLOCK, keys = first + block;
        score(h, first, block, qkv);
        exp_scores(first, block, log_sum + first, h->scores);
        collect(block, h->width, out_stride, grad + first * out_stride, h->grad);
        turn(block, h->width, h->grad, h->grad_turned);
        for (size_t c = 0; c < block; c++) {
            h->sum[c] = row_product(h->width, h->grad + c * h->width, out + (first + c) * out_stride);
        }
        KERNELS_GEMM(false, false, keys, h->width, block, 1.0f, h->scores, h->grad, 1.0f, h->grad_v);
        KERNELS_GEMM(false, false, keys, block, h->width, 1.0f, h->v, h->grad_turned, 0.0f, h->grad_scores);
        grad_of_scores(keys, block, h->scores, h->sum, h->grad_scores);
        KERNELS_GEMM(false, false, keys, h->width, block, h->scale, h->grad_scores, h->q, 1.0f, h->grad_k);
        KERNELS_GEMM(true, false, block, h->width, keys, h->scale, h->grad_scores, h->k, 0.0f, h->part);
        spread(block, h->width, h->stride, h->part, grad_qkv + first * h->stride);
    }
}

static void attention_backward(const struct kernels_attention *shape, const float *qkv, const float *out,
                               const float *log_sum, const float *grad, float *scratch, float *grad_qkv)
{
    const struct head h = divide(shape, scratch);
    const size_t all = shape->heads * shape->width, bytes = h.tokens * h.width * sizeof(float);
    for (size_t s = 0; s < shape->sequences; s++) {
        for (size_t i = 0; i < shape->heads; i++) {
            const size_t in = s * h.tokens * h.stride + i * h.width, at = s * h.tokens * all + i * h.width;
            collect(h.tokens, h.width, h.stride, qkv + in + all, h.k);
            collect(h.tokens, h.width, h.stride, qkv + in + 2 * all, h.v);
            memset(h.grad_k, 0, bytes);
            memset(h.grad_v, 0, bytes);
            head_backward(&h, qkv + in, all, out + at, log_sum + (s * shape->heads + i) * h.tokens, grad + at,
                          grad_qkv + in);
            spread(h.tokens, h.width, h.stride, h.grad_k, grad_qkv + in + all);
            spread(h.tokens, h.width, h.stride, h.grad_v, grad_qkv + in + 2 * all);
        }
    }
}

// --- dropout ---

// A bijection of 32 bits in which every bit of the argument moves every bit of the result (the multipliers
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
