// Causal attention in tiles of SIDE queries by SIDE keys, whose scores exist in registers and shared memory
// only (Dao 2023, "FlashAttention-2"). Forward and for the gradient of q, a block has a tile of queries and
// visits the keys up to it. For the gradients of k and v, a block has a tile of keys and visits the queries
// from it on. No sum extends over blocks, so the order of sums is fixed; the price is that the scores are
// computed twice. A block computes PANEL columns of a head; wider heads need more blocks.
//
// Threads form a square of 16 by 16; each has 4 rows by 4 columns of every product of a tile. Factors are
// staged in shared memory, DEPTH terms at a time, with the numbers of a term for all 64 rows side by side.
#include "kernels/cuda/device.h"

#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"

#include <math.h>

#define SIDE  64u
#define PANEL SIDE
#define DEPTH 16u
// Floats from term to term: 64, and 4 more, so that threads that write adjacent terms have few bank
// conflicts.
#define PLACE 68u

struct attention_args {
    struct kernels_attention shape;
    uint32_t tiles, panels; // of a head
    float scale;
    const float *qkv, *out, *log_sum, *grad, *back;
    float *to, *to_log_sum; // to: out, or grad_qkv
};

// Rows of a head: `count` of them, `stride` floats apart.
struct head_rows {
    const float *first;
    size_t stride, count;
};

struct staged {    // in shared memory
    float4 *a, *b; // [DEPTH][PLACE / 4]
    float4 *tile;  // [SIDE][PLACE / 4]: terms of a second product
};

struct block_place {
    uint32_t tile, panel;
    size_t sequence, head;
};

// Blocks with the most work start first: those of the last queries or, `by_keys`, of the first keys.
DEVICE struct block_place place_of(const struct attention_args *a, int by_keys)
{
    const uint32_t per_tile = a->panels * (uint32_t)(a->shape.sequences * a->shape.heads);
    const uint32_t tile = block_index() / per_tile, rest = block_index() % per_tile;
    struct block_place p;
    p.tile = by_keys ? tile : a->tiles - 1 - tile;
    p.panel = rest % a->panels;
    p.head = rest / a->panels % a->shape.heads;
    p.sequence = rest / a->panels / a->shape.heads;
    return p;
}

// The rows of a tile, from a matrix with `stride` floats per token, at offset `at` in each.
DEVICE struct head_rows rows_of_tile(const struct attention_args *a, const struct block_place *p,
                                     uint32_t tile, const float *matrix, size_t stride, size_t at)
{
    const size_t first = (size_t)tile * SIDE, left = a->shape.tokens - first;
    struct head_rows rows;
    rows.first = matrix + (p->sequence * a->shape.tokens + first) * stride + at + p->head * a->shape.width;
    rows.stride = stride;
    rows.count = left < SIDE ? left : SIDE;
    return rows;
}

// `which`: 0 for q, 1 for k, 2 for v.
DEVICE struct head_rows rows_of_qkv(const struct attention_args *a, const struct block_place *p,
                                    uint32_t tile, size_t which)
{
    const size_t all = a->shape.heads * a->shape.width;
    return rows_of_tile(a, p, tile, a->qkv, 3 * all, which * all);
}

DEVICE struct head_rows rows_of_grad(const struct attention_args *a, const struct block_place *p,
                                     uint32_t tile)
{
    return rows_of_tile(a, p, tile, a->grad, a->shape.heads * a->shape.width, 0);
}

// The numbers first .. first + DEPTH - 1 of all rows, transposed: to[number][row].
DEVICE void stage_turned(const struct head_rows *rows, size_t first, size_t width, float4 *to)
{
    float *const at = (float *)to;
    for (unsigned e = thread_index(); e < SIDE * DEPTH; e += THREADS) {
        const unsigned number = e % DEPTH, row = e / DEPTH;
        at[number * PLACE + row] = row < rows->count && first + number < width
                                       ? rows->first[row * rows->stride + first + number]
                                       : 0.0f;
    }
}

// Rows first .. first + DEPTH - 1, of each the numbers of a panel: to[row][number].
DEVICE void stage_panel(const struct head_rows *rows, size_t first, size_t panel, size_t width, float4 *to)
{
    float *const at = (float *)to;
    for (unsigned e = thread_index(); e < SIDE * DEPTH; e += THREADS) {
        const unsigned number = e % PANEL, row = e / PANEL;
        at[row * PLACE + number] = first + row < rows->count && panel + number < width
                                       ? rows->first[(first + row) * rows->stride + panel + number]
                                       : 0.0f;
    }
}

