// The message decoder on arbitrary bytes. What it accepts has exactly one encoding: encoded again it gives
// the same bytes.
#include "base/limits.h"
#include "gossip/wire/message.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gossip_message message;
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    size_t header_bytes = 0;
    if (gossip_message_decode(data, size, &message))
        return 0;
    BASE_ASSERT(!gossip_message_encode_header(&message, header, sizeof header, &header_bytes));
    BASE_ASSERT(header_bytes <= size && memcmp(header, data, header_bytes) == 0);
    struct gossip_payload payloads[GOSSIP_MESSAGE_PAYLOADS];
    size_t n = gossip_message_payloads(&message, payloads), at = header_bytes;
    for (size_t i = 0; i < n; at += payloads[i++].count)
        BASE_ASSERT(payloads[i].bytes == data + at);
    BASE_ASSERT(at == size);
    return 0;
}
