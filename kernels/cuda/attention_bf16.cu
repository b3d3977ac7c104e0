// Causal attention on tensor cores: bf16 factors, fp32 sums (Dao 2023, "FlashAttention-2"). Forward and for
// the gradient of q, a block has BLOCK_ROWS queries and visits the keys up to the last of them, tile by tile.
// For the gradients of k and v, a block has BLOCK_ROWS keys and visits the queries from the first of them on.
// No sum extends over blocks, so the order of sums is fixed; the price is that the scores are computed twice.
//
// A warp has 16 of the block's rows, in registers (struct warp_rows), with the sums of their products. Scores
// and their gradients never leave registers: as the sum of one product a lane has just the numbers that it
// needs as the first factor of the next one. Tiles are in shared memory twice: while one is used, the next
// one arrives. A tile that no row of a warp sees is skipped; one that all of them see needs no mask.
//
// `steps` is the width of a head / 16 and, like `tile_rows` and `pairs`, a constant in each kernel, because
// registers cannot be indexed at run time.
#include "kernels/cuda/device.h"

#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/warp_tiles.h"

#include <math.h>

#define WARP_ROWS  16u
#define BLOCK_ROWS (WARPS * WARP_ROWS)
#define PAIRS_MAX  4u // of 8 columns of scores that are computed together
#define LENGTH_MAX (1u << 30)
#define LOG2_E     1.44269504f

// The kernels: width of a head, rows of a tile, pairs for the gradients of k and v, pairs for that of q, and
// the macro that declares the kernels other than that of k and v.
#define EACH_WIDTH(kernel)                                                                                   \
    kernel(16, 64, 4, 2, KERNEL_OF_TWO) kernel(32, 64, 4, 2, KERNEL_OF_TWO)                                  \
        kernel(64, 64, 4, 2, KERNEL_OF_TWO) kernel(96, 32, 1, 1, KERNEL) kernel(128, 32, 1, 1, KERNEL)

struct half_args {
    uint32_t sequences, tokens, heads, width, blocks; // blocks: of a head
    float scale;
    const uint16_t *qkv, *out, *grad;
    const float *log_sum, *back;
    uint16_t *to;   // out, or grad_qkv
    float *to_sums; // log_sum, or back
};

struct half_place {
    uint32_t block, of_head; // of_head: the sequence * heads + the head
    size_t column;           // of the head in a row
};

// Blocks with the most work start first: those of the last queries or, `by_keys`, of the first keys.
INLINE struct half_place half_place_of(const struct half_args *a, unsigned steps, int by_keys)
{
    const uint32_t per_block = a->sequences * a->heads, block = block_index() / per_block;
    struct half_place p;
    p.block = by_keys ? block : a->blocks - 1 - block;
    p.of_head = block_index() % per_block;
    p.column = (size_t)(p.of_head % a->heads) * 16 * steps;
    return p;
}

// The rows of a head in a matrix with `parts` times heads * width numbers per token; `part` for q, k, v is 0,
// 1, 2.
INLINE struct half_rows half_rows_of(const struct half_args *a, const struct half_place *p, unsigned steps,
                                     const uint16_t *matrix, unsigned parts, unsigned part)
{
    const uint32_t all = a->heads * 16 * steps;
    struct half_rows rows;
    rows.stride = parts * all;
    rows.count = a->tokens;
    rows.first =
        matrix + (size_t)(p->of_head / a->heads) * a->tokens * rows.stride + (size_t)part * all + p->column;
    return rows;
}

// --- forward ---

// Of a lane's two rows: the largest score so far; the sum of exponentials of this lane's columns.
struct half_state {
    float max[2], sum[2];
};

// Scores become exponentials relative to the largest score of the row so far; earlier sums are rescaled.
INLINE void half_softmax(float score[][4], unsigned pairs, float scale, unsigned steps,
                         struct half_state *state, float out[][4])
{
    UNROLL
    for (unsigned half = 0; half < 2; half++) {
        float max = state->max[half], sum = 0.0f;
        UNROLL
        for (unsigned n = 0; n < 2 * pairs; n++)
            max = fmaxf(max, fmaxf(score[n][2 * half], score[n][2 * half + 1]));
        max = quad_max(max);
        const float before = fast_exp2((state->max[half] - max) * scale), level = max * scale;
        UNROLL
        for (unsigned n = 0; n < 2 * pairs; n++) {
            score[n][2 * half] = fast_exp2(fmaf(score[n][2 * half], scale, -level));
            score[n][2 * half + 1] = fast_exp2(fmaf(score[n][2 * half + 1], scale, -level));
            sum += score[n][2 * half] + score[n][2 * half + 1];
        }
        state->sum[half] = fmaf(state->sum[half], before, sum);
        state->max[half] = max;
        UNROLL
        for (unsigned n = 0; n < 2 * steps; n++) {
            out[n][2 * half] *= before;
            out[n][2 * half + 1] *= before;
        }
    }
}

