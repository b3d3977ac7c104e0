// What layers ask of a backend (kernels/image.h, kernels/sequence.h) beside the CPU's plain loops: bit for
// bit if nothing is summed or the order of a sum is fixed, else within the rounding of the sums. Each call is
// made twice, and the bits must be the same both times. For CUDA on a device and for its code in the
// emulator.
#ifndef TEST_UNIT_KERNELS_TWIN_LAYERS_H
#define TEST_UNIT_KERNELS_TWIN_LAYERS_H

#include "kernels_twin.h"

#define TWIN_COUNT(list) (sizeof(list) / sizeof(list)[0])

// One vector of a call, for the plain table, the other one, and the other one again.
enum { TWIN_PLAIN, TWIN_OTHER, TWIN_AGAIN, TWIN_RUNS };
struct twin_vector {
    size_t count;
    float *at[TWIN_RUNS];
};

static inline const struct kernels *twin_table(const struct twins *t, int run)
{
    return run == TWIN_PLAIN ? t->plain : t->other;
}

static inline struct twin_vector twin_vector(const struct twins *t, size_t count, enum twin_data data)
{
    struct twin_vector v = {.count = count};
    float *host = malloc((count + 1) * sizeof *host);
    assert_non_null(host);
    twin_fill(data, host, count);
    for (int run = 0; run < TWIN_RUNS; run++) {
        v.at[run] = twin_send(twin_table(t, run), host, count * sizeof *host);
    }
    free(host);
    return v;
}

static inline uint32_t *twin_words(const struct twin_vector *v, int run)
{
    return (uint32_t *)(void *)v->at[run];
}

// What a run left, with its guards checked; the caller frees it.
static inline float *twin_look(const struct twins *t, const struct twin_vector *v, int run)
{
    const struct kernels *k = twin_table(t, run);
    const size_t bytes = v->count * sizeof(float);
    unsigned char *host = malloc(bytes + GUARD);
    assert_non_null(host);
    k->wait();
    k->download(host, v->at[run], bytes + GUARD);
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(host[bytes + i], 0x5a);
    }
    return (float *)(void *)host;
}

static inline bool twin_equal(float found, float expected)
{
    return twin_bits(found) == twin_bits(expected) || (isnan(found) && isnan(expected));
}

// bound 0: the same bits, or both NaN; else the largest error of a number, relative to 1 + its size.
static inline void twin_compare(const struct twins *t, const char *what, const struct twin_vector *v,
                                double bound)
{
    float *plain = twin_look(t, v, TWIN_PLAIN), *other = twin_look(t, v, TWIN_OTHER),
          *again = twin_look(t, v, TWIN_AGAIN);
    twin_same(what, v->count, again, other, v->count * sizeof *again);
    for (size_t i = 0; i < v->count; i++) {
        const double expected = (double)plain[i];
        if (!twin_equal(other[i], plain[i])) {
            checks_close(what, v->count, i, (double)other[i], expected, bound * (1.0 + fabs(expected)));
        }
        if (bound == 0.0 && !twin_equal(other[i], plain[i])) {
            fail_msg("%s, %zu elements, element %zu: found the bits %08x, expected %08x", what, v->count, i,
                     twin_bits(other[i]), twin_bits(plain[i]));
        }
    }
    free(plain);
    free(other);
    free(again);
}

static inline void twin_free(const struct twins *t, struct twin_vector *v)
{
    for (int run = 0; run < TWIN_RUNS; run++) {
        twin_table(t, run)->release(v->at[run]);
    }
}

static inline void twin_end(const struct twins *t, const char *what, struct twin_vector *v, double bound)
{
    twin_compare(t, what, v, bound);
    twin_free(t, v);
}

// All runs go on with the values of the plain one: signs of sums around 0 differ.
static inline void twin_agree(const struct twins *t, const struct twin_vector *v)
{
    float *plain = twin_look(t, v, TWIN_PLAIN);
    for (int run = TWIN_OTHER; run < TWIN_RUNS; run++) {
        twin_table(t, run)->upload(v->at[run], plain, v->count * sizeof *plain);
    }
    free(plain);
}

