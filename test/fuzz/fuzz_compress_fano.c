// Any bytes as an index section in Elias-Fano code.
#include "compress/indices.h"
#include "packet_bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    packet_bytes_section(INDICES_ELIAS_FANO, data, size);
    return 0;
}
