// Part of image_body.h: gradients of a convolution.
#ifndef KERNELS_CPU_IMAGE_GRADIENTS_H
#define KERNELS_CPU_IMAGE_GRADIENTS_H

// dw[l, c] (+)= sum over the image of x[pixel's run at l] * dy[pixel, c]
struct outer {
    const float *x;
    size_t line_step, step, lines, pixels;
    const float *dy;
    size_t dy_step; // from pixel to pixel of dy; whole vectors of it can be read
    size_t columns;
    float *dw;
    bool add, pairs; // pairs: two sums of each element, of even and of odd pixels
};

INLINE void outer_pixel(size_t rows, size_t vectors, const float *x, const float *dy,
                        vec sum[TALL_ROWS][TILE_VECTORS])
{
    vec row[TILE_VECTORS];
    UNROLL
    for (size_t v = 0; v < vectors; v++)
        row[v] = load(dy + v * LANES);
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t v = 0; v < vectors; v++)
            sum[r][v] += x[r] * row[v];
    }
}

// Additions to one sum wait for each other, so a tile with few sums keeps two of each. Only the shape decides
// this, so AVX2 and AVX-512 give the same bits.
static bool has_pairs(size_t run, size_t outputs)
{
    return run * (outputs > 8 ? 2 : 1) <= FEW_SUMS;
}

INLINE void outer_tile(const struct outer *o, size_t rows, size_t vectors, size_t j)
{
    vec sum[TALL_ROWS][TILE_VECTORS], odd[TALL_ROWS][TILE_VECTORS];
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t v = 0; v < vectors; v++)
            sum[r][v] = odd[r][v] = (vec){0};
    }
    const bool pairs = o->pairs && rows * vectors <= FEW_SUMS;
    const float *dy = o->dy + j;
    for (size_t line = 0; line < o->lines; line++) {
        const float *x = o->x + line * o->line_step;
        size_t p = 0;
        for (; pairs && p + 2 <= o->pixels; p += 2, x += 2 * o->step, dy += 2 * o->dy_step) {
            outer_pixel(rows, vectors, x, dy, sum);
            outer_pixel(rows, vectors, x + o->step, dy + o->dy_step, odd);
        }
        for (; p < o->pixels; p++, x += o->step, dy += o->dy_step)
            outer_pixel(rows, vectors, x, dy, sum);
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t v = 0; v < vectors; v++) {
            const size_t left = o->columns - j - v * LANES;
            sum[r][v] += pairs ? odd[r][v] : (vec){0};
            float *to = o->dw + r * o->columns + j + v * LANES;
            if (o->add)
                sum[r][v] += left < LANES ? load_part(to, left) : load(to);
            store_some(to, sum[r][v], left);
        }
    }
}

#define OUTER(n, vectors)                                                                                    \
    NOT_INLINE void outer_##n##_##vectors(const struct outer *o, size_t j)                                   \
    {                                                                                                        \
        outer_tile(o, n, vectors, j);                                                                        \
    }
EACH_WIDE(OUTER)
EACH_TALL(OUTER)
#define OUTERS(n, vectors) outer_##n##_##vectors,
static void (*const outers[TILE_VECTORS][TALL_ROWS])(const struct outer *o, size_t j) = {{EACH_TALL(OUTERS)},
                                                                                         {EACH_WIDE(OUTERS)}};

// One line of windows: `run` rows of dw.
static void outer_run(const struct outer *line, size_t run)
{
    const size_t columns = padded(line->columns);
    for (size_t j = 0; j < columns; j += TILE_COLUMNS) {
        const size_t vectors = j + TILE_COLUMNS <= columns ? 2 : 1,
                     blocks = (run + rows_of(vectors) - 1) / rows_of(vectors);
        struct outer o = *line;
        for (size_t block = 0, done = 0; block < blocks; block++) {
            const size_t rows = (run - done + blocks - block - 1) / (blocks - block);
            outers[vectors - 1][rows - 1](&o, j);
            o.x += rows;
            o.dw += rows * o.columns;
            done += rows;
        }
    }
}

// weight[y, x, in, out] to [size - 1 - y, size - 1 - x, out, in], its columns padded.
static void turn(const struct kernels_conv *c, const float *weight, float *turned)
{
    const size_t window = c->size * c->size, columns = padded(c->channels);
    for (size_t at = 0; at < window; at++) {
        const float *from = weight + (window - 1 - at) * c->channels * c->outputs;
        for (size_t o = 0; o < c->outputs; o++, turned += columns)
            for (size_t i = 0; i < columns; i++)
                turned[i] = i < c->channels ? from[i * c->outputs + o] : 0.0f;
    }
}

