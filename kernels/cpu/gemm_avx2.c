// Weights' gradients, C = A^T B with few terms (the examples of a batch), for processors with AVX2 and FMA.
// OpenBLAS packs A whole, clears C in a pass of its own and writes it in blocks of both dimensions. Here the
// rows of B are packed, a panel of columns at a time, into strips of 16 columns that lie in one piece; a tile
// of C, 6 rows by 16 columns, stays in registers; and C is written in long runs of whole rows, past the
// caches where it is far larger than they are. In pieces, a block of rows is made at one place over and over,
// and handed out from there.
//
// Which products come here depends on shapes alone, so that a machine gives the same bits in every run.
#include "kernels/cpu/cpu.h"

#include <immintrin.h>
#include <string.h>

#define TILE_ROWS    6u // with two vectors: 12 accumulators, two of B, one of A: 15 of the 16 registers
#define TILE_COLUMNS 16u
#define TERMS_MAX    128u                 // with more, OpenBLAS is as fast
#define PANEL        (48u * 1024u)        // elements of B that are packed: 192 KiB of the second cache
#define STREAMED     (8u * 1024u * 1024u) // bytes of C from which on it is written past the caches
#define FEW_TERMS    (1u << 20)           // m*n*k below which threads of BLAS gain nothing
#define GIVEN        (5u * 1024u)         // elements of a row that are handed out at once, at most

// The tile must become straight code, or its sums live in memory.
#if !defined(__clang__)
#define UNROLL _Pragma("GCC unroll 6")
#elif __has_feature(address_sanitizer) // clang 14 does not come to an end of instrumenting straight code
#define UNROLL
#else
#define UNROLL _Pragma("clang loop unroll(full)")
#endif
#define INLINE static inline __attribute__((always_inline))

struct product {
    size_t m, n, k;
    float alpha, beta;
    const float *a, *b;                // [k, m], [k, n]
    float *c;                          // [m, n]; in pieces a block of its rows
    const struct kernels_taker *taker; // in pieces, else NULL
};

// Columns [first, first + columns) of B that are packed: [strips, k, TILE_COLUMNS].
struct panel {
    size_t first, columns;
    const float *strips;
};

// Zeros where a strip has no column. Row by row: a strip alone would take 64 bytes of each page.
static void pack_b(const struct product *p, size_t first, size_t columns, float *strips)
{
    const float *b = p->b + first;
    for (size_t l = 0; l < p->k; l++, b += p->n, strips += TILE_COLUMNS) {
        float *strip = strips;
        size_t at = 0;
        for (; at + TILE_COLUMNS <= columns; at += TILE_COLUMNS, strip += p->k * TILE_COLUMNS) {
            _mm256_store_ps(strip, _mm256_loadu_ps(b + at));
            _mm256_store_ps(strip + 8, _mm256_loadu_ps(b + at + 8));
        }
        if (at < columns) {
            memset(strip, 0, TILE_COLUMNS * sizeof *strip);
            memcpy(strip, b + at, (columns - at) * sizeof *strip);
        }
    }
}

INLINE void store(float *c, __m256 sum, __m256 alpha, float beta, bool streams)
{
    __m256 value = _mm256_mul_ps(alpha, sum);
    if (beta != 0.0f) { // with 0, what lies in C is not looked at
        value = _mm256_fmadd_ps(_mm256_set1_ps(beta), _mm256_loadu_ps(c), value);
    }
    if (streams) {
        _mm256_stream_ps(c, value);
    } else {
        _mm256_storeu_ps(c, value);
    }
}

// The rows of C from `c` on, `stride` apart. a: [k, rows].
INLINE void tile(const struct product *p, size_t rows, const float *a, const float *strip, float *c,
                 size_t stride, bool streams)
{
    __m256 sum[TILE_ROWS][2];
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        sum[r][0] = sum[r][1] = _mm256_setzero_ps();
    }
    for (size_t l = 0; l < p->k; l++, a += rows, strip += TILE_COLUMNS) {
        const __m256 left = _mm256_load_ps(strip), right = _mm256_load_ps(strip + 8);
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            const __m256 factor = _mm256_broadcast_ss(a + r);
            sum[r][0] = _mm256_fmadd_ps(factor, left, sum[r][0]);
            sum[r][1] = _mm256_fmadd_ps(factor, right, sum[r][1]);
        }
    }
    const __m256 alpha = _mm256_set1_ps(p->alpha);
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        store(c + r * stride, sum[r][0], alpha, p->beta, streams);
        store(c + r * stride + 8, sum[r][1], alpha, p->beta, streams);
    }
}

// At the right edge the tile is made beside C.
INLINE void tile_edge(const struct product *p, size_t rows, const float *a, const float *strip, float *c,
                      size_t stride, size_t columns)
{
    float beside[TILE_ROWS * TILE_COLUMNS] = {0};
    for (size_t r = 0; r < rows && p->beta != 0.0f; r++) {
        memcpy(beside + r * TILE_COLUMNS, c + r * stride, columns * sizeof *c);
    }
    tile(p, rows, a, strip, beside, TILE_COLUMNS, false);
    for (size_t r = 0; r < rows; r++) {
        memcpy(c + r * stride, beside + r * TILE_COLUMNS, columns * sizeof *c);
    }
}

