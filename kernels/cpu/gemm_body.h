// Matrix products on one thread, compiled for each instruction set by the file that includes it. That file
// names LANES, TILE_ROWS, GEMM(noun) and MM(noun), the intrinsics of its vectors, and defines INLINE, vec and
// the few operations on vec that differ by more than a name.
//
// A tile of C, TILE_ROWS by two vectors, stays in registers. Both factors are packed: A as [terms, rows of a
// tile], B in strips of the columns of a tile, [terms, columns]. The smaller of the two is packed once and
// stays in the L2 cache while the larger one passes through:
//  - over_rows: a panel of B stays; C is written in long runs, one block of rows after another;
//  - over_strips: a group of rows of A stays; each strip of B is read once, and the next one is prefetched
//    while the tiles of this one are computed.
// The transpose of a narrow C is computed: vectors along its rows would be half empty.
//
// The terms of an element are added in ascending order, in parts of at most PART_TERMS. So its bits depend
// only on the number of terms, not on the tile, the order or the piece that computes it.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/gemm_tile.h"

#include <string.h>

#define PART_TERMS 256u
#define HELD       (128u * 1024u) // elements of the factor that stays: 512 KiB of the L2 cache
#define WIDEST     1280u          // most columns of a panel whose rows go to a taker
#define GIVEN      (TILE_ROWS * WIDEST)
#define FEW_TERMS  (1u << 20)     // m*n*k below which threads in BLAS gain nothing
#define LARGE      (256u * 1024u) // elements of C: 1 MiB
#define NARROW     16u            // columns of C below which its transpose is computed
#define TURNED     512u           // rows of C whose transpose is computed at once

// Terms [first, first + count) of a product. The first part applies beta, the others add to C.
struct part {
    size_t first, count;
    float beta;
};

// Columns [first, first + count) of B, packed: strips of TILE_COLUMNS; the last one has LANES columns if that
// is enough.
struct panel {
    size_t first, count;
    const float *strips;
};

INLINE void turn_block(const float *from, size_t stride, size_t lines, size_t width, float *to, size_t wide)
{
    vec block[LANES];
    UNROLL
    for (size_t i = 0; i < LANES; i++) {
        const float *line = from + smaller(i, lines - 1) * stride;
        block[i] = width < LANES ? load_some(line, width) : load(line);
    }
    transpose(block);
    UNROLL
    for (size_t i = 0; i < LANES; i++)
        if (i < width)
            store(to + i * wide, block[i]);
}

// At most LANES lines of `count` elements, `stride` apart, become columns: element i of line l is to[i * wide
// + l]. Whole vectors are written, in which copies of the last line take the place of missing lines; with
// wide < LANES, LANES elements after the end are overwritten too.
static void turn(const float *from, size_t stride, size_t lines, size_t count, float *to, size_t wide)
{
    size_t at = 0;
    for (; at + LANES <= count; at += LANES)
        turn_block(from + at, stride, lines, LANES, to + at * wide, wide);
    if (at < count)
        turn_block(from + at, stride, lines, count - at, to + at * wide, wide);
}

// Rows [i, i + rows) of A, of the terms of a part, become [terms, rows].
static void pack_rows(const struct kernels_cpu_product *p, const struct part *part, size_t i, size_t rows,
                      float *to)
{
    if (!p->transpose_a) {
        turn(p->a + i * p->stride_a + part->first, p->stride_a, rows, part->count, to, rows);
        return;
    }
    const float *from = p->a + part->first * p->stride_a + i;
    for (size_t l = 0; l < part->count; l++, from += p->stride_a, to += rows)
        store(to, load_some(from, rows));
}

static size_t wide_for(size_t columns)
{
    return columns > LANES ? TILE_COLUMNS : LANES;
}

