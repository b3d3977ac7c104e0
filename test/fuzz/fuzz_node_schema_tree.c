// Any bytes as a file with a list of maps: read, or refused with a reason. What was read can be written, and
// reads back the same.
#include "schema_round_trip.h"

struct sample {
    struct node_origins origins;
    struct node_tree events;
};
static const struct node_key keys[] = {
    {"events", NODE_KEY_MAPS, offsetof(struct sample, events), "[]", 0, 0, NULL, .meaning = "What happens."},
};
static const struct node_schema events_schema = {.keys = keys, .count = 1};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sample first = {0}, second = {0};
    schema_round_trip(&events_schema, data, size, &first, &second);
    return 0;
}
