// Built-in digits. The points of a glyph are jittered, joined by curves, sheared, rotated, scaled, distorted
// by a smooth random field and drawn with a pen of varying width; then noise is added. Only operations whose
// rounding IEEE 754 defines are used, so example i of a seed is the same picture on every machine.
#include "base/rng.h"
#include "train/glyphs.h"
#include "train/loaders.h"
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SIDE    28
#define PIXELS  (SIDE * SIDE)
#define CLASSES 10u
#define PIECES  4 // straight pieces of a curve between two points
#define FIELD   6 // control displacements of the elastic field per side
#define CELL    (SIDE / (float)(FIELD - 3))

// The strength of each variation, chosen so that after training on 8,000 examples a linear model classifies
// about 85% of new examples correctly, and an MLP with 256 units about 96%.
#define JITTER    3.5f  // displacement of a point, in hundredths of the glyph
#define TURN      0.09f // radians
#define SHEAR     0.15f
#define STRETCH   0.09f // of width and height
#define SIZE_PX   19.5f // height of a digit
#define WIDTH_PX  18.0f
#define SHIFT_PX  1.3f
#define ELASTIC   1.1f // control displacement in pixels
#define GAP_ODDS  6    // one stroke in six has a gap in its ink
#define BLUR_ODDS 4

struct pen {
    float x, y, radius;
};

// A random number with mean 0 and variance 1: the sum of four uniform numbers. A normal one would need libm's
// logarithm, which differs between machines.
static float wakeup(struct base_rng *rng)
{
    uint64_t bits = base_rng_u64(rng);
    uint32_t sum = (uint32_t)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
    return ((float)sum - 131070.0f) * (1.0f / 37837.2f); // 4 * 65535 / 2, and 65536 / sqrt(3)
}

static float between(struct base_rng *rng, float low, float high)
{
    return low + (high - low) * (float)base_rng_uniform(rng);
}

static float clamp(float value, float low, float high)
{
    return value < low ? low : value > high ? high : value;
}

// The random numbers that are drawn once per picture.
struct hand {
    float xx, xy, yx, yy, x, y; // pixel = matrix * point + (x, y)
    float field[FIELD][FIELD][2];
    float radius, taper, soft, ink, noise;
};

static void draw_matrix(struct base_rng *rng, struct hand *hand)
{
    float t = clamp(TURN * wakeup(rng), -0.6f, 0.6f);
    float cosine = 1 - t * t / 2 + t * t * t * t / 24, sine = t - t * t * t / 6;
    float shear = SHEAR * wakeup(rng) - 0.1f; // most handwriting slants to the right
    float width = WIDTH_PX / 100 * (1 + clamp(STRETCH * wakeup(rng), -0.4f, 0.3f));
    float height = SIZE_PX / 100 * (1 + clamp(STRETCH * wakeup(rng), -0.4f, 0.25f));
    hand->xx = cosine * width;
    hand->xy = (cosine * shear - sine) * height;
    hand->yx = sine * width;
    hand->yy = (sine * shear + cosine) * height;
    hand->x = SIDE / 2.0f + SHIFT_PX * wakeup(rng);
    hand->y = SIDE / 2.0f + SHIFT_PX * wakeup(rng);
}

static void draw_hand(struct base_rng *rng, struct hand *hand)
{
    draw_matrix(rng, hand);
    for (int i = 0; i < FIELD; i++)
        for (int j = 0; j < FIELD; j++)
            for (int k = 0; k < 2; k++)
                hand->field[i][j][k] = ELASTIC * wakeup(rng);
    hand->radius = between(rng, 0.8f, 1.6f);
    hand->taper = between(rng, -0.35f, 0.35f);
    hand->soft = between(rng, 0.45f, 0.9f);
    hand->ink = between(rng, 0.7f, 1.0f);
    hand->noise = between(rng, 0.0f, 0.16f);
}

// Uniform cubic B-spline weights at t in [0, 1).
static void spline_weights(float t, float w[4])
{
    float s = 1 - t;
    w[0] = s * s * s / 6;
    w[1] = (3 * t * t * t - 6 * t * t + 4) / 6;
    w[2] = (3 * s * s * s - 6 * s * s + 4) / 6;
    w[3] = t * t * t / 6;
}

