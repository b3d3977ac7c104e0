#include "node/store/safetensors.h"

#include "base/file.h"
#include "base/limits.h"
#include "node/store/digest.h"
#include "node/store/place.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_BYTES 8u // of the header, before it

struct node_safetensors {
    uint8_t *owned; // the file's bytes, or NULL where they are borrowed
    json_t *header; // keeps the texts of the metadata
    struct node_tensor *tensors;
    size_t count;
    bool has_digest;
};

static enum base_error check_tensor(const struct node_tensor *tensor, size_t offset, struct base_reason *why)
{
    size_t bytes;
    if (!memchr(tensor->name, 0, sizeof tensor->name) || !tensor->name[0] ||
        !strcmp(tensor->name, "__metadata__"))
        return base_fail(why, BASE_EINVAL, "'%.*s' cannot be the name of a tensor", (int)sizeof tensor->name,
                         tensor->name);
    if ((size_t)tensor->type >= node_tensor_types || tensor->n_dims > NODE_TENSOR_DIMS ||
        !node_tensor_size(tensor, &bytes) || bytes != tensor->bytes)
        return base_fail(why, BASE_EINVAL, "tensor '%s': type, shape and its %zu bytes do not fit together",
                         tensor->name, tensor->bytes);
    if (offset % node_tensor_type_bytes(tensor->type))
        return base_fail(why, BASE_EINVAL, "tensor '%s' would not be aligned: put wider types first",
                         tensor->name);
    return BASE_OK;
}

static enum base_error describe_tensor(json_t *header, const struct node_tensor *tensor, size_t offset,
                                       struct base_reason *why)
{
    enum base_error error = check_tensor(tensor, offset, why);
    if (error)
        return error;
    if (json_object_get(header, tensor->name))
        return base_fail(why, BASE_EINVAL, "two tensors are named '%s'", tensor->name);
    json_t *shape = json_array();
    for (size_t i = 0; i < tensor->n_dims; i++)
        if (json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i])))
            error = BASE_ENOMEM;
    json_t *entry =
        json_pack("{s:s, s:o, s:[I,I]}", "dtype", node_tensor_type_name(tensor->type), "shape", shape,
                  "data_offsets", (json_int_t)offset, (json_int_t)(offset + tensor->bytes));
    if (error || json_object_set_new(header, tensor->name, entry))
        return base_fail(why, BASE_EINVAL, "tensor '%s': its name is not UTF-8, or memory ran out",
                         tensor->name);
    return BASE_OK;
}

static enum base_error describe_metadata(json_t *header, const struct node_text_pair *pairs, size_t n_pairs,
                                         struct node_digest *digest, struct base_reason *why)
{
    json_t *metadata = json_object();
    if (json_object_set_new(header, "__metadata__", metadata))
        return base_fail(why, BASE_ENOMEM, "no memory for the header");
    for (size_t i = 0; i < n_pairs; i++) {
        const struct node_text_pair *pair = &pairs[i];
        if (!memchr(pair->key, 0, sizeof pair->key) || !memchr(pair->value, 0, sizeof pair->value))
            return base_fail(why, BASE_EINVAL, "metadata entry %zu is too long", i);
        const char *value = pair->text ? pair->text : pair->value;
        if (!strcmp(pair->key, "digest") || json_object_get(metadata, pair->key))
            return base_fail(why, BASE_EINVAL, "metadata '%s' occurs twice", pair->key);
        if (json_object_set_new(metadata, pair->key, json_string(value)))
            return base_fail(why, BASE_EINVAL, "metadata '%s' is not UTF-8, or memory ran out", pair->key);
        node_digest_pair(digest, pair->key, value);
    }
    return BASE_OK;
}