// Columns [j, j + columns) of B, of the terms of a part. Lanes without a column may hold anything: what is
// computed in them is not stored.
static void pack_strip(const struct kernels_cpu_product *p, const struct part *part, size_t j, size_t columns,
                       float *to)
{
    const size_t wide = wide_for(columns);
    for (size_t half = 0; half < columns; half += LANES) {
        const size_t count = smaller(LANES, columns - half);
        if (p->transpose_b) {
            turn(p->b + (j + half) * p->stride_b + part->first, p->stride_b, count, part->count, to + half,
                 wide);
            continue;
        }
        const float *from = p->b + part->first * p->stride_b + j + half;
        for (size_t l = 0; l < part->count; l++, from += p->stride_b)
            store(to + l * wide + half, count < LANES ? load_some(from, count) : load(from));
    }
}

static size_t blocks_of(size_t rows)
{
    return (rows + TILE_ROWS - 1) / TILE_ROWS;
}

// The size of the next of several even shares: 64 rows are 13 + 13 + 13 + 13 + 12.
static size_t share(size_t all, size_t shares)
{
    return (all + shares - 1) / shares;
}

static size_t parts_of(size_t k)
{
    return (k + PART_TERMS - 1) / PART_TERMS;
}

static struct part part_of(const struct kernels_cpu_product *p, size_t first, size_t left)
{
    return (struct part){first, share(p->k - first, left), first == 0 ? p->beta : 1.0f};
}

// What a taker reads beside a tile.
static struct ahead beside(const struct kernels_cpu_product *p, size_t rows, size_t columns, size_t at)
{
    if (!p->taker || !p->taker->beside[0])
        return (struct ahead){.rows = 0};
    return (struct ahead){.row = (const char *)(p->taker->beside[0] + at),
                          .bytes = columns * sizeof *p->b,
                          .stride = p->n * sizeof *p->b,
                          .rows = rows,
                          .all_rows = rows,
                          .next = p->taker->beside + 1,
                          .offset = at,
                          .more = KERNELS_BESIDE - 1,
                          .lines = 4};
}

// Computes rows [first, first + rows) of C in the columns of a panel of B, and writes them to `c`.
static void over_rows(const struct kernels_cpu_product *p, const struct part *part, const struct panel *panel,
                      size_t first, size_t rows, float *c, size_t stride)
{
    _Alignas(64) float a[TILE_ROWS * PART_TERMS + LANES];
    size_t i = 0;
    for (size_t blocks = blocks_of(rows); blocks > 0; blocks--) {
        const size_t height = share(rows - i, blocks);
        pack_rows(p, part, first + i, height, a);
        for (size_t j = 0; j < panel->count; j += TILE_COLUMNS) {
            const size_t columns = smaller(TILE_COLUMNS, panel->count - j);
            const struct factors f = {part->count, a, panel->strips + j * part->count, 0, NULL};
            const struct target to = {c + i * stride + j, stride, columns, p->alpha, part->beta};
            struct ahead ahead = beside(p, height, columns, (first + i) * p->n + panel->first + j);
            tile_packed(height, &f, &to, &ahead);
        }
        i += height;
    }
}

static void give(const struct kernels_cpu_product *p, const struct panel *panel, size_t i, size_t rows,
                 float *c)
{
    const size_t together = panel->count == p->n ? rows : 1;
    for (size_t r = 0; r < rows; r += together) {
        p->taker->take(p->taker->owner, (i + r) * p->n + panel->first, together * panel->count,
                       c + r * panel->count);
    }
}

static void give_rows(const struct kernels_cpu_product *p, const struct part *part, const struct panel *panel)
{
    _Alignas(64) float c[GIVEN];
    const size_t blocks = GIVEN / panel->count / TILE_ROWS, most = TILE_ROWS * (blocks > 0 ? blocks : 1);
    for (size_t i = 0; i < p->m; i += most) {
        const size_t rows = smaller(most, p->m - i);
        over_rows(p, part, panel, i, rows, c, panel->count);
        give(p, panel, i, rows, c);
    }
}

// Whether rows of B lie as a strip would.
static bool is_strip(const struct kernels_cpu_product *p)
{
    return !p->transpose_b && p->stride_b == p->n && (p->n == TILE_COLUMNS || p->n == LANES);
}