// Maps a point of the glyph's square to pixels: first the affine map, then the elastic field.
static void place(const struct hand *hand, float x, float y, struct pen *pen)
{
    float u = x - 50, v = y - 50;
    pen->x = hand->xx * u + hand->xy * v + hand->x;
    pen->y = hand->yx * u + hand->yy * v + hand->y;
    float fx = clamp(pen->x / CELL, 0, FIELD - 3.001f), fy = clamp(pen->y / CELL, 0, FIELD - 3.001f);
    int cx = (int)fx, cy = (int)fy;
    float wx[4], wy[4], dx = 0, dy = 0;
    spline_weights(fx - (float)cx, wx);
    spline_weights(fy - (float)cy, wy);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            dx += wy[i] * wx[j] * hand->field[cy + i][cx + j][0];
            dy += wy[i] * wx[j] * hand->field[cy + i][cx + j][1];
        }
    pen->x += dx;
    pen->y += dy;
}

// Lowers depth[p] to the distance between pixel p and the piece a-b, minus the radius of the pen there.
static void draw_piece(const struct pen *a, const struct pen *b, float depth[PIXELS])
{
    float reach = (a->radius > b->radius ? a->radius : b->radius) + 1; // the softest edge is narrower than 1
    int left = (int)clamp((a->x < b->x ? a->x : b->x) - reach, 0, SIDE);
    int right = (int)clamp((a->x > b->x ? a->x : b->x) + reach + 1, 0, SIDE);
    int top = (int)clamp((a->y < b->y ? a->y : b->y) - reach, 0, SIDE);
    int bottom = (int)clamp((a->y > b->y ? a->y : b->y) + reach + 1, 0, SIDE);
    float dx = b->x - a->x, dy = b->y - a->y;
    float scale = 1 / (dx * dx + dy * dy + 1e-6f);
    for (int y = top; y < bottom; y++)
        for (int x = left; x < right; x++) {
            float px = (float)x + 0.5f - a->x, py = (float)y + 0.5f - a->y;
            float t = clamp((px * dx + py * dy) * scale, 0, 1);
            float ex = px - t * dx, ey = py - t * dy;
            float found = sqrtf(ex * ex + ey * ey) - (a->radius + t * (b->radius - a->radius));
            float *pixel = &depth[y * SIDE + x];
            *pixel = found < *pixel ? found : *pixel;
        }
}

// Catmull-Rom curve from p[1] to p[2].
static float curve(float p0, float p1, float p2, float p3, float t)
{
    return p1 + 0.5f * t * (p2 - p0 + t * (2 * p0 - 5 * p1 + 4 * p2 - p3 + t * (3 * (p1 - p2) + p3 - p0)));
}

// Draws one stroke through `count` points. `gap`: the number of the piece that is left out.
static void draw_stroke(const struct hand *hand, float (*at)[2], int count, int gap, float depth[PIXELS])
{
    int pieces = (count - 1) * PIECES;
    struct pen last = {0};
    for (int i = 0; i <= pieces; i++) {
        int span = i / PIECES < count - 1 ? i / PIECES : count - 2;
        float t = (float)(i - span * PIECES) / PIECES;
        float *p0 = at[span > 0 ? span - 1 : 0], *p1 = at[span], *p2 = at[span + 1];
        float *p3 = at[span + 2 < count ? span + 2 : count - 1];
        struct pen pen;
        place(hand, curve(p0[0], p1[0], p2[0], p3[0], t), curve(p0[1], p1[1], p2[1], p3[1], t), &pen);
        pen.radius = hand->radius * (1 + hand->taper * (2 * (float)i / (float)pieces - 1));
        if (i > 0 && (i < gap || i > gap + 1))
            draw_piece(&last, &pen, depth);
        last = pen;
    }
}

static void draw_glyph(struct base_rng *rng, const struct hand *hand, const struct glyph *glyph,
                       float depth[PIXELS])
{
    float at[GLYPH_POINTS][2];
    int start = 0;
    for (size_t s = 0; s < GLYPH_STROKES && glyph->points[s] > 0; s++) {
        int count = glyph->points[s];
        for (int i = start; i < start + count; i++) {
            bool corner = i > start && memcmp(glyph->at[i], glyph->at[i - 1], 2) == 0;
            for (int k = 0; k < 2; k++)
                at[i][k] = corner ? at[i - 1][k] : (float)glyph->at[i][k] + JITTER * wakeup(rng);
        }
        bool has_gap = base_rng_below(rng, GAP_ODDS) == 0; // the pen leaves the paper
        int gap = has_gap ? (int)base_rng_below(rng, (uint64_t)count * PIECES) : count * PIECES;
        draw_stroke(hand, at + start, count, gap, depth);
        start += count;
    }
}

