// Pooling, and the shortcut around a residual block. A block has one line of an image. Gradients are gathered
// over the windows of a pixel in their order, so that they are added as on the CPU.
#include "kernels/cuda/device.h"

#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"

struct pool_args {
    struct kernels_pool p;
    const float *from;      // x; backward: dy
    const uint32_t *places; // of the maximum, for its backward pass
    uint32_t *place;        // of the maximum, written
    float *to;              // y; backward: dx
};

// The first number of a window, in x.
DEVICE size_t window_at(const struct kernels_pool *p, size_t line, size_t column)
{
    const size_t image = line / p->out_height, y = line % p->out_height * p->stride;
    return ((image * p->height + y) * p->width + column * p->stride) * p->channels;
}

DEVICE size_t within_window(const struct kernels_pool *p, size_t place)
{
    return (place / p->size_x * p->width + place % p->size_x) * p->channels;
}

KERNEL(max_pool_kernel, struct pool_args, a)
{
    const struct kernels_pool *p = &a.p;
    const uint32_t channels = (uint32_t)p->channels, count = (uint32_t)p->out_width * channels;
    for (uint32_t i = thread_index(); i < count; i += THREADS) {
        const float *window = a.from + window_at(p, block_index(), i / channels) + i % channels;
        float largest = window[0];
        uint32_t place = 0;
        for (uint32_t w = 1; w < p->size_y * p->size_x; w++) {
            const float value = window[within_window(p, w)];
            if (!(value <= largest) && largest == largest) { // a NaN stays
                largest = value;
                place = w;
            }
        }
        a.to[(size_t)block_index() * count + i] = largest;
        a.place[(size_t)block_index() * count + i] = place;
    }
}

KERNEL(mean_pool_kernel, struct pool_args, a)
{
    const struct kernels_pool *p = &a.p;
    const uint32_t channels = (uint32_t)p->channels, count = (uint32_t)p->out_width * channels;
    const float share = 1.0f / (float)(p->size_y * p->size_x);
    for (uint32_t i = thread_index(); i < count; i += THREADS) {
        const float *window = a.from + window_at(p, block_index(), i / channels) + i % channels;
        float sum = 0.0f;
        for (size_t w = 0; w < p->size_y * p->size_x; w++)
            sum += window[within_window(p, w)];
        a.to[(size_t)block_index() * count + i] = sum * share;
    }
}

// The outputs whose windows contain a pixel at `at`: first .. end - 1.
DEVICE void windows_over(size_t at, size_t size, size_t stride, size_t outputs, size_t *first, size_t *end)
{
    *first = at >= size ? (at - size) / stride + 1 : 0;
    *end = at / stride + 1 < outputs ? at / stride + 1 : outputs;
}

// The backward pass of the maximum if there are places, else that of the mean.
KERNEL(pool_backward_kernel, struct pool_args, a)
{
    const struct kernels_pool *p = &a.p;
    const uint32_t channels = (uint32_t)p->channels, count = (uint32_t)p->width * channels;
    const size_t image = block_index() / p->height, y = block_index() % p->height;
    const float share = 1.0f / (float)(p->size_y * p->size_x);
    size_t first_y, end_y, first_x, end_x;
    windows_over(y, p->size_y, p->stride, p->out_height, &first_y, &end_y);
    for (uint32_t i = thread_index(); i < count; i += THREADS) {
        const size_t x = i / channels;
        float sum = 0.0f;
        windows_over(x, p->size_x, p->stride, p->out_width, &first_x, &end_x);
        for (size_t oy = first_y; oy < end_y; oy++) {
            for (size_t ox = first_x; ox < end_x; ox++) {
                const size_t at =
                    ((image * p->out_height + oy) * p->out_width + ox) * channels + i % channels;
                const size_t place = (y - oy * p->stride) * p->size_x + x - ox * p->stride;
                if (!a.places)
                    sum += share * a.from[at];
                else
                    sum += a.places[at] == place ? a.from[at] : 0.0f;
            }
        }
        a.to[(size_t)block_index() * count + i] = sum;
    }
}

struct shortcut_args {
    struct kernels_shortcut s;
    const float *from;
    float *to;
};

// The pixel of x that pixel `column` of a line of y takes.
DEVICE size_t shortcut_pixel(const struct kernels_shortcut *s, size_t line, size_t column)
{
    const size_t image = line / s->height, y = line % s->height * s->stride;
    return ((image * s->in_height + y) * s->in_width + column * s->stride) * s->channels;
}

KERNEL(shortcut_kernel, struct shortcut_args, a)
{
    const uint32_t outputs = (uint32_t)a.s.outputs, count = (uint32_t)a.s.width * outputs;
    float *y = a.to + (size_t)block_index() * count;
    for (uint32_t i = thread_index(); i < count; i += THREADS) {
        const uint32_t c = i % outputs;
        float value = y[i];
        if (c < a.s.channels)
            value += a.from[shortcut_pixel(&a.s, block_index(), i / outputs) + c];
        y[i] = 0.0f > value ? 0.0f : value;
    }
}

KERNEL(shortcut_backward_kernel, struct shortcut_args, a)
{
    const uint32_t channels = (uint32_t)a.s.channels, count = (uint32_t)a.s.width * channels;
    for (uint32_t i = thread_index(); i < count; i += THREADS) {
        const size_t pixel = (size_t)block_index() * a.s.width + i / channels;
        a.to[shortcut_pixel(&a.s, block_index(), i / channels) + i % channels] +=
            a.from[pixel * a.s.outputs + i % channels];
    }
}

// --- launches ---

void kernels_cuda_max_pool(const struct kernels_pool *p, const float *x, uint32_t *place, float *y)
{
    const struct pool_args a = {*p, x, NULL, place, y};
    LAUNCH(max_pool_kernel, (unsigned)(p->images * p->out_height), a);
}

void kernels_cuda_max_pool_backward(const struct kernels_pool *p, const uint32_t *place, const float *dy,
                                    float *dx)
{
    const struct pool_args a = {*p, dy, place, NULL, dx};
    LAUNCH(pool_backward_kernel, (unsigned)(p->images * p->height), a);
}

void kernels_cuda_mean_pool(const struct kernels_pool *p, const float *x, float *y)
{
    const struct pool_args a = {*p, x, NULL, NULL, y};
    LAUNCH(mean_pool_kernel, (unsigned)(p->images * p->out_height), a);
}

void kernels_cuda_mean_pool_backward(const struct kernels_pool *p, const float *dy, float *dx)
{
    const struct pool_args a = {*p, dy, NULL, NULL, dx};
    LAUNCH(pool_backward_kernel, (unsigned)(p->images * p->height), a);
}

void kernels_cuda_shortcut(const struct kernels_shortcut *s, const float *x, float *y)
{
    const struct shortcut_args a = {*s, x, y};
    LAUNCH(shortcut_kernel, (unsigned)(s->images * s->height), a);
}

void kernels_cuda_shortcut_backward(const struct kernels_shortcut *s, const float *dy, float *dx)
{
    const struct shortcut_args a = {*s, dy, dx};
    LAUNCH(shortcut_backward_kernel, (unsigned)(s->images * s->height), a);
}
