#include "base/cursor.h"
#include "compress/indices.h"
#include "compress/packet_header.h"

enum base_error compress_packet_shorten(const uint8_t *packet, size_t packet_bytes,
                                        const struct compress_keys *known, uint8_t *shorter, size_t capacity,
                                        size_t *shorter_bytes)
{
    const size_t entries = compress_packet_entries(packet, packet_bytes);
    if (packet_bytes < PACKET_HEADER_BYTES || entries == 0 || entries != known->count)
        return BASE_EINVAL;
    const unsigned format = packet[0] & 15u;
    const size_t value_bytes =
        format < KERNELS_FORMATS ? kernels_section_bytes((enum kernels_format)format, entries) : SIZE_MAX;
    if (value_bytes > packet_bytes - PACKET_HEADER_BYTES)
        return BASE_EINVAL;
    struct base_writer writer = base_writer_of(shorter, capacity);
    base_write_u8(&writer, (uint8_t)(format | INDICES_SAME_KEYS << 4));
    base_write_u8(&writer, 0);
    base_write_u32(&writer, (uint32_t)entries);
    base_write_u64(&writer, known->hash);
    base_write_bytes(&writer, packet + packet_bytes - value_bytes, value_bytes);
    if (writer.failed)
        return BASE_ELIMIT;
    *shorter_bytes = base_writer_used(&writer);
    return BASE_OK;
}
