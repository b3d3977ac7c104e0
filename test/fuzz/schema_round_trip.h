// Any bytes as a file of a schema: read, or refused with a reason. What was read can be written, and reads
// back the same.
#ifndef TEST_FUZZ_SCHEMA_ROUND_TRIP_H
#define TEST_FUZZ_SCHEMA_ROUND_TRIP_H

#include "base/error.h"
#include "node/schema/schema.h"
#include <stdlib.h>
#include <string.h>

// first and second: two structs of the schema, zeroed.
static inline void schema_round_trip(const struct node_schema *schema, const uint8_t *data, size_t size,
                                     void *first, void *second)
{
    struct base_reason why = {""};
    BASE_ASSERT(!node_schema_defaults(schema, first, &why));
    BASE_ASSERT(!node_schema_defaults(schema, second, &why));
    char *before = node_schema_write(schema, first);
    BASE_ASSERT(before);
    enum base_error error = node_schema_read_text(schema, "fuzz.yaml", (const char *)data, size, first, &why);
    char *after = node_schema_write(schema, first);
    BASE_ASSERT(after);
    if (error) {
        BASE_ASSERT(why.text[0] && strcmp(before, after) == 0);
    } else {
        BASE_ASSERT(!node_schema_read_text(schema, "again.yaml", after, strlen(after), second, &why));
        char *again = node_schema_write(schema, second);
        BASE_ASSERT(again && strcmp(after, again) == 0);
        free(again);
    }
    free(before);
    free(after);
    node_schema_free(schema, first);
    node_schema_free(schema, second);
}

#endif
