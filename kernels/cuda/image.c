// kernels/image.h on the device: cuBLAS computes the products of convolutions, over windows that are written
// side by side for as many images at a time as temporary memory should hold.
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/memory.h"

// The sizes of a convolution as products see it: x [pixels, inputs] weight [inputs, outputs].
struct product {
    size_t pixels, inputs;    // pixels: of an image of y
    size_t in_image, y_image; // numbers of an image
    bool direct;              // a window is a pixel of x: x is that matrix
};

static struct product product_of(const struct kernels_conv *c)
{
    return (struct product){.pixels = c->out_height * c->out_width,
                            .inputs = c->size * c->size * c->channels,
                            .in_image = c->height * c->width * c->channels,
                            .y_image = c->out_height * c->out_width * c->outputs,
                            .direct = c->size == 1 && c->stride == 1 && c->padding == 0};
}

// Images at a time, at least one.
static size_t part_of(const struct kernels_conv *c, const struct product *p)
{
    const size_t at_once = kernels_cuda_temporary_max() / sizeof(float) / (p->pixels * p->inputs);
    BASE_ASSERT(p->pixels * p->inputs <= UINT32_MAX && p->in_image <= UINT32_MAX &&
                c->images * c->height <= INT32_MAX && c->images * c->out_height <= INT32_MAX);
    return p->direct || at_once >= c->images ? c->images : at_once > 0 ? at_once : 1;
}

static size_t column_sum_floats(size_t rows, size_t cols)
{
    return 2 * (rows / KERNELS_CUDA_SLAB + 1) * cols;
}

static const float *columns_of(const struct kernels_conv *part, const struct product *p, const float *x,
                               float *columns)
{
    if (p->direct)
        return x;
    kernels_cuda_columns(part, x, columns);
    kernels_cuda_launched("the windows of conv");
    return columns;
}

static void add_bias(const struct kernels_conv *c, const float *bias, float *y)
{
    const size_t rows = c->images * c->out_height * c->out_width;
    BASE_ASSERT(rows * c->outputs <= UINT32_MAX);
    if (bias || c->relu) {
        kernels_cuda_bias(rows, c->outputs, bias, y, c->relu);
        kernels_cuda_launched("the bias of conv");
    }
}

static void convolve(kernels_cuda_product *multiply, const struct kernels_conv *c, const float *x,
                     const float *weight, const float *bias, float *y)
{
    const struct product p = product_of(c);
    const size_t at_once = part_of(c, &p);
    float *columns = p.direct ? NULL : kernels_cuda_begin(at_once * p.pixels * p.inputs * sizeof *columns);
    for (size_t first = 0; first < c->images; first += at_once) {
        struct kernels_conv part = *c;
        part.images = c->images - first < at_once ? c->images - first : at_once;
        const float *from = columns_of(&part, &p, x + first * p.in_image, columns);
        multiply(false, false, part.images * p.pixels, c->outputs, p.inputs, 1.0f, from, weight, 0.0f,
                 y + first * p.y_image);
    }
    if (!p.direct)
        kernels_cuda_end();
    add_bias(c, bias, y);
}

// dbias (+)= the sum over all pixels of dy; `temporary`: of column_sum, then [outputs].
static void bias_gradient(const struct kernels_conv *c, const float *dy, bool accumulate, float *temporary,
                          float *dbias)
{
    const size_t rows = c->images * c->out_height * c->out_width;
    float *sum = temporary + column_sum_floats(rows, c->outputs);
    kernels_cuda_column_sum(rows, c->outputs, dy, temporary, accumulate ? sum : dbias);
    if (accumulate) {
        const struct kernels_cuda_sgd add = {.rate = -1.0f}; // dbias -= -1 * sum
        kernels_cuda_sgd(c->outputs, add, sum, NULL, NULL, dbias);
    }
    kernels_cuda_launched("the gradient of conv's bias");
}

static void input_gradient(kernels_cuda_product *multiply, const struct kernels_conv *part,
                           const struct product *p, const float *weight, const float *dy, float *columns,
                           float *dx)
{
    float *to = p->direct ? dx : columns;
    multiply(false, true, part->images * p->pixels, p->inputs, part->outputs, 1.0f, dy, weight, 0.0f, to);
    if (!p->direct) {
        kernels_cuda_columns_back(part, columns, dx);
        kernels_cuda_launched("the gradient of conv's input");
    }
}

static void differentiate(kernels_cuda_product *multiply, const struct kernels_conv *c, const float *x,
                          const float *weight, const float *y, float *dy, bool accumulate, float *dweight,
                          float *dbias, float *dx)
{
    const struct product p = product_of(c);
    const size_t at_once = part_of(c, &p),
                 sums = column_sum_floats(c->images * p.pixels, c->outputs) + c->outputs,
                 wide = p.direct ? 0 : at_once * p.pixels * p.inputs;
    float *temporary = kernels_cuda_begin((sums > wide ? sums : wide) * sizeof *temporary);
    if (c->relu) {
        kernels_cuda_relu_backward(c->images * p.y_image, y, dy);
        kernels_cuda_launched("the mask of conv");
    }
    if (dbias)
        bias_gradient(c, dy, accumulate, temporary, dbias);
    for (size_t first = 0; first < c->images; first += at_once) {
        struct kernels_conv part = *c;
        part.images = c->images - first < at_once ? c->images - first : at_once;
        const float *from = columns_of(&part, &p, x + first * p.in_image, temporary);
        multiply(true, false, p.inputs, c->outputs, part.images * p.pixels, 1.0f, from,
                 dy + first * p.y_image, accumulate || first > 0 ? 1.0f : 0.0f, dweight);
        if (dx) {
            input_gradient(multiply, &part, &p, weight, dy + first * p.y_image, temporary,
                           dx + first * p.in_image);
        }
    }
    kernels_cuda_end();
}

