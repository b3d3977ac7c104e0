// Convolution, pooling and group norm on every path compared with their definitions in double.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const paths[] = {"scalar", "avx2", "avx512"};
#define PATHS (sizeof paths / sizeof *paths)

static struct base_rng rng;

static float *drawn(size_t count)
{
    float *v = malloc((count + 1) * sizeof *v);
    assert_non_null(v);
    for (size_t i = 0; i < count; i++) {
        v[i] = (float)base_rng_normal(&rng);
    }
    return v;
}

static void assert_near(const char *what, size_t i, float found, double expected)
{
    if (!(fabs((double)found - expected) <= 2e-5 * (1.0 + fabs(expected)) * 10)) {
        fail_msg("%s %zu: found %.7g, expected %.7g", what, i, (double)found, expected);
    }
}

static double conv_at(const struct kernels_conv *c, const float *x, const float *weight, size_t image,
                      size_t oy, size_t ox, size_t o)
{
    double sum = 0;
    for (size_t ky = 0; ky < c->size; ky++) {
        for (size_t kx = 0; kx < c->size; kx++) {
            const size_t y = oy * c->stride + ky, at = ox * c->stride + kx;
            if (y < c->padding || at < c->padding || y - c->padding >= c->height ||
                at - c->padding >= c->width) {
                continue;
            }
            for (size_t i = 0; i < c->channels; i++) {
                sum +=
                    (double)
                        x[((image * c->height + y - c->padding) * c->width + at - c->padding) * c->channels +
                          i] *
                    (double)weight[((ky * c->size + kx) * c->channels + i) * c->outputs + o];
            }
        }
    }
    return sum;
}

static void convolves(const struct kernels_image *k, struct kernels_conv c)
{
    c.out_height = (c.height + 2 * c.padding - c.size) / c.stride + 1;
    c.out_width = (c.width + 2 * c.padding - c.size) / c.stride + 1;
    const size_t out = c.images * c.out_height * c.out_width * c.outputs;
    float *x = drawn(c.images * c.height * c.width * c.channels),
          *weight = drawn(c.size * c.size * c.channels * c.outputs), *bias = drawn(c.outputs),
          *y = drawn(out + 1), *scratch = drawn(kernels_conv_scratch(&c));
    y[out] = 77.0f; // a guard
    k->conv(&c, x, weight, bias, scratch, y);
    for (size_t i = 0; i < out; i++) {
        const size_t o = i % c.outputs, ox = i / c.outputs % c.out_width,
                     oy = i / c.outputs / c.out_width % c.out_height,
                     image = i / c.outputs / c.out_width / c.out_height;
        const double sum = (double)bias[o] + conv_at(&c, x, weight, image, oy, ox, o);
        assert_near("y", i, y[i], c.relu && sum < 0 ? 0 : sum);
    }
    assert_true(y[out] == 77.0f);
    free(x);
    free(weight);
    free(bias);
    free(y);
    free(scratch);
}

static void convolutions_are_sums_of_products(void **state)
{
    static const size_t outputs[] = {1, 5, 8, 16, 17, 32, 33, 50, 64};
    (void)state;
    for (size_t p = 0; p < PATHS; p++) {
        const struct kernels *k = kernels_cpu_table(paths[p]);
        for (size_t i = 0; k && i < sizeof outputs / sizeof *outputs; i++) {
            for (size_t width = 3; width <= 32; width += 7) {
                convolves(k->image, (struct kernels_conv){.images = 2,
                                                          .height = 5,
                                                          .width = width,
                                                          .channels = 1 + i % 3,
                                                          .size = 3,
                                                          .stride = 1 + width % 2,
                                                          .padding = i % 3,
                                                          .outputs = outputs[i],
                                                          .relu = i % 2 == 1});
            }
        }
    }
}