#define TWIN_EACH(run) for (int run = 0; run < TWIN_RUNS; run++)

// --- convolution ---

struct twin_conv {
    struct kernels_conv c;
    bool bias, accumulate, first; // first: no gradient of x
    enum twin_data data;
};

static inline void twin_conv_once(const struct twins *t, const struct twin_conv *a)
{
    const struct kernels_conv *c = &a->c;
    const size_t in = c->images * c->height * c->width * c->channels,
                 pixels = c->images * c->out_height * c->out_width,
                 weights = c->size * c->size * c->channels * c->outputs, scratch = kernels_conv_scratch(c);
    struct twin_vector x = twin_vector(t, in, a->data), weight = twin_vector(t, weights, a->data),
                       bias = twin_vector(t, c->outputs, TWIN_GAUSSIAN),
                       y = twin_vector(t, pixels * c->outputs, TWIN_NAN),
                       dy = twin_vector(t, pixels * c->outputs, a->data), dx = twin_vector(t, in, TWIN_NAN),
                       dbias = twin_vector(t, c->outputs, a->accumulate ? TWIN_GAUSSIAN : TWIN_NAN),
                       dweight = twin_vector(t, weights, a->accumulate ? TWIN_GAUSSIAN : TWIN_NAN),
                       room = twin_vector(t, scratch, TWIN_NAN);
    const double inputs = (double)(c->size * c->size * c->channels);
    TWIN_EACH(run)
    {
        twin_table(t, run)->image->conv(c, x.at[run], weight.at[run], a->bias ? bias.at[run] : NULL,
                                        room.at[run], y.at[run]);
    }
    twin_compare(t, "conv y", &y, inputs * EPS);
    twin_agree(t, &y);
    TWIN_EACH(run)
    {
        twin_table(t, run)->image->conv_backward(
            c, x.at[run], weight.at[run], c->relu ? y.at[run] : NULL, dy.at[run], a->accumulate, room.at[run],
            dweight.at[run], a->bias ? dbias.at[run] : NULL, a->first ? NULL : dx.at[run]);
    }
    twin_end(t, "conv dweight", &dweight, (double)pixels * 2 * EPS);
    twin_end(t, "conv dbias", &dbias, (double)pixels * 2 * EPS);
    twin_end(t, "conv dx", &dx, inputs * (double)c->outputs * EPS);
    struct twin_vector *rest[] = {&x, &weight, &bias, &y, &dy};
    for (size_t i = 0; i < TWIN_COUNT(rest); i++) {
        twin_end(t, "the input of conv", rest[i], 0.0);
    }
    twin_free(t, &room);
}

static inline void twin_conv_all(const struct twins *t, enum twin_data data)
{
    static const size_t outputs[] = {1, 5, 16, 33};
    for (size_t i = 0; i < 64; i++) {
        struct twin_conv a = {.c = {.images = 1 + i % 4,
                                    .height = 5 + i % 3,
                                    .width = 5 + i % 11,
                                    .channels = 1 + i % 7,
                                    .size = i % 9 == 0 ? 5 : 1 + i % 3,
                                    .stride = 1 + i / 3 % 3,
                                    .outputs = outputs[i % 4],
                                    .relu = i % 5 < 2},
                              .bias = i % 3 != 0,
                              .accumulate = i / 2 % 2 == 1,
                              .first = i % 6 == 5,
                              .data = data};
        a.c.padding = i / 4 % a.c.size;
        a.c.out_height = (a.c.height + 2 * a.c.padding - a.c.size) / a.c.stride + 1;
        a.c.out_width = (a.c.width + 2 * a.c.padding - a.c.size) / a.c.stride + 1;
        twin_conv_once(t, &a);
    }
}

static inline void checks_twin_conv(void **state)
{
    twin_conv_all(*state, TWIN_GAUSSIAN);
}

// Numbers that bf16 represents exactly: products with factors in bf16 are the same.
static inline void checks_twin_conv_few(void **state)
{
    twin_conv_all(*state, TWIN_FEW);
}

// --- pooling ---

