// Any bytes as an index section in Rice code.
#include "compress/indices.h"
#include "packet_bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    packet_bytes_section(INDICES_RICE, data, size);
    return 0;
}