// dx is the convolution of dy, spread by the stride and with a border, with the turned weights. The elements
// of `room` that dy does not fill are zero already.
static void conv_input(const struct kernels_conv *c, const float *dy, bool last_image, const float *turned,
                       float *room, float *dx)
{
    const size_t wide = (c->width + c->size - 1) * c->outputs, border = c->size - 1 - c->padding;
    for (size_t y = 0; y < c->out_height; y++) {
        float *line = room + (border + y * c->stride) * wide + border * c->outputs;
        for (size_t x = 0; x < c->out_width; x++, dy += c->outputs)
            memcpy(line + x * c->stride * c->outputs, dy, c->outputs * sizeof *dy);
    }
    const struct sweep s = {.x = room,
                            .line_stride = wide,
                            .step = c->outputs,
                            .lines = c->size,
                            .run = c->size * c->outputs,
                            .w = turned,
                            .w_columns = padded(c->channels),
                            .y = dx,
                            .y_step = c->channels,
                            .room = room_of(c->channels, c->height * c->width, last_image),
                            .above = border,
                            .end = border + (c->out_height - 1) * c->stride + 1};
    sweep_image(&s, c->height, c->width, 1);
}

#include "kernels/cpu/image_narrow.h"

static void mask(size_t count, const float *restrict y, float *restrict dy)
{
    for (size_t i = 0; i < count; i++)
        dy[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

static void add_rows(size_t rows, size_t columns, const float *restrict from, float *restrict sum)
{
    for (size_t r = 0; r < rows; r++, from += columns)
        for (size_t c = 0; c < columns; c++)
            sum[c] += from[c];
}

// As add_rows, but one vector of columns at a time, in four partial sums.
static void sum_rows(size_t rows, size_t columns, const float *from, float *sum)
{
    for (size_t c = 0; c < columns; c += LANES) {
        const size_t left = smaller(columns - c, LANES);
        vec all[4] = {load_part(sum + c, left)}; // additions to one sum wait for each other
        size_t r = 0;
        for (; (r + 3) * columns + c + LANES <= rows * columns; r += 4)
            for (size_t i = 0; i < 4; i++)
                all[i] += load(from + (r + i) * columns + c);
        for (; r < rows; r++)
            all[r % 4] += load_part(from + r * columns + c, left);
        store_some(sum + c, (all[0] + all[1]) + (all[2] + all[3]), left);
    }
}

// Nothing can be read after the last image, so its dy is copied.
static void conv_weight(const struct kernels_conv *c, const float *image, const float *dy, bool last_image,
                        bool add, float *scratch, float *dweight)
{
    const size_t columns = padded(c->outputs), pixels = c->out_height * c->out_width,
                 run = c->size * c->channels, line = (c->width + 2 * c->padding) * c->channels;
    const bool copied = columns != c->outputs && (last_image || pixels * c->outputs < LANES);
    if (copied) {
        pad_columns(pixels, c->outputs, dy, scratch);
        dy = scratch;
    }
    for (size_t y = 0; y < c->size; y++) {
        const struct outer o = {.x = image + y * line,
                                .line_step = c->stride * line,
                                .step = c->stride * c->channels,
                                .lines = c->out_height,
                                .pixels = c->out_width,
                                .dy = dy,
                                .dy_step = copied ? columns : c->outputs,
                                .columns = c->outputs,
                                .dw = dweight + y * run * c->outputs,
                                .add = add,
                                .pairs = has_pairs(run, c->outputs)};
        outer_run(&o, run);
    }
}

static void conv_backward(const struct kernels_conv *c, const float *x, const float *weight, const float *y,
                          float *dy, bool accumulate, float *scratch, float *dweight, float *dbias, float *dx)
{
    const struct kernels_cpu_conv_rooms r = rooms_of(c);
    const size_t in = c->height * c->width * c->channels, pixels = c->out_height * c->out_width,
                 out = pixels * c->outputs;
    if (dbias && !accumulate)
        memset(dbias, 0, c->outputs * sizeof *dbias);
    if (dx && is_narrow(c)) {
        turn_lines(c, weight, scratch + r.turned);
    } else if (dx) {
        turn(c, weight, scratch + r.turned);
        memset(scratch + r.spread, 0, (r.gradient - r.spread) * sizeof *scratch);
    }
    for (size_t i = 0; i < c->images; i++) {
        const bool last = i + 1 == c->images;
        if (c->relu)
            mask(out, y + i * out, dy + i * out);
        if (dbias)
            sum_rows(pixels, c->outputs, dy + i * out, dbias);
        const float *image = with_border(c, x + i * in, scratch + r.image);
        conv_weight(c, image, dy + i * out, last, accumulate || i > 0, scratch + r.gradient, dweight);
        if (dx && is_narrow(c))
            conv_narrow_input(c, dy + i * out, scratch + r.turned, (c->images - i) * in, dx + i * in);
        else if (dx)
            conv_input(c, dy + i * out, last, scratch + r.turned, scratch + r.spread, dx + i * in);
    }
}

#endif
