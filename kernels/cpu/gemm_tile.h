// A tile of a matrix product, at most TILE_ROWS by two vectors, whose sums stay in registers, and the
// prefetches during its computation. A part of gemm_body.h.
#include <stddef.h>

#define TILE_COLUMNS (2u * LANES)
#define LINE         64u // bytes of a prefetch
#define STEP         8u  // terms between prefetches

// The tile must become straight-line code; otherwise its sums would be in memory.
#if !defined(__clang__)
#define UNROLL _Pragma("GCC unroll 16")
#elif __has_feature(address_sanitizer) // clang 14 does not finish instrumenting the straight-line code
#define UNROLL
#else
#define UNROLL _Pragma("clang loop unroll(full)")
#endif

INLINE vec zeros(void)
{
    return MM(setzero_ps)();
}

INLINE vec spread(float value)
{
    return MM(set1_ps)(value);
}

INLINE vec times(vec a, vec b)
{
    return MM(mul_ps)(a, b);
}

INLINE vec fused(vec a, vec b, vec c)
{
    return MM(fmadd_ps)(a, b, c);
}

INLINE vec load(const float *p)
{
    return MM(loadu_ps)(p);
}

INLINE void store(float *p, vec value)
{
    MM(storeu_ps)(p, value);
}

// The factors of a tile. a: [terms, rows]. b: a strip; or [terms, columns] with rows stride_b apart, which
// the tile also packs into `strip`.
struct factors {
    size_t terms;
    const float *a, *b;
    size_t stride_b;
    float *strip;
};

// Where a tile goes: rows `stride` apart.
struct target {
    float *c;
    size_t stride, columns;
    float alpha, beta;
};

// What is prefetched while tiles are computed: `rows` runs of `bytes`, `stride` bytes apart; then the same,
// `offset` floats after the start, of up to `more` vectors, whose list ends early at a NULL.
struct ahead {
    const char *row;
    size_t at, bytes, stride, rows, all_rows;
    const float *const *next;
    size_t offset, more;
    size_t lines; // prefetched in each STEP terms
};

INLINE size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void ahead_next_row(struct ahead *ahead)
{
    ahead->at = 0;
    ahead->row += ahead->stride;
    if (--ahead->rows == 0 && ahead->more > 0 && *ahead->next) {
        ahead->more--;
        ahead->row = (const char *)(*ahead->next++ + ahead->offset);
        ahead->rows = ahead->all_rows;
    }
}

INLINE void ahead_step(struct ahead *ahead)
{
    for (size_t line = 0; line < ahead->lines && ahead->rows > 0; line++) {
        __builtin_prefetch(ahead->row + ahead->at, 0, 2);
        ahead->at += LINE;
        if (ahead->at >= ahead->bytes)
            ahead_next_row(ahead);
    }
}

INLINE vec scaled(const struct target *to, vec sum, vec old)
{
    const vec value = times(spread(to->alpha), sum);
    return to->beta != 0.0f ? fused(spread(to->beta), old, value) : value;
}

// With beta 0, C is not read.
INLINE void put(const struct target *to, float *c, vec sum, size_t columns)
{
    if (columns >= LANES)
        store(c, scaled(to, sum, to->beta != 0.0f ? load(c) : zeros()));
    else
        store_some(c, scaled(to, sum, to->beta != 0.0f ? load_some(c, columns) : zeros()), columns);
}

INLINE void tile(bool packing, size_t rows, size_t vectors, const struct factors *f, const struct target *to,
                 struct ahead *ahead)
{
    const size_t stride_b = packing ? f->stride_b : vectors * LANES;
    const float *a = f->a, *b = f->b;
    float *strip = f->strip;
    vec sum[TILE_ROWS][2];
    UNROLL
    for (size_t r = 0; r < rows; r++)
        sum[r][0] = sum[r][1] = zeros();
    for (size_t step = 0; step < f->terms; step += STEP) {
        ahead_step(ahead);
        for (size_t l = smaller(STEP, f->terms - step); l > 0; l--, a += rows, b += stride_b) {
            const vec left = load(b), right = vectors > 1 ? load(b + LANES) : left;
            UNROLL
            for (size_t r = 0; r < rows; r++) {
                const vec factor = spread(a[r]);
                sum[r][0] = fused(factor, left, sum[r][0]);
                sum[r][1] = vectors > 1 ? fused(factor, right, sum[r][1]) : left;
            }
            if (packing) {
                store(strip, left);
                store(strip + LANES, right);
                strip += TILE_COLUMNS;
            }
        }
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        put(to, to->c + r * to->stride, sum[r][0], to->columns);
        if (vectors > 1)
            put(to, to->c + r * to->stride + LANES, sum[r][1], to->columns - LANES);
    }
}

#define TILE_CASE(rows)                                                                                      \
    case rows:                                                                                               \
        tile(packing, rows, vectors, f, to, ahead);                                                          \
        break

INLINE void tile_rows(bool packing, size_t vectors, size_t rows, const struct factors *f,
                      const struct target *to, struct ahead *ahead)
{
    switch (rows) {
        TILE_CASE(1);
        TILE_CASE(2);
        TILE_CASE(3);
        TILE_CASE(4);
        TILE_CASE(5);
        TILE_CASE(6);
#if TILE_ROWS > 6
        TILE_CASE(7);
        TILE_CASE(8);
        TILE_CASE(9);
        TILE_CASE(10);
        TILE_CASE(11);
        TILE_CASE(12);
        TILE_CASE(13);
        TILE_CASE(14);
#endif
    }
}

static void tile_packed(size_t rows, const struct factors *f, const struct target *to, struct ahead *ahead)
{
    if (to->columns > LANES)
        tile_rows(false, 2, rows, f, to, ahead);
    else
        tile_rows(false, 1, rows, f, to, ahead);
}

static void tile_packing(size_t rows, const struct factors *f, const struct target *to, struct ahead *ahead)
{
    tile_rows(true, 2, rows, f, to, ahead);
}
