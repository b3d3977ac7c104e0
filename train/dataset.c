#include "train/dataset.h"
#include "base/limits.h"
#include "train/loaders.h"
#include "train/rows.h"
#include "train/tokens.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGNMENT_BYTES 64u
#define MAPPED_FROM     ((size_t)1 << 20) // smaller arrays are malloc'ed

// Large arrays are mapped, not malloc'ed: free() may keep the memory for later calls of malloc(), and the
// arrays that a running node frees are as large as whole data sets.
static float *allocate_values(size_t bytes, size_t *mapped_bytes)
{
    *mapped_bytes = bytes < MAPPED_FROM ? 0 : bytes;
    if (*mapped_bytes == 0) {
        float *x = aligned_alloc(ALIGNMENT_BYTES, bytes);
        return !x ? NULL : memset(x, 0, bytes);
    }
    void *x = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return x == MAP_FAILED ? NULL : x;
}

static void release_values(float *x, size_t mapped_bytes)
{
    if (mapped_bytes == 0)
        free(x);
    else if (x) {
        const int failed = munmap(x, mapped_bytes);
        BASE_ASSERT(!failed);
    }
}

void train_dataset_round(struct train_dataset *data)
{
    release_values(data->x_rest, data->mapped_bytes);
    free(data->targets_rest);
    data->x_rest = data->targets_rest = NULL;
}

void train_dataset_destroy(struct train_dataset *data)
{
    train_dataset_round(data);
    release_values(data->x, data->mapped_bytes);
    train_csr_destroy(data->csr);
    free(data->labels);
    free(data->targets);
    train_meaning_release(data->meaning);
    train_tokens_release(data->tokens);
    free(data->starts);
    *data = (struct train_dataset){0};
}

size_t train_dataset_labels(const struct train_dataset *data)
{
    return data->tokens ? data->features : 1;
}

static enum base_error check_size(size_t examples, size_t features, size_t outputs, struct base_reason *why)
{
    if (examples == 0 || features == 0)
        return base_fail(why, BASE_EINVAL,
                         "a data set of %zu examples with %zu features has nothing to train on", examples,
                         features);
    if (examples > UINT32_MAX || features > LIMIT_DATASET_VALUES / examples ||
        outputs > LIMIT_DATASET_VALUES / examples)
        return base_fail(
            why, BASE_ELIMIT,
            "%zu examples with %zu features are over the limit of %llu values in memory: use fewer examples",
            examples, outputs > features ? outputs : features, LIMIT_DATASET_VALUES);
    return BASE_OK;
}

