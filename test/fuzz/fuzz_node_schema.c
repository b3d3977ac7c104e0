// Any bytes as a configuration file: read, or refused with a reason. What was read can be written, and reads
// back the same.
#include "node/config/config.h"

#include "schema_round_trip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct node_config first = {0}, second = {0};
    schema_round_trip(&node_config_schema, data, size, &first, &second);
    return 0;
}
