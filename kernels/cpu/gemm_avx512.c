// Matrix products whose right factor fits the second cache, as in training with small batches, without
// packing: OpenBLAS copies both factors into panels and clears C first, which at 64 rows is a fifth of its
// time. Here a tile of C, up to 14 rows by two registers, stays in registers while A is broadcast and B read
// where it lies.
#include "kernels/cpu/cpu.h"

#include <immintrin.h>

#define TILE_ROWS    14u // with TILE_VECTORS: 28 accumulators, two of B, one of A: 31 of the 32 registers
#define TILE_VECTORS 2u
#define TILE_COLUMNS (16u * TILE_VECTORS)
#define MOST_FACTOR  (1u << 18) // elements of A and of B: 1 MiB each; beyond, packing pays
#define FEW_TERMS    (1u << 20) // m*n*k below which threads of BLAS gain nothing

// The tile must become straight code, or its sums live in memory.
#if !defined(__clang__)
#define UNROLL _Pragma("GCC unroll 14")
#elif __has_feature(address_sanitizer) // clang 14 does not come to an end of instrumenting straight code
#define UNROLL
#else
#define UNROLL _Pragma("clang loop unroll(full)")
#endif

struct product {
    size_t m, n, k;
    float alpha, beta;
    const float *a, *b;
    float *c;
    size_t stride_a; // between rows of A as it is stored
};

static inline __attribute__((always_inline)) void store(float *c, __mmask16 mask, __m512 sum, __m512 alpha,
                                                        float beta)
{
    __m512 value = _mm512_mul_ps(alpha, sum);
    if (beta != 0.0f) { // with 0, what lies in C is not looked at
        value = _mm512_fmadd_ps(_mm512_set1_ps(beta), _mm512_maskz_loadu_ps(mask, c), value);
    }
    _mm512_mask_storeu_ps(c, mask, value);
}

// C[i .. i+rows)[j .. j+TILE_COLUMNS) with rows and transpose_a constant wherever this is inlined; columns
// under the masks.
static inline __attribute__((always_inline)) void tile(const struct product *p, bool transpose_a, size_t rows,
                                                       size_t i, size_t j, const __mmask16 *mask)
{
    const size_t term_stride = transpose_a ? p->stride_a : 1;
    const size_t row_stride = transpose_a ? 1 : p->stride_a;
    const float *a = p->a + i * row_stride, *b = p->b + j;
    __m512 sum[TILE_ROWS][TILE_VECTORS];
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t v = 0; v < TILE_VECTORS; v++) {
            sum[r][v] = _mm512_setzero_ps();
        }
    }
    for (size_t l = 0; l < p->k; l++) {
        __m512 row[TILE_VECTORS];
        UNROLL
        for (size_t v = 0; v < TILE_VECTORS; v++) {
            row[v] = _mm512_maskz_loadu_ps(mask[v], b + 16 * v);
        }
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            const __m512 factor = _mm512_set1_ps(a[r * row_stride]);
            UNROLL
            for (size_t v = 0; v < TILE_VECTORS; v++) {
                sum[r][v] = _mm512_fmadd_ps(factor, row[v], sum[r][v]);
            }
        }
        a += term_stride;
        b += p->n;
    }
    const __m512 alpha = _mm512_set1_ps(p->alpha);
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t v = 0; v < TILE_VECTORS; v++) {
            store(p->c + (i + r) * p->n + j + 16 * v, mask[v], sum[r][v], alpha, p->beta);
        }
    }
}

#define TILE_CASE(rows)                                                                                      \
    case rows:                                                                                               \
        tile(p, transpose_a, rows, i, j, mask);                                                              \
        break