static inline void twin_pool_once(const struct twins *t, struct kernels_pool p, enum twin_data data)
{
    p.out_height = (p.height - p.size_y) / p.stride + 1;
    p.out_width = (p.width - p.size_x) / p.stride + 1;
    const size_t in = p.images * p.height * p.width * p.channels,
                 out = p.images * p.out_height * p.out_width * p.channels;
    struct twin_vector x = twin_vector(t, in, data), y = twin_vector(t, out, TWIN_NAN),
                       place = twin_vector(t, out, TWIN_NAN), dy = twin_vector(t, out, TWIN_SPARSE),
                       dx = twin_vector(t, in, TWIN_NAN), mean = twin_vector(t, out, TWIN_NAN),
                       dmean = twin_vector(t, in, TWIN_NAN);
    TWIN_EACH(run)
    {
        const struct kernels_image *k = twin_table(t, run)->image;
        k->max_pool(&p, x.at[run], twin_words(&place, run), y.at[run]);
        k->max_pool_backward(&p, twin_words(&place, run), dy.at[run], dx.at[run]);
        k->mean_pool(&p, x.at[run], mean.at[run]);
        k->mean_pool_backward(&p, dy.at[run], dmean.at[run]);
    }
    twin_end(t, "max_pool places", &place, 0.0);
    twin_end(t, "max_pool dx", &dx, 0.0);
    twin_end(t, "mean_pool dx", &dmean, 0.0);
    twin_end(t, "max_pool y", &y, 0.0);
    twin_end(t, "mean_pool y", &mean, 0.0);
    twin_end(t, "pool x", &x, 0.0);
    twin_end(t, "pool dy", &dy, 0.0);
}

// Windows that are apart, overlap, or leave pixels out; ties, and NaN.
static inline void checks_twin_pool(void **state)
{
    static const enum twin_data data[] = {TWIN_GAUSSIAN, TWIN_FEW, TWIN_CONSTANT, TWIN_NAN};
    for (size_t i = 0; i < 48; i++) {
        const struct kernels_pool p = {.images = 1 + i % 3,
                                       .height = 5 + i % 4,
                                       .width = 4 + i % 7,
                                       .channels = i % 6 == 0 ? 300 : 1 + i % 19,
                                       .size_y = 1 + i % 3,
                                       .size_x = 1 + i / 3 % 4,
                                       .stride = 1 + i / 12 % 3};
        twin_pool_once(*state, p, data[i % TWIN_COUNT(data)]);
    }
}

static inline void twin_shortcut_once(const struct twins *t, struct kernels_shortcut s)
{
    const size_t in = s.images * s.in_height * s.in_width * s.channels,
                 out = s.images * s.height * s.width * s.outputs;
    struct twin_vector x = twin_vector(t, in, TWIN_GAUSSIAN), y = twin_vector(t, out, TWIN_GAUSSIAN),
                       dy = twin_vector(t, out, TWIN_GAUSSIAN), dx = twin_vector(t, in, TWIN_GAUSSIAN);
    TWIN_EACH(run)
    {
        const struct kernels_image *k = twin_table(t, run)->image;
        k->shortcut(&s, x.at[run], y.at[run]);
        k->shortcut_backward(&s, dy.at[run], dx.at[run]);
    }
    struct twin_vector *all[] = {&x, &y, &dy, &dx};
    for (size_t i = 0; i < TWIN_COUNT(all); i++) {
        twin_end(t, "shortcut", all[i], 0.0);
    }
}

static inline void checks_twin_shortcut(void **state)
{
    for (size_t i = 0; i < 16; i++) {
        struct kernels_shortcut s = {.images = 1 + i % 3,
                                     .in_height = 4 + i % 5,
                                     .in_width = 3 + i % 7,
                                     .stride = 1 + i % 3,
                                     .channels = i % 4 == 0 ? 100 : 1 + i};
        s.height = (s.in_height - 1) / s.stride + 1;
        s.width = (s.in_width - 1) / s.stride + 1;
        s.outputs = s.channels + i % 2 * 5;
        twin_shortcut_once(*state, s);
    }
}

// --- group normalisation ---

