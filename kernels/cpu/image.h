// How the scratch of a convolution is divided, for vectors of `lanes` numbers.
#ifndef KERNELS_CPU_IMAGE_H
#define KERNELS_CPU_IMAGE_H

#include "kernels/cpu/cpu.h"

struct kernels_cpu_conv_rooms {
    size_t weight, turned, bias, image, spread, gradient, total; // where each part begins
};

static inline size_t kernels_cpu_padded(size_t columns, size_t lanes)
{
    return (columns + lanes - 1) / lanes * lanes;
}

static inline struct kernels_cpu_conv_rooms kernels_cpu_conv_rooms(const struct kernels_conv *c, size_t lanes)
{
    struct kernels_cpu_conv_rooms r = {0};
    const size_t window = c->size * c->size;
    const size_t image = (c->height + 2 * c->padding) * (c->width + 2 * c->padding) * c->channels;
    const size_t spread = (c->height + c->size - 1) * (c->width + c->size - 1) * c->outputs;
    r.turned = window * c->channels * kernels_cpu_padded(c->outputs, lanes);
    r.bias = r.turned + window * c->outputs * kernels_cpu_padded(c->channels, lanes);
    r.image = r.bias + kernels_cpu_padded(c->outputs, lanes);
    r.spread = r.image + image;
    r.gradient = r.spread + spread;
    r.total = r.gradient + c->out_height * c->out_width * kernels_cpu_padded(c->outputs, lanes);
    return r;
}

#endif