// The JSON text with its length before it, padded with spaces so that the tensors begin at a multiple of 8.
static enum base_error header_text(const json_t *header, uint8_t **text, size_t *bytes,
                                   struct base_reason *why)
{
    size_t length = json_dumpb(header, NULL, 0, JSON_COMPACT);
    if (length == 0)
        return base_fail(why, BASE_ENOMEM, "no memory for the header");
    size_t padded = (length + 7) / 8 * 8;
    if (padded > LIMIT_CHECKPOINT_HEADER_BYTES)
        return base_fail(why, BASE_ELIMIT,
                         "the header would have %zu bytes, at most %u are allowed: too many tensors", padded,
                         LIMIT_CHECKPOINT_HEADER_BYTES);
    uint8_t *buffer = malloc(LENGTH_BYTES + padded);
    if (!buffer)
        return base_fail(why, BASE_ENOMEM, "no memory for the header");
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        buffer[i] = (uint8_t)((uint64_t)padded >> (8 * i));
    memset(buffer + LENGTH_BYTES, ' ', padded);
    if (json_dumpb(header, (char *)buffer + LENGTH_BYTES, length, JSON_COMPACT) != length) {
        free(buffer);
        return base_fail(why, BASE_ENOMEM, "no memory for the header");
    }
    *text = buffer;
    *bytes = LENGTH_BYTES + padded;
    return BASE_OK;
}

static enum base_error describe_all(json_t *header, const struct node_tensor *tensors, size_t n_tensors,
                                    const struct node_text_pair *metadata, size_t n_metadata,
                                    struct base_reason *why)
{
    struct node_digest digest = {0};
    enum base_error error = describe_metadata(header, metadata, n_metadata, &digest, why);
    size_t offset = 0;
    for (size_t i = 0; !error && i < n_tensors; i++) {
        error = describe_tensor(header, &tensors[i], offset, why);
        if (!error)
            node_digest_tensor(&digest, &tensors[i]);
        offset += tensors[i].bytes;
    }
    if (error)
        return error;
    char text[NODE_DIGEST_TEXT];
    node_digest_text(&digest, text);
    if (json_object_set_new(json_object_get(header, "__metadata__"), "digest", json_string(text)))
        return base_fail(why, BASE_ENOMEM, "no memory for the header");
    return BASE_OK;
}

enum base_error node_safetensors_write(const char *path, const struct node_tensor *tensors, size_t n_tensors,
                                       const struct node_text_pair *metadata, size_t n_metadata,
                                       struct base_reason *why)
{
    enum base_error error;
    uint8_t *text = NULL;
    struct base_span *spans = calloc(n_tensors + 1, sizeof *spans);
    json_t *header = json_object();
    if (!spans || !header) {
        error = base_fail(why, BASE_ENOMEM, "no memory to describe %zu tensors", n_tensors);
        goto out;
    }
    error = describe_all(header, tensors, n_tensors, metadata, n_metadata, why);
    if (!error)
        error = header_text(header, &text, &spans[0].bytes, why);
    if (error) {
        error = base_fail_context(why, error, "cannot write '%s'", path);
        goto out;
    }
    spans[0].data = text;
    for (size_t i = 0; i < n_tensors; i++)
        spans[i + 1] = (struct base_span){tensors[i].data, tensors[i].bytes};
    error = base_file_write(path, NODE_FILE_MODE, spans, n_tensors + 1, why);
out:
    free(text);
    free(spans);
    json_decref(header);
    return error;
}

// A number of the header that can be a size; false for anything else.
static bool size_of(const json_t *value, size_t *size)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *size = (size_t)json_integer_value(value);
    return true;
}

static enum base_error parse_type(const json_t *entry, struct node_tensor *tensor, struct base_reason *why)
{
    const char *name = json_string_value(json_object_get(entry, "dtype"));
    for (size_t i = 0; name && i < node_tensor_types; i++)
        if (!strcmp(name, node_tensor_type_name((enum node_tensor_type)i))) {
            tensor->type = (enum node_tensor_type)i;
            return BASE_OK;
        }
    return base_fail(why, BASE_EFORMAT, "tensor '%s' has the type '%.32s', which is not known here",
                     tensor->name, name ? name : "(none)");
}