static inline __attribute__((always_inline)) void tile_any(const struct product *p, bool transpose_a,
                                                           size_t rows, size_t i, size_t j)
{
    __mmask16 mask[TILE_VECTORS];
    for (size_t v = 0; v < TILE_VECTORS; v++) {
        const size_t left = p->n > j + 16 * v ? p->n - j - 16 * v : 0;
        mask[v] = (__mmask16)(left < 16 ? (1u << left) - 1u : 0xffffu);
    }
    switch (rows) {
        TILE_CASE(1);
        TILE_CASE(2);
        TILE_CASE(3);
        TILE_CASE(4);
        TILE_CASE(5);
        TILE_CASE(6);
        TILE_CASE(7);
        TILE_CASE(8);
        TILE_CASE(9);
        TILE_CASE(10);
        TILE_CASE(11);
        TILE_CASE(12);
        TILE_CASE(13);
        TILE_CASE(14);
    }
}

// Rows are shared out evenly: 64 are 13 + 13 + 13 + 13 + 12, not four times 14 and 8.
static inline __attribute__((always_inline)) void all_tiles(const struct product *p, bool transpose_a)
{
    const size_t blocks = (p->m + TILE_ROWS - 1) / TILE_ROWS;
    for (size_t j = 0; j < p->n; j += TILE_COLUMNS) {
        size_t i = 0;
        for (size_t block = 0; block < blocks; block++) {
            const size_t rows = (p->m - i + blocks - block - 1) / (blocks - block);
            tile_any(p, transpose_a, rows, i, j);
            i += rows;
        }
    }
}

static void plain(const struct product *p)
{
    all_tiles(p, false);
}

static void transposed(const struct product *p)
{
    all_tiles(p, true);
}

static bool suits(bool transpose_b, size_t m, size_t n, size_t k)
{
    if (transpose_b || n < 16 || k == 0 || k > MOST_FACTOR / n || m > MOST_FACTOR / k) {
        return false;
    }
    return kernels_cpu_threads() == 1 || m <= FEW_TERMS / (n * k);
}

void kernels_cpu_gemm_avx512(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha,
                             const float *a, const float *b, float beta, float *c)
{
    if (!suits(transpose_b, m, n, k)) {
        kernels_cpu_gemm(transpose_a, transpose_b, m, n, k, alpha, a, b, beta, c);
        return;
    }
    const struct product p = {.m = m,
                              .n = n,
                              .k = k,
                              .alpha = alpha,
                              .beta = beta,
                              .a = a,
                              .b = b,
                              .c = c,
                              .stride_a = transpose_a ? m : k};
    if (transpose_a) {
        transposed(&p);
    } else {
        plain(&p);
    }
}

#define GIVEN (16u * 1024u) // elements that are handed out at once, or a tile of whole rows

bool kernels_cpu_in_pieces_avx512(size_t m, size_t n, size_t k)
{
    return kernels_cpu_is_one_piece(m, n, k) ||
           (kernels_cpu_threads() == 1 && suits(false, m, n, k) && kernels_cpu_is_one_piece(TILE_ROWS, n, k));
}

// Some rows of C at a time: columns [i, i + rows) of A as it is stored.
void kernels_cpu_pieces_avx512(size_t m, size_t n, size_t k, const float *a, const float *b,
                               const struct kernels_taker *taker)
{
    _Alignas(64) float c[KERNELS_CPU_PIECE];
    if (!suits(false, m, n, k) || !kernels_cpu_is_one_piece(TILE_ROWS, n, k)) {
        kernels_cpu_one_piece(kernels_cpu_gemm_avx512, m, n, k, a, b, taker);
        return;
    }
    const size_t most = GIVEN / n < TILE_ROWS ? TILE_ROWS : GIVEN / n / TILE_ROWS * TILE_ROWS;
    for (size_t i = 0; i < m; i += most) {
        const size_t rows = m - i < most ? m - i : most;
        const struct product p = {
            .m = rows, .n = n, .k = k, .alpha = 1.0f, .a = a + i, .b = b, .c = c, .stride_a = m};
        transposed(&p);
        taker->take(taker->owner, i * n, rows * n, c);
    }
}