static size_t bytes_of(size_t examples, size_t features)
{
    return (examples * features * sizeof(float) + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
}

enum base_error train_dataset_allocate(size_t examples, size_t features, size_t classes, size_t outputs,
                                       struct train_dataset *data, struct base_reason *why)
{
    BASE_ASSERT(classes == 0 || outputs == 0);
    enum base_error error = check_size(examples, features, outputs, why);
    if (error)
        return error;
    const size_t bytes = bytes_of(examples, features);
    size_t mapped_bytes;
    float *x = allocate_values(bytes, &mapped_bytes);
    uint32_t *labels = outputs > 0 ? NULL : calloc(examples, sizeof *labels);
    float *targets = outputs > 0 ? calloc(examples * outputs, sizeof *targets) : NULL;
    if (!x || (!labels && !targets)) {
        release_values(x, mapped_bytes);
        free(labels);
        free(targets);
        return base_fail(why, BASE_ENOMEM, "no memory for %zu examples with %zu features (%zu MiB)", examples,
                         features, bytes >> 20);
    }
    *data = (struct train_dataset){.examples = examples,
                                   .features = features,
                                   .classes = classes,
                                   .x = x,
                                   .labels = labels,
                                   .whole = examples,
                                   .mapped_bytes = mapped_bytes,
                                   .outputs = outputs,
                                   .targets = targets,
                                   .input_divisor = 1.0f};
    return BASE_OK;
}

static enum base_error no_rest(const struct train_dataset *data, struct base_reason *why)
{
    return base_fail(why, BASE_ENOMEM, "no memory for the digits of %zu examples", data->examples);
}

enum base_error train_dataset_put(struct train_dataset *data, size_t at, double value,
                                  struct base_reason *why)
{
    size_t mapped_bytes;
    data->x[at] = (float)value;
    const double rest = value - (double)data->x[at];
    if (rest == 0)
        return BASE_OK;
    if (!data->x_rest)
        data->x_rest = allocate_values(bytes_of(data->examples, data->features), &mapped_bytes);
    if (!data->x_rest)
        return no_rest(data, why);
    data->x_rest[at] = (float)rest;
    return BASE_OK;
}

enum base_error train_dataset_put_target(struct train_dataset *data, size_t at, double value,
                                         struct base_reason *why)
{
    data->targets[at] = (float)value;
    const double rest = value - (double)data->targets[at];
    if (rest == 0)
        return BASE_OK;
    if (!data->targets_rest)
        data->targets_rest = calloc(data->examples * data->outputs, sizeof *data->targets_rest);
    if (!data->targets_rest)
        return no_rest(data, why);
    data->targets_rest[at] = (float)rest;
    return BASE_OK;
}

enum base_error train_dataset_allocate_sparse(const size_t *start, size_t examples, size_t features,
                                              size_t classes, struct train_dataset *data,
                                              struct base_reason *why)
{
    struct train_csr *csr = NULL;
    enum base_error error = train_csr_create(start, examples, &csr, why);
    if (error)
        return error;
    uint32_t *labels = calloc(examples, sizeof *labels);
    if (!labels) {
        train_csr_destroy(csr);
        return base_fail(why, BASE_ENOMEM, "no memory for the labels of %zu examples", examples);
    }
    *data = (struct train_dataset){.examples = examples,
                                   .features = features,
                                   .classes = classes,
                                   .csr = csr,
                                   .labels = labels,
                                   .whole = examples,
                                   .input_divisor = 1.0f};
    return BASE_OK;
}

enum base_error train_dataset_range(const char *name, size_t examples, size_t first, size_t count,
                                    size_t *taken, struct base_reason *why)
{
    if (first >= examples || count > examples - first)
        return base_fail(why, BASE_EINVAL, "%s has %zu examples, but %zu from number %zu on were asked for",
                         name, examples, count, first);
    *taken = count == 0 ? examples - first : count;
    return BASE_OK;
}

// Begins a part of `data`: meaning and tokens are shared, and the caller sets the arrays.
static struct train_dataset part_of(const struct train_dataset *data, size_t count)
{
    struct train_dataset part = *data;
    part.examples = count;
    part.mapped_bytes = 0;
    part.x = part.targets = part.x_rest = part.targets_rest = NULL;
    part.csr = NULL;
    part.labels = NULL;
    part.starts = NULL;
    part.meaning = train_meaning_share(data->meaning);
    part.tokens = train_tokens_share(data->tokens);
    return part;
}

// The windows keep the order of `rows`: train_tokens_window shifts a window only if the next one follows it
// in the text.
static enum base_error subset_windows(const struct train_dataset *data, const uint32_t *rows, size_t count,
                                      struct train_dataset *subset)
{
    size_t *starts = malloc((count + 1) * sizeof *starts);
    if (!starts)
        return BASE_ENOMEM;
    for (size_t i = 0; i < count; i++)
        starts[i] = data->starts[rows[i]];
    *subset = part_of(data, count);
    subset->starts = starts;
    return BASE_OK;
}

static enum base_error subset_sparse(const struct train_dataset *data, const uint32_t *rows, size_t count,
                                     struct train_dataset *subset)
{
    struct train_csr *csr = NULL;
    uint32_t *labels = malloc((count + 1) * sizeof *labels);
    enum base_error error = labels ? train_csr_subset(data->csr, rows, count, &csr) : BASE_ENOMEM;
    if (error) {
        free(labels);
        return error;
    }
    for (size_t i = 0; i < count; i++)
        labels[i] = data->labels[rows[i]];
    *subset = part_of(data, count);
    subset->csr = csr;
    subset->labels = labels;
    return BASE_OK;
}

static void copy_rows(const float *from, const uint32_t *rows, size_t count, size_t width, float *to)
{
    for (size_t i = 0; i < count && to; i++)
        memcpy(to + i * width, from + rows[i] * width, width * sizeof *to);
}

static bool allocate_rests(const struct train_dataset *data, struct train_dataset *copy)
{
    size_t mapped_bytes;
    if (data->x_rest)
        copy->x_rest = allocate_values(bytes_of(copy->examples, copy->features), &mapped_bytes);
    if (data->targets_rest)
        copy->targets_rest = calloc(copy->examples * copy->outputs, sizeof *copy->targets_rest);
    return (!data->x_rest || copy->x_rest) && (!data->targets_rest || copy->targets_rest);
}

static enum base_error subset_dense(const struct train_dataset *data, const uint32_t *rows, size_t count,
                                    struct train_dataset *subset)
{
    const size_t features = data->features, outputs = data->outputs;
    struct train_dataset copy;
    enum base_error error = train_dataset_allocate(count, features, data->classes, outputs, &copy, NULL);
    if (error)
        return error;
    if (!allocate_rests(data, &copy)) {
        train_dataset_destroy(&copy);
        return BASE_ENOMEM;
    }
    copy_rows(data->x, rows, count, features, copy.x);
    copy_rows(data->x_rest, rows, count, features, copy.x_rest);
    copy_rows(data->targets, rows, count, outputs, copy.targets);
    copy_rows(data->targets_rest, rows, count, outputs, copy.targets_rest);
    for (size_t i = 0; i < count && copy.labels; i++)
        copy.labels[i] = data->labels[rows[i]];
    *subset = part_of(data, count);
    subset->x = copy.x;
    subset->x_rest = copy.x_rest;
    subset->mapped_bytes = copy.mapped_bytes;
    subset->labels = copy.labels;
    subset->targets = copy.targets;
    subset->targets_rest = copy.targets_rest;
    return BASE_OK;
}

enum base_error train_dataset_subset(const struct train_dataset *data, const uint32_t *rows, size_t count,
                                     struct train_dataset *subset)
{
    for (size_t i = 0; i < count; i++)
        if (rows[i] >= data->examples)
            return BASE_EINVAL;
    if (data->tokens)
        return subset_windows(data, rows, count, subset);
    return data->csr ? subset_sparse(data, rows, count, subset) : subset_dense(data, rows, count, subset);
}
