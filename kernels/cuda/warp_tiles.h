// Tiles of bf16 matrices in shared memory, and products of a warp with them on tensor cores
// (attention_bf16.cu).
#ifndef KERNELS_CUDA_WARP_TILES_H
#define KERNELS_CUDA_WARP_TILES_H

#define STEPS_MAX 8u // of 16 columns, the width of a head

// The rows of a head in a matrix of bf16.
struct half_rows {
    const uint16_t *first;
    uint32_t stride, count;
};

// Two tiles of each of two matrices, and two numbers per row of the first one.
struct half_tiles {
    float4 *a, *b;         // [2][tile_rows][2 * steps] chunks of 16 bytes
    float *level, *offset; // [2][tile_rows], or NULL
};

// The first factor of products: 16 rows of 16 * steps numbers, in the order of warp_mma_bf16.
struct warp_rows {
    uint32_t step[STEPS_MAX][4];
};

// The place of a chunk of 16 bytes. Eight successive rows have the same chunk in different banks.
INLINE unsigned half_chunk_at(unsigned row, unsigned chunk, unsigned steps)
{
    const unsigned turn = steps % 4 == 0 ? row % 8 : steps % 2 == 0 ? row / 2 % 4 : row / 4 % 2;
    return row * 2 * steps + (chunk ^ turn);
}

// Starts copying rows first .. first + tile_rows - 1. Rows after the last one are zeros.
INLINE void half_fetch(const struct half_rows *rows, uint32_t first, unsigned tile_rows, unsigned steps,
                       float4 *to)
{
    const unsigned lanes = steps % 3 == 0 ? 2 * steps / 3 : 2 * steps, at_once = THREADS / lanes;
    UNROLL
    for (unsigned begin = 0; begin < tile_rows; begin += at_once) {
        const unsigned row = begin + thread_index() / lanes;
        const uint32_t last = rows->count - 1, from = first + row < last ? first + row : last;
        UNROLL
        for (unsigned left = 0; left < 2 * steps; left += lanes) {
            const unsigned chunk = left + thread_index() % lanes;
            if (tile_rows % at_once == 0 || row < tile_rows) {
                block_copy_16(&to[half_chunk_at(row, chunk, steps)],
                              rows->first + (from * rows->stride + 8 * chunk), first + row <= last);
            }
        }
    }
}

// Starts copying tile `tile` of both matrices.
INLINE void half_fetch_both(const struct half_rows *a, const struct half_rows *b, uint32_t tile,
                            unsigned tile_rows, unsigned steps, const struct half_tiles *to)
{
    const unsigned at = tile % 2 * tile_rows * 2 * steps;
    half_fetch(a, tile * tile_rows, tile_rows, steps, to->a + at);
    half_fetch(b, tile * tile_rows, tile_rows, steps, to->b + at);
}

// --- products of a warp ---

// Loads a warp's rows, from row `first` on; rows after the last one are zeros.
INLINE void half_load_rows(const struct half_rows *rows, uint32_t first, unsigned steps, struct warp_rows *to)
{
    const uint32_t row = first + lane_index() / 4;
    const uint16_t *const upper = rows->first + (row * rows->stride + lane_index() % 4 * 2),
                          *const lower = upper + 8 * rows->stride;
    UNROLL
    for (unsigned step = 0; step < steps; step++) {
        to->step[step][0] = row < rows->count ? pair_load(upper + 16 * step) : 0;
        to->step[step][1] = row + 8 < rows->count ? pair_load(lower + 16 * step) : 0;
        to->step[step][2] = row < rows->count ? pair_load(upper + 16 * step + 8) : 0;
        to->step[step][3] = row + 8 < rows->count ? pair_load(lower + 16 * step + 8) : 0;
    }
}

INLINE void half_set_zero(float sum[][4], unsigned columns)
{
    UNROLL
    for (unsigned n = 0; n < columns; n++)
        sum[n][0] = sum[n][1] = sum[n][2] = sum[n][3] = 0.0f;
}

