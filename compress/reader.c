// Reading packets: the whole packet is checked first, then read in pieces.
#include "base/cursor.h"
#include "base/limits.h"
#include "compress/bytes.h"
#include "compress/packet.h"
#include "compress/packet_header.h"

// Reads the header into *reader. Every number is checked against `count`, `most` and the length of the
// packet.
static enum base_error header_read(struct base_reader *from, size_t count, size_t most,
                                   struct compress_reader *reader)
{
    const unsigned kinds = base_read_u8(from), parameter = base_read_u8(from);
    const size_t entries = base_read_u32(from);
    const unsigned format = kinds & 0xfu, code = kinds >> 4;
    if (from->failed || format >= KERNELS_FORMATS || code >= INDICES_KINDS || !packet_codes[code] ||
        entries > count)
        return BASE_EFORMAT;
    if (entries > most)
        return BASE_ELIMIT;
    const size_t value_bytes = kernels_section_bytes((enum kernels_format)format, entries);
    if (value_bytes > base_reader_left(from))
        return BASE_EFORMAT;
    reader->index_bytes = base_reader_left(from) - value_bytes;
    reader->value_bytes = value_bytes;
    reader->indices = base_read_bytes(from, reader->index_bytes);
    reader->values = base_read_bytes(from, value_bytes);
    reader->code = code;
    reader->parameter = parameter;
    reader->format = (enum kernels_format)format;
    reader->entries = entries;
    return BASE_OK;
}

enum base_error compress_reader_open(const struct kernels *kernels, const uint8_t *packet,
                                     size_t packet_bytes, size_t count, size_t most,
                                     const struct compress_keys *known, struct compress_reader *reader)
{
    if (count > LIMIT_PARAMETERS)
        return BASE_ELIMIT;
    struct compress_reader found = {.host = kernels->host, .count = count};
    if (known)
        found.known = *known;
    struct base_reader from = base_reader_of(packet, packet_bytes);
    enum base_error error = header_read(&from, count, most, &found);
    if (!error && !found.host->values->valid(found.format, found.entries, found.values))
        error = BASE_EFORMAT;
    if (!error)
        error = packet_codes[found.code]->check(&found);
    if (!error)
        *reader = found;
    return error;
}

size_t compress_reader_piece(struct compress_reader *reader, size_t room, uint32_t *index,
                             const uint8_t **section)
{
    const size_t left = reader->entries - reader->done, now = left < room ? left : room;
    BASE_ASSERT(now == left || (room > 0 && room % KERNELS_VALUES_BLOCK == 0));
    if (now == 0)
        return 0;
    packet_codes[reader->code]->read(reader, now, index);
    *section = reader->values + kernels_section_bytes(reader->format, reader->done);
    reader->done += now;
    return now;
}

size_t compress_reader_next(struct compress_reader *reader, size_t room, uint32_t *index, float *value)
{
    const uint8_t *section;
    const size_t now = compress_reader_piece(reader, room, index, &section);
    if (now > 0)
        reader->host->values->read(reader->format, now, section, value);
    return now;
}

// The largest bound of all blocks: `codes` times the only scale of a block, or times the higher of its two
// scales, which follows the lower one.
static float largest_of_blocks(const struct compress_reader *reader, size_t scale_at, float codes)
{
    const size_t stride = kernels_section_bytes(reader->format, KERNELS_VALUES_BLOCK);
    float largest = 0;
    for (size_t at = 0; at < reader->value_bytes; at += stride) {
        const float scale = float_of(bytes_get_u32(reader->values + at + scale_at));
        largest = scale > largest ? scale : largest;
    }
    return largest * codes;
}

static float largest_of_values(const struct compress_reader *reader, size_t room, float *value)
{
    const size_t bytes = kernels_section_bytes(reader->format, 1);
    uint32_t largest = 0;
    for (size_t done = 0; done < reader->entries; done += room) {
        const size_t left = reader->entries - done, now = left < room ? left : room;
        reader->host->values->read(reader->format, now, reader->values + done * bytes, value);
        for (size_t i = 0; i < now; i++)
            largest = magnitude_of(value[i]) > largest ? magnitude_of(value[i]) : largest;
    }
    return float_of(largest);
}

float compress_reader_largest(const struct compress_reader *reader)
{
    enum { INT8_CODES = 127, SECOND_SCALE = 4 };
    float value[KERNELS_VALUES_BLOCK];
    switch (reader->format) {
    case KERNELS_INT8:
        return largest_of_blocks(reader, 0, INT8_CODES);
    case KERNELS_SIGN:
        return largest_of_blocks(reader, 0, 1);
    case KERNELS_INT4:
    case KERNELS_INT2:
        return largest_of_blocks(reader, SECOND_SCALE, 1);
    case KERNELS_FP32:
    case KERNELS_FP16:
    case KERNELS_BF16:
        break;
    }
    return largest_of_values(reader, KERNELS_VALUES_BLOCK, value);
}
