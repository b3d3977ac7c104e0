// Embedding, GELU, residuals and dropout: element by element, except for the gradient of the embedding.
#include "kernels/cuda/device.h"

#include "kernels/cuda/elements.h"
#include "kernels/cuda/gelu.h"
#include "kernels/cuda/launch.h"

// --- embedding ---

struct embedding {
    size_t rows, width;
    uint32_t tokens;
    const uint32_t *ids;
    const float *token, *place;
    float *out;
};

KERNEL(embed_kernel, struct embedding, e)
{
    const uint32_t width = (uint32_t)e.width;
    EACH(i, e.rows * e.width)
    {
        const uint32_t row = (uint32_t)i / width, c = (uint32_t)i % width;
        e.out[i] = e.token[e.ids[row] * e.width + c] + e.place[row % e.tokens * e.width + c];
    }
}

#define EMBED_PARTS 16u

struct embedding_gradient {
    size_t rows, width, tiles; // tiles of columns
    const uint32_t *ids;
    const float *grad;
    // [rows]: the number of rows with a smaller id; of earlier rows with the same id; of all rows with it
    uint32_t *smaller, *before, *equal;
    uint32_t *order, *end; // [rows]: the rows, sorted by id; where the id ends that begins here, else 0
    float *token;
    uint32_t parts; // the blocks that share the comparisons of THREADS rows
};

// Sorts the rows by id, rows of one id in their order: each row counts the rows before it. That takes rows^2
// comparisons of integers, and no row waits for another.
KERNEL(embed_count_kernel, struct embedding_gradient, e)
{
    SHARED(uint32_t, tile, THREADS);
    const size_t row = (size_t)(block_index() / e.parts) * THREADS + thread_index();
    const uint32_t id = row < e.rows ? e.ids[row] : 0;
    uint32_t smaller = 0, before = 0, equal = 0;
    for (size_t first = (size_t)(block_index() % e.parts) * THREADS; first < e.rows;
         first += (size_t)e.parts * THREADS) {
        const size_t left = e.rows - first, count = left < THREADS ? left : THREADS;
        tile[thread_index()] = first + thread_index() < e.rows ? e.ids[first + thread_index()] : 0;
        block_barrier();
        for (size_t i = 0; i < count; i++) {
            smaller += tile[i] < id;
            equal += tile[i] == id;
            before += tile[i] == id && first + i < row;
        }
        block_barrier();
    }
    if (row < e.rows) {
        (void)atomic_add_u32(e.smaller + row, smaller);
        (void)atomic_add_u32(e.before + row, before);
        (void)atomic_add_u32(e.equal + row, equal);
    }
}

KERNEL(embed_order_kernel, struct embedding_gradient, e)
{
    EACH(row, e.rows)
    {
        const uint32_t smaller = e.smaller[row], before = e.before[row];
        e.order[smaller + before] = (uint32_t)row;
        e.end[smaller + before] = before == 0 ? smaller + e.equal[row] : 0;
    }
}

// The block of the first row of an id adds all rows of that id, in their order.
KERNEL(embed_sum_kernel, struct embedding_gradient, e)
{
    const size_t at = block_index() / e.tiles, c = block_index() % e.tiles * THREADS + thread_index();
    const size_t end = e.end[at];
    if (end == 0 || c >= e.width)
        return;
    float *token = e.token + e.ids[e.order[at]] * e.width + c;
    float sum = *token;
    for (size_t i = at; i < end; i++)
        sum += e.grad[e.order[i] * e.width + c];
    *token = sum;
}

// --- GELU ---

struct gelu {
    size_t count;
    uint32_t cols;
    const float *bias;
    float *z, *out;
};

KERNEL(bias_gelu_kernel, struct gelu, b)
{
    EACH(i, b.count)
    {
        const float z = b.z[i] + b.bias[(uint32_t)i % b.cols], share = gelu_share(z);
        b.out[i] = z * share;
        b.z[i] = gelu_slope(z, share);
    }
}