// The gradients of sum y dy, from the terms of y: x and weight enter it once for every output.
static void gradients(const struct kernels_conv *c, const float *x, const float *weight, const float *dy,
                      double *dx, double *dweight, double *dbias)
{
    for (size_t i = 0; i < c->images * c->out_height * c->out_width * c->outputs; i++) {
        const size_t o = i % c->outputs, ox = i / c->outputs % c->out_width,
                     oy = i / c->outputs / c->out_width % c->out_height,
                     image = i / c->outputs / c->out_width / c->out_height;
        dbias[o] += (double)dy[i];
        for (size_t w = 0; w < c->size * c->size * c->channels; w++) {
            const size_t y = oy * c->stride + w / c->channels / c->size,
                         at = ox * c->stride + w / c->channels % c->size;
            if (y < c->padding || at < c->padding || y - c->padding >= c->height ||
                at - c->padding >= c->width) {
                continue;
            }
            const size_t pixel = (image * c->height + y - c->padding) * c->width + at - c->padding,
                         from = pixel * c->channels + w % c->channels;
            dweight[w * c->outputs + o] += (double)x[from] * (double)dy[i];
            dx[from] += (double)weight[w * c->outputs + o] * (double)dy[i];
        }
    }
}

static double *zeros(size_t count)
{
    double *v = calloc(count, sizeof *v);
    assert_non_null(v);
    return v;
}

static void assert_all_near(const char *what, size_t count, const float *found, const double *expected)
{
    for (size_t i = 0; i < count; i++) {
        assert_near(what, i, found[i], expected[i]);
    }
    assert_true(found[count] == 77.0f); // a guard
}

static void goes_back(const struct kernels_image *k, struct kernels_conv c)
{
    c.out_height = (c.height + 2 * c.padding - c.size) / c.stride + 1;
    c.out_width = (c.width + 2 * c.padding - c.size) / c.stride + 1;
    const size_t in = c.images * c.height * c.width * c.channels,
                 out = c.images * c.out_height * c.out_width * c.outputs,
                 weights = c.size * c.size * c.channels * c.outputs;
    float *x = drawn(in), *weight = drawn(weights), *dy = drawn(out), *dx = drawn(in),
          *dweight = drawn(weights), *dbias = drawn(c.outputs), *scratch = drawn(kernels_conv_scratch(&c));
    double *of_x = zeros(in), *of_weight = zeros(weights), *of_bias = zeros(c.outputs);
    gradients(&c, x, weight, dy, of_x, of_weight, of_bias);
    dx[in] = dweight[weights] = dbias[c.outputs] = 77.0f;
    for (int again = 0; again < 2; again++) { // the second time scratch is not clean
        k->conv_backward(&c, x, weight, NULL, dy, false, scratch, dweight, dbias, dx);
        assert_all_near("dx", in, dx, of_x);
        assert_all_near("dweight", weights, dweight, of_weight);
        assert_all_near("dbias", c.outputs, dbias, of_bias);
    }
    free(x), free(weight), free(dy), free(dx), free(dweight), free(dbias), free(scratch);
    free(of_x), free(of_weight), free(of_bias);
}

static void convolution_gradients_match_their_definition(void **state)
{
    static const size_t outputs[] = {1, 5, 6, 8, 16, 17, 33};
    (void)state;
    for (size_t p = 0; p < PATHS; p++) {
        const struct kernels *k = kernels_cpu_table(paths[p]);
        for (size_t i = 0; k && i < sizeof outputs / sizeof *outputs; i++) {
            for (size_t width = 2; width <= 23; width += 3) {
                goes_back(k->image, (struct kernels_conv){.images = 1 + width % 4,
                                                          .height = 2 + i,
                                                          .width = width,
                                                          .channels = 1 + (i + width) % 7,
                                                          .size = 2 + i % 2,
                                                          .stride = 1 + width % 3,
                                                          .padding = 1 + i % 2 - i % 3 / 2,
                                                          .outputs = outputs[i]});
            }
            for (size_t height = 3; height <= 18;
                 height += 5) { // no border: few channels have code of their own
                for (size_t channels = 1; channels <= 17; channels += 2) {
                    goes_back(k->image, (struct kernels_conv){.images = 1 + channels % 3,
                                                              .height = height,
                                                              .width = 3 + channels % 5,
                                                              .channels = channels,
                                                              .size = 1 + (height + channels) % 3,
                                                              .stride = 1 + i % 3,
                                                              .outputs = outputs[i]});
                }
            }
        }
    }
}

// All results of a convolution, one after another.
static float *both_ways(const struct kernels_image *k, const struct kernels_conv *c, size_t *total)
{
    const size_t in = c->images * c->height * c->width * c->channels,
                 out = c->images * c->out_height * c->out_width * c->outputs,
                 weights = c->size * c->size * c->channels * c->outputs;
    float *x = drawn(in), *weight = drawn(weights), *bias = drawn(c->outputs), *dy = drawn(out),
          *scratch = drawn(kernels_conv_scratch(c)), *all = drawn(out + weights + c->outputs + in);
    k->conv(c, x, weight, bias, scratch, all);
    k->conv_backward(c, x, weight, NULL, dy, false, scratch, all + out, all + out + weights,
                     all + out + weights + c->outputs);
    *total = out + weights + c->outputs + in;
    free(x), free(weight), free(bias), free(dy), free(scratch);
    return all;
}