static enum base_error parse_shape(const json_t *entry, struct node_tensor *tensor, struct base_reason *why)
{
    const json_t *shape = json_object_get(entry, "shape");
    tensor->n_dims = json_array_size(shape);
    if (!json_is_array(shape) || tensor->n_dims > NODE_TENSOR_DIMS)
        return base_fail(why, BASE_EFORMAT, "tensor '%s': its shape is not a list of at most %d sizes",
                         tensor->name, NODE_TENSOR_DIMS);
    for (size_t i = 0; i < tensor->n_dims; i++)
        if (!size_of(json_array_get(shape, i), &tensor->shape[i]))
            return base_fail(why, BASE_EFORMAT, "tensor '%s': dimension %zu is not a size", tensor->name, i);
    return BASE_OK;
}

static enum base_error parse_extent(const json_t *entry, const uint8_t *data, size_t data_bytes,
                                    struct node_tensor *tensor, struct base_reason *why)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    size_t begin, end, bytes;
    if (json_array_size(offsets) != 2 || !size_of(json_array_get(offsets, 0), &begin) ||
        !size_of(json_array_get(offsets, 1), &end) || begin > end)
        return base_fail(why, BASE_EFORMAT, "tensor '%s': its data_offsets are not [begin, end]",
                         tensor->name);
    if (end > data_bytes)
        return base_fail(
            why, BASE_EFORMAT,
            "tensor '%s' ends at byte %zu of the data, of which there are %zu: the file is cut off",
            tensor->name, end, data_bytes);
    if (!node_tensor_size(tensor, &bytes) || bytes != end - begin)
        return base_fail(why, BASE_EFORMAT,
                         "tensor '%s' has %zu bytes of data, which does not fit its shape and type",
                         tensor->name, end - begin);
    tensor->bytes = bytes;
    tensor->data = data + begin;
    return BASE_OK;
}

static enum base_error parse_tensor(const char *name, const json_t *entry, const uint8_t *data,
                                    size_t data_bytes, struct node_tensor *tensor, struct base_reason *why)
{
    if (!name[0] || strlen(name) >= sizeof tensor->name)
        return base_fail(why, BASE_ELIMIT, "the tensor name '%.40s...' has %zu bytes, expected 1 to %zu",
                         name, strlen(name), sizeof tensor->name - 1);
    memcpy(tensor->name, name, strlen(name) + 1);
    if (!json_is_object(entry) || json_object_size(entry) != 3)
        return base_fail(why, BASE_EFORMAT,
                         "tensor '%s' is not described by dtype, shape and data_offsets alone", name);
    enum base_error error = parse_type(entry, tensor, why);
    if (!error)
        error = parse_shape(entry, tensor, why);
    if (!error)
        error = parse_extent(entry, data, data_bytes, tensor, why);
    return error;
}

static enum base_error parse_metadata(json_t *header, struct base_reason *why)
{
    json_t *metadata = json_object_get(header, "__metadata__");
    const char *key;
    json_t *value;
    if (metadata && !json_is_object(metadata))
        return base_fail(why, BASE_EFORMAT, "__metadata__ is not an object");
    json_object_foreach(metadata, key, value)
        if (!json_is_string(value))
            return base_fail(why, BASE_EFORMAT, "metadata '%s' is not a text", key);
    return BASE_OK;
}

static int by_place(const void *left, const void *right)
{
    const struct node_tensor *a = left, *b = right;
    if (a->data != b->data)
        return (const uint8_t *)a->data < (const uint8_t *)b->data ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes); // empty ones first
}

