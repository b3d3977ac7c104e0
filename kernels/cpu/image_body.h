// Convolution, pooling and group normalisation, compiled for each instruction set by the file that includes
// it and names KERNELS_IMAGE, LANES and TILE_ROWS.
//
// A convolution needs no matrix of patches: with channels last, one line of an output pixel's window is a run
// of size * channels adjacent numbers, and the next pixel's run begins `stride * channels` numbers later. So
// a tile of pixels by outputs stays in registers while runs are read directly from the image, one image at a
// time, which fits the first two caches.
#include "base/error.h"
#include "kernels/cpu/image.h"

#include <math.h>
#include <string.h>

#define TILE_VECTORS 2u
#define FEW_SUMS     6u
#define TILE_COLUMNS (LANES * TILE_VECTORS)
#define TRIPLES      ((TALL_ROWS + 2u) / 3u) // three pixels need one pointer and their distance
#define TALL_ROWS                                                                                            \
    (TILE_ROWS == 6 ? 12u : TILE_ROWS) // of tiles of one vector; fewer sums would wait for each other

#if !defined(__clang__)
#define UNROLL _Pragma("GCC unroll 14")
#elif __has_feature(address_sanitizer)
#define UNROLL
#else
#define UNROLL _Pragma("clang loop unroll(full)")
#endif

#define INLINE     static inline __attribute__((always_inline))
#define NOT_INLINE static __attribute__((noinline))

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t bits __attribute__((vector_size(4 * LANES)));
typedef float loose __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE vec load(const float *p)
{
    return *(const loose *)p;
}

INLINE vec load_part(const float *p, size_t count)
{
    float all[LANES] = {0};
    memcpy(all, p, count * sizeof *all);
    return load(all);
}

// Not inlined: otherwise gcc keeps every sum of a tile in memory because of `all`.
NOT_INLINE void store_part(float *to, vec value, size_t count)
{
    float all[LANES];
    memcpy(all, &value, sizeof all);
    for (size_t i = 0; i < count; i++)
        to[i] = all[i];
}

INLINE void store_some(float *to, vec value, size_t count)
{
    if (count >= LANES)
        *(loose *)to = value;
    else
        store_part(to, value, count);
}

INLINE size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t padded(size_t columns)
{
    return kernels_cpu_padded(columns, LANES);
}

// y[p, c] = bias[c] + sum over lines and l < run of x[line * line_stride + p * step + l] * w[line * run + l,
// c]
struct sweep {
    const float *x;
    size_t line_stride, step, lines, run;
    const float *w, *bias; // [lines * run, w_columns], [w_columns]: a multiple of LANES; bias NULL: 0
    size_t w_columns;
    float *y; // pixels y_step apart
    size_t y_step;
    size_t room;       // columns of a pixel that may be written: more than it has if a later pixel follows
    bool relu, add;    // add: to y
    size_t above, end; // lines of x before `above` and from `end` on are zeros; end 0: none are
};

// Whole vectors may be written across the end of a pixel if the next pixel, of this image or of the next one,
// is written later.
static size_t room_of(size_t columns, size_t pixels, bool last_image)
{
    const bool mended = padded(columns) <= TILE_COLUMNS && pixels * columns >= LANES && !last_image;
    return mended ? padded(columns) : columns;
}

