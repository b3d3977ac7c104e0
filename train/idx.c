// IDX files of images and labels, plain or gzip. The numbers of a header are checked against the limits and
// against the length of the data before any memory is allocated for them.
#include "base/file.h"
#include "base/limits.h"
#include "train/loaders.h"
#include "train/unpack.h"
#include <inttypes.h>
#include <stdlib.h>

#define IDX_UBYTE  0x08u
#define FILE_LIMIT ((size_t)LIMIT_DATASET_VALUES + TRAIN_IDX_IMAGES_HEADER_BYTES)
#define PIXEL_MAX  255.0f

struct idx_array {
    const char *name;
    size_t rank, dims[3], total; // total: product of dims
    const uint8_t *values;       // [total], in the bytes of the file
};

static enum base_error check_magic(const struct train_bytes *file, size_t rank, struct base_reason *why)
{
    const uint8_t *head = file->data;
    uint32_t found = (uint32_t)head[0] << 24 | (uint32_t)head[1] << 16 | (uint32_t)head[2] << 8 | head[3];
    uint32_t wanted = IDX_UBYTE << 8 | (uint32_t)rank;
    if (found == wanted)
        return BASE_OK;
    const char *hint = "is it an IDX file?";
    if (found == (IDX_UBYTE << 8 | (rank == 3 ? 1u : 3u)))
        hint = "are the names of images and labels swapped?";
    else if (found >> 8 == IDX_UBYTE)
        hint = "another number of dimensions";
    else if (found >> 16 == 0 && (found & 0xff) == rank)
        hint = "another type of values than unsigned bytes";
    return base_fail(why, BASE_EFORMAT, "%s: starts with %08" PRIx32 ", expected %08" PRIx32 " (IDX %s): %s",
                     file->name, found, wanted, rank == 3 ? "images" : "labels", hint);
}

