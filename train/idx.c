// IDX files of images and labels, plain or gzip. The numbers of a header are checked against the limits and
// against the length of the data before any memory is allocated for them.
#include "base/file.h"
#include "base/limits.h"
#include "train/loaders.h"
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define IDX_UBYTE   0x08u
#define FILE_LIMIT  ((size_t)LIMIT_DATASET_VALUES + TRAIN_IDX_IMAGES_HEADER_BYTES)
#define PIXEL_MAX   255.0f
#define CHUNK_BYTES ((size_t)1 << 20)

// One file, open for reading. A gzip file is inflated as it is read, so that its length is only known at its
// end.
struct idx_stream {
    const char *name;
    const uint8_t *at; // plain bytes not yet read
    size_t left;
    bool is_gzip;
    z_stream z;
    const char *broken;   // why the gzip data is unusable, or NULL
    enum base_error code; // goes with it
};

static enum base_error stream_open(struct idx_stream *stream, const struct train_bytes *file,
                                   struct base_reason *why)
{
    *stream = (struct idx_stream){.name = file->name, .at = file->data, .left = file->bytes};
    stream->is_gzip = file->bytes >= 2 && file->data[0] == 0x1f && file->data[1] == 0x8b;
    if (!stream->is_gzip)
        return BASE_OK;
    if (file->bytes > UINT_MAX)
        return base_fail(why, BASE_ELIMIT, "%s: %zu bytes of gzip are over the limit of %u", file->name,
                         file->bytes, UINT_MAX);
    stream->z.next_in = (Bytef *)(uintptr_t)file->data; // zlib never writes to its input
    stream->z.avail_in = (uInt)file->bytes;
    if (inflateInit2(&stream->z, 15 + 16) != Z_OK) // 15: the largest window; +16: gzip only
        return base_fail(why, BASE_ENOMEM, "%s: no memory to unpack it", file->name);
    return BASE_OK;
}

static void stream_close(struct idx_stream *stream)
{
    if (stream->is_gzip)
        inflateEnd(&stream->z);
}

static void stream_mark_broken(struct idx_stream *stream, enum base_error code, const char *text)
{
    stream->code = code;
    stream->broken = text;
}

// Reads up to `bytes`; less only at the end of the data or where it is broken.
static size_t stream_inflate(struct idx_stream *stream, uint8_t *out, size_t bytes)
{
    z_stream *z = &stream->z;
    z->next_out = out;
    z->avail_out = (uInt)bytes;
    while (z->avail_out > 0 && stream->broken == NULL) {
        int rc = inflate(z, Z_NO_FLUSH);
        if (rc == Z_STREAM_END && z->avail_in == 0)
            break;
        if (rc == Z_STREAM_END)
            inflateReset(z); // a gzip file may hold several members (RFC 1952, section 2.2)
        else if (rc == Z_BUF_ERROR)
            stream_mark_broken(stream, BASE_EFORMAT, "the gzip data ends early, the file is truncated");
        else if (rc == Z_MEM_ERROR)
            stream_mark_broken(stream, BASE_ENOMEM, "no memory to unpack it");
        else if (rc != Z_OK)
            stream_mark_broken(stream, BASE_EFORMAT, z->msg != NULL ? z->msg : "the gzip data is damaged");
    }
    return bytes - z->avail_out;
}

static size_t stream_read(struct idx_stream *stream, uint8_t *out, size_t bytes)
{
    if (stream->is_gzip)
        return stream_inflate(stream, out, bytes);
    size_t got = bytes < stream->left ? bytes : stream->left;
    if (got > 0)
        memcpy(out, stream->at, got);
    stream->at += got;
    stream->left -= got;
    return got;
}

// A header and, later, the bytes behind it.
struct idx_array {
    size_t rank, dims[3], total; // total: product of dims
    const uint8_t *values;       // [total], in the file's own bytes or in `unpacked`
    uint8_t *unpacked;           // owned; NULL for a plain file
};

