// How the files of the schema engine build a list of maps. Private to node/schema/tree.c and yaml.c.
#ifndef NODE_SCHEMA_TREE_PRIVATE_H
#define NODE_SCHEMA_TREE_PRIVATE_H

#include "node/schema/private.h"

#include <yaml.h>

#define SCHEMA_TREE_DEPTH 6u // lists and maps inside each other

struct schema_tree_builder {
    struct node_tree root;
    struct node_tree *open[SCHEMA_TREE_DEPTH]; // from the outermost to the innermost
    size_t depth;
    char *name; // of a map's next value
    bool done;  // the root is closed
};

// The next event; anchors, aliases and tags were refused before. Reasons are without origin and key.
enum base_error node_schema_tree_take(struct schema_tree_builder *builder, const yaml_event_t *event,
                                      size_t line, struct base_reason *why) BASE_CHECK;
void node_schema_tree_drop(struct schema_tree_builder *builder);

// One event.
static inline const char *schema_scalar(const yaml_event_t *event)
{
    return (const char *)event->data.scalar.value;
}
void node_schema_describe(const yaml_event_t *event, char out[SCHEMA_FOUND_BYTES]); // in words
enum base_error node_schema_refuse_marks(const yaml_event_t *event,
                                         struct base_reason *why) BASE_CHECK; // anchors, aliases, tags
bool node_schema_is_null(const yaml_event_t *event);

#endif