static const float *pack_panel(const struct kernels_cpu_product *p, const struct part *part, size_t first,
                               size_t columns, float *strips)
{
    if (is_strip(p))
        return p->b + part->first * p->n;
    for (size_t j = 0; j < columns; j += TILE_COLUMNS)
        pack_strip(p, part, first + j, smaller(TILE_COLUMNS, columns - j), strips + j * part->count);
    return strips;
}

static void hold_b(const struct kernels_cpu_product *p)
{
    _Alignas(64) float strips[HELD];
    size_t first = 0;
    for (size_t parts = parts_of(p->k); parts > 0; parts--) {
        const struct part part = part_of(p, first, parts);
        const size_t fitting = HELD / part.count / TILE_COLUMNS * TILE_COLUMNS,
                     wide = p->taker ? smaller(fitting, WIDEST) : fitting;
        for (size_t j = 0; j < p->n; j += wide) {
            const size_t columns = smaller(wide, p->n - j);
            const struct panel panel = {j, columns, pack_panel(p, &part, j, columns, strips)};
            if (p->taker)
                give_rows(p, &part, &panel);
            else
                over_rows(p, &part, &panel, 0, p->m, p->c + j, p->stride_c);
        }
        first += part.count;
    }
}

// The strip of B from column j on, as it lies in memory, to be prefetched while `tiles` tiles are computed.
static struct ahead next_strip(const struct kernels_cpu_product *p, const struct part *part, size_t j,
                               size_t tiles)
{
    const size_t columns = j < p->n ? smaller(TILE_COLUMNS, p->n - j) : 0;
    const size_t steps = tiles * share(part->count, STEP);
    struct ahead ahead = {.stride = p->stride_b * sizeof *p->b,
                          .lines = share(part->count * columns * sizeof *p->b / LINE, steps)};
    if (p->transpose_b) {
        ahead.row = (const char *)(p->b + j * p->stride_b + part->first);
        ahead.bytes = part->count * sizeof *p->b;
        ahead.rows = columns;
    } else {
        ahead.row = (const char *)(p->b + part->first * p->stride_b + j);
        ahead.bytes = columns * sizeof *p->b;
        ahead.rows = columns > 0 ? part->count : 0;
    }
    return ahead;
}

// The tiles of one strip of C, in rows [first, first + rows).
static void down_strip(const struct kernels_cpu_product *p, const struct part *part, size_t j, size_t first,
                       size_t rows, const float *a, float *strip)
{
    const size_t columns = smaller(TILE_COLUMNS, p->n - j);
    struct ahead ahead = next_strip(p, part, j + TILE_COLUMNS, blocks_of(rows));
    bool packing = !p->transpose_b && columns == TILE_COLUMNS;
    if (!packing)
        pack_strip(p, part, j, columns, strip);
    size_t i = 0;
    for (size_t blocks = blocks_of(rows); blocks > 0; blocks--) {
        const size_t height = share(rows - i, blocks);
        const struct target to = {p->c + (first + i) * p->stride_c + j, p->stride_c, columns, p->alpha,
                                  part->beta};
        if (packing) {
            const float *b = p->b + part->first * p->stride_b + j;
            tile_packing(height, &(struct factors){part->count, a + i * part->count, b, p->stride_b, strip},
                         &to, &ahead);
            packing = false;
        } else {
            tile_packed(height, &(struct factors){part->count, a + i * part->count, strip, 0, NULL}, &to,
                        &ahead);
        }
        i += height;
    }
}

// Rows [first, first + rows) of A, block by block.
static void pack_group(const struct kernels_cpu_product *p, const struct part *part, size_t first,
                       size_t rows, float *a)
{
    size_t i = 0;
    for (size_t blocks = blocks_of(rows); blocks > 0; blocks--) {
        const size_t height = share(rows - i, blocks);
        pack_rows(p, part, first + i, height, a + i * part->count);
        i += height;
    }
}

static void hold_a(const struct kernels_cpu_product *p)
{
    _Alignas(64) float a[HELD + LANES], strip[TILE_COLUMNS * PART_TERMS];
    size_t first = 0;
    for (size_t parts = parts_of(p->k); parts > 0; parts--) {
        const struct part part = part_of(p, first, parts);
        const size_t most = HELD / part.count / TILE_ROWS * TILE_ROWS;
        for (size_t i = 0; i < p->m; i += most) {
            const size_t rows = smaller(most, p->m - i);
            pack_group(p, &part, i, rows, a);
            for (size_t j = 0; j < p->n; j += TILE_COLUMNS)
                down_strip(p, &part, j, i, rows, a, strip);
        }
        first += part.count;
    }
}