struct gelu_backward {
    size_t count;
    const float *slope;
    float *grad;
};

KERNEL(gelu_backward_kernel, struct gelu_backward, b)
{
    EACH(i, b.count)
    {
        b.grad[i] *= b.slope[i];
    }
}

struct residual {
    size_t count;
    uint32_t cols;
    const float *bias, *x;
    float *out;
};

KERNEL(residual_kernel, struct residual, r)
{
    EACH(i, r.count)
    {
        r.out[i] = r.x[i] + r.bias[(uint32_t)i % r.cols];
    }
}

// --- dropout ---

struct dropout_args {
    size_t count;
    uint64_t stream;
    uint32_t bound; // numbers below it drop
    float factor;
    const float *x;
    float *out;
};

// As in kernels/cpu/sequence_body.h: the masks of all backends are the same.
DEVICE uint32_t mix_u32(uint32_t x)
{
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    return x ^ (x >> 16);
}

KERNEL(dropout_kernel, struct dropout_args, d)
{
    const uint32_t low = mix_u32((uint32_t)d.stream), high = mix_u32((uint32_t)(d.stream >> 32) ^ low);
    EACH(i, d.count)
    {
        const uint32_t drawn = mix_u32(((uint32_t)i ^ low) + high);
        d.out[i] = float_of(bits_of(d.x[i] * d.factor) & (drawn < d.bound ? 0u : ~0u));
    }
}

// --- launches ---

void kernels_cuda_embed(size_t rows, size_t tokens, size_t width, const uint32_t *ids, const float *token,
                        const float *place, float *out)
{
    const struct embedding e = {rows, width, (uint32_t)tokens, ids, token, place, out};
    LAUNCH(embed_kernel, grid_for(rows * width), e);
}

void kernels_cuda_embed_backward(size_t rows, size_t width, const uint32_t *ids, const float *grad,
                                 uint32_t *order, float *token)
{
    const size_t tiles = (width + THREADS - 1) / THREADS, groups = (rows + THREADS - 1) / THREADS;
    const uint32_t parts = (uint32_t)(groups < EMBED_PARTS ? groups : EMBED_PARTS);
    const struct embedding_gradient e = {.rows = rows,
                                         .width = width,
                                         .tiles = tiles,
                                         .ids = ids,
                                         .grad = grad,
                                         .smaller = order,
                                         .before = order + rows,
                                         .equal = order + 2 * rows,
                                         .order = order + 3 * rows,
                                         .end = order + 4 * rows,
                                         .token = token,
                                         .parts = parts};
    LAUNCH(embed_count_kernel, (unsigned)(groups * parts), e);
    LAUNCH(embed_order_kernel, grid_for(rows), e);
    LAUNCH(embed_sum_kernel, (unsigned)(rows * tiles), e);
}

void kernels_cuda_bias_gelu(size_t rows, size_t cols, const float *bias, float *z, float *out)
{
    const struct gelu b = {rows * cols, (uint32_t)cols, bias, z, out};
    LAUNCH(bias_gelu_kernel, grid_for(b.count), b);
}

void kernels_cuda_gelu_backward(size_t count, const float *slope, float *grad)
{
    const struct gelu_backward b = {count, slope, grad};
    LAUNCH(gelu_backward_kernel, grid_for(count), b);
}

void kernels_cuda_residual(size_t rows, size_t cols, const float *bias, const float *x, float *out)
{
    const struct residual r = {rows * cols, (uint32_t)cols, bias, x, out};
    LAUNCH(residual_kernel, grid_for(r.count), r);
}

void kernels_cuda_dropout(size_t count, uint64_t stream, float part, const float *x, float *out)
{
    const uint32_t bound = (uint32_t)((double)part * 4294967296.0);
    const struct dropout_args d = {count, stream, bound, 1.0f / (1.0f - part), x, out};
    LAUNCH(dropout_kernel, grid_for(count), d);
}