static inline void twin_group_norm_once(const struct twins *t, const struct kernels_group_norm *n,
                                        bool accumulate, bool first)
{
    const size_t in = n->images * n->pixels * n->channels, kept = 2 * n->images * n->groups;
    const enum twin_data before = accumulate ? TWIN_GAUSSIAN : TWIN_NAN;
    struct twin_vector x = twin_vector(t, in, TWIN_GAUSSIAN),
                       gamma = twin_vector(t, n->channels, TWIN_GAUSSIAN),
                       beta = twin_vector(t, n->channels, TWIN_GAUSSIAN), y = twin_vector(t, in, TWIN_NAN),
                       statistics = twin_vector(t, kept, TWIN_NAN), dy = twin_vector(t, in, TWIN_GAUSSIAN),
                       room = twin_vector(t, 6 * n->channels, TWIN_NAN),
                       dgamma = twin_vector(t, n->channels, before),
                       dbeta = twin_vector(t, n->channels, before), dx = twin_vector(t, in, TWIN_GAUSSIAN);
    const double sums = (double)(n->images * n->pixels) * 4 * EPS, small = 2e-5;
    TWIN_EACH(run)
    {
        twin_table(t, run)->image->norm(n, x.at[run], gamma.at[run], beta.at[run], statistics.at[run],
                                        y.at[run]);
    }
    twin_compare(t, "norm y", &y, small);
    twin_agree(t, &y);
    TWIN_EACH(run)
    {
        twin_table(t, run)->image->norm_backward(n, x.at[run], n->relu ? y.at[run] : NULL, gamma.at[run],
                                                 statistics.at[run], dy.at[run], accumulate, room.at[run],
                                                 dgamma.at[run], dbeta.at[run], first ? NULL : dx.at[run]);
    }
    twin_end(t, "norm statistics", &statistics, small);
    twin_end(t, "norm dgamma", &dgamma, sums + small);
    twin_end(t, "norm dbeta", &dbeta, sums + small);
    twin_end(t, "norm dx", &dx, n->pixels * n->channels / n->groups < 3 ? 1e-2 : 1e-4);
    struct twin_vector *rest[] = {&x, &gamma, &beta, &y, &dy};
    for (size_t i = 0; i < TWIN_COUNT(rest); i++) {
        twin_end(t, "the input of norm", rest[i], 0.0);
    }
    twin_free(t, &room);
}

static inline void checks_twin_group_norm(void **state)
{
    static const size_t channels[] = {1, 12, 16, 5, 6, 300}, groups[] = {1, 4, 8, 5, 1, 2},
                        pixels[] = {5, 1, 11, 49, 300};
    for (size_t i = 0; i < 30; i++) {
        const struct kernels_group_norm n = {.images = 1 + i % 4,
                                             .pixels = channels[i % 6] == groups[i % 6] ? 5 : pixels[i % 5],
                                             .channels = channels[i % 6],
                                             .groups = groups[i % 6],
                                             .epsilon = 1e-5f,
                                             .relu = i % 4 < 2};
        twin_group_norm_once(*state, &n, i % 3 == 0, i % 7 == 6);
    }
}

// --- sequences ---

static inline void twin_attention_once(const struct twins *t, const struct kernels_attention *shape)
{
    const size_t rows = shape->sequences * shape->tokens, all = shape->heads * shape->width,
                 scratch = kernels_attention_scratch(shape);
    struct twin_vector qkv = twin_vector(t, 3 * rows * all, TWIN_GAUSSIAN),
                       out = twin_vector(t, rows * all, TWIN_NAN),
                       log_sum = twin_vector(t, rows * shape->heads, TWIN_NAN),
                       grad = twin_vector(t, rows * all, TWIN_GAUSSIAN),
                       grad_qkv = twin_vector(t, 3 * rows * all, TWIN_NAN),
                       room = twin_vector(t, scratch, TWIN_NAN);
    TWIN_EACH(run)
    {
        const struct kernels_sequence *k = twin_table(t, run)->sequence;
        k->attention(shape, qkv.at[run], room.at[run], out.at[run], log_sum.at[run]);
        k->attention_backward(shape, qkv.at[run], out.at[run], log_sum.at[run], grad.at[run], room.at[run],
                              grad_qkv.at[run]);
    }
    twin_end(t, "attention out", &out, 1e-5);
    twin_end(t, "attention log_sum", &log_sum, 1e-5);
    twin_end(t, "attention grad_qkv", &grad_qkv, 1e-4);
    twin_end(t, "attention qkv", &qkv, 0.0);
    twin_end(t, "attention grad", &grad, 0.0);
    twin_free(t, &room);
}