// Sorts the tensors by place; together they must cover the data once.
static enum base_error check_cover(struct node_safetensors *file, const uint8_t *data, size_t data_bytes,
                                   struct base_reason *why)
{
    const uint8_t *at = data;
    if (file->count)
        qsort(file->tensors, file->count, sizeof *file->tensors, by_place);
    for (size_t i = 0; i < file->count; i++) {
        const struct node_tensor *tensor = &file->tensors[i];
        if (tensor->data != at)
            return base_fail(why, BASE_EFORMAT,
                             "tensor '%s' begins at byte %td of the data, expected %td: %s", tensor->name,
                             (const uint8_t *)tensor->data - data, at - data,
                             (const uint8_t *)tensor->data < at ? "tensors overlap" : "there is a gap");
        at += tensor->bytes;
    }
    if (at != data + data_bytes)
        return base_fail(why, BASE_EFORMAT, "%zu bytes follow the last tensor",
                         (size_t)(data + data_bytes - at));
    return BASE_OK;
}

static enum base_error check_digest(struct node_safetensors *file, int need_digest, struct base_reason *why)
{
    json_t *metadata = json_object_get(file->header, "__metadata__");
    BASE_ASSERT(!file->has_digest);
    const char *found = json_string_value(json_object_get(metadata, "digest"));
    if (!found || strncmp(found, NODE_DIGEST_PREFIX, strlen(NODE_DIGEST_PREFIX)) != 0) {
        if (need_digest)
            return base_fail(why, BASE_EFORMAT,
                             "the digest is missing: p2pml did not write this file, or it is damaged");
        return BASE_OK;
    }
    struct node_digest digest = {0};
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value)
        if (strcmp(key, "digest") != 0)
            node_digest_pair(&digest, key, json_string_value(value));
    for (size_t i = 0; i < file->count; i++)
        node_digest_tensor(&digest, &file->tensors[i]);
    char expected[NODE_DIGEST_TEXT];
    node_digest_text(&digest, expected);
    if (strcmp(found, expected) != 0)
        return base_fail(why, BASE_EFORMAT,
                         "the digest does not match: the file has been damaged or changed");
    file->has_digest = true;
    return BASE_OK;
}

static enum base_error load_header(const uint8_t *bytes, size_t count, json_t **header, size_t *header_bytes,
                                   struct base_reason *why)
{
    if (count < LENGTH_BYTES)
        return base_fail(
            why, BASE_EFORMAT,
            "%zu bytes are too few: a safetensors file begins with 8 bytes, the length of its header", count);
    uint64_t length = 0;
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        length |= (uint64_t)bytes[i] << (8 * i);
    if (length > LIMIT_CHECKPOINT_HEADER_BYTES)
        return base_fail(why, BASE_EFORMAT,
                         "the header length, %" PRIu64 ", is over %u: not a safetensors file, or damaged",
                         length, LIMIT_CHECKPOINT_HEADER_BYTES);
    if (length > count - LENGTH_BYTES)
        return base_fail(why, BASE_EFORMAT,
                         "the header should have %" PRIu64 " bytes, %zu follow: the file is cut off", length,
                         count - LENGTH_BYTES);
    if (length == 0 || bytes[LENGTH_BYTES] != '{')
        return base_fail(why, BASE_EFORMAT, "the header does not begin with '{' at byte %u", LENGTH_BYTES);
    json_error_t json;
    *header = json_loadb((const char *)bytes + LENGTH_BYTES, (size_t)length, JSON_REJECT_DUPLICATES, &json);
    if (!*header)
        return base_fail(why, BASE_EFORMAT, "the header is not a JSON object, at byte %d: %s",
                         (int)LENGTH_BYTES + json.position, json.text);
    *header_bytes = LENGTH_BYTES + (size_t)length;
    return BASE_OK;
}

static enum base_error parse_all(const uint8_t *bytes, size_t count, int need_digest,
                                 struct node_safetensors *file, struct base_reason *why)
{
    size_t data_start;
    enum base_error error = load_header(bytes, count, &file->header, &data_start, why);
    if (!error)
        error = parse_metadata(file->header, why);
    if (error)
        return error;
    // One more than needed where there is metadata; the header's length bounds it.
    file->tensors = calloc(json_object_size(file->header) + 1, sizeof *file->tensors);
    if (!file->tensors)
        return base_fail(why, BASE_ENOMEM, "no memory for %zu tensors", json_object_size(file->header));
    const char *name;
    json_t *entry;
    json_object_foreach(file->header, name, entry) {
        if (!strcmp(name, "__metadata__"))
            continue;
        BASE_ASSERT(file->count < json_object_size(file->header));
        error = parse_tensor(name, entry, bytes + data_start, count - data_start, &file->tensors[file->count],
                             why);
        if (error)
            return error;
        file->count++;
    }
    error = check_cover(file, bytes + data_start, count - data_start, why);
    return error ? error : check_digest(file, need_digest, why);
}