// The smaller factor stays, unless C is large: C is then written in long runs.
static void multiply(const struct kernels_cpu_product *p)
{
    const bool fits = p->n <= HELD / smaller(p->k, PART_TERMS);
    if (!p->taker && p->m < p->n && (!fits || p->m <= LARGE / p->n))
        hold_a(p);
    else
        hold_b(p);
}

// Rows [i, i + rows) of C, by way of their transpose.
static void multiply_turned(const struct kernels_cpu_product *p, size_t i, size_t rows)
{
    _Alignas(64) float turned[NARROW * TURNED], c[NARROW * TURNED + LANES];
    const struct kernels_cpu_product q = {.transpose_a = !p->transpose_b,
                                          .transpose_b = !p->transpose_a,
                                          .m = p->n,
                                          .n = rows,
                                          .k = p->k,
                                          .alpha = p->alpha,
                                          .a = p->b,
                                          .b = p->a + i * (p->transpose_a ? 1 : p->stride_a),
                                          .c = turned,
                                          .stride_a = p->stride_b,
                                          .stride_b = p->stride_a,
                                          .stride_c = rows};
    float *to = p->c + i * p->n;
    multiply(&q);
    for (size_t lines = p->n; lines > 0;
         lines = (lines - 1) / LANES * LANES) { // from the last on: each overwrites what follows it
        const size_t line = (lines - 1) / LANES * LANES;
        turn(turned + line * rows, rows, lines - line, rows, c + line, p->n);
    }
    for (size_t at = 0; at < rows * p->n; at += LANES)
        put(&(struct target){.alpha = 1.0f, .beta = p->beta}, to + at, load(c + at), rows * p->n - at);
}

// Not for products with fewer than 4 rows or columns, for which BLAS has loops, nor for large products on
// several threads.
static bool suits(size_t m, size_t n, size_t k)
{
    return m >= 4 && n >= 4 && k > 0 && (kernels_cpu_threads() == 1 || m <= FEW_TERMS / n / k);
}

void GEMM(product)(const struct kernels_cpu_product *p)
{
    if (!suits(p->m, p->n, p->k)) {
        kernels_cpu_product(p);
        return;
    }
    const size_t turned = p->n < NARROW && p->m >= NARROW && p->stride_c == p->n ? p->m : 0;
    for (size_t i = 0; i < turned; i += TURNED)
        multiply_turned(p, i, smaller(TURNED, p->m - i));
    if (turned == 0)
        multiply(p);
}

void GEMM(gemm)(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha, const float *a,
                const float *b, float beta, float *c)
{
    const struct kernels_cpu_product p =
        kernels_cpu_without_gaps(transpose_a, transpose_b, m, n, k, alpha, a, b, beta, c);
    GEMM(product)(&p);
}

static bool suits_pieces(size_t m, size_t n, size_t k)
{
    return suits(m, n, k) && k <= PART_TERMS;
}

// On several threads, large products by BLAS are faster than products in pieces.
bool GEMM(in_pieces)(size_t m, size_t n, size_t k)
{
    return kernels_cpu_is_one_piece(m, n, k) || (kernels_cpu_threads() == 1 && suits_pieces(m, n, k));
}

void GEMM(pieces)(size_t m, size_t n, size_t k, const float *a, const float *b,
                  const struct kernels_taker *taker)
{
    if (!suits_pieces(m, n, k) || (n < NARROW && kernels_cpu_is_one_piece(m, n, k))) {
        kernels_cpu_one_piece(GEMM(gemm), m, n, k, a, b, taker);
        return;
    }
    struct kernels_cpu_product p = kernels_cpu_without_gaps(true, false, m, n, k, 1.0f, a, b, 0.0f, NULL);
    p.taker = taker;
    multiply(&p);
}