// What the taker will read beside a tile comes from memory while the tile is made.
INLINE void ask_ahead(const struct product *p, size_t rows, size_t at)
{
    for (size_t v = 0; v < KERNELS_BESIDE && p->taker->beside[v] != NULL; v++) {
        for (size_t r = 0; r < rows; r++) {
            __builtin_prefetch(p->taker->beside[v] + at + r * p->n, 0, 2);
        }
    }
}

static void give(const struct product *p, size_t rows, size_t i, const struct panel *panel)
{
    const size_t columns = panel->columns, together = columns == p->n ? rows : 1;
    for (size_t r = 0; r < rows; r += together) {
        p->taker->take(p->taker->owner, (i + r) * p->n + panel->first, together * columns,
                       p->c + r * columns);
    }
}

// Rows [i, i + rows) of C. The terms of A lie a power of two apart all too often, in few sets of the first
// cache: they are brought together.
INLINE void block(const struct product *p, bool streams, size_t rows, size_t i, const struct panel *panel)
{
    float a[TILE_ROWS * TERMS_MAX];
    const float *strip = panel->strips;
    const size_t stride = p->taker != NULL ? panel->columns : p->n;
    float *c = p->taker != NULL ? p->c : p->c + i * p->n + panel->first;
    for (size_t l = 0; l < p->k; l++) {
        for (size_t r = 0; r < rows; r++) {
            a[l * rows + r] = p->a[l * p->m + i + r];
        }
    }
    for (size_t j = 0; j < panel->columns; j += TILE_COLUMNS, strip += p->k * TILE_COLUMNS) {
        if (p->taker != NULL) {
            ask_ahead(p, rows, i * p->n + panel->first + j);
        }
        if (panel->columns - j < TILE_COLUMNS) {
            tile_edge(p, rows, a, strip, c + j, stride, panel->columns - j);
        } else {
            tile(p, rows, a, strip, c + j, stride, streams);
        }
    }
    if (p->taker != NULL) {
        give(p, rows, i, panel);
    }
}

#define BLOCK_CASE(rows)                                                                                     \
    case rows:                                                                                               \
        block(p, streams, rows, i, panel);                                                                   \
        break

// Rows are shared out evenly: 64 are nine times 6 and two times 5.
INLINE void all_blocks(const struct product *p, bool streams, const struct panel *panel)
{
    const size_t blocks = (p->m + TILE_ROWS - 1) / TILE_ROWS;
    size_t i = 0;
    for (size_t at = 0; at < blocks; at++) {
        const size_t rows = (p->m - i + blocks - at - 1) / (blocks - at);
        switch (rows) {
            BLOCK_CASE(1);
            BLOCK_CASE(2);
            BLOCK_CASE(3);
            BLOCK_CASE(4);
            BLOCK_CASE(5);
            BLOCK_CASE(6);
        }
        i += rows;
    }
}

static void cached(const struct product *p, const struct panel *panel)
{
    all_blocks(p, false, panel);
}

static void streamed(const struct product *p, const struct panel *panel)
{
    all_blocks(p, true, panel);
    _mm_sfence();
}

static bool streams(const struct product *p)
{
    return p->taker == NULL && p->beta == 0.0f && p->n % TILE_COLUMNS == 0 && (uintptr_t)p->c % 32 == 0 &&
           p->m > STREAMED / sizeof *p->c / p->n;
}

static void multiply(const struct product *p)
{
    _Alignas(64) float strips[PANEL];
    const size_t most = PANEL / p->k / TILE_COLUMNS * TILE_COLUMNS;
    const size_t wide = p->taker != NULL && most > GIVEN ? GIVEN : most;
    for (size_t first = 0; first < p->n; first += wide) {
        const size_t columns = p->n - first < wide ? p->n - first : wide;
        const struct panel panel = {first, columns, strips};
        pack_b(p, first, columns, strips);
        if (streams(p)) {
            streamed(p, &panel);
        } else {
            cached(p, &panel);
        }
    }
}

static bool suits(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k)
{
    if (!transpose_a || transpose_b || m == 0 || n < TILE_COLUMNS || k == 0 || k > TERMS_MAX ||
        !__builtin_cpu_supports("fma")) {
        return false;
    }
    return kernels_cpu_threads() == 1 || m <= FEW_TERMS / n / k;
}

void kernels_cpu_gemm_avx2(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha,
                           const float *a, const float *b, float beta, float *c)
{
    if (!suits(transpose_a, transpose_b, m, n, k)) {
        kernels_cpu_gemm(transpose_a, transpose_b, m, n, k, alpha, a, b, beta, c);
        return;
    }
    const struct product p = {m, n, k, alpha, beta, a, b, c, NULL};
    multiply(&p);
}

// On several threads, BLAS makes large products faster than this makes pieces.
bool kernels_cpu_in_pieces_avx2(size_t m, size_t n, size_t k)
{
    return kernels_cpu_is_one_piece(m, n, k) || (kernels_cpu_threads() == 1 && suits(true, false, m, n, k));
}

void kernels_cpu_pieces_avx2(size_t m, size_t n, size_t k, const float *a, const float *b,
                             const struct kernels_taker *taker)
{
    _Alignas(64) float c[TILE_ROWS * GIVEN];
    if (!suits(true, false, m, n, k)) {
        kernels_cpu_one_piece(kernels_cpu_gemm, m, n, k, a, b, taker);
        return;
    }
    const struct product p = {m, n, k, 1.0f, 0.0f, a, b, c, taker};
    multiply(&p);
}