INLINE void sweep_tile(const struct sweep *s, size_t rows, size_t vectors, size_t j)
{
    vec sum[TALL_ROWS][TILE_VECTORS];
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t v = 0; v < vectors; v++)
            sum[r][v] = s->bias ? load(s->bias + j + v * LANES) : (vec){0};
    }
    const float *w = s->w + j;
    const size_t step = s->step;
    for (size_t line = 0; line < s->lines; line++) {
        const float *x[TRIPLES];
        UNROLL
        for (size_t i = 0; i < TRIPLES; i++)
            x[i] = s->x + line * s->line_stride + 3 * i * step;
        for (size_t l = 0; l < s->run; l++, w += s->w_columns) {
            vec row[TILE_VECTORS];
            UNROLL
            for (size_t v = 0; v < vectors; v++)
                row[v] = load(w + v * LANES);
            UNROLL
            for (size_t r = 0; r < rows; r++) {
                const float factor = x[r / 3][r % 3 * step + l];
                UNROLL
                for (size_t v = 0; v < vectors; v++)
                    sum[r][v] += factor * row[v];
            }
        }
    }
    const bool relu = s->relu, add = s->add; // copied, because for the compiler y could overlap *s
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t v = 0; v < vectors; v++) {
            vec value = sum[r][v];
            if (relu)
                value = (vec)((bits)value & ~(bits)(value < (vec){0})); // NaN stays NaN
            float *to = s->y + r * s->y_step + j + v * LANES;
            const size_t left = s->room - j - v * LANES;
            if (add)
                value += left < LANES ? load_part(to, left) : load(to);
            store_some(to, value, left);
        }
    }
}

// One function for each number of rows and vectors, so that loops over them are unrolled. Not inlined: gcc
// keeps the sums of one tile in registers, but not those of all tiles in one function.
#if TILE_ROWS == 6
#define EACH_WIDE(DO) DO(1, 2) DO(2, 2) DO(3, 2) DO(4, 2) DO(5, 2) DO(6, 2)
#define EACH_TALL(DO)                                                                                        \
    DO(1, 1)                                                                                                 \
    DO(2, 1) DO(3, 1) DO(4, 1) DO(5, 1) DO(6, 1) DO(7, 1) DO(8, 1) DO(9, 1) DO(10, 1) DO(11, 1) DO(12, 1)
#else
#define EACH_ROW(DO, n)                                                                                      \
    DO(1, n)                                                                                                 \
    DO(2, n)                                                                                                 \
    DO(3, n)                                                                                                 \
    DO(4, n) DO(5, n) DO(6, n) DO(7, n) DO(8, n) DO(9, n) DO(10, n) DO(11, n) DO(12, n) DO(13, n) DO(14, n)
#define EACH_WIDE(DO) EACH_ROW(DO, 2)
#define EACH_TALL(DO) EACH_ROW(DO, 1)
_Static_assert(TILE_ROWS == 14, "EACH_ROW");
#endif

static size_t rows_of(size_t vectors)
{
    return vectors == 1 ? TALL_ROWS : TILE_ROWS;
}

#define SWEEP(n, vectors)                                                                                    \
    NOT_INLINE void sweep_##n##_##vectors(const struct sweep *s, size_t j)                                   \
    {                                                                                                        \
        sweep_tile(s, n, vectors, j);                                                                        \
    }
EACH_WIDE(SWEEP)
EACH_TALL(SWEEP)
#define SWEEPS(n, vectors) sweep_##n##_##vectors,
static void (*const sweeps[TILE_VECTORS][TALL_ROWS])(const struct sweep *s, size_t j) = {{EACH_TALL(SWEEPS)},
                                                                                         {EACH_WIDE(SWEEPS)}};

// A line of `pixels` outputs, divided evenly into tiles.
static void sweep_line(struct sweep s, size_t pixels, size_t vectors, size_t j)
{
    const size_t blocks = (pixels + rows_of(vectors) - 1) / rows_of(vectors);
    for (size_t block = 0, done = 0; block < blocks; block++) {
        const size_t rows = (pixels - done + blocks - block - 1) / (blocks - block);
        sweeps[vectors - 1][rows - 1](&s, j);
        s.x += rows * s.step;
        s.y += rows * s.y_step;
        done += rows;
    }
}

// Skips the lines of the window at `first` that are zeros: adding them would change no sum.
static struct sweep without_zeros(const struct sweep *s, size_t first)
{
    struct sweep some = *s;
    const size_t from = s->above > first ? s->above - first : 0;
    if (s->end > 0) {
        const size_t to = s->end > first ? smaller(s->end - first, s->lines) : 0;
        some.lines = to > from ? to - from : 0;
        some.x += from * s->line_stride;
        some.w += from * s->run * s->w_columns;
    }
    return some;
}

