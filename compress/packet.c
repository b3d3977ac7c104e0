// The packet: header, index section, value section. Layout: compress/LAYOUT.md.
#include "compress/packet.h"
#include "base/cursor.h"
#include "base/limits.h"
#include "compress/indices.h"
#include "compress/packet_header.h"
#include <stdlib.h>
#include <string.h>

const struct indices_code *const packet_codes[INDICES_KINDS] = {
    [INDICES_ALL] = &indices_all,
    [INDICES_BITMAP] = &indices_bitmap,
    [INDICES_RICE] = &indices_rice,
    [INDICES_SAME_KEYS] = &indices_same_keys,
};

size_t compress_packet_bound(size_t count, size_t entries, enum kernels_format format)
{
    entries = entries < count ? entries : count;
    const size_t bitmap = (count + 7) / 8, rice = indices_rice_bound(count, entries);
    return PACKET_HEADER_BYTES + (rice < bitmap ? rice : bitmap) + kernels_section_bytes(format, entries);
}

size_t compress_packet_entries(const uint8_t *packet, size_t packet_bytes)
{
    struct base_reader reader = base_reader_of(packet, packet_bytes);
    (void)base_read_u16(&reader);
    return base_read_u32(&reader);
}

// Provides the indices in ordinary memory: those of the entries, or a copy that *copy owns.
static enum base_error list_open(const struct kernels *kernels, const struct compress_sparse *entries,
                                 size_t count, const struct compress_keys *known, struct indices_list *list,
                                 uint32_t **copy)
{
    const uint32_t *index = entries->index;
    if (!kernels->shares_host && entries->count > 0) {
        *copy = malloc(entries->count * sizeof **copy);
        if (!*copy)
            return BASE_ENOMEM;
        kernels->download(*copy, index, entries->count * sizeof **copy);
        index = *copy;
    }
    *list = (struct indices_list){.index = index,
                                  .entries = entries->count,
                                  .count = count,
                                  .coding = kernels->host->coding,
                                  .known = known,
                                  .first = indices_rice_first(index, entries->count)};
    if (!list->coding->gaps(list->entries, index, list->first, list->sums) ||
        (list->entries > 0 && index[list->entries - 1] >= count))
        return BASE_EINVAL;
    return BASE_OK;
}

struct plan {
    unsigned kind, parameter;
    size_t index_bytes, value_bytes;
};

static struct plan plan_smallest(const struct indices_list *list, enum kernels_format format)
{
    struct plan plan = {.index_bytes = SIZE_MAX, .value_bytes = kernels_section_bytes(format, list->entries)};
    for (unsigned kind = 0; kind < INDICES_KINDS; kind++) {
        if (!packet_codes[kind])
            continue;
        unsigned parameter = 0;
        const size_t bytes = packet_codes[kind]->size(list, &parameter);
        if (bytes < plan.index_bytes) {
            plan.kind = kind;
            plan.parameter = parameter;
            plan.index_bytes = bytes;
        }
    }
    return plan;
}

#define PIECE (4 * KERNELS_VALUES_BLOCK)
#define SUMS  8u // independent sums, so that additions do not wait for each other

static void energy_add(size_t count, const float *before, const float *after, double sum[SUMS])
{
    for (size_t i = 0; i < count; i++) {
        const double was = (double)before[i], left = was - (double)after[i];
        sum[i % SUMS] += was * was - left * left;
    }
}

// Blocks are coded independently, so a section is the concatenation of its pieces. The energy of a piece is
// measured while its old and new values are in the L1 cache; later they would have to be read again.
static double values_write_host(const struct kernels *kernels, enum kernels_format format, size_t count,
                                float *value, uint8_t *section)
{
    double sum[SUMS] = {0}, taken = 0;
    float before[PIECE];
    for (size_t done = 0; done < count; done += PIECE) {
        const size_t piece = count - done < PIECE ? count - done : PIECE;
        memcpy(before, value + done, piece * sizeof *before);
        kernels->values->write(format, piece, value + done, section);
        energy_add(piece, before, value + done, sum);
        section += kernels_section_bytes(format, piece);
    }
    for (size_t i = 0; i < SUMS; i++)
        taken += sum[i];
    return taken;
}

// Quantises in the backend's memory; only the section is copied to the host.
static enum base_error values_write_device(const struct kernels *kernels, enum kernels_format format,
                                           struct compress_sparse *entries, uint8_t *section, size_t bytes)
{
    const size_t count = entries->count;
    uint8_t *device = kernels->alloc(bytes);
    float *before = kernels->alloc(count * sizeof *before);
    const bool memory = device && before;
    if (memory) {
        kernels->vectors->copy(before, entries->value, count * sizeof *before);
        kernels->values->write(format, count, entries->value, device);
        kernels->download(section, device, bytes);
        entries->taken = kernels->vectors->energy(count, before, entries->value);
    }
    kernels->release(device);
    kernels->release(before);
    return memory ? BASE_OK : BASE_ENOMEM;
}

// Writes to `section`, which is ordinary memory even if the values are not.
static enum base_error values_write(const struct kernels *kernels, enum kernels_format format,
                                    struct compress_sparse *entries, uint8_t *section, size_t bytes)
{
    entries->taken = 0;
    if (!kernels->shares_host && bytes > 0)
        return values_write_device(kernels, format, entries, section, bytes);
    entries->taken = values_write_host(kernels, format, entries->count, entries->value, section);
    return BASE_OK;
}

static enum base_error packet_write(const struct kernels *kernels, const struct indices_list *list,
                                    struct compress_sparse *entries, enum kernels_format format,
                                    uint8_t *packet, size_t capacity, size_t *packet_bytes)
{
    const struct plan plan = plan_smallest(list, format);
    const size_t bytes = PACKET_HEADER_BYTES + plan.index_bytes + plan.value_bytes;
    if (capacity < bytes)
        return BASE_ELIMIT;
    struct base_writer writer = base_writer_of(packet, bytes);
    base_write_u8(&writer, (uint8_t)((unsigned)format | plan.kind << 4));
    base_write_u8(&writer, (uint8_t)plan.parameter);
    base_write_u32(&writer, (uint32_t)list->entries);
    uint8_t *indices = base_write_room(&writer, plan.index_bytes);
    uint8_t *values = base_write_room(&writer, plan.value_bytes);
    BASE_ASSERT(!writer.failed && base_writer_used(&writer) == bytes);
    const enum base_error error = values_write(kernels, format, entries, values, plan.value_bytes);
    if (error)
        return error;
    packet_codes[plan.kind]->write(list, plan.parameter, indices, plan.index_bytes);
    *packet_bytes = bytes;
    return BASE_OK;
}

enum base_error compress_packet_encode(const struct kernels *kernels, struct compress_sparse *entries,
                                       size_t count, enum kernels_format format,
                                       const struct compress_keys *known, uint8_t *packet, size_t capacity,
                                       size_t *packet_bytes)
{
    if ((unsigned)format >= KERNELS_FORMATS || entries->count > count)
        return BASE_EINVAL;
    if (count > LIMIT_PARAMETERS)
        return BASE_ELIMIT;
    struct indices_list list;
    uint32_t *copy = NULL;
    enum base_error error = list_open(kernels, entries, count, known, &list, &copy);
    if (!error && !kernels->apply->finite(entries->value, entries->count))
        error = BASE_EFORMAT;
    if (!error)
        error = packet_write(kernels, &list, entries, format, packet, capacity, packet_bytes);
    free(copy);
    return error;
}
