// The message decoder on arbitrary bytes. What it accepts has exactly one encoding: packed again it gives the
// same bytes.
#include "base/limits.h"
#include "gossip/wire/message.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gossip_message message;
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    size_t header_bytes = 0;
    if (gossip_message_decode(data, size, &message) != BASE_OK)
        return 0;
    BASE_ASSERT(gossip_message_encode_header(&message, header, sizeof header, &header_bytes) == BASE_OK);
    BASE_ASSERT(header_bytes <= size && memcmp(header, data, header_bytes) == 0);
    size_t left = size - header_bytes;
    if (message.kind == GOSSIP_XCHG || message.kind == GOSSIP_XACK) {
        const struct gossip_exchange_message *exchange = &message.as.exchange;
        BASE_ASSERT(exchange->delta_bytes == 0 || exchange->delta == data + header_bytes);
        BASE_ASSERT(exchange->moment_bytes == 0 || exchange->moment + exchange->moment_bytes == data + size);
        left -= exchange->delta_bytes;
        left -= exchange->moment_bytes;
    }
    BASE_ASSERT(left == 0);
    return 0;
}
