// y = x W + b over the rows of a sparse matrix. For two classes one output is sufficient: y = [0, m], whose
// softmax is the logistic function of m. Plain loops: the time goes into gathers and scatters of a few values
// per row, and a row that forward has read is in the cache for backward (the trainer takes few rows at a
// time).
#include "train/rows.h"
#include "train/layers.h"

#include <string.h>

static enum base_error check(const struct train_layer *layer, const struct train_shape *in,
                             struct train_shape *out, struct base_reason *why)
{
    const size_t outputs = layer->d.rows.outputs;
    if (!in->rows)
        return base_fail(why, BASE_EINVAL,
                         "it takes the rows of a data set, so it can only be the first layer");
    if (outputs == 0 || outputs > LIMIT_CLASSES || in->channels > LIMIT_PARAMETERS / outputs) {
        return base_fail(why, BASE_EINVAL, "its weight has %zu x %zu elements; expected 1 to %u in all",
                         in->channels, outputs, LIMIT_PARAMETERS);
    }
    *out =
        (struct train_shape){.positions = 1, .height = 1, .width = 1, .channels = outputs == 1 ? 2 : outputs};
    return BASE_OK;
}

static void tensors(const struct train_layer *layer, struct train_tensor_list *list)
{
    const size_t outputs = layer->d.rows.outputs;
    struct train_tensor *weight =
        train_tensor_add(list, "weight", 2, (const size_t[]){layer->in.channels, outputs});
    train_tensor_permute(weight, (const size_t[]){1, 0}); // torch has [out, in]
    (void)train_tensor_add(list, "bias", 1, &outputs);
}

static bool runs(const struct kernels *kernels)
{
    return kernels->shares_host;
}

static float margin(const struct train_row *row, const float *weight, float bias)
{
    const uint32_t *column = row->column;
    const float *value = row->value;
    const size_t count = row->count;
    float sum = bias;
    if (!column) {
        for (size_t i = 0; i < count; i++)
            sum += value[i] * weight[row->first + i];
        return sum;
    }
    for (size_t i = 0; i < count; i++)
        sum += value[i] * weight[column[i]];
    return sum;
}

static void margins(const struct train_row *row, const float *weight, const float *bias, size_t outputs,
                    float *y)
{
    memcpy(y, bias, outputs * sizeof *y);
    for (size_t i = 0; i < row->count; i++) {
        const float *w = weight + train_row_column(row, i) * outputs;
        for (size_t k = 0; k < outputs; k++)
            y[k] += row->value[i] * w[k];
    }
}

static void forward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                    const void *x, float *y, float *kept)
{
    const size_t outputs = layer->d.rows.outputs;
    const float *weight = parameters + layer->tensors[0].offset,
                *bias = parameters + layer->tensors[1].offset;
    (void)kept;
    for (size_t e = 0; e < pass->examples; e++) {
        const struct train_row row = train_rows_at(x, e);
        if (outputs == 1) {
            y[2 * e] = 0.0f;
            y[2 * e + 1] = margin(&row, weight, bias[0]);
        } else {
            margins(&row, weight, bias, outputs, y + e * outputs);
        }
    }
}

// The part of a row within the features of the pass.
static struct train_row within(struct train_row row, const struct train_pass *pass)
{
    size_t from = 0;
    if (pass->to == 0)
        return row;
    while (from < row.count && train_row_column(&row, from) < pass->from)
        from++;
    while (row.count > from && train_row_column(&row, row.count - 1) >= pass->to)
        row.count--;
    return (struct train_row){.column = row.column ? row.column + from : NULL,
                              .value = row.value + from,
                              .count = row.count - from,
                              .first = row.first + from};
}

static void add_row(const struct train_row *row, const float *dy, size_t outputs, float *weight)
{
    for (size_t i = 0; i < row->count; i++) {
        float *w = weight + train_row_column(row, i) * outputs;
        for (size_t k = 0; k < outputs; k++)
            w[k] += row->value[i] * dy[k];
    }
}

static void add_dense_single(size_t count, const float *restrict value, float dy, float *restrict weight)
{
    for (size_t i = 0; i < count; i++)
        weight[i] += value[i] * dy;
}

// No column occurs twice in a row, so four sums are read before any of them is written.
static void add_row_single(const struct train_row *row, float dy, float *restrict weight)
{
    const uint32_t *restrict column = row->column;
    const float *restrict value = row->value;
    const size_t count = row->count;
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        float sum[4];
        for (size_t k = 0; k < 4; k++)
            sum[k] = weight[column[i + k]] + value[i + k] * dy;
        for (size_t k = 0; k < 4; k++)
            weight[column[i + k]] = sum[k];
    }
    for (; i < count; i++)
        weight[column[i]] += value[i] * dy;
}

static void backward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                     const void *x, const float *y, float *dy, float *dx, float *kept, float *gradient)
{
    const size_t outputs = layer->d.rows.outputs;
    float *weight = gradient + layer->tensors[0].offset, *bias = gradient + layer->tensors[1].offset;
    (void)parameters, (void)y, (void)kept;
    BASE_ASSERT(!dx); // only a first layer takes rows
    if (!pass->accumulate) {
        memset(weight, 0, layer->tensors[0].count * sizeof *weight);
        memset(bias, 0, outputs * sizeof *bias);
    }
    for (size_t e = 0; e < pass->examples; e++) {
        const struct train_row row = within(train_rows_at(x, e), pass);
        if (outputs == 1) {
            if (row.column)
                add_row_single(&row, dy[2 * e + 1], weight);
            else
                add_dense_single(row.count, row.value, dy[2 * e + 1], weight + row.first);
            bias[0] += dy[2 * e + 1];
            continue;
        }
        add_row(&row, dy + e * outputs, outputs, weight);
        for (size_t k = 0; k < outputs; k++)
            bias[k] += dy[e * outputs + k];
    }
}

static const struct train_layer_type type = {
    .name = "rows",
    .check = check,
    .tensors = tensors,
    .runs = runs,
    .forward = forward,
    .backward = backward,
};

struct train_layer train_rows_linear(size_t outputs)
{
    return (struct train_layer){.type = &type, .d.rows = {.outputs = outputs}};
}