// Both have fused multiply-adds.
static void avx2_and_avx512_give_the_same_bits(void **state)
{
    const struct kernels *narrow = kernels_cpu_table("avx2"), *wide = kernels_cpu_table("avx512");
    (void)state;
    if (!narrow || !wide) {
        print_message("skipped: this processor has no AVX-512\n");
        skip();
    }
    for (size_t outputs = 1; outputs <= 34; outputs += 3) {
        for (size_t width = 5; width <= 29; width += 3) {
            struct kernels_conv c = {.images = 2,
                                     .height = 5 + outputs % 4,
                                     .width = width,
                                     .channels = 1 + (width + outputs) % 18,
                                     .size = 2 + width % 4,
                                     .stride = 1 + outputs % 2,
                                     .padding = width % 2,
                                     .outputs = outputs};
            c.out_height = (c.height + 2 * c.padding - c.size) / c.stride + 1;
            c.out_width = (c.width + 2 * c.padding - c.size) / c.stride + 1;
            size_t total;
            const struct base_rng before = rng;
            float *expected = both_ways(narrow->image, &c, &total);
            rng = before; // the same numbers again
            float *found = both_ways(wide->image, &c, &total);
            assert_memory_equal(found, expected, total * sizeof *found);
            free(expected), free(found);
        }
    }
}

// The gradient of each place comes from its window; all others get a positive zero.
static void largest_goes_back(const struct kernels_image *k, const struct kernels_pool *p,
                              const uint32_t *place)
{
    const size_t in = p->images * p->height * p->width * p->channels, line = p->out_width * p->channels,
                 out = p->images * p->out_height * line;
    float *dy = drawn(out), *dx = drawn(in), *expected = calloc(in, sizeof *expected);
    assert_non_null(expected);
    dx[in] = 77.0f;
    for (size_t i = 0; i < out; i += 5) {
        dy[i] = -0.0f;
    }
    for (size_t i = 0; i < out; i++) {
        const size_t c = i % p->channels, ox = i / p->channels % p->out_width, oy = i / line % p->out_height,
                     image = i / line / p->out_height;
        const size_t y = oy * p->stride + place[i] / p->size_x, at = ox * p->stride + place[i] % p->size_x;
        expected[((image * p->height + y) * p->width + at) * p->channels + c] += dy[i];
    }
    k->max_pool_backward(p, place, dy, dx);
    assert_memory_equal(dx, expected, in * sizeof *dx);
    assert_true(dx[in] == 77.0f);
    free(dy), free(dx), free(expected);
}

static void pools(const struct kernels_image *k, size_t size, size_t stride, size_t width, size_t channels)
{
    struct kernels_pool p = {.images = 2,
                             .height = 7,
                             .width = width,
                             .channels = channels,
                             .size_y = size,
                             .size_x = size,
                             .stride = stride,
                             .out_height = (7 - size) / stride + 1,
                             .out_width = (width - size) / stride + 1};
    const size_t out = p.images * p.out_height * p.out_width * channels;
    float *x = drawn(p.images * p.height * p.width * channels), *largest = drawn(out), *mean = drawn(out);
    uint32_t *place = calloc(out + 1, sizeof *place);
    assert_non_null(place);
    largest[out] = 77.0f;
    place[out] = 77;
    k->max_pool(&p, x, place, largest);
    k->mean_pool(&p, x, mean);
    assert_true(largest[out] == 77.0f && place[out] == 77);
    largest_goes_back(k, &p, place);
    for (size_t i = 0; i < out; i++) {
        const size_t c = i % channels, ox = i / channels % p.out_width,
                     oy = i / channels / p.out_width % p.out_height,
                     image = i / channels / p.out_width / p.out_height;
        double most = -INFINITY, sum = 0;
        size_t where = 0;
        for (size_t j = 0; j < size * size; j++) {
            const size_t y = oy * stride + j / size, at = ox * stride + j % size;
            const double value = (double)x[((image * p.height + y) * p.width + at) * channels + c];
            where = value > most ? j : where;
            most = value > most ? value : most;
            sum += value;
        }
        assert_true((double)largest[i] == most && place[i] == where);
        assert_near("mean", i, mean[i], sum / (double)(size * size));
    }
    free(x);
    free(largest);
    free(mean);
    free(place);
}

