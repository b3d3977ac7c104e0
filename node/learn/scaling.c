#include "node/learn/scaling.h"
#include "base/cursor.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC        0x324c4353u // "SCL2"
#define HEADER_BYTES 16u         // magic, scale, features, targets; then shift[columns], factor[columns]
#define COLUMN_BYTES (sizeof(double) + sizeof(float))

_Static_assert(HEADER_BYTES + COLUMN_BYTES * LIMIT_STATISTICS_COLUMNS <= LIMIT_BLOB_BYTES,
               "the scaling of as many columns fits");

static size_t blob_bytes(const struct node_scaling *s)
{
    return HEADER_BYTES + COLUMN_BYTES * s->columns;
}

static void write_blob(struct node_scaling *s)
{
    const struct train_meaning *m = s->train->meaning;
    struct base_writer writer = base_writer_of(s->blob.data, sizeof s->blob.data);
    base_write_u32(&writer, MAGIC);
    base_write_u32(&writer, (uint32_t)m->scale);
    base_write_u32(&writer, (uint32_t)s->train->features);
    base_write_u32(&writer, (uint32_t)s->train->outputs);
    for (size_t i = 0; i < s->train->features; i++)
        base_write_f64(&writer, m->shift[i]);
    for (size_t i = 0; i < s->train->outputs; i++)
        base_write_f64(&writer, m->target_shift[i]);
    for (size_t i = 0; i < s->train->features; i++)
        base_write_f32(&writer, m->factor[i]);
    for (size_t i = 0; i < s->train->outputs; i++)
        base_write_f32(&writer, m->target_factor[i]);
    BASE_ASSERT(!writer.failed);
    s->blob.bytes = (uint32_t)blob_bytes(s);
}

void node_scaling_agree(struct node_scaling *s, const struct train_spread *spreads)
{
    if (s->blob.bytes > 0)
        return;
    train_scale_set(s->train->meaning, spreads);
    train_scale_apply(s->train);
    train_scale_apply(s->test);
    write_blob(s);
}

static enum base_error read_blob(const struct node_scaling *s, const struct gossip_blob *blob, double *shift,
                                 float *factor, struct base_reason *why)
{
    struct base_reader reader = base_reader_of(blob->data, blob->bytes);
    bool good = base_read_u32(&reader) == MAGIC;
    good &= base_read_u32(&reader) == (uint32_t)s->train->meaning->scale;
    good &= base_read_u32(&reader) == s->train->features;
    good &= base_read_u32(&reader) == s->train->outputs;
    if (!good || blob->bytes != blob_bytes(s))
        return base_fail(why, BASE_EFORMAT,
                         "found %u bytes with the model that are not a scaling of %zu columns, expected "
                         "one (data.scale_from: cluster)",
                         (unsigned)blob->bytes, s->columns);
    for (size_t i = 0; i < s->columns; i++)
        shift[i] = base_read_f64(&reader);
    for (size_t i = 0; i < s->columns; i++)
        factor[i] = base_read_f32(&reader);
    for (size_t i = 0; i < s->columns; i++)
        if (!train_scale_is_plausible(shift[i], factor[i]))
            return base_fail(why, BASE_EFORMAT,
                             "the scaling that came with the model is (value - %g) * %g for column %zu of "
                             "%zu, expected a factor of %g to %g, and a shift of at most %g / factor "
                             "(data.scale_from: cluster)",
                             shift[i], (double)factor[i], i + 1, s->columns, (double)TRAIN_SCALE_FACTOR_MIN,
                             (double)TRAIN_SCALE_FACTOR_MAX, (double)TRAIN_SCALE_FACTOR_MAX);
    return BASE_OK;
}

// Undoes an earlier scaling first; rows that were never scaled do not change by this.
static void replace(struct node_scaling *s, const double *shift, const float *factor)
{
    struct train_meaning *m = s->train->meaning;
    const size_t features = s->train->features, outputs = s->train->outputs;
    train_scale_undo(s->train);
    train_scale_undo(s->test);
    memcpy(m->shift, shift, features * sizeof *shift);
    memcpy(m->factor, factor, features * sizeof *factor);
    if (outputs > 0) {
        memcpy(m->target_shift, shift + features, outputs * sizeof *shift);
        memcpy(m->target_factor, factor + features, outputs * sizeof *factor);
    }
    train_scale_apply(s->train);
    train_scale_apply(s->test);
}

enum base_error node_scaling_take(struct node_scaling *s, const struct gossip_blob *blob,
                                  struct base_reason *why)
{
    BASE_ASSERT(blob->bytes <= sizeof blob->data);
    if (s->blob.bytes == blob->bytes && memcmp(s->blob.data, blob->data, blob->bytes) == 0 && blob->bytes > 0)
        return BASE_OK;
    double *shift = malloc(s->columns * sizeof *shift);
    float *factor = malloc(s->columns * sizeof *factor);
    enum base_error error =
        shift && factor ? read_blob(s, blob, shift, factor, why)
                        : base_fail(why, BASE_ENOMEM, "no memory for the scaling of %zu columns", s->columns);
    if (!error) {
        replace(s, shift, factor);
        s->blob = *blob;
    }
    free(shift);
    free(factor);
    return error;
}

static void measure(struct node_scaling *s)
{
    const struct train_dataset *d = s->train;
    BASE_ASSERT(s->columns == d->features + d->outputs);
    for (size_t i = 0; i < d->features; i++)
        s->own[i] = train_scale_spread(d->x, d->x_rest, d->examples, d->features, i);
    for (size_t i = 0; i < d->outputs; i++)
        s->own[d->features + i] = train_scale_spread(d->targets, d->targets_rest, d->examples, d->outputs, i);
    for (size_t i = 0; i < s->columns; i++) { // the rounded mean of equal numbers may differ from them
        struct train_spread *own = &s->own[i];
        own->mean = fmin(fmax(own->mean, own->least), own->most);
        own->deviation = fmin(own->deviation, (own->most - own->least) / 2);
    }
}

enum base_error node_scaling_create(struct train_dataset *train, struct train_dataset *test,
                                    struct node_scaling **out, struct base_reason *why)
{
    const size_t columns = train->features + train->outputs;
    BASE_ASSERT(train->x && train->meaning == test->meaning && train->meaning->shift);
    if (columns > LIMIT_STATISTICS_COLUMNS)
        return base_fail(why, BASE_EINVAL,
                         "data.scale_from: found %zu columns, expected at most %u with 'cluster'; write the "
                         "statistics once with 'p2pml data info FILE --stats STATS' instead",
                         columns, LIMIT_STATISTICS_COLUMNS);
    struct node_scaling *s = calloc(1, sizeof *s);
    struct train_spread *own = calloc(columns, sizeof *own);
    if (!s || !own) {
        free(s);
        free(own);
        return base_fail(why, BASE_ENOMEM, "no memory for the statistics of %zu columns", columns);
    }
    *s = (struct node_scaling){.train = train, .test = test, .columns = columns, .own = own};
    measure(s);
    *out = s;
    return BASE_OK;
}

void node_scaling_destroy(struct node_scaling *scaling)
{
    if (scaling)
        free(scaling->own);
    free(scaling);
}