// Around the borders of tiles of 64 queries, of panels of 64 numbers, and of 16 terms.
static inline void checks_twin_attention(void **state)
{
    static const struct kernels_attention shapes[] = {{2, 63, 2, 64},  {1, 64, 3, 16},  {1, 65, 1, 65},
                                                      {2, 130, 2, 33}, {1, 40, 1, 130}, {1, 200, 1, 7}};
    for (size_t i = 0; i < TWIN_COUNT(shapes); i++) {
        twin_attention_once(*state, &shapes[i]);
    }
}

static inline void twin_layernorm_once(const struct twins *t, size_t rows, size_t cols, bool accumulate)
{
    const struct kernels_norm n = {rows, cols, accumulate};
    const enum twin_data before = accumulate ? TWIN_GAUSSIAN : TWIN_NAN;
    struct twin_vector x = twin_vector(t, rows * cols, TWIN_GAUSSIAN),
                       gain = twin_vector(t, cols, TWIN_GAUSSIAN), bias = twin_vector(t, cols, TWIN_GAUSSIAN),
                       out = twin_vector(t, rows * cols, TWIN_NAN), mean = twin_vector(t, rows, TWIN_NAN),
                       inverse = twin_vector(t, rows, TWIN_NAN),
                       grad = twin_vector(t, rows * cols, TWIN_GAUSSIAN),
                       grad_x = twin_vector(t, rows * cols, TWIN_GAUSSIAN),
                       grad_gain = twin_vector(t, cols, before), grad_bias = twin_vector(t, cols, before);
    TWIN_EACH(run)
    {
        const struct kernels_sequence *k = twin_table(t, run)->sequence;
        k->layernorm(rows, cols, x.at[run], gain.at[run], bias.at[run], out.at[run], mean.at[run],
                     inverse.at[run]);
        k->layernorm_backward(&n, grad.at[run], x.at[run], gain.at[run], mean.at[run], inverse.at[run],
                              grad_x.at[run], grad_x.at[run], grad_gain.at[run], grad_bias.at[run]);
    }
    twin_end(t, "layernorm out", &out, 2e-5);
    twin_end(t, "layernorm mean", &mean, 2e-5);
    twin_end(t, "layernorm inverse", &inverse, 2e-5);
    twin_end(t, "layernorm grad_x", &grad_x, 1e-4);
    twin_end(t, "layernorm grad_gain", &grad_gain, (double)rows * 4 * EPS + 1e-5);
    twin_end(t, "layernorm grad_bias", &grad_bias, (double)rows * 4 * EPS + 1e-5);
    struct twin_vector *rest[] = {&x, &gain, &bias, &grad};
    for (size_t i = 0; i < TWIN_COUNT(rest); i++) {
        twin_end(t, "the input of layernorm", rest[i], 0.0);
    }
}

// More rows than a warp, a block and a slab have, and more than one slab.
static inline void checks_twin_layernorm(void **state)
{
    static const size_t rows[] = {1, 8, 9, 127, 129, 300}, cols[] = {33, 5, 64, 31, 200, 100};
    for (size_t i = 0; i < TWIN_COUNT(rows); i++) {
        twin_layernorm_once(*state, rows[i], cols[i], i % 2 == 1);
    }
}

// ids [rows] below `words`.
static inline struct twin_vector twin_ids(const struct twins *t, size_t rows, size_t words)
{
    struct twin_vector ids = {.count = rows};
    uint32_t *host = malloc((rows + 1) * sizeof *host);
    assert_non_null(host);
    for (size_t i = 0; i < rows; i++) {
        host[i] = (uint32_t)twin_below(words);
    }
    TWIN_EACH(run)
    {
        ids.at[run] = twin_send(twin_table(t, run), host, rows * sizeof *host);
    }
    free(host);
    return ids;
}