enum base_error node_safetensors_parse(const uint8_t *bytes, size_t count, int need_digest,
                                       struct node_safetensors **file, struct base_reason *why)
{
    struct node_safetensors *made = calloc(1, sizeof *made);
    if (!made)
        return base_fail(why, BASE_ENOMEM, "no memory for a safetensors file");
    enum base_error error = parse_all(bytes, count, need_digest, made, why);
    if (error) {
        base_reason_tame(why);
        node_safetensors_free(made);
        return error;
    }
    *file = made;
    return BASE_OK;
}

// What people have in the place of a safetensors file.
static enum base_error name_other_format(const uint8_t *bytes, size_t count, enum base_error error,
                                         struct base_reason *why)
{
    const bool is_json = count > 1 && bytes[0] == '{' && memchr("\r\n\t \"", bytes[1], 5);
    const bool is_pickle = count > 1 && (memcmp(bytes, "PK", 2) == 0 || (bytes[0] == 0x80 && bytes[1] <= 5));
    if (is_json)
        return base_fail(
            why, error,
            "this is JSON, as an index of shards is; expected the weights in one safetensors file: "
            "merge the shards (safetensors.torch.save_file of all their tensors)");
    if (is_pickle)
        return base_fail(
            why, error,
            "this is a file of torch.save, which can hold code; expected safetensors: write it with "
            "safetensors.torch.save_file(model.state_dict(), FILE)");
    return error;
}

enum base_error node_safetensors_read(const char *path, size_t limit, int need_digest,
                                      struct node_safetensors **file, struct base_reason *why)
{
    uint8_t *bytes;
    size_t count;
    enum base_error error = base_file_read_regular(path, limit, &bytes, &count, why);
    if (error)
        return error;
    struct node_safetensors *made;
    error = node_safetensors_parse(bytes, count, need_digest, &made, why);
    if (error) {
        error = name_other_format(bytes, count, error, why);
        free(bytes);
        return base_fail_context(why, error, "'%s'", path);
    }
    made->owned = bytes;
    *file = made;
    return BASE_OK;
}

size_t node_safetensors_count(const struct node_safetensors *file)
{
    return file->count;
}

const struct node_tensor *node_safetensors_at(const struct node_safetensors *file, size_t index)
{
    BASE_ASSERT(index < file->count);
    return &file->tensors[index];
}

const struct node_tensor *node_safetensors_find(const struct node_safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (!strcmp(file->tensors[i].name, name))
            return &file->tensors[i];
    return NULL;
}

const char *node_safetensors_metadata(const struct node_safetensors *file, const char *key)
{
    return json_string_value(json_object_get(json_object_get(file->header, "__metadata__"), key));
}

const char *node_safetensors_metadata_at(const struct node_safetensors *file, size_t index,
                                         const char **value)
{
    json_t *metadata = json_object_get(file->header, "__metadata__");
    void *at = json_object_iter(metadata);
    while (at && index--)
        at = json_object_iter_next(metadata, at);
    if (!at)
        return NULL;
    *value = json_string_value(json_object_iter_value(at));
    return json_object_iter_key(at);
}

int node_safetensors_has_digest(const struct node_safetensors *file)
{
    return file->has_digest;
}

void node_safetensors_free(struct node_safetensors *file)
{
    if (!file)
        return;
    json_decref(file->header);
    free(file->tensors);
    free(file->owned);
    free(file);
}