// sum[i][j] += x[i] * y[j]
DEVICE void outer_add(float4 x, float4 y, float sum[4][4])
{
    const float rows[4] = {x.x, x.y, x.z, x.w}, columns[4] = {y.x, y.y, y.z, y.w};
    UNROLL
    for (unsigned i = 0; i < 4; i++) {
        UNROLL
        for (unsigned j = 0; j < 4; j++)
            sum[i][j] = fmaf(rows[i], columns[j], sum[i][j]);
    }
}

DEVICE void set_zero(float sum[4][4])
{
    UNROLL
    for (unsigned i = 0; i < 16; i++)
        sum[i / 4][i % 4] = 0.0f;
}

// The products of all rows of a with all rows of b.
DEVICE void multiply_rows(const struct head_rows *a, const struct head_rows *b, size_t width,
                          const struct staged *s, float product[4][4])
{
    const unsigned y = thread_index() / 16, x = thread_index() % 16;
    set_zero(product);
    for (size_t first = 0; first < width; first += DEPTH) {
        block_barrier();
        stage_turned(a, first, width, s->a);
        stage_turned(b, first, width, s->b);
        block_barrier();
        UNROLL
        for (unsigned d = 0; d < DEPTH; d++)
            outer_add(s->a[d * (PLACE / 4) + y], s->b[d * (PLACE / 4) + x], product);
    }
}

// sum[row][number] += tile[term][row] times the number in row `term` of b, over all terms. Begins with a
// barrier.
DEVICE void multiply_tile(const struct head_rows *b, size_t panel, size_t width, const struct staged *s,
                          float sum[4][4])
{
    const unsigned y = thread_index() / 16, x = thread_index() % 16;
    for (unsigned first = 0; first < SIDE && first < b->count; first += DEPTH) {
        block_barrier();
        stage_panel(b, first, panel, width, s->b);
        block_barrier();
        UNROLL
        for (unsigned d = 0; d < DEPTH; d++)
            outer_add(s->tile[(first + d) * (PLACE / 4) + y], s->b[d * (PLACE / 4) + x], sum);
    }
}

// Writes this thread's numbers into the tile, columns as terms, after all threads have read its earlier
// content.
DEVICE void keep_tile(float value[4][4], const struct staged *s)
{
    const unsigned y = thread_index() / 16, x = thread_index() % 16;
    block_barrier();
    UNROLL
    for (unsigned j = 0; j < 4; j++) {
        float4 column;
        column.x = value[0][j];
        column.y = value[1][j];
        column.z = value[2][j];
        column.w = value[3][j];
        s->tile[(4 * x + j) * (PLACE / 4) + y] = column;
    }
}

// Writes value times factor[row], for rows and numbers that exist.
DEVICE void write_panel(float value[4][4], const float factor[4], float *to, size_t stride, size_t count,
                        size_t panel, size_t width)
{
    const unsigned y = thread_index() / 16, x = thread_index() % 16;
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned j = 0; j < 4; j++)
            if (4 * y + i < count && panel + 4 * x + j < width)
                to[(4 * y + i) * stride + panel + 4 * x + j] = value[i][j] * factor[i];
    }
}