static enum base_error read_header(const struct train_bytes *file, size_t rank, struct idx_array *array,
                                   struct base_reason *why)
{
    const size_t bytes = 4 + 4 * rank;
    enum base_error error = file->bytes >= 4 ? check_magic(file, rank, why) : BASE_OK;
    if (error)
        return error;
    if (file->bytes < bytes)
        return base_fail(why, BASE_EFORMAT, "%s: %s, expected an IDX header of %zu bytes", file->name,
                         file->bytes == 0 ? "the file is empty" : "the file ends inside its header", bytes);
    struct idx_array found = {.name = file->name, .rank = rank, .total = 1, .values = file->data + bytes};
    for (size_t i = 0; i < rank; i++) {
        const uint8_t *at = file->data + 4 + 4 * i;
        found.dims[i] = (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
        if (found.dims[i] == 0)
            return base_fail(why, BASE_EFORMAT, "%s: dimension %zu of %zu is 0 in the header", file->name,
                             i + 1, rank);
        if (found.dims[i] > LIMIT_DATASET_VALUES / found.total)
            return base_fail(why, BASE_ELIMIT, "%s: the header states more than the limit of %llu values",
                             file->name, LIMIT_DATASET_VALUES);
        found.total *= found.dims[i];
    }
    *array = found;
    return BASE_OK;
}

// `bytes`: the length of the file without its header.
static enum base_error check_length(const struct idx_array *array, size_t bytes, struct base_reason *why)
{
    const char *found = bytes < array->total ? "truncated, fewer bytes" : "more bytes";
    if (bytes == array->total)
        return BASE_OK;
    if (array->rank == 1)
        return base_fail(why, BASE_EFORMAT, "%s: %s than the %zu labels of its header", array->name, found,
                         array->total);
    return base_fail(why, BASE_EFORMAT, "%s: %s than the %zu images of %zu x %zu of its header", array->name,
                     found, array->dims[0], array->dims[1], array->dims[2]);
}

static enum base_error check_labels(const struct idx_array *labels, size_t classes, struct base_reason *why)
{
    for (size_t i = 0; i < labels->total; i++)
        if (labels->values[i] >= classes)
            return base_fail(why, BASE_EFORMAT, "%s: label %zu is %u, expected 0 to %zu (%zu classes)",
                             labels->name, i, labels->values[i], classes - 1, classes);
    return BASE_OK;
}

static enum base_error convert(const struct idx_array *images, const struct idx_array *labels, size_t first,
                               size_t count, size_t classes, struct train_dataset *data,
                               struct base_reason *why)
{
    size_t features = images->dims[1] * images->dims[2];
    enum base_error error = train_dataset_range(images->name, images->dims[0], first, count, &count, why);
    if (!error)
        error = train_dataset_allocate(count, features, classes, 0, data, why);
    if (error)
        return error;
    const uint8_t *pixels = images->values + first * features;
    for (size_t i = 0; i < count * features; i++)
        data->x[i] = (float)pixels[i] / PIXEL_MAX;
    data->input_divisor = PIXEL_MAX;
    data->height = images->dims[1];
    data->width = images->dims[2];
    data->channels = 1;
    for (size_t i = 0; i < count; i++)
        data->labels[i] = labels->values[first + i];
    return BASE_OK;
}

// `files`: images and labels, unpacked.
static enum base_error parse(const struct train_bytes files[2], struct idx_array arrays[2], size_t classes,
                             struct base_reason *why)
{
    enum base_error error = read_header(&files[0], 3, &arrays[0], why);
    if (!error)
        error = read_header(&files[1], 1, &arrays[1], why);
    if (error)
        return error;
    if (arrays[0].dims[0] != arrays[1].dims[0])
        return base_fail(why, BASE_EMISMATCH,
                         "%s has %zu images, but %s has %zu labels: they do not belong together",
                         files[0].name, arrays[0].dims[0], files[1].name, arrays[1].dims[0]);
    error = check_length(&arrays[1], files[1].bytes - TRAIN_IDX_LABELS_HEADER_BYTES, why);
    if (!error)
        error = check_labels(&arrays[1], classes, why);
    return error ? error : check_length(&arrays[0], files[0].bytes - TRAIN_IDX_IMAGES_HEADER_BYTES, why);
}

enum base_error train_idx_parse(const struct train_bytes *images, const struct train_bytes *labels,
                                size_t first, size_t count, size_t classes, struct train_dataset *data,
                                struct base_reason *why)
{
    struct train_bytes files[2];
    struct idx_array arrays[2] = {{.name = images->name}, {.name = labels->name}};
    uint8_t *owned[2] = {NULL, NULL};
    if (classes == 0 || classes > LIMIT_CLASSES)
        return base_fail(why, BASE_EINVAL, "%zu classes, expected 1 to %u", classes, LIMIT_CLASSES);
    enum base_error error = train_unpack_gzip(images, &files[0], &owned[0], why);
    if (!error)
        error = train_unpack_gzip(labels, &files[1], &owned[1], why);
    if (!error)
        error = parse(files, arrays, classes, why);
    if (!error)
        error = convert(&arrays[0], &arrays[1], first, count, classes, data, why);
    free(owned[0]);
    free(owned[1]);
    return error;
}

enum base_error train_dataset_load_idx(const char *images, const char *labels, size_t first, size_t count,
                                       size_t classes, struct train_dataset *data, struct base_reason *why)
{
    uint8_t *bytes[2] = {NULL, NULL};
    struct train_bytes files[2] = {{.name = images}, {.name = labels}};
    enum base_error error = base_file_read(images, FILE_LIMIT, &bytes[0], &files[0].bytes, why);
    if (!error)
        error = base_file_read(labels, FILE_LIMIT, &bytes[1], &files[1].bytes, why);
    files[0].data = bytes[0];
    files[1].data = bytes[1];
    if (!error)
        error = train_idx_parse(&files[0], &files[1], first, count, classes, data, why);
    free(bytes[0]);
    free(bytes[1]);
    return error;
}