// Weights 1/4, 1/2, 1/4 along x, then along y.
static void blur(float pixels[PIXELS])
{
    float rows[PIXELS];
    for (int i = 0; i < PIXELS; i++) {
        int x = i % SIDE;
        rows[i] = (2 * pixels[i] + (x > 0 ? pixels[i - 1] : 0) + (x + 1 < SIDE ? pixels[i + 1] : 0)) / 4;
    }
    for (int i = 0; i < PIXELS; i++)
        pixels[i] =
            (2 * rows[i] + (i >= SIDE ? rows[i - SIDE] : 0) + (i + SIDE < PIXELS ? rows[i + SIDE] : 0)) / 4;
}

static void add_noise(struct base_rng *rng, float strength, float pixels[PIXELS])
{
    for (int i = 0; i < PIXELS; i += 8) {
        uint64_t bits = base_rng_u64(rng);
        for (int k = 0; k < 8; k++, bits >>= 8) {
            float noise = strength * ((float)(bits & 0xff) * (2 / 255.0f) - 1);
            pixels[i + k] = clamp(pixels[i + k] + noise, 0, 1);
        }
    }
}

// The label is the first random number of a digit.
static uint32_t draw_label(struct base_rng *rng, uint64_t seed, uint64_t number)
{
    base_rng_seed_stream(rng, seed, number);
    return (uint32_t)base_rng_below(rng, CLASSES);
}

static uint32_t draw_digit(uint64_t seed, uint64_t number, float pixels[PIXELS])
{
    struct base_rng rng;
    uint32_t label = draw_label(&rng, seed, number);
    size_t ways;
    const struct glyph *glyphs = train_glyphs_of(label, &ways);
    const struct glyph *glyph = &glyphs[base_rng_below(&rng, ways)];
    struct hand hand;
    draw_hand(&rng, &hand);
    for (int i = 0; i < PIXELS; i++)
        pixels[i] = SIDE;
    draw_glyph(&rng, &hand, glyph, pixels);
    for (int i = 0; i < PIXELS; i++) {
        float t = clamp(0.5f - pixels[i] / (2 * hand.soft), 0, 1);
        pixels[i] = hand.ink * t * t * (3 - 2 * t);
    }
    if (base_rng_below(&rng, BLUR_ODDS) == 0)
        blur(pixels);
    add_noise(&rng, hand.noise, pixels);
    return label;
}

static enum base_error check_numbers(uint64_t first, size_t count, struct base_reason *why)
{
    if (count > 0 && first > UINT64_MAX - (count - 1))
        return base_fail(why, BASE_EINVAL,
                         "%zu digits from number %" PRIu64 " on, expected fewer: the last number is 2^64 - 1",
                         count, first);
    return BASE_OK;
}

static enum base_error allocate(size_t count, struct train_dataset *made, struct base_reason *why)
{
    enum base_error error = train_dataset_allocate(count, PIXELS, CLASSES, 0, made, why);
    if (error)
        return error;
    made->height = made->width = SIDE;
    made->channels = 1;
    return BASE_OK;
}

enum base_error train_dataset_make_digits(uint64_t seed, uint64_t first, size_t count,
                                          struct train_dataset *data, struct base_reason *why)
{
    struct train_dataset made;
    enum base_error error = check_numbers(first, count, why);
    if (!error)
        error = allocate(count, &made, why);
    if (error)
        return error;
    for (size_t i = 0; i < count; i++)
        made.labels[i] = draw_digit(seed, first + i, made.x + i * PIXELS);
    *data = made;
    return BASE_OK;
}

enum base_error train_dataset_outline_digits(uint64_t seed, uint64_t first, size_t count,
                                             struct train_dataset *outline, struct base_reason *why)
{
    struct base_rng rng;
    enum base_error error = check_numbers(first, count, why);
    if (error)
        return error;
    uint32_t *labels = calloc(count + 1, sizeof *labels);
    if (!labels)
        return base_fail(why, BASE_ENOMEM, "no memory for the labels of %zu examples", count);
    for (size_t i = 0; i < count; i++)
        labels[i] = draw_label(&rng, seed, first + i);
    *outline =
        (struct train_dataset){.examples = count, .classes = CLASSES, .labels = labels, .whole = count};
    return BASE_OK;
}

enum base_error train_dataset_draw_digits(uint64_t seed, uint64_t first, const uint32_t *rows, size_t count,
                                          struct train_dataset *data, struct base_reason *why)
{
    struct train_dataset made;
    enum base_error error = allocate(count, &made, why);
    if (error)
        return error;
    for (size_t i = 0; i < count; i++)
        made.labels[i] = draw_digit(seed, first + rows[i], made.x + i * PIXELS);
    *data = made;
    return BASE_OK;
}