INLINE void half_attend(const struct half_args *a, const struct half_tiles *tiles, unsigned tile_rows,
                        unsigned steps)
{
    const struct half_place p = half_place_of(a, steps, 0);
    const struct half_rows q = half_rows_of(a, &p, steps, a->qkv, 3, 0),
                           k = half_rows_of(a, &p, steps, a->qkv, 3, 1),
                           v = half_rows_of(a, &p, steps, a->qkv, 3, 2);
    const uint32_t block_end = (p.block + 1) * BLOCK_ROWS,
                   end = block_end < a->tokens ? block_end : a->tokens;
    const uint32_t first = p.block * BLOCK_ROWS + warp_index() * WARP_ROWS, row = first + lane_index() / 4;
    const float scale = a->scale * LOG2_E;
    struct half_state state = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
    struct warp_rows queries;
    float out[2 * STEPS_MAX][4], score[2 * PAIRS_MAX][4];
    half_fetch_both(&k, &v, 0, tile_rows, steps, tiles);
    half_load_rows(&q, first, steps, &queries);
    half_set_zero(out, 2 * steps);
    for (uint32_t tile = 0; tile * tile_rows < end; tile++) {
        const uint32_t key = tile * tile_rows;
        const unsigned at = tile % 2 * tile_rows * 2 * steps;
        copies_wait();
        block_barrier(); // the tile is whole, and no thread reads the one before it any more
        if (key + tile_rows < end)
            half_fetch_both(&k, &v, tile + 1, tile_rows, steps, tiles);
        if (key < first + WARP_ROWS && first < a->tokens) {
            half_multiply_rows(&queries, tiles->a + at, 0, tile_rows / 16, steps, score);
            if (key + tile_rows > first + 1)
                half_mask(score, tile_rows / 16, first, key, 0);
            half_softmax(score, tile_rows / 16, scale, steps, &state, out);
            half_multiply_tile(score, tiles->b + at, 0, tile_rows / 16, steps, out);
        }
    }
    uint16_t *const to = a->to + (half_rows_of(a, &p, steps, a->to, 1, 0).first - a->to);
    const float upper = quad_total(state.sum[0]), lower = quad_total(state.sum[1]);
    half_write_rows(out, steps, 1.0f / upper, 1.0f / lower, to, k.stride / 3, first, a->tokens);
    float *const log_sum = a->to_sums + (size_t)p.of_head * a->tokens;
    if (lane_index() % 4 == 0 && row < a->tokens)
        log_sum[row] = state.max[0] * scale / LOG2_E + logf(upper);
    if (lane_index() % 4 == 0 && row + 8 < a->tokens)
        log_sum[row + 8] = state.max[1] * scale / LOG2_E + logf(lower);
}

