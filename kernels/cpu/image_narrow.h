// Part of image_body.h: the gradient of an input with few channels and without a border. Vectors along the
// channels would be mostly empty. Vectors along a line of a window are not: each pixel of dy, multiplied by a
// line of the weights, is added to that line of its window in dx.
#ifndef KERNELS_CPU_IMAGE_NARROW_H
#define KERNELS_CPU_IMAGE_NARROW_H

#define NARROW 16u // channels

static bool is_narrow(const struct kernels_conv *c)
{
    return c->padding == 0 && c->channels < NARROW;
}

// weight[y, x, in, out] to [y, out, x, in], its lines of x and in padded.
static void turn_lines(const struct kernels_conv *c, const float *weight, float *turned)
{
    const size_t run = c->size * c->channels, wide = padded(run);
    for (size_t y = 0; y < c->size; y++, weight += run * c->outputs) {
        for (size_t o = 0; o < c->outputs; o++, turned += wide)
            for (size_t l = 0; l < wide; l++)
                turned[l] = l < run ? weight[l * c->outputs + o] : 0.0f;
    }
}

// The pixels of a tile lie below each other, so no tile adds to what the tile before it has just written.
// `left`: floats of dx that may be written; zeros are added behind a line of a window.
static void conv_narrow_input(const struct kernels_conv *c, const float *dy, const float *turned, size_t left,
                              float *dx)
{
    const size_t run = c->size * c->channels, wide = padded(run), line = c->width * c->channels;
    memset(dx, 0, c->height * line * sizeof *dx);
    for (size_t y = 0; y < c->size; y++, turned += c->outputs * wide) {
        for (size_t x = 0; x < c->out_width; x++) {
            const size_t at = y * line + x * c->stride * c->channels,
                         last = at + (c->out_height - 1) * c->stride * line;
            const struct sweep s = {.x = dy + x * c->outputs,
                                    .step = c->out_width * c->outputs,
                                    .lines = 1,
                                    .run = c->outputs,
                                    .w = turned,
                                    .w_columns = wide,
                                    .y = dx + at,
                                    .y_step = c->stride * line,
                                    .room = last + wide <= left ? wide : run,
                                    .add = true};
            for (size_t j = 0; j < wide; j += TILE_COLUMNS)
                sweep_line(s, c->out_height, j + TILE_COLUMNS <= wide ? 2 : 1, j);
        }
    }
}

#endif
