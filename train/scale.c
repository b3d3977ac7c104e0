#include "train/scale.h"
#include <math.h>
#include <stdlib.h>

struct train_spread train_scale_spread(const float *values, size_t examples, size_t stride, size_t column)
{
    struct train_spread s = {INFINITY, -INFINITY, 0, 0};
    for (size_t i = 0; i < examples; i++) {
        const double value = (double)values[i * stride + column];
        s.least = value < s.least ? value : s.least;
        s.most = value > s.most ? value : s.most;
        s.mean += value;
    }
    s.mean /= (double)examples;
    for (size_t i = 0; i < examples; i++) {
        const double d = (double)values[i * stride + column] - s.mean;
        s.deviation += d * d;
    }
    s.deviation = sqrt(s.deviation / (double)examples);
    return s;
}

bool train_scale_is_plausible(float shift, float factor)
{
    return factor >= TRAIN_SCALE_FACTOR_MIN && factor <= TRAIN_SCALE_FACTOR_MAX &&
           fabsf(shift) * factor <= TRAIN_SCALE_FACTOR_MAX;
}

static void follow(const struct train_spread *s, enum train_scale scale, float *shift, float *factor)
{
    const double width = scale == TRAIN_SCALE_STANDARD ? s->deviation : s->most - s->least;
    *shift = (float)(scale == TRAIN_SCALE_STANDARD ? s->mean : s->least);
    *factor = s->most > s->least ? (float)(1.0 / width) : 1.0f;
    if (train_scale_is_plausible(*shift, *factor))
        return;
    *shift = 0;
    *factor = 1;
}

static void measure(const float *values, size_t examples, size_t count, enum train_scale scale, float *shift,
                    float *factor)
{
    for (size_t i = 0; i < count; i++) {
        const struct train_spread s = train_scale_spread(values, examples, count, i);
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
    measure(data->x, data->examples, data->features, scale, m->shift, m->factor);
    keep_categories(m);
    if (data->outputs > 0)
        measure(data->targets, data->examples, data->outputs, scale, m->target_shift, m->target_factor);
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

static void apply(float *values, size_t examples, size_t count, const float *shift, const float *factor)
{
    for (size_t i = 0; i < examples; i++)
        for (size_t k = 0; k < count; k++)
            values[i * count + k] = (values[i * count + k] - shift[k]) * factor[k];
}

void train_scale_rows(const struct train_meaning *meaning, float *x, size_t rows)
{
    if (meaning && meaning->scale != TRAIN_SCALE_NONE)
        apply(x, rows, meaning->features, meaning->shift, meaning->factor);
}

void train_scale_apply(struct train_dataset *data)
{
    const struct train_meaning *m = data->meaning;
    if (!m || m->scale == TRAIN_SCALE_NONE)
        return;
    train_scale_rows(m, data->x, data->examples);
    if (data->outputs > 0)
        apply(data->targets, data->examples, data->outputs, m->target_shift, m->target_factor);
}

static void undo(float *values, size_t rows, size_t count, const float *shift, const float *factor)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < count; k++)
            values[i * count + k] = values[i * count + k] / factor[k] + shift[k];
}

void train_scale_undo(struct train_dataset *data)
{
    const struct train_meaning *m = data->meaning;
    if (!m || m->scale == TRAIN_SCALE_NONE)
        return;
    undo(data->x, data->examples, data->features, m->shift, m->factor);
    if (data->outputs > 0)
        undo(data->targets, data->examples, data->outputs, m->target_shift, m->target_factor);
}

void train_scale_targets_back(const struct train_meaning *meaning, float *targets, size_t rows)
{
    if (meaning && meaning->target_factor)
        undo(targets, rows, meaning->targets.count, meaning->target_shift, meaning->target_factor);
}