#define FORWARD_KERNEL(width, tile_rows, keys_pairs, queries_pairs, KIND)                                    \
    KIND(attention_bf16_kernel_##width, struct half_args, a)                                                 \
    {                                                                                                        \
        SHARED(float4, k_tiles, 2 * tile_rows * width / 8);                                                  \
        SHARED(float4, v_tiles, 2 * tile_rows * width / 8);                                                  \
        const struct half_tiles tiles = {k_tiles, v_tiles, NULL, NULL};                                      \
        half_attend(&a, &tiles, tile_rows, width / 16);                                                      \
    }
EACH_WIDTH(FORWARD_KERNEL)

// --- backward ---

#define BACK_LANES 8u // that share a row of a head

// back: for each query and head the product of out and its gradient.
KERNEL(attention_bf16_back_kernel, struct half_args, a)
{
    const size_t at = ((size_t)block_index() * THREADS + thread_index()) / BACK_LANES;
    const unsigned lane = thread_index() % BACK_LANES;
    const size_t rows = (size_t)a.sequences * a.tokens;
    float sum = 0.0f;
    for (unsigned chunk = lane; at < rows * a.heads && chunk < a.width / 8; chunk += BACK_LANES) {
        uint32_t out[4], grad[4];
        pairs_load_4(a.out + at * a.width + 8 * chunk, out);
        pairs_load_4(a.grad + at * a.width + 8 * chunk, grad);
        for (unsigned i = 0; i < 4; i++) {
            sum = fmaf(float_of(out[i] << 16), float_of(grad[i] << 16), sum);
            sum = fmaf(float_of(out[i] & 0xffff0000u), float_of(grad[i] & 0xffff0000u), sum);
        }
    }
    for (unsigned distance = BACK_LANES / 2; distance > 0; distance /= 2)
        sum += warp_xor_f32(sum, distance);
    if (lane == 0 && at < rows * a.heads) {
        const size_t head = at % a.heads, row = at / a.heads;
        a.to_sums[(row / a.tokens * a.heads + head) * a.tokens + row % a.tokens] = sum;
    }
}

// A score becomes an attention weight (share), exp(score - level); the gradient of a share becomes that of
// its score.
INLINE void half_shares(float *score, float *slope, float scale, float level, float offset)
{
    *score = fast_exp2(fmaf(*score, scale, -level * LOG2_E));
    *slope = *score * (*slope - offset);
}

// The warp's queries and the gradients of their outputs, with log_sum and back.
struct half_queries {
    struct warp_rows q, grad;
    float level[2], offset[2];
    uint32_t first;
};

// Adds to the gradient of the warp's queries what a part of 16 * pairs keys contributes.
INLINE void half_back_to_queries(struct half_queries *w, const float4 *k, const float4 *v, unsigned part,
                                 uint32_t key, unsigned pairs, unsigned steps, float scale, float grad_q[][4])
{
    float score[2 * PAIRS_MAX][4], slope[2 * PAIRS_MAX][4];
    half_multiply_rows(&w->q, k, part, pairs, steps, score);
    half_multiply_rows(&w->grad, v, part, pairs, steps, slope);
    if (key + 16 * pairs > w->first + 1)
        half_mask(score, pairs, w->first, key, 0);
    UNROLL
    for (unsigned n = 0; n < 2 * pairs; n++) {
        UNROLL
        for (unsigned i = 0; i < 4; i++)
            half_shares(&score[n][i], &slope[n][i], scale, w->level[i / 2], w->offset[i / 2]);
    }
    half_multiply_tile(slope, k, part, pairs, steps, grad_q);
}

// The gradient of a block of q.
INLINE void half_attend_queries(const struct half_args *a, const struct half_tiles *tiles, unsigned tile_rows,
                                unsigned pairs, unsigned steps)
{
    const struct half_place p = half_place_of(a, steps, 0);
    const struct half_rows q = half_rows_of(a, &p, steps, a->qkv, 3, 0),
                           k = half_rows_of(a, &p, steps, a->qkv, 3, 1),
                           v = half_rows_of(a, &p, steps, a->qkv, 3, 2),
                           grad = half_rows_of(a, &p, steps, a->grad, 1, 0);
    const uint32_t block_end = (p.block + 1) * BLOCK_ROWS,
                   end = block_end < a->tokens ? block_end : a->tokens;
    const size_t of_head = (size_t)p.of_head * a->tokens;
    struct half_queries w;
    float grad_q[2 * STEPS_MAX][4];
    half_fetch_both(&k, &v, 0, tile_rows, steps, tiles);
    w.first = p.block * BLOCK_ROWS + warp_index() * WARP_ROWS;
    half_load_rows(&q, w.first, steps, &w.q);
    half_load_rows(&grad, w.first, steps, &w.grad);
    half_set_zero(grad_q, 2 * steps);
    UNROLL
    for (unsigned half = 0; half < 2; half++) {
        const uint32_t row = w.first + lane_index() / 4 + 8 * half;
        w.level[half] = row < a->tokens ? a->log_sum[of_head + row] : 0.0f;
        w.offset[half] = row < a->tokens ? a->back[of_head + row] : 0.0f;
    }
    for (uint32_t tile = 0; tile * tile_rows < end; tile++) {
        const unsigned at = tile % 2 * tile_rows * 2 * steps;
        copies_wait();
        block_barrier(); // the tile is whole, and no thread reads the one before it any more
        if ((tile + 1) * tile_rows < end)
            half_fetch_both(&k, &v, tile + 1, tile_rows, steps, tiles);
        UNROLL
        for (unsigned part = 0; part < tile_rows; part += 16 * pairs) {
            const uint32_t key = tile * tile_rows + part;
            if (key < w.first + WARP_ROWS && w.first < a->tokens) {
                half_back_to_queries(&w, tiles->a + at, tiles->b + at, part, key, pairs, steps,
                                     a->scale * LOG2_E, grad_q);
            }
        }
    }
    uint16_t *const to = a->to + (k.first - a->qkv) - k.stride / 3; // the place of q in grad_qkv
    half_write_rows(grad_q, steps, a->scale, a->scale, to, k.stride, w.first, a->tokens);
}

// The warp's keys and values, and their gradients.
struct half_keys {
    struct warp_rows k, v;
    float grad_k[2 * STEPS_MAX][4], grad_v[2 * STEPS_MAX][4];
    uint32_t first;
};

// Adds to the gradients of the warp's keys and values what a part of 16 * pairs queries contributes.
INLINE void half_back_to_keys(struct half_keys *w, const struct half_tiles *tile, unsigned part,
                              uint32_t query, unsigned pairs, unsigned steps, float scale)
{
    float score[2 * PAIRS_MAX][4], slope[2 * PAIRS_MAX][4];
    half_multiply_rows(&w->k, tile->a, part, pairs, steps, score);
    half_multiply_rows(&w->v, tile->b, part, pairs, steps, slope);
    if (query < w->first + WARP_ROWS - 1)
        half_mask(score, pairs, w->first, query, 1);
    UNROLL
    for (unsigned n = 0; n < 2 * pairs; n++) {
        UNROLL
        for (unsigned i = 0; i < 4; i++) {
            const unsigned column = part + 8 * n + lane_index() % 4 * 2 + i % 2;
            half_shares(&score[n][i], &slope[n][i], scale, tile->level[column], tile->offset[column]);
        }
    }
    half_multiply_tile(score, tile->b, part, pairs, steps, w->grad_v);
    half_multiply_tile(slope, tile->a, part, pairs, steps, w->grad_k);
}

// Starts copying a tile of queries, the gradients of their outputs, log_sum and back. Queries after the last
// token get zeros: their shares are then 1, but the gradients of their outputs are zeros.
INLINE void half_fetch_queries(const struct half_args *a, const struct half_place *p,
                               const struct half_rows *q, const struct half_rows *grad, uint32_t tile,
                               unsigned tile_rows, unsigned steps, const struct half_tiles *to)
{
    const unsigned row = thread_index() % tile_rows, which = thread_index() / tile_rows;
    const size_t of_head = (size_t)p->of_head * a->tokens;
    const uint32_t query = tile * tile_rows + row;
    const int exists = query < a->tokens;
    half_fetch_both(q, grad, tile, tile_rows, steps, to);
    if (which < 2) {
        block_copy_4((which == 0 ? to->level : to->offset) + tile % 2 * tile_rows + row,
                     (which == 0 ? a->log_sum : a->back) + of_head + (exists ? query : 0), exists);
    }
}

// The gradients of a block of k and v.
INLINE void half_attend_keys(const struct half_args *a, const struct half_tiles *tiles, unsigned tile_rows,
                             unsigned pairs, unsigned steps)
{
    const struct half_place p = half_place_of(a, steps, 1);
    const struct half_rows q = half_rows_of(a, &p, steps, a->qkv, 3, 0),
                           k = half_rows_of(a, &p, steps, a->qkv, 3, 1),
                           v = half_rows_of(a, &p, steps, a->qkv, 3, 2),
                           grad = half_rows_of(a, &p, steps, a->grad, 1, 0);
    const uint32_t begin = p.block * BLOCK_ROWS / tile_rows;
    struct half_keys w;
    half_fetch_queries(a, &p, &q, &grad, begin, tile_rows, steps, tiles);
    w.first = p.block * BLOCK_ROWS + warp_index() * WARP_ROWS;
    half_load_rows(&k, w.first, steps, &w.k);
    half_load_rows(&v, w.first, steps, &w.v);
    half_set_zero(w.grad_k, 2 * steps);
    half_set_zero(w.grad_v, 2 * steps);
    for (uint32_t tile = begin; tile * tile_rows < a->tokens; tile++) {
        const unsigned row = tile % 2 * tile_rows, at = row * 2 * steps;
        const struct half_tiles now = {tiles->a + at, tiles->b + at, tiles->level + row, tiles->offset + row};
        copies_wait();
        block_barrier(); // the tile is whole, and no thread reads the one before it any more
        if ((tile + 1) * tile_rows < a->tokens)
            half_fetch_queries(a, &p, &q, &grad, tile + 1, tile_rows, steps, tiles);
        UNROLL
        for (unsigned part = 0; part < tile_rows; part += 16 * pairs) {
            const uint32_t query = tile * tile_rows + part;
            if (query + 16 * pairs > w.first && w.first < a->tokens)
                half_back_to_keys(&w, &now, part, query, pairs, steps, a->scale * LOG2_E);
        }
    }
    uint16_t *const to = a->to + (q.first - a->qkv) + q.stride / 3; // the place of k in grad_qkv
    half_write_rows(w.grad_k, steps, a->scale, a->scale, to, q.stride, w.first, a->tokens);
    half_write_rows(w.grad_v, steps, 1.0f, 1.0f, to + q.stride / 3, q.stride, w.first, a->tokens);
}

#define BACKWARD_KERNELS(width, tile_rows, keys_pairs, queries_pairs, KIND)                                  \
    KERNEL(attention_bf16_keys_kernel_##width, struct half_args, a)                                          \
    {                                                                                                        \
        SHARED(float4, q_tiles, 2 * tile_rows * width / 8);                                                  \
        SHARED(float4, grad_tiles, 2 * tile_rows * width / 8);                                               \
        SHARED(float, levels, 2 * tile_rows);                                                                \
        SHARED(float, offsets, 2 * tile_rows);                                                               \
        const struct half_tiles tiles = {q_tiles, grad_tiles, levels, offsets};                              \
        half_attend_keys(&a, &tiles, tile_rows, keys_pairs, width / 16);                                     \
    }                                                                                                        \
    KIND(attention_bf16_queries_kernel_##width, struct half_args, a)                                         \
    {                                                                                                        \
        SHARED(float4, k_tiles, 2 * tile_rows * width / 8);                                                  \
        SHARED(float4, v_tiles, 2 * tile_rows * width / 8);                                                  \
        const struct half_tiles tiles = {k_tiles, v_tiles, NULL, NULL};                                      \
        half_attend_queries(&a, &tiles, tile_rows, queries_pairs, width / 16);                               \
    }
EACH_WIDTH(BACKWARD_KERNELS)

// --- launches ---

int kernels_cuda_attention_bf16_takes(const struct kernels_attention *shape)
{
    switch (shape->width) {
#define WIDTH_CASE(width, tile_rows, keys_pairs, queries_pairs, KIND) case width:
        EACH_WIDTH(WIDTH_CASE)
        // offsets within a sequence, and blocks, have 32 bits
        return shape->sequences > 0 && shape->tokens > 0 && shape->heads > 0 &&
               shape->tokens <= LENGTH_MAX / 3 / shape->width / shape->heads &&
               shape->sequences <= LENGTH_MAX / BACK_LANES / shape->tokens / shape->heads;
    default:
        return 0;
    }
}

static struct half_args half_args_of(const struct kernels_attention *shape, const uint16_t *qkv)
{
    struct half_args a;
    memset(&a, 0, sizeof a);
    a.sequences = (uint32_t)shape->sequences;
    a.tokens = (uint32_t)shape->tokens;
    a.heads = (uint32_t)shape->heads;
    a.width = (uint32_t)shape->width;
    a.blocks = (a.tokens + BLOCK_ROWS - 1) / BLOCK_ROWS;
    a.scale = 1.0f / sqrtf((float)shape->width);
    a.qkv = qkv;
    return a;
}

void kernels_cuda_attention_bf16(const struct kernels_attention *shape, const uint16_t *qkv, uint16_t *out,
                                 float *log_sum)
{
    struct half_args a = half_args_of(shape, qkv);
    a.to = out;
    a.to_sums = log_sum;
    switch (shape->width) {
#define FORWARD_CASE(width, tile_rows, keys_pairs, queries_pairs, KIND)                                      \
    case width:                                                                                              \
        LAUNCH(attention_bf16_kernel_##width, a.blocks *a.sequences *a.heads, a);                            \
        break;
        EACH_WIDTH(FORWARD_CASE)
    }
}

void kernels_cuda_attention_backward_bf16(const struct kernels_attention *shape, const uint16_t *qkv,
                                          const uint16_t *out, const float *log_sum, const uint16_t *grad,
                                          float *back, uint16_t *grad_qkv)
{
    const size_t lanes = shape->sequences * shape->heads * shape->tokens * BACK_LANES;
    struct half_args a = half_args_of(shape, qkv);
    a.out = out;
    a.log_sum = log_sum;
    a.grad = grad;
    a.to_sums = back;
    LAUNCH(attention_bf16_back_kernel, (unsigned)((lanes + THREADS - 1) / THREADS), a);
    a.back = back;
    a.to = grad_qkv;
    switch (shape->width) {
#define BACKWARD_CASE(width, tile_rows, keys_pairs, queries_pairs, KIND)                                     \
    case width:                                                                                              \
        LAUNCH(attention_bf16_keys_kernel_##width, a.blocks *a.sequences *a.heads, a);                       \
        LAUNCH(attention_bf16_queries_kernel_##width, a.blocks *a.sequences *a.heads, a);                    \
        break;
        EACH_WIDTH(BACKWARD_CASE)
    }
}