// All lines of an image: line i of y begins at line i * lines_apart of x.
static void sweep_image(const struct sweep *image, size_t lines, size_t pixels, size_t lines_apart)
{
    for (size_t j = 0; j < image->w_columns; j += TILE_COLUMNS) {
        struct sweep s = *image;
        for (size_t line = 0; line < lines; line++) {
            sweep_line(without_zeros(&s, line * lines_apart), pixels,
                       j + TILE_COLUMNS <= image->w_columns ? 2 : 1, j);
            s.x += lines_apart * s.line_stride;
            s.y += pixels * s.y_step;
        }
    }
}

// --- convolution ---

// The parts of scratch.
static struct kernels_cpu_conv_rooms rooms_of(const struct kernels_conv *c)
{
    return kernels_cpu_conv_rooms(c, LANES);
}

static void pad_columns(size_t rows, size_t columns, const float *from, float *to)
{
    const size_t wide = padded(columns);
    for (size_t r = 0; r < rows; r++) {
        memcpy(to + r * wide, from + r * columns, columns * sizeof *to);
        memset(to + r * wide + columns, 0, (wide - columns) * sizeof *to);
    }
}

// The image with its border of zeros; if it has no border, the image itself.
static const float *with_border(const struct kernels_conv *c, const float *x, float *room)
{
    const size_t wide = (c->width + 2 * c->padding) * c->channels, border = c->padding * c->channels;
    if (c->padding == 0)
        return x;
    memset(room, 0, c->padding * wide * sizeof *room);
    float *line = room + c->padding * wide;
    for (size_t i = 0; i < c->height; i++, line += wide, x += c->width * c->channels) {
        memset(line, 0, border * sizeof *line);
        memcpy(line + border, x, c->width * c->channels * sizeof *line);
        memset(line + wide - border, 0, border * sizeof *line);
    }
    memset(line, 0, c->padding * wide * sizeof *line);
    return room;
}

static void conv(const struct kernels_conv *c, const float *x, const float *weight, const float *bias,
                 float *scratch, float *y)
{
    const struct kernels_cpu_conv_rooms r = rooms_of(c);
    const size_t run = c->size * c->channels, columns = padded(c->outputs);
    const size_t line = (c->width + 2 * c->padding) * c->channels;
    if (columns != c->outputs) {
        pad_columns(c->size * run, c->outputs, weight, scratch + r.weight);
        weight = scratch + r.weight;
    }
    if (bias) {
        pad_columns(1, c->outputs, bias, scratch + r.bias);
        bias = scratch + r.bias;
    }
    for (size_t i = 0; i < c->images; i++) {
        const struct sweep s = {.x = with_border(c, x, scratch + r.image),
                                .line_stride = line,
                                .step = c->stride * c->channels,
                                .lines = c->size,
                                .run = run,
                                .w = weight,
                                .bias = bias,
                                .w_columns = columns,
                                .y = y,
                                .y_step = c->outputs,
                                .room = room_of(c->outputs, c->out_height * c->out_width, i + 1 == c->images),
                                .relu = c->relu};
        sweep_image(&s, c->out_height, c->out_width, c->stride);
        x += c->height * c->width * c->channels;
        y += c->out_height * c->out_width * c->outputs;
    }
}

#include "kernels/cpu/image_gradients.h"
#include "kernels/cpu/image_norm.h"
#include "kernels/cpu/image_pool.h"
#include "kernels/cpu/image_shortcut.h"

const struct kernels_image KERNELS_IMAGE = {
    .conv = conv,
    .conv_backward = conv_backward,
    .max_pool = max_pool,
    .max_pool_backward = max_pool_backward,
    .mean_pool = mean_pool,
    .mean_pool_backward = mean_pool_backward,
    .norm = norm,
    .norm_backward = norm_backward,
    .shortcut = shortcut,
    .shortcut_backward = shortcut_backward,
};