// The rows of a word are added in order, so the bits are those of the CPU.
static inline void twin_embed_once(const struct twins *t, size_t rows, size_t tokens, size_t width,
                                   size_t words)
{
    struct twin_vector ids = twin_ids(t, rows, words), token = twin_vector(t, words * width, TWIN_GAUSSIAN),
                       place = twin_vector(t, tokens * width, TWIN_GAUSSIAN),
                       out = twin_vector(t, rows * width, TWIN_NAN),
                       grad = twin_vector(t, rows * width, TWIN_GAUSSIAN);
    TWIN_EACH(run)
    {
        const struct kernels_sequence *k = twin_table(t, run)->sequence;
        k->embed(rows, tokens, width, twin_words(&ids, run), token.at[run], place.at[run], out.at[run]);
        k->embed_backward(rows, width, twin_words(&ids, run), grad.at[run], token.at[run]);
    }
    struct twin_vector *all[] = {&ids, &token, &place, &out, &grad};
    for (size_t i = 0; i < TWIN_COUNT(all); i++) {
        twin_end(t, "embedding", all[i], 0.0);
    }
}

static inline void checks_twin_embed(void **state)
{
    twin_embed_once(*state, 1, 1, 1, 1);
    twin_embed_once(*state, 255, 5, 33, 1);
    twin_embed_once(*state, 257, 257, 7, 3);
    twin_embed_once(*state, 600, 20, 300, 50);
    twin_embed_once(*state, 40, 8, 16, 1000);
}

// Element by element: the same bits, except for exp in GELU.
static inline void twin_elements_once(const struct twins *t, size_t rows, size_t cols, enum twin_data data)
{
    const size_t count = rows * cols;
    struct twin_vector x = twin_vector(t, count, data), bias = twin_vector(t, cols, TWIN_GAUSSIAN),
                       sum = twin_vector(t, count, TWIN_NAN), kept = twin_vector(t, count, TWIN_NAN),
                       z = twin_vector(t, count, data), bent = twin_vector(t, count, TWIN_NAN),
                       grad = twin_vector(t, count, TWIN_GAUSSIAN);
    TWIN_EACH(run)
    {
        const struct kernels_sequence *k = twin_table(t, run)->sequence;
        k->residual(rows, cols, bias.at[run], x.at[run], sum.at[run]);
        k->dropout(count, 0x123456789abcdefu + count, 0.3f, x.at[run], kept.at[run]);
        k->bias_gelu(rows, cols, bias.at[run], z.at[run], bent.at[run]);
        k->gelu_backward(count, x.at[run], grad.at[run]);
    }
    twin_end(t, "residual", &sum, 0.0);
    twin_end(t, "dropout", &kept, 0.0);
    twin_end(t, "gelu", &bent, 2e-6);
    twin_end(t, "gelu slope", &z, 2e-5);
    twin_end(t, "gelu backward", &grad, 0.0);
    twin_end(t, "x", &x, 0.0);
    twin_end(t, "b", &bias, 0.0);
}

static inline void checks_twin_elements(void **state)
{
    static const size_t cols[] = {1, 31, 32, 255, 256, 257, 1000};
    for (size_t i = 0; i < TWIN_COUNT(cols); i++) {
        twin_elements_once(*state, 1 + i % 3 * 5, cols[i], i % 2 == 0 ? TWIN_GAUSSIAN : TWIN_FEW);
    }
    twin_elements_once(*state, 1, 1100000, TWIN_GAUSSIAN); // more than the threads of a launch
}

#define CHECKS_TWIN_IMAGE                                                                                    \
    {"conv", checks_twin_conv}, {"pool", checks_twin_pool}, {"shortcut", checks_twin_shortcut},              \
    {                                                                                                        \
        "group norm", checks_twin_group_norm                                                                 \
    }
#define CHECKS_TWIN_SEQUENCE                                                                                 \
    {"attention beside the CPU's", checks_twin_attention},                                                   \
        {"layernorm of many rows", checks_twin_layernorm}, {"embedding of many rows", checks_twin_embed},    \
    {                                                                                                        \
        "elements", checks_twin_elements                                                                     \
    }

#endif
