// Any bytes as a packet. Input: length of the vector (3 bytes), largest number of entries (2), packet.
#include "packet_bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 5)
        return 0;
    const size_t count = (size_t)data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16;
    const size_t most = (size_t)data[3] | (size_t)data[4] << 8, bytes = size - 5;
    uint8_t *packet = malloc(bytes + (bytes == 0));
    BASE_ASSERT(packet != NULL);
    memcpy(packet, data + 5, bytes);
    packet_bytes_check(packet, bytes, count, most);
    free(packet);
    return 0;
}