// The products of the warp's rows with 16 * pairs rows of a tile, from row `first` on.
INLINE void half_multiply_rows(struct warp_rows *a, const float4 *tile, unsigned first, unsigned pairs,
                               unsigned steps, float product[][4])
{
    const unsigned row = first + lane_index() % 8 + lane_index() / 16 * 8, half = lane_index() / 8 % 2;
    half_set_zero(product, 2 * pairs);
    UNROLL
    for (unsigned step = 0; step < steps; step++) {
        UNROLL
        for (unsigned pair = 0; pair < pairs; pair++) {
            uint32_t b[4];
            warp_load_matrix_4(&tile[half_chunk_at(row + 16 * pair, 2 * step + half, steps)], b);
            warp_mma_bf16(product[2 * pair], a->step[step], b);
            warp_mma_bf16(product[2 * pair + 1], a->step[step], b + 2);
        }
    }
}

// sum += factor times 16 * pairs rows of a tile, from row `first` on; factor: as half_multiply_rows left it.
INLINE void half_multiply_tile(float factor[][4], const float4 *tile, unsigned first, unsigned pairs,
                               unsigned steps, float sum[][4])
{
    const unsigned row = first + lane_index() % 16, half = lane_index() / 16;
    UNROLL
    for (unsigned pair = 0; pair < pairs; pair++) {
        const float *const left = factor[2 * pair], *const right = factor[2 * pair + 1];
        const uint32_t a[4] = {pair_bf16(left[0], left[1]), pair_bf16(left[2], left[3]),
                               pair_bf16(right[0], right[1]), pair_bf16(right[2], right[3])};
        UNROLL
        for (unsigned step = 0; step < steps; step++) {
            uint32_t b[4];
            warp_load_matrix_4_transposed(&tile[half_chunk_at(row + 16 * pair, 2 * step + half, steps)], b);
            warp_mma_bf16(sum[2 * step], a, b);
            warp_mma_bf16(sum[2 * step + 1], a, b + 2);
        }
    }
}

// Scores of keys after their query become -infinity. Rows start at `row`, columns at `column`; rows are keys
// if `turned`, else queries. Keys after the last token are later than every query.
INLINE void half_mask(float score[][4], unsigned pairs, uint32_t row, uint32_t column, int turned)
{
    const uint32_t r = row + lane_index() / 4, c = column + lane_index() % 4 * 2;
    UNROLL
    for (unsigned n = 0; n < 2 * pairs; n++) {
        UNROLL
        for (unsigned i = 0; i < 4; i++) {
            const uint32_t of_row = r + i / 2 * 8, of_column = c + 8 * n + i % 2;
            if (turned ? of_row > of_column : of_column > of_row)
                score[n][i] = -INFINITY;
        }
    }
}

// Writes the sums times `upper` or `lower`, the factors of the upper and the lower rows, for the rows that
// exist; to: row 0.
INLINE void half_write_rows(float sum[][4], unsigned steps, float upper, float lower, uint16_t *to,
                            uint32_t stride, uint32_t first, uint32_t count)
{
    const uint32_t row = first + lane_index() / 4;
    uint16_t *const at = to + (row * stride + lane_index() % 4 * 2);
    UNROLL
    for (unsigned n = 0; n < 2 * steps; n++) {
        if (row < count)
            pair_store(at + 8 * n, pair_bf16(sum[n][0] * upper, sum[n][1] * upper));
        if (row + 8 < count)
            pair_store(at + 8 * stride + 8 * n, pair_bf16(sum[n][2] * lower, sum[n][3] * lower));
    }
}

// The largest value of the four lanes that share a row.
INLINE float quad_max(float value)
{
    value = fmaxf(value, warp_xor_f32(value, 1));
    return fmaxf(value, warp_xor_f32(value, 2));
}

INLINE float quad_total(float value)
{
    value += warp_xor_f32(value, 1);
    return value + warp_xor_f32(value, 2);
}

#endif