static enum base_error check_magic(const struct idx_stream *stream, const uint8_t head[4], size_t rank,
                                   struct base_reason *why)
{
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
                     stream->name, found, wanted, rank == 3 ? "images" : "labels", hint);
}

static enum base_error read_header(struct idx_stream *stream, size_t rank, struct idx_array *array,
                                   struct base_reason *why)
{
    uint8_t head[TRAIN_IDX_IMAGES_HEADER_BYTES];
    size_t bytes = 4 + 4 * rank, got = stream_read(stream, head, bytes);
    if (got >= 4) {
        enum base_error error = check_magic(stream, head, rank, why);
        if (error != BASE_OK)
            return error;
    }
    if (stream->broken != NULL)
        return base_fail(why, stream->code, "%s: %s", stream->name, stream->broken);
    if (got < bytes)
        return base_fail(why, BASE_EFORMAT, "%s: %s, expected an IDX header of %zu bytes", stream->name,
                         got == 0 ? "the file is empty" : "the file ends inside its header", bytes);
    struct idx_array found = {.rank = rank, .total = 1};
    for (size_t i = 0; i < rank; i++) {
        const uint8_t *at = head + 4 + 4 * i;
        found.dims[i] = (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
        if (found.dims[i] == 0)
            return base_fail(why, BASE_EFORMAT, "%s: dimension %zu of %zu is 0 in the header", stream->name,
                             i + 1, rank);
        if (found.dims[i] > LIMIT_DATASET_VALUES / found.total)
            return base_fail(why, BASE_ELIMIT, "%s: the header states more than the limit of %llu values",
                             stream->name, LIMIT_DATASET_VALUES);
        found.total *= found.dims[i];
    }
    *array = found;
    return BASE_OK;
}

static enum base_error fail_length(const struct idx_stream *stream, const struct idx_array *array,
                                   const char *found, struct base_reason *why)
{
    if (array->rank == 1)
        return base_fail(why, BASE_EFORMAT, "%s: %s than the %zu labels of its header", stream->name, found,
                         array->total);
    return base_fail(why, BASE_EFORMAT, "%s: %s than the %zu images of %zu x %zu of its header", stream->name,
                     found, array->dims[0], array->dims[1], array->dims[2]);
}

// Memory grows with the data that arrives, never with what the header promises.
static enum base_error unpack_values(struct idx_stream *stream, struct idx_array *array,
                                     struct base_reason *why)
{
    size_t have = 0, capacity = 0;
    while (have < array->total) {
        size_t grown = 2 * capacity < CHUNK_BYTES ? CHUNK_BYTES : 2 * capacity;
        capacity = grown < array->total ? grown : array->total;
        uint8_t *bytes = realloc(array->unpacked, capacity);
        if (bytes == NULL)
            return base_fail(why, BASE_ENOMEM, "%s: no memory for %zu bytes", stream->name, capacity);
        array->unpacked = bytes;
        have += stream_read(stream, bytes + have, capacity - have);
        if (have < capacity)
            break;
    }
    if (stream->broken != NULL)
        return base_fail(why, stream->code, "%s: %s (after %zu of %zu values)", stream->name, stream->broken,
                         have, array->total);
    if (have < array->total)
        return fail_length(stream, array, "truncated, fewer bytes", why);
    array->values = array->unpacked;
    uint8_t more;
    size_t extra = stream_read(stream, &more, 1); // also makes zlib check the sum at the end
    if (stream->broken != NULL)
        return base_fail(why, stream->code, "%s: %s (at its end)", stream->name, stream->broken);
    return extra == 0 ? BASE_OK : fail_length(stream, array, "more bytes", why);
}

static enum base_error read_values(struct idx_stream *stream, struct idx_array *array,
                                   struct base_reason *why)
{
    if (stream->is_gzip)
        return unpack_values(stream, array, why);
    if (stream->left < array->total)
        return fail_length(stream, array, "truncated, fewer bytes", why);
    if (stream->left > array->total)
        return fail_length(stream, array, "more bytes", why);
    array->values = stream->at;
    return BASE_OK;
}

static enum base_error check_labels(const char *name, const struct idx_array *labels, size_t classes,
                                    struct base_reason *why)
{
    for (size_t i = 0; i < labels->total; i++)
        if (labels->values[i] >= classes)
            return base_fail(why, BASE_EFORMAT, "%s: label %zu is %u, expected 0 to %zu (%zu classes)", name,
                             i, labels->values[i], classes - 1, classes);
    return BASE_OK;
}

static enum base_error convert(const char *name, const struct idx_array *images,
                               const struct idx_array *labels, size_t first, size_t count, size_t classes,
                               struct train_dataset *data, struct base_reason *why)
{
    size_t features = images->dims[1] * images->dims[2];
    enum base_error error = train_dataset_range(name, images->dims[0], first, count, &count, why);
    if (error == BASE_OK)
        error = train_dataset_allocate(count, features, classes, data, why);
    if (error != BASE_OK)
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

static enum base_error parse_streams(struct idx_stream *images, struct idx_stream *labels,
                                     struct idx_array arrays[2], size_t classes, struct base_reason *why)
{
    enum base_error error = read_header(images, 3, &arrays[0], why);
    if (error == BASE_OK)
        error = read_header(labels, 1, &arrays[1], why);
    if (error != BASE_OK)
        return error;
    if (arrays[0].dims[0] != arrays[1].dims[0])
        return base_fail(why, BASE_EMISMATCH,
                         "%s has %zu images, but %s has %zu labels: they don't belong together", images->name,
                         arrays[0].dims[0], labels->name, arrays[1].dims[0]);
    error = read_values(labels, &arrays[1], why);
    if (error == BASE_OK)
        error = check_labels(labels->name, &arrays[1], classes, why);
    return error == BASE_OK ? read_values(images, &arrays[0], why) : error;
}

enum base_error train_idx_parse(const struct train_bytes *images, const struct train_bytes *labels,
                                size_t first, size_t count, size_t classes, struct train_dataset *data,
                                struct base_reason *why)
{
    if (classes == 0 || classes > LIMIT_CLASSES)
        return base_fail(why, BASE_EINVAL, "%zu classes, expected 1 to %u", classes, LIMIT_CLASSES);
    struct idx_stream streams[2] = {{0}, {0}};
    struct idx_array arrays[2] = {{0}, {0}};
    enum base_error error = stream_open(&streams[0], images, why);
    if (error != BASE_OK)
        return error;
    error = stream_open(&streams[1], labels, why);
    if (error == BASE_OK) {
        error = parse_streams(&streams[0], &streams[1], arrays, classes, why);
        stream_close(&streams[1]);
    }
    stream_close(&streams[0]);
    if (error == BASE_OK)
        error = convert(images->name, &arrays[0], &arrays[1], first, count, classes, data, why);
    free(arrays[0].unpacked);
    free(arrays[1].unpacked);
    return error;
}

enum base_error train_dataset_load_idx(const char *images, const char *labels, size_t first, size_t count,
                                       size_t classes, struct train_dataset *data, struct base_reason *why)
{
    uint8_t *bytes[2] = {NULL, NULL};
    struct train_bytes files[2] = {{.name = images}, {.name = labels}};
    enum base_error error = base_file_read(images, FILE_LIMIT, &bytes[0], &files[0].bytes, why);
    if (error == BASE_OK)
        error = base_file_read(labels, FILE_LIMIT, &bytes[1], &files[1].bytes, why);
    files[0].data = bytes[0];
    files[1].data = bytes[1];
    if (error == BASE_OK)
        error = train_idx_parse(&files[0], &files[1], first, count, classes, data, why);
    free(bytes[0]);
    free(bytes[1]);
    return error;
}
