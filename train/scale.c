#include "train/scale.h"
#include <math.h>
#include <stdlib.h>

#define NEAR 1024.0 // a range this many times smaller than the values: floats may not tell them apart
#define FAR  4096.0 // a shift of so many deviations leaves a float fewer than 12 bits of one

static double number_at(const float *values, const float *rests, size_t at)
{
    return (double)values[at] + (rests ? (double)rests[at] : 0);
}

struct train_spread train_scale_spread(const float *values, const float *rests, size_t examples,
                                       size_t stride, size_t column)
{
    struct train_spread s = {INFINITY, -INFINITY, 0, 0};
    double sum = 0; // of the distances from the first number, which keeps the digits of large ones
    const double first = number_at(values, rests, column);
    for (size_t i = 0; i < examples; i++) {
        const double value = number_at(values, rests, i * stride + column);
        s.least = value < s.least ? value : s.least;
        s.most = value > s.most ? value : s.most;
        sum += value - first;
    }
    s.mean = first + sum / (double)examples;
    for (size_t i = 0; i < examples; i++) {
        const double d = number_at(values, rests, i * stride + column) - s.mean;
        s.deviation += d * d;
    }
    s.deviation = sqrt(s.deviation / (double)examples);
    return s;
}

bool train_scale_is_plausible(double shift, float factor)
{
    return factor >= TRAIN_SCALE_FACTOR_MIN && factor <= TRAIN_SCALE_FACTOR_MAX &&
           fabs(shift) * (double)factor <= (double)TRAIN_SCALE_FACTOR_MAX;
}

static void follow(const struct train_spread *s, enum train_scale scale, double *shift, float *factor)
{
    const double width = scale == TRAIN_SCALE_STANDARD ? s->deviation : s->most - s->least;
    *shift = scale == TRAIN_SCALE_STANDARD ? s->mean : s->least;
    *factor = s->most > s->least ? (float)(1.0 / width) : 1.0f;
    if (train_scale_is_plausible(*shift, *factor))
        return;
    *shift = 0;
    *factor = 1;
}

static void measure(const float *values, const float *rests, size_t examples, size_t count,
                    enum train_scale scale, double *shift, float *factor)
{
    for (size_t i = 0; i < count; i++) {
        const struct train_spread s = train_scale_spread(values, rests, examples, count, i);
        follow(&s, scale, &shift[i], &factor[i]);
    }
}

static void keep_categories(struct train_meaning *meaning)
{
    size_t feature = 0;
    for (size_t i = 0; i < meaning->n_columns; i++) {
        const size_t count = meaning->columns[i].categories.count;
        for (size_t k = 0; k < count; k++) {
            meaning->shift[feature + k] = 0;
            meaning->factor[feature + k] = 1;
        }
        feature += count ? count : 1;
    }
}

static bool allocate(struct train_dataset *data)
{
    if (!data->meaning && !(data->meaning = train_meaning_create(data->features)))
        return false;
    struct train_meaning *m = data->meaning;
    m->shift = calloc(data->features, sizeof *m->shift);
    m->factor = calloc(data->features, sizeof *m->factor);
    if (data->outputs > 0) {
        m->target_shift = calloc(data->outputs, sizeof *m->target_shift);
        m->target_factor = calloc(data->outputs, sizeof *m->target_factor);
    }
    return m->shift && m->factor && (data->outputs == 0 || (m->target_shift && m->target_factor));
}

enum base_error train_scale_measure(struct train_dataset *data, enum train_scale scale,
                                    struct base_reason *why)
{
    if (scale == TRAIN_SCALE_NONE)
        return BASE_OK;
    if (!allocate(data))
        return base_fail(why, BASE_ENOMEM, "no memory for the statistics of %zu features", data->features);
    struct train_meaning *m = data->meaning;
    m->scale = scale;
    measure(data->x, data->x_rest, data->examples, data->features, scale, m->shift, m->factor);
    keep_categories(m);
    if (data->outputs > 0)
        measure(data->targets, data->targets_rest, data->examples, data->outputs, scale, m->target_shift,
                m->target_factor);
    return BASE_OK;
}

enum base_error train_scale_open(struct train_dataset *data, enum train_scale scale, struct base_reason *why)
{
    if (!allocate(data))
        return base_fail(why, BASE_ENOMEM, "no memory for the statistics of %zu features", data->features);
    struct train_meaning *m = data->meaning;
    m->scale = scale;
    for (size_t i = 0; i < data->features; i++)
        m->factor[i] = 1;
    for (size_t i = 0; i < data->outputs; i++)
        m->target_factor[i] = 1;
    return BASE_OK;
}

