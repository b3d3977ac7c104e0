// The packet: header, index section, value section. Layout: compress/README.md.
#include "base/cursor.h"
#include "base/limits.h"
#include "compress/compress.h"
#include "compress/delta_rice.h"
#include "compress/values.h"
#include <stdbool.h>

#define HEADER_BYTES 6u

enum packet_indices { INDICES_ALL = 0, INDICES_RICE = 1 };

// A packet in parts: what the encoder will write, what the decoder has found.
struct packet_plan {
    enum compress_values values;
    enum packet_indices indices;
    unsigned parameter; // of the Rice code, else 0
    size_t entries, index_bytes, value_bytes;
};

size_t compress_delta_bound(size_t count, size_t entries, enum compress_values values)
{
    entries = entries < count ? entries : count;
    return HEADER_BYTES + compress_delta_rice_bound(count, entries) + compress_values_bytes(values, entries);
}

size_t compress_delta_entries(const uint8_t *packet, size_t packet_bytes)
{
    struct base_reader reader = base_reader_of(packet, packet_bytes);
    (void)base_read_u16(&reader);
    return base_read_u32(&reader);
}

// Ascending, unique, below `count`.
static bool indices_valid(const uint32_t *index, size_t entries, size_t count)
{
    bool broken = entries > 0 && index[entries - 1] >= count;
    for (size_t i = 1; i < entries; i++)
        broken |= index[i] <= index[i - 1];
    return !broken;
}

static struct packet_plan plan_smallest(const struct compress_sparse *sparse, size_t count,
                                        enum compress_values values)
{
    struct packet_plan plan = {.values = values,
                               .entries = sparse->count,
                               .value_bytes = compress_values_bytes(values, sparse->count)};
    if (sparse->count == count)
        return plan; // INDICES_ALL: nothing to say about them
    plan.indices = INDICES_RICE;
    plan.parameter = compress_delta_rice_parameter(sparse->index, sparse->count, &plan.index_bytes);
    return plan;
}

enum base_error compress_delta_encode(struct compress_sparse *sparse, size_t count,
                                      enum compress_values values, uint8_t *packet, size_t capacity,
                                      size_t *packet_bytes)
{
    if ((unsigned)values > COMPRESS_INT8 || !indices_valid(sparse->index, sparse->count, count))
        return BASE_EINVAL;
    if (count > LIMIT_PARAMETERS)
        return BASE_ELIMIT;
    if (!compress_values_finite(sparse->value, sparse->count))
        return BASE_EFORMAT;
    struct packet_plan plan = plan_smallest(sparse, count, values);
    size_t bytes = HEADER_BYTES + plan.index_bytes + plan.value_bytes;
    if (capacity < bytes)
        return BASE_ELIMIT;

    struct base_writer writer = base_writer_of(packet, bytes);
    base_write_u8(&writer, (uint8_t)((unsigned)plan.values | (unsigned)plan.indices << 4));
    base_write_u8(&writer, (uint8_t)plan.parameter);
    base_write_u32(&writer, (uint32_t)plan.entries);
    uint8_t *indices = base_write_room(&writer, plan.index_bytes);
    if (plan.indices == INDICES_RICE)
        compress_delta_rice_write(sparse->index, plan.entries, plan.parameter, indices, plan.index_bytes);
    compress_values_write(values, sparse->value, plan.entries, base_write_room(&writer, plan.value_bytes));
    BASE_ASSERT(!writer.failed && base_writer_used(&writer) == bytes);
    *packet_bytes = bytes;
    return BASE_OK;
}

// Header into *plan; what is left of the reader is the two sections. Every number is held against `count` and
// the packet's length, `entries` against `capacity`.
static enum base_error plan_read(struct base_reader *reader, size_t count, size_t capacity,
                                 struct packet_plan *plan)
{
    unsigned kinds = base_read_u8(reader), parameter = base_read_u8(reader);
    size_t entries = base_read_u32(reader);
    unsigned values = kinds & 0xfu, indices = kinds >> 4;
    if (reader->failed || values > COMPRESS_INT8 || indices > INDICES_RICE || entries > count)
        return BASE_EFORMAT;
    if (parameter > (indices == INDICES_RICE ? COMPRESS_DELTA_RICE_MAX : 0u))
        return BASE_EFORMAT;
    if (entries > capacity)
        return BASE_ELIMIT;
    size_t value_bytes = compress_values_bytes((enum compress_values)values, entries);
    if (value_bytes > base_reader_left(reader))
        return BASE_EFORMAT;
    *plan = (struct packet_plan){.values = (enum compress_values)values,
                                 .indices = (enum packet_indices)indices,
                                 .parameter = parameter,
                                 .entries = entries,
                                 .index_bytes = base_reader_left(reader) - value_bytes,
                                 .value_bytes = value_bytes};
    return BASE_OK;
}

// index may be NULL, to check only.
static enum base_error indices_read(const struct packet_plan *plan, const uint8_t *in, size_t count,
                                    uint32_t *index)
{
    if (plan->indices == INDICES_RICE)
        return compress_delta_rice_read(in, plan->index_bytes, plan->parameter, count, plan->entries, index);
    if (plan->entries != count || plan->index_bytes != 0)
        return BASE_EFORMAT;
    for (size_t i = 0; index != NULL && i < count; i++)
        index[i] = (uint32_t)i;
    return BASE_OK;
}

enum base_error compress_delta_decode(const uint8_t *packet, size_t packet_bytes, size_t count,
                                      struct compress_sparse *sparse)
{
    if (count > LIMIT_PARAMETERS)
        return BASE_ELIMIT;
    struct base_reader reader = base_reader_of(packet, packet_bytes);
    struct packet_plan plan;
    enum base_error error = plan_read(&reader, count, sparse->capacity, &plan);
    if (error != BASE_OK)
        return error;
    const uint8_t *indices = base_read_bytes(&reader, plan.index_bytes);
    const uint8_t *values = base_read_bytes(&reader, plan.value_bytes);
    // All of it is checked before any of it is written: a broken packet leaves the arrays alone.
    if (compress_values_check(plan.values, values, plan.entries) != BASE_OK ||
        indices_read(&plan, indices, count, NULL) != BASE_OK)
        return BASE_EFORMAT;
    error = indices_read(&plan, indices, count, sparse->index);
    BASE_ASSERT(error == BASE_OK);
    compress_values_read(plan.values, values, plan.entries, sparse->value);
    sparse->count = plan.entries;
    return BASE_OK;
}