#define STAGED(name)                                                                                         \
    SHARED(float4, name##_a, DEPTH *(PLACE / 4));                                                            \
    SHARED(float4, name##_b, DEPTH *(PLACE / 4));                                                            \
    SHARED(float4, name##_tile, SIDE *(PLACE / 4));                                                          \
    const struct staged name = {name##_a, name##_b, name##_tile}

// --- forward ---

struct row_state { // of the four rows of a thread: the largest score so far, the sum of exponentials
    float max[4], sum[4];
};

// The largest value of the 16 threads that share a row.
DEVICE float row_max(float value)
{
    for (unsigned distance = 8; distance > 0; distance /= 2) {
        const float other = warp_xor_f32(value, distance);
        value = other > value ? other : value;
    }
    return value;
}

DEVICE float row_total(float value)
{
    for (unsigned distance = 8; distance > 0; distance /= 2)
        value += warp_xor_f32(value, distance);
    return value;
}

// Scores become exponentials relative to the largest score of the row so far; earlier sums are rescaled. Keys
// after the last token count as later than every query.
DEVICE void softmax_tile(float score[4][4], float scale, size_t query, size_t key, struct row_state *state,
                         float out[4][4])
{
    for (unsigned i = 0; i < 4; i++) {
        float max = state->max[i], sum = 0.0f;
        for (unsigned j = 0; j < 4; j++) {
            score[i][j] = key + j <= query + i ? score[i][j] * scale : -INFINITY;
            max = score[i][j] > max ? score[i][j] : max;
        }
        max = row_max(max);
        for (unsigned j = 0; j < 4; j++) {
            score[i][j] = expf(score[i][j] - max);
            sum += score[i][j];
        }
        const float before = expf(state->max[i] - max);
        state->sum[i] = state->sum[i] * before + row_total(sum);
        state->max[i] = max;
        for (unsigned j = 0; j < 4; j++)
            out[i][j] *= before;
    }
}

KERNEL(attention_kernel, struct attention_args, a)
{
    STAGED(s);
    const struct block_place p = place_of(&a, 0);
    const unsigned y = thread_index() / 16, x = thread_index() % 16;
    const size_t width = a.shape.width, tokens = a.shape.tokens, all = a.shape.heads * width;
    const size_t query = (size_t)p.tile * SIDE + 4 * y, panel = (size_t)p.panel * PANEL;
    const struct head_rows q = rows_of_qkv(&a, &p, p.tile, 0);
    struct row_state state;
    float score[4][4], out[4][4], share[4];
    set_zero(out);
    for (unsigned i = 0; i < 4; i++) {
        state.max[i] = -INFINITY;
        state.sum[i] = 0.0f;
    }
    for (uint32_t tile = 0; tile <= p.tile; tile++) {
        const struct head_rows k = rows_of_qkv(&a, &p, tile, 1), v = rows_of_qkv(&a, &p, tile, 2);
        multiply_rows(&q, &k, width, &s, score);
        softmax_tile(score, a.scale, query, (size_t)tile * SIDE + 4 * x, &state, out);
        keep_tile(score, &s);
        multiply_tile(&v, panel, width, &s, out);
    }
    for (unsigned i = 0; i < 4; i++) {
        share[i] = 1.0f / state.sum[i];
        if (x == 0 && p.panel == 0 && query + i < tokens) {
            a.to_log_sum[(p.sequence * a.shape.heads + p.head) * tokens + query + i] =
                state.max[i] + logf(state.sum[i]);
        }
    }
    const size_t first = (p.sequence * tokens + (size_t)p.tile * SIDE) * all + p.head * width;
    write_panel(out, share, a.to + first, all, q.count, panel, width);
}

// --- backward ---

// back: for each query and head the product of out and its gradient, computed by one warp.
KERNEL(attention_back_kernel, struct attention_args, a)
{
    const size_t at = (size_t)block_index() * WARPS + warp_index(), tokens = a.shape.tokens;
    const size_t token = at % tokens, head = at / tokens % a.shape.heads;
    const size_t sequence = at / tokens / a.shape.heads;
    const size_t first = ((sequence * tokens + token) * a.shape.heads + head) * a.shape.width;
    float sum = 0.0f;
    if (sequence >= a.shape.sequences)
        return; // the whole warp
    for (size_t w = lane_index(); w < a.shape.width; w += WARP)
        sum += a.out[first + w] * a.grad[first + w];
    sum = warp_sum_f32(sum);
    if (lane_index() == 0)
        a.to[at] = sum;
}

// The attention weights (shares) of keys in queries, and the gradients of the scores: share * (grad - back).
struct shares {
    float share[4][4], grad[4][4];
};

// Computes both in place, from scores and gradients of shares. Rows are keys if `turned`, else queries.
DEVICE void gradient_of_scores(const struct attention_args *a, const struct block_place *p, size_t row,
                               size_t column, int turned, struct shares *s)
{
    const size_t tokens = a->shape.tokens, of_head = (p->sequence * a->shape.heads + p->head) * tokens;
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned j = 0; j < 4; j++) {
            const size_t query = turned ? column + j : row + i, key = turned ? row + i : column + j;
            const int seen = key <= query && query < tokens;
            const float level = seen ? a->log_sum[of_head + query] : 0.0f;
            const float back = seen ? a->back[of_head + query] : 0.0f;
            s->share[i][j] = seen ? expf(s->share[i][j] * a->scale - level) : 0.0f;
            s->grad[i][j] = seen ? s->share[i][j] * (s->grad[i][j] - back) : 0.0f;
        }
    }
}

// The gradients of a tile of k and v.
KERNEL(attention_keys_kernel, struct attention_args, a)
{
    STAGED(s);
    const struct block_place p = place_of(&a, 1);
    const unsigned y = thread_index() / 16, x = thread_index() % 16;
    const size_t width = a.shape.width, all = a.shape.heads * width, panel = (size_t)p.panel * PANEL;
    const struct head_rows k = rows_of_qkv(&a, &p, p.tile, 1), v = rows_of_qkv(&a, &p, p.tile, 2);
    const float scale[4] = {a.scale, a.scale, a.scale, a.scale}, one[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    struct shares shares;
    float grad_k[4][4], grad_v[4][4];
    set_zero(grad_k);
    set_zero(grad_v);
    for (uint32_t tile = p.tile; tile < a.tiles; tile++) {
        const struct head_rows q = rows_of_qkv(&a, &p, tile, 0), grad = rows_of_grad(&a, &p, tile);
        multiply_rows(&k, &q, width, &s, shares.share);
        multiply_rows(&v, &grad, width, &s, shares.grad);
        gradient_of_scores(&a, &p, (size_t)p.tile * SIDE + 4 * y, (size_t)tile * SIDE + 4 * x, 1, &shares);
        keep_tile(shares.share, &s);
        multiply_tile(&grad, panel, width, &s, grad_v);
        keep_tile(shares.grad, &s);
        multiply_tile(&q, panel, width, &s, grad_k);
    }
    const size_t first = (p.sequence * a.shape.tokens + (size_t)p.tile * SIDE) * 3 * all + p.head * width;
    write_panel(grad_k, scale, a.to + first + all, 3 * all, k.count, panel, width);
    write_panel(grad_v, one, a.to + first + 2 * all, 3 * all, k.count, panel, width);
}

// The gradient of a tile of q.
KERNEL(attention_queries_kernel, struct attention_args, a)
{
    STAGED(s);
    const struct block_place p = place_of(&a, 0);
    const unsigned y = thread_index() / 16, x = thread_index() % 16;
    const size_t width = a.shape.width, all = a.shape.heads * width, panel = (size_t)p.panel * PANEL;
    const struct head_rows q = rows_of_qkv(&a, &p, p.tile, 0), grad = rows_of_grad(&a, &p, p.tile);
    const float scale[4] = {a.scale, a.scale, a.scale, a.scale};
    struct shares shares;
    float grad_q[4][4];
    set_zero(grad_q);
    for (uint32_t tile = 0; tile <= p.tile; tile++) {
        const struct head_rows k = rows_of_qkv(&a, &p, tile, 1), v = rows_of_qkv(&a, &p, tile, 2);
        multiply_rows(&q, &k, width, &s, shares.share);
        multiply_rows(&grad, &v, width, &s, shares.grad);
        gradient_of_scores(&a, &p, (size_t)p.tile * SIDE + 4 * y, (size_t)tile * SIDE + 4 * x, 0, &shares);
        keep_tile(shares.grad, &s);
        multiply_tile(&k, panel, width, &s, grad_q);
    }
    const size_t first = (p.sequence * a.shape.tokens + (size_t)p.tile * SIDE) * 3 * all + p.head * width;
    write_panel(grad_q, scale, a.to + first, 3 * all, q.count, panel, width);
}

// --- launches ---

static struct attention_args attention_args_of(const struct kernels_attention *shape, const float *qkv)
{
    struct attention_args a;
    memset(&a, 0, sizeof a);
    a.shape = *shape;
    a.tiles = (uint32_t)((shape->tokens + SIDE - 1) / SIDE);
    a.panels = (uint32_t)((shape->width + PANEL - 1) / PANEL);
    a.scale = 1.0f / sqrtf((float)shape->width);
    a.qkv = qkv;
    return a;
}

static unsigned attention_blocks(const struct attention_args *a)
{
    return a->tiles * a->panels * (unsigned)(a->shape.sequences * a->shape.heads);
}

void kernels_cuda_attention(const struct kernels_attention *shape, const float *qkv, float *out,
                            float *log_sum)
{
    struct attention_args a = attention_args_of(shape, qkv);
    a.to = out;
    a.to_log_sum = log_sum;
    LAUNCH(attention_kernel, attention_blocks(&a), a);
}

void kernels_cuda_attention_backward(const struct kernels_attention *shape, const float *qkv,
                                     const float *out, const float *log_sum, const float *grad, float *back,
                                     float *grad_qkv)
{
    const size_t rows = shape->sequences * shape->heads * shape->tokens;
    struct attention_args a = attention_args_of(shape, qkv);
    a.out = out;
    a.log_sum = log_sum;
    a.grad = grad;
    a.to = back;
    LAUNCH(attention_back_kernel, (unsigned)((rows + WARPS - 1) / WARPS), a);
    a.back = back;
    a.to = grad_qkv;
    LAUNCH(attention_keys_kernel, attention_blocks(&a), a);
    LAUNCH(attention_queries_kernel, attention_blocks(&a), a);
}