// Lines of one channel and of whole vectors, and the last line, which has no whole vectors; two NaN in each
// window.
static void the_first_nan_of_a_window_is_its_largest(void **state)
{
    enum { IMAGES = 2, SIDE = 8, OUT = SIDE / 2 };
    (void)state;
    for (size_t p = 0; p < PATHS; p++) {
        const struct kernels *k = kernels_cpu_table(paths[p]);
        for (size_t channels = 1; k && channels <= 16; channels += 15) {
            const struct kernels_pool pool = {IMAGES, SIDE, SIDE, channels, 2, 2, 2, OUT, OUT};
            const size_t in = IMAGES * SIDE * SIDE * channels, out = IMAGES * OUT * OUT * channels;
            float *x = drawn(in), *y = drawn(out);
            uint32_t *place = calloc(out, sizeof *place);
            assert_non_null(place);
            for (size_t i = 0; i < in; i++) { // in the second and third place of a window
                const size_t column = i / channels % SIDE, row = i / channels / SIDE % SIDE;
                x[i] = column % 2 != row % 2 ? NAN : 1.0f;
            }
            k->image->max_pool(&pool, x, place, y);
            for (size_t i = 0; i < out; i++) {
                assert_true(isnan(y[i]) && place[i] == 1);
            }
            free(x), free(y), free(place);
        }
    }
}

static void windows_have_a_largest_and_a_mean(void **state)
{
    (void)state;
    for (size_t p = 0; p < PATHS; p++) {
        const struct kernels *k = kernels_cpu_table(paths[p]);
        for (size_t channels = 1; k && channels < 40; channels += channels == 7 ? 1 : 6) {
            for (size_t width = 3; width < 8; width++) {
                pools(k->image, 2, 2, width, channels);
                pools(k->image, 3, 3, width, channels);
                pools(k->image, 3, 2, width, channels);
            }
        }
    }
}

static void groups_have_mean_0_and_deviation_1(void **state)
{
    (void)state;
    for (size_t p = 0; p < PATHS; p++) {
        const struct kernels *k = kernels_cpu_table(paths[p]);
        const struct kernels_group_norm n = {
            .images = 2, .pixels = 11, .channels = 12, .groups = 4, .epsilon = 1e-5f};
        float *x = drawn(2 * 11 * 12), *gamma = drawn(12), *beta = drawn(12), *y = drawn(2 * 11 * 12),
              kept[16];
        for (size_t i = 0; k && i < 2; i++) {
            k->image->norm(&n, x, gamma, beta, kept, y);
            for (size_t g = 0; g < 4; g++) {
                double sum = 0, square = 0;
                for (size_t j = 0; j < 33; j++) {
                    sum += (double)x[(i * 11 + j / 3) * 12 + g * 3 + j % 3] / 33.0;
                }
                for (size_t j = 0; j < 33; j++) {
                    const double d = (double)x[(i * 11 + j / 3) * 12 + g * 3 + j % 3] - sum;
                    square += d * d / 33.0;
                }
                for (size_t j = 0; j < 33; j++) {
                    const size_t c = g * 3 + j % 3, at = (i * 11 + j / 3) * 12 + c;
                    assert_near("norm", at, y[at],
                                ((double)x[at] - sum) / sqrt(square + 1e-5) * (double)gamma[c] +
                                    (double)beta[c]);
                }
            }
        }
        free(x);
        free(gamma);
        free(beta);
        free(y);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_are_sums_of_products),
        cmocka_unit_test(convolution_gradients_match_their_definition),
        cmocka_unit_test(avx2_and_avx512_give_the_same_bits),
        cmocka_unit_test(windows_have_a_largest_and_a_mean),
        cmocka_unit_test(the_first_nan_of_a_window_is_its_largest),
        cmocka_unit_test(groups_have_mean_0_and_deviation_1),
    };
    const char *given = getenv("P2PML_SEED");
    const uint64_t seed = given ? strtoull(given, NULL, 10) : 20260714u;
    printf("seed %llu\n", (unsigned long long)seed);
    base_rng_seed(&rng, seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