// The columns need more room than `scratch` has, so temporary memory is used in its place.
static void conv(const struct kernels_conv *c, const float *x, const float *weight, const float *bias,
                 float *scratch, float *y)
{
    (void)scratch;
    convolve(kernels_cuda_gemm, c, x, weight, bias, y);
}

static void conv_bf16(const struct kernels_conv *c, const float *x, const float *weight, const float *bias,
                      float *scratch, float *y)
{
    (void)scratch;
    convolve(kernels_cuda_gemm_bf16, c, x, weight, bias, y);
}

static void conv_backward(const struct kernels_conv *c, const float *x, const float *weight, const float *y,
                          float *dy, bool accumulate, float *scratch, float *dweight, float *dbias, float *dx)
{
    (void)scratch;
    differentiate(kernels_cuda_gemm, c, x, weight, y, dy, accumulate, dweight, dbias, dx);
}

static void conv_backward_bf16(const struct kernels_conv *c, const float *x, const float *weight,
                               const float *y, float *dy, bool accumulate, float *scratch, float *dweight,
                               float *dbias, float *dx)
{
    (void)scratch;
    differentiate(kernels_cuda_gemm_bf16, c, x, weight, y, dy, accumulate, dweight, dbias, dx);
}

// --- pooling and the shortcut ---

static void assert_pool(const struct kernels_pool *p)
{
    BASE_ASSERT(p->images * p->height <= INT32_MAX && p->width * p->channels <= UINT32_MAX);
}

static void max_pool(const struct kernels_pool *p, const float *x, uint32_t *place, float *y)
{
    assert_pool(p);
    kernels_cuda_max_pool(p, x, place, y);
    kernels_cuda_launched("max_pool");
}

static void max_pool_backward(const struct kernels_pool *p, const uint32_t *place, const float *dy, float *dx)
{
    assert_pool(p);
    kernels_cuda_max_pool_backward(p, place, dy, dx);
    kernels_cuda_launched("max_pool_backward");
}

static void mean_pool(const struct kernels_pool *p, const float *x, float *y)
{
    assert_pool(p);
    kernels_cuda_mean_pool(p, x, y);
    kernels_cuda_launched("mean_pool");
}

static void mean_pool_backward(const struct kernels_pool *p, const float *dy, float *dx)
{
    assert_pool(p);
    kernels_cuda_mean_pool_backward(p, dy, dx);
    kernels_cuda_launched("mean_pool_backward");
}

static void assert_shortcut(const struct kernels_shortcut *s)
{
    BASE_ASSERT(s->images * s->height <= INT32_MAX && s->width * s->outputs <= UINT32_MAX);
}

static void shortcut(const struct kernels_shortcut *s, const float *x, float *y)
{
    assert_shortcut(s);
    kernels_cuda_shortcut(s, x, y);
    kernels_cuda_launched("shortcut");
}

static void shortcut_backward(const struct kernels_shortcut *s, const float *dy, float *dx)
{
    assert_shortcut(s);
    kernels_cuda_shortcut_backward(s, dy, dx);
    kernels_cuda_launched("shortcut_backward");
}

// --- group normalisation ---

static void norm(const struct kernels_group_norm *n, const float *x, const float *gamma, const float *beta,
                 float *kept, float *y)
{
    BASE_ASSERT(n->images * n->groups <= INT32_MAX && n->pixels * n->channels <= UINT32_MAX);
    kernels_cuda_group_norm(n, x, gamma, beta, kept, y);
    kernels_cuda_launched("norm");
}

static void norm_backward(const struct kernels_group_norm *n, const float *x, const float *y,
                          const float *gamma, const float *kept, float *dy, bool accumulate, float *scratch,
                          float *dgamma, float *dbeta, float *dx)
{
    const size_t parts = n->images * 2 * n->channels;
    float *temporary =
        kernels_cuda_begin((parts + column_sum_floats(n->images, 2 * n->channels)) * sizeof *temporary);
    if (n->relu)
        kernels_cuda_relu_backward(n->images * n->pixels * n->channels, y, dy);
    kernels_cuda_group_norm_backward(n, x, gamma, kept, dy, temporary, dx);
    kernels_cuda_column_sum(n->images, 2 * n->channels, temporary, temporary + parts, scratch);
    kernels_cuda_pair(n->channels, accumulate, scratch, dgamma, dbeta);
    kernels_cuda_launched("norm_backward");
    kernels_cuda_end();
}

#define IMAGE_MEMBERS                                                                                        \
    .max_pool = max_pool, .max_pool_backward = max_pool_backward, .mean_pool = mean_pool,                    \
    .mean_pool_backward = mean_pool_backward, .norm = norm, .norm_backward = norm_backward,                  \
    .shortcut = shortcut, .shortcut_backward = shortcut_backward

const struct kernels_image kernels_cuda_image = {IMAGE_MEMBERS, .conv = conv, .conv_backward = conv_backward};
const struct kernels_image kernels_cuda_image_bf16 = {IMAGE_MEMBERS, .conv = conv_bf16,
                                                      .conv_backward = conv_backward_bf16};