void train_scale_set(struct train_meaning *meaning, const struct train_spread *spreads)
{
    for (size_t i = 0; i < meaning->features; i++)
        follow(&spreads[i], meaning->scale, &meaning->shift[i], &meaning->factor[i]);
    keep_categories(meaning);
    for (size_t i = 0; meaning->target_factor && i < meaning->targets.count; i++)
        follow(&spreads[meaning->features + i], meaning->scale, &meaning->target_shift[i],
               &meaning->target_factor[i]);
}

static void put(double value, size_t at, float *values, float *rests)
{
    values[at] = (float)value;
    if (rests)
        rests[at] = (float)(value - (double)values[at]);
}

static void apply(float *values, float *rests, size_t examples, size_t count, const double *shift,
                  const float *factor)
{
    for (size_t i = 0; i < examples; i++)
        for (size_t k = 0; k < count; k++) {
            const size_t at = i * count + k;
            put((number_at(values, rests, at) - shift[k]) * (double)factor[k], at, values, rests);
        }
}

void train_scale_rows(const struct train_meaning *meaning, const double *values, size_t features, size_t rows,
                      float *x)
{
    const bool scaled = meaning && meaning->scale != TRAIN_SCALE_NONE;
    for (size_t i = 0; i < rows * features; i++)
        x[i] = (float)(scaled ? (values[i] - meaning->shift[i % features]) *
                                    (double)meaning->factor[i % features]
                              : values[i]);
}

void train_scale_apply(struct train_dataset *data)
{
    const struct train_meaning *m = data->meaning;
    if (!m || m->scale == TRAIN_SCALE_NONE)
        return;
    apply(data->x, data->x_rest, data->examples, data->features, m->shift, m->factor);
    if (data->outputs > 0)
        apply(data->targets, data->targets_rest, data->examples, data->outputs, m->target_shift,
              m->target_factor);
}

static void undo(float *values, float *rests, size_t rows, size_t count, const double *shift,
                 const float *factor)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < count; k++) {
            const size_t at = i * count + k;
            put(number_at(values, rests, at) / (double)factor[k] + shift[k], at, values, rests);
        }
}

void train_scale_undo(struct train_dataset *data)
{
    const struct train_meaning *m = data->meaning;
    if (!m || m->scale == TRAIN_SCALE_NONE)
        return;
    undo(data->x, data->x_rest, data->examples, data->features, m->shift, m->factor);
    if (data->outputs > 0)
        undo(data->targets, data->targets_rest, data->examples, data->outputs, m->target_shift,
             m->target_factor);
}

void train_scale_targets_back(const struct train_meaning *meaning, const float *outputs, size_t count,
                              size_t rows, double *targets)
{
    const bool scaled = meaning && meaning->target_factor;
    for (size_t i = 0; i < rows * count; i++)
        targets[i] = scaled ? (double)outputs[i] / (double)meaning->target_factor[i % count] +
                                  meaning->target_shift[i % count]
                            : (double)outputs[i];
}

static bool is_far(const double *shift, const float *factor, size_t count)
{
    for (size_t i = 0; shift && i < count; i++)
        if (fabs(shift[i]) * (double)factor[i] >= FAR)
            return true;
    return false;
}

bool train_scale_needs_double(const struct train_meaning *meaning)
{
    return meaning && (is_far(meaning->shift, meaning->factor, meaning->features) ||
                       is_far(meaning->target_shift, meaning->target_factor, meaning->targets.count));
}

// -- what floats cannot tell apart

static int order_numbers(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void count_different(double *sorted, size_t count, size_t *different, size_t *left)
{
    *different = *left = count > 0;
    for (size_t i = 1; i < count; i++) {
        *different += sorted[i] > sorted[i - 1];
        *left += (float)sorted[i] > (float)sorted[i - 1];
    }
}

size_t train_scale_collapsed(const struct train_dataset *data, size_t *different, size_t *left)
{
    double *column = data->x_rest ? malloc(data->examples * sizeof *column) : NULL;
    size_t found = SIZE_MAX;
    for (size_t k = 0; column && k < data->features && found == SIZE_MAX; k++) {
        const struct train_spread s =
            train_scale_spread(data->x, data->x_rest, data->examples, data->features, k);
        if (!(fmax(fabs(s.least), fabs(s.most)) > NEAR * (s.most - s.least)))
            continue;
        for (size_t i = 0; i < data->examples; i++)
            column[i] = number_at(data->x, data->x_rest, i * data->features + k);
        qsort(column, data->examples, sizeof *column, order_numbers);
        count_different(column, data->examples, different, left);
        found = 10 * *left < 9 * *different ? k : SIZE_MAX;
    }
    free(column);
    return found;
}
