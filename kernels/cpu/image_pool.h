// Part of image_body.h: pooling.
#ifndef KERNELS_CPU_IMAGE_POOL_H
#define KERNELS_CPU_IMAGE_POOL_H

static const float *window_at(const struct kernels_pool *p, const float *x, size_t image, size_t oy,
                              size_t ox)
{
    return x + ((image * p->height + oy * p->stride) * p->width + ox * p->stride) * p->channels;
}

static void max_window(const struct kernels_pool *p, const float *restrict x, uint32_t *restrict place,
                       float *restrict y)
{
    for (size_t c = 0; c < p->channels; c++) {
        y[c] = x[c];
        place[c] = 0;
    }
    for (size_t i = 1; i < p->size_y * p->size_x; i++) {
        const float *restrict at = x + (i / p->size_x * p->width + i % p->size_x) * p->channels;
        const uint32_t here = (uint32_t)i;
        for (size_t c = 0; c < p->channels; c++) {
            const bool larger = !(at[c] <= y[c]) && y[c] == y[c]; // a NaN stays
            y[c] = larger ? at[c] : y[c];
            place[c] = larger ? here : place[c];
        }
    }
}

// The maximum of a window, for one vector of channels.
INLINE void max_vector(const struct kernels_pool *p, const float *x, uint32_t *place, float *y)
{
    vec most = load(x);
    bits where = {0}, here = {0};
    for (size_t line = 0; line < p->size_y; line++) {
        const float *at = x + line * p->width * p->channels;
        for (size_t i = 0; i < p->size_x; i++, at += p->channels, here += 1) {
            const vec value = load(at);
            const bits larger = ~(bits)(value <= most) & (bits)(most == most);
            most = (vec)(((bits)value & larger) | ((bits)most & ~larger));
            where = (here & larger) | (where & ~larger);
        }
    }
    *(loose *)y = most;
    memcpy(place, &where, sizeof where);
}

// Whole vectors are written across the ends of pixels, lines and images, except in the very last line.
static bool in_vectors(const struct kernels_pool *p, size_t image, size_t oy)
{
    return p->out_width * p->channels >= LANES && (image + 1 < p->images || oy + 1 < p->out_height);
}

static void max_pool(const struct kernels_pool *p, const float *x, uint32_t *place, float *y)
{
    for (size_t image = 0; image < p->images; image++) {
        for (size_t oy = 0; oy < p->out_height; oy++) {
            const bool vectors = in_vectors(p, image, oy);
            for (size_t ox = 0; ox < p->out_width; ox++, y += p->channels, place += p->channels) {
                const float *window = window_at(p, x, image, oy, ox);
                if (!vectors)
                    max_window(p, window, place, y);
                for (size_t c = 0; c < p->channels && vectors; c += LANES)
                    max_vector(p, window + c, place + c, y + c);
            }
        }
    }
}

// Writes the gradient of line `line` of the windows of a line of outputs, and zeros outside of all windows.
// In this order a vector may be written across the end of a pixel.
static void max_backward_line(const struct kernels_pool *p, size_t line, const uint32_t *place,
                              const float *dy, float *dx)
{
    const bits first = (bits){0} + (int32_t)(line * p->size_x);
    for (size_t ox = 0; ox < p->out_width; ox++, place += p->channels, dy += p->channels) {
        bits here = first;
        for (size_t i = 0; i < p->size_x; i++, dx += p->channels, here += 1) {
            for (size_t c = 0; c < p->channels; c += LANES) {
                bits at;
                memcpy(&at, place + c, sizeof at);
                // Adding zero, as for overlapping windows, makes zeros positive.
                *(loose *)(dx + c) = (vec){0} + (vec)((bits)load(dy + c) & (bits)(at == here));
            }
        }
    }
    memset(dx, 0, (p->width - p->out_width * p->size_x) * p->channels * sizeof *dx);
}

static void max_backward_window(const struct kernels_pool *p, const uint32_t *place, const float *dy,
                                float *dx)
{
    for (size_t i = 0; i < p->size_y * p->size_x; i++) {
        float *restrict to = dx + (i / p->size_x * p->width + i % p->size_x) * p->channels;
        const uint32_t here = (uint32_t)i;
        for (size_t c = 0; c < p->channels; c++)
            to[c] += place[c] == here ? dy[c] : 0.0f;
    }
}

static void max_pool_backward(const struct kernels_pool *p, const uint32_t *place, const float *dy, float *dx)
{
    const size_t line = p->width * p->channels, out = p->out_width * p->channels;
    const bool apart = p->stride == p->size_x && p->stride == p->size_y; // no dx has two windows
    if (!apart)
        memset(dx, 0, p->images * p->height * line * sizeof *dx);
    for (size_t image = 0; image < p->images; image++) {
        for (size_t oy = 0; oy < p->out_height; oy++, place += out, dy += out) {
            float *first = dx + (image * p->height + oy * p->stride) * line;
            const bool vectors = apart && in_vectors(p, image, oy);
            for (size_t i = 0; i < p->size_y && vectors; i++)
                max_backward_line(p, i, place, dy, first + i * line);
            if (apart && !vectors)
                memset(first, 0, p->size_y * line * sizeof *dx);
            for (size_t c = 0; c < out && !vectors; c += p->channels)
                max_backward_window(p, place + c, dy + c, first + c * p->stride);
        }
        if (apart) {
            const size_t covered = p->out_height * p->size_y;
            memset(dx + (image * p->height + covered) * line, 0, (p->height - covered) * line * sizeof *dx);
        }
    }
}

static void mean_pool(const struct kernels_pool *p, const float *x, float *y)
{
    const float share = 1.0f / (float)(p->size_y * p->size_x);
    for (size_t image = 0; image < p->images; image++) {
        for (size_t oy = 0; oy < p->out_height; oy++) {
            for (size_t ox = 0; ox < p->out_width; ox++, y += p->channels) {
                const float *window = window_at(p, x, image, oy, ox);
                memset(y, 0, p->channels * sizeof *y);
                for (size_t line = 0; line < p->size_y; line++)
                    add_rows(p->size_x, p->channels, window + line * p->width * p->channels, y);
                for (size_t c = 0; c < p->channels; c++)
                    y[c] *= share;
            }
        }
    }
}

static void mean_pool_backward(const struct kernels_pool *p, const float *dy, float *dx)
{
    const float share = 1.0f / (float)(p->size_y * p->size_x);
    memset(dx, 0, p->images * p->height * p->width * p->channels * sizeof *dx);
    for (size_t image = 0; image < p->images; image++) {
        for (size_t oy = 0; oy < p->out_height; oy++) {
            for (size_t ox = 0; ox < p->out_width; ox++, dy += p->channels) {
                const size_t first = (size_t)(window_at(p, dx, image, oy, ox) - dx);
                for (size_t i = 0; i < p->size_y * p->size_x; i++) {
                    float *restrict to =
                        dx + first + (i / p->size_x * p->width + i % p->size_x) * p->channels;
                    for (size_t c = 0; c < p->channels; c++)
                        to[c] += share * dy[c];
                }
            }
        }
    }
}

#endif
