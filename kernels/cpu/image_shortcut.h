// Part of image_body.h: the shortcut around a residual block.
#ifndef KERNELS_CPU_IMAGE_SHORTCUT_H
#define KERNELS_CPU_IMAGE_SHORTCUT_H

// The pixel of x that pixel `column` of a line of y takes; lines are counted over all images.
static size_t pixel_below(const struct kernels_shortcut *s, size_t line, size_t column)
{
    const size_t image = line / s->height, y = line % s->height * s->stride;
    return ((image * s->in_height + y) * s->in_width + column * s->stride) * s->channels;
}

static void shortcut(const struct kernels_shortcut *s, const float *x, float *restrict y)
{
    for (size_t line = 0; line < s->images * s->height; line++) {
        for (size_t column = 0; column < s->width; column++, y += s->outputs) {
            const float *restrict from = x + pixel_below(s, line, column);
            for (size_t c = 0; c < s->channels; c++)
                y[c] += from[c];
            for (size_t c = 0; c < s->outputs; c++)
                y[c] = 0.0f > y[c] ? 0.0f : y[c];
        }
    }
}

static void shortcut_backward(const struct kernels_shortcut *s, const float *restrict dy, float *dx)
{
    for (size_t line = 0; line < s->images * s->height; line++) {
        for (size_t column = 0; column < s->width; column++, dy += s->outputs) {
            float *restrict to = dx + pixel_below(s, line, column);
            for (size_t c = 0; c < s->channels; c++)
                to[c] += dy[c];
        }
    }
}

#endif
