// Any bytes as a file with a list of maps: read or refused with a reason, and what was read writes and reads
// back to the same.
#include "base/error.h"
#include "node/schema/schema.h"

#include <stdlib.h>
#include <string.h>

struct sample {
    struct node_origins origins;
    struct node_tree events;
};
static const struct node_key keys[] = {
    {"events", NODE_KEY_MAPS, offsetof(struct sample, events), "[]", 0, 0, NULL, .meaning = "What happens."},
};
static const struct node_schema events_schema = {keys, 1};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct node_schema *schema = &events_schema;
    struct sample first = {0}, second = {0};
    struct base_reason why = {""};
    BASE_ASSERT(node_schema_defaults(schema, &first, &why) == BASE_OK);
    BASE_ASSERT(node_schema_defaults(schema, &second, &why) == BASE_OK);
    char *before = node_schema_write(schema, &first);
    BASE_ASSERT(before);
    enum base_error error =
        node_schema_read_text(schema, "fuzz.yaml", (const char *)data, size, &first, &why);
    char *after = node_schema_write(schema, &first);
    BASE_ASSERT(after);
    if (error) {
        BASE_ASSERT(why.text[0] && strcmp(before, after) == 0);
    } else {
        BASE_ASSERT(node_schema_read_text(schema, "again.yaml", after, strlen(after), &second, &why) ==
                    BASE_OK);
        char *again = node_schema_write(schema, &second);
        BASE_ASSERT(again && strcmp(after, again) == 0);
        free(again);
    }
    free(before);
    free(after);
    node_schema_free(schema, &first);
    node_schema_free(schema, &second);
    return 0;
}
