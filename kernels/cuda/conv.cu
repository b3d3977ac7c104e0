// Convolutions as products: writes the windows of the outputs side by side, and gathers their gradients.
// Channels come last, so a line of a window is one run of numbers. A block has one line of an image.
#include "kernels/cuda/device.h"

#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"

struct windows {
    struct kernels_conv c;
    const float *from;
    float *to;
};

// Negative coordinates wrap around and are too large, like those past the end.
KERNEL(columns_kernel, struct windows, w)
{
    const struct kernels_conv *c = &w.c;
    const size_t image = block_index() / c->out_height, oy = block_index() % c->out_height;
    const uint32_t run = (uint32_t)(c->size * c->channels), size = (uint32_t)c->size;
    const uint32_t count = (uint32_t)c->out_width * size * run;
    const size_t line = c->width * c->channels;
    float *to = w.to + (size_t)block_index() * count;
    for (uint32_t i = thread_index(); i < count; i += THREADS) {
        const uint32_t window = i / run; // a line of the window of a pixel
        const size_t y = oy * c->stride + window % size - c->padding;
        const size_t at = (window / size * c->stride - c->padding) * c->channels + i % run;
        to[i] = y < c->height && at < line ? w.from[(image * c->height + y) * line + at] : 0.0f;
    }
}

// The pixel at position `at` of the padded image is at position `window` in the window of output (at -
// window) / stride, if there is such an output.
DEVICE int output_of(size_t at, size_t window, size_t stride, size_t outputs, size_t *output)
{
    *output = (at - window) / stride;
    return at >= window && (at - window) % stride == 0 && *output < outputs;
}

KERNEL(columns_back_kernel, struct windows, w)
{
    const struct kernels_conv *c = &w.c;
    const size_t image = block_index() / c->height, y = block_index() % c->height + c->padding;
    const uint32_t channels = (uint32_t)c->channels, count = (uint32_t)c->width * channels;
    float *to = w.to + (size_t)block_index() * count;
    for (uint32_t i = thread_index(); i < count; i += THREADS) {
        const size_t x = i / channels + c->padding, channel = i % channels;
        float sum = 0.0f;
        for (size_t window = 0; window < c->size * c->size; window++) {
            size_t oy, ox;
            if (output_of(y, window / c->size, c->stride, c->out_height, &oy) &&
                output_of(x, window % c->size, c->stride, c->out_width, &ox)) {
                const size_t row = (image * c->out_height + oy) * c->out_width + ox;
                sum += w.from[(row * c->size * c->size + window) * channels + channel];
            }
        }
        to[i] = sum;
    }
}

void kernels_cuda_columns(const struct kernels_conv *c, const float *x, float *columns)
{
    const struct windows w = {*c, x, columns};
    LAUNCH(columns_kernel, (unsigned)(c->images * c->out_height), w);
}

void kernels_cuda_columns_back(const struct kernels_conv *c, const float *columns, float *dx)
{
    const struct windows w = {*c, columns, dx};
    LAUNCH(columns_back_kernel, (unsigned)(c->images * c->height), w);
}
