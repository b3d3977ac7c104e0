// Any bytes as an index section in bitmap form.
#include "compress/indices.h"
#include "packet_bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    packet_bytes_section(INDICES_BITMAP, data, size);
    return 0;
}
