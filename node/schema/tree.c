// Lists of maps: built from libyaml's events one by one, which come from a file (yaml.c) or from a
// text.
#include "node/schema/tree.h"
#include "base/array.h"
#include "node/schema/tree_private.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(NODE_TREE_FOUND_BYTES == SCHEMA_FOUND_BYTES, "one size for what was found");

// -- events

// What YAML calls null: nothing at all, ~ or null, without quotes.
bool node_schema_is_null(const yaml_event_t *event)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    if (event->type != YAML_SCALAR_EVENT || event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(schema_scalar(event), words[i]) == 0)
            return true;
    return false;
}

// What the latest event is, in words.
void node_schema_describe(const yaml_event_t *event, char out[SCHEMA_FOUND_BYTES])
{
    if (event->type == YAML_SEQUENCE_START_EVENT)
        snprintf(out, SCHEMA_FOUND_BYTES, "a list");
    else if (event->type == YAML_MAPPING_START_EVENT)
        snprintf(out, SCHEMA_FOUND_BYTES, "a section");
    else if (node_schema_is_null(event))
        snprintf(out, SCHEMA_FOUND_BYTES, "nothing");
    else
        node_schema_found(schema_scalar(event), event->data.scalar.length, out);
}

enum base_error node_schema_refuse_marks(const yaml_event_t *event, struct base_reason *why)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    char found[SCHEMA_FOUND_BYTES];
    if (event->type == YAML_ALIAS_EVENT)
        anchor = event->data.alias.anchor;
    else if (event->type == YAML_SCALAR_EVENT)
        anchor = event->data.scalar.anchor, tag = event->data.scalar.tag;
    else if (event->type == YAML_SEQUENCE_START_EVENT)
        anchor = event->data.sequence_start.anchor, tag = event->data.sequence_start.tag;
    else if (event->type == YAML_MAPPING_START_EVENT)
        anchor = event->data.mapping_start.anchor, tag = event->data.mapping_start.tag;
    const char *mark = (const char *)(anchor ? anchor : tag);
    if (!mark)
        return BASE_OK;
    node_schema_found(mark, strlen(mark), found);
    return base_fail(why, BASE_EFORMAT, "found the %s %s, expected a plain value: write it out",
                     anchor ? "anchor or alias" : "tag", found);
}

// -- trees

const struct node_tree *node_tree_entry(const struct node_tree *map, const char *name)
{
    for (size_t i = 0; map->kind == NODE_TREE_MAP && i < map->count; i++)
        if (strcmp(map->items[i].name, name) == 0)
            return &map->items[i];
    return NULL;
}

bool node_tree_integer(const struct node_tree *tree, uint64_t *value)
{
    return tree->kind == NODE_TREE_TEXT && node_schema_parse_integer(tree->text, strlen(tree->text), value);
}

bool node_tree_real(const struct node_tree *tree, double *value)
{
    return tree->kind == NODE_TREE_TEXT && node_schema_parse_real(tree->text, strlen(tree->text), value);
}

bool node_tree_rate(const struct node_tree *tree, double *megabits)
{
    return tree->kind == NODE_TREE_TEXT && node_schema_parse_rate(tree->text, strlen(tree->text), megabits);
}

bool node_tree_duration(const struct node_tree *tree, uint64_t *value_ns)
{
    return tree->kind == NODE_TREE_TEXT &&
           node_schema_parse_duration(tree->text, strlen(tree->text), value_ns);
}

void node_tree_found(const struct node_tree *tree, char out[NODE_TREE_FOUND_BYTES])
{
    if (tree->kind == NODE_TREE_TEXT)
        node_schema_found(tree->text, strlen(tree->text), out);
    else
        snprintf(out, NODE_TREE_FOUND_BYTES, tree->kind == NODE_TREE_LIST ? "a list" : "a map");
}

// The depth is bounded by the builder.
void node_schema_tree_free(struct node_tree *tree)
{
    for (size_t i = 0; i < tree->count; i++)
        node_schema_tree_free(&tree->items[i]);
    free(tree->items);
    free(tree->name);
    free(tree->text);
    *tree = (struct node_tree){.kind = NODE_TREE_LIST};
}

static bool equal_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

bool node_schema_tree_equal(const struct node_tree *a, const struct node_tree *b)
{
    if (a->kind != b->kind || a->count != b->count || !equal_text(a->name, b->name) ||
        !equal_text(a->text, b->text))
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!node_schema_tree_equal(&a->items[i], &b->items[i]))
            return false;
    return true;
}

static struct node_tree *inner(const struct schema_tree_builder *builder)
{
    return builder->depth ? builder->open[builder->depth - 1] : NULL;
}

// A new item of the innermost list or map, NULL: out of memory. Takes the pending name.
static struct node_tree *append(struct schema_tree_builder *builder, enum node_tree_kind kind, size_t line)
{
    struct node_tree *parent = inner(builder);
    BASE_ASSERT((parent->kind == NODE_TREE_MAP) ==
                (builder->name != NULL)); // only entries of maps have names
    void *larger = base_array_grow(parent->items, parent->count, sizeof *parent->items);
    if (!larger)
        return NULL;
    parent->items = larger;
    struct node_tree *item = &parent->items[parent->count++];
    *item = (struct node_tree){.kind = kind, .line = line, .name = builder->name};
    builder->name = NULL;
    return item;
}

static enum base_error no_memory(struct base_reason *why)
{
    return base_fail(why, BASE_ENOMEM, "no memory for a list of maps");
}

static enum base_error expect_list(const char *found, struct base_reason *why)
{
    return base_fail(why, BASE_EINVAL, "found %s, expected a list of maps, such as [{at: 10s, kill: 3}]",
                     found);
}

// Refuses an event that may not stand at this place of the tree.
static enum base_error check_place(const struct schema_tree_builder *builder, const yaml_event_t *event,
                                   struct base_reason *why)
{
    char found[SCHEMA_FOUND_BYTES];
    node_schema_describe(event, found);
    if (!builder->depth)
        return event->type == YAML_SEQUENCE_START_EVENT ? BASE_OK : expect_list(found, why);
    if (builder->depth == 1 && event->type != YAML_MAPPING_START_EVENT)
        return expect_list(found, why);
    if (builder->name && node_schema_is_null(event))
        return base_fail(why, BASE_EINVAL,
                         "found nothing after \"%.64s\", expected a value; a colon must be followed by a "
                         "blank",
                         builder->name);
    if (node_schema_is_null(event))
        return base_fail(why, BASE_EINVAL, "found an empty element, expected a value");
    if (builder->depth == SCHEMA_TREE_DEPTH && event->type != YAML_SCALAR_EVENT)
        return base_fail(why, BASE_ELIMIT, "found more than %u lists and maps inside each other",
                         SCHEMA_TREE_DEPTH);
    return BASE_OK;
}

static enum base_error check_text(const yaml_event_t *event, struct base_reason *why)
{
    char found[SCHEMA_FOUND_BYTES];
    const char *text = (const char *)event->data.scalar.value;
    if (node_schema_bad_byte(text, event->data.scalar.length, "") == event->data.scalar.length)
        return BASE_OK;
    node_schema_describe(event, found);
    return base_fail(why, BASE_EINVAL, "found %s, expected a text without control characters", found);
}

static enum base_error take_name(struct schema_tree_builder *builder, const yaml_event_t *event,
                                 struct base_reason *why)
{
    char found[SCHEMA_FOUND_BYTES];
    const char *text = (const char *)event->data.scalar.value;
    BASE_ASSERT(!builder->name && inner(builder)->kind == NODE_TREE_MAP);
    node_schema_describe(event, found);
    if (event->type != YAML_SCALAR_EVENT || node_schema_is_null(event))
        return base_fail(why, BASE_EINVAL, "found %s in the place of a key, expected a name", found);
    enum base_error error = check_text(event, why);
    if (error)
        return error;
    if (node_tree_entry(inner(builder), text))
        return base_fail(why, BASE_EINVAL, "found %s twice in one map, expected it once", found);
    builder->name = strdup(text);
    return builder->name ? BASE_OK : no_memory(why);
}

static enum base_error take_value(struct schema_tree_builder *builder, const yaml_event_t *event, size_t line,
                                  struct base_reason *why)
{
    enum base_error error = check_place(builder, event, why);
    if (!error && event->type == YAML_SCALAR_EVENT)
        error = check_text(event, why);
    if (error)
        return error;
    struct node_tree *item;
    if (event->type == YAML_SCALAR_EVENT) {
        char *text = strndup((const char *)event->data.scalar.value, event->data.scalar.length);
        item = text ? append(builder, NODE_TREE_TEXT, line) : NULL;
        if (item)
            item->text = text;
        else
            free(text);
        return item ? BASE_OK : no_memory(why);
    }
    enum node_tree_kind kind = event->type == YAML_MAPPING_START_EVENT ? NODE_TREE_MAP : NODE_TREE_LIST;
    if (builder->depth)
        item = append(builder, kind, line);
    else
        *(item = &builder->root) = (struct node_tree){.kind = kind, .line = line};
    if (!item)
        return no_memory(why);
    BASE_ASSERT(builder->depth < SCHEMA_TREE_DEPTH); // check_place
    builder->open[builder->depth++] = item;          // stays valid: only the innermost grows
    return BASE_OK;
}

enum base_error node_schema_tree_take(struct schema_tree_builder *builder, const yaml_event_t *event,
                                      size_t line, struct base_reason *why)
{
    const struct node_tree *parent = inner(builder);
    if (event->type == YAML_SEQUENCE_END_EVENT || event->type == YAML_MAPPING_END_EVENT) {
        BASE_ASSERT(builder->depth > 0 && !builder->name);
        builder->done = --builder->depth == 0;
        return BASE_OK;
    }
    if (parent && parent->kind == NODE_TREE_MAP && !builder->name)
        return take_name(builder, event, why);
    return take_value(builder, event, line, why);
}

void node_schema_tree_drop(struct schema_tree_builder *builder)
{
    free(builder->name);
    builder->name = NULL;
    node_schema_tree_free(&builder->root);
}

// One event of a text, which must contain one value and nothing else.
static enum base_error take_event(struct schema_tree_builder *builder, const yaml_event_t *event,
                                  struct base_reason *why)
{
    switch (event->type) {
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
    case YAML_STREAM_END_EVENT:
        return BASE_OK;
    default:
        break;
    }
    enum base_error error = node_schema_refuse_marks(event, why);
    if (!error && builder->done)
        error = base_fail(why, BASE_EFORMAT, "found a second document, expected one list");
    return error ? error : node_schema_tree_take(builder, event, 0, why);
}

static enum base_error read_events(yaml_parser_t *parser, struct schema_tree_builder *builder,
                                   struct base_reason *why)
{
    enum base_error error = BASE_OK;
    for (bool end = false; !end && !error;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event))
            return base_fail(why, parser->error == YAML_MEMORY_ERROR ? BASE_ENOMEM : BASE_EFORMAT,
                             "found a broken list (%s), expected one such as [{at: 10s, kill: 3}]",
                             parser->problem ? parser->problem : "it cannot be read");
        end = event.type == YAML_STREAM_END_EVENT;
        error = take_event(builder, &event, why);
        yaml_event_delete(&event);
    }
    return error;
}

enum base_error node_schema_tree_parse(const char *text, size_t bytes, struct node_tree *tree,
                                       struct base_reason *why)
{
    struct schema_tree_builder builder = {.root = {.kind = NODE_TREE_LIST}};
    yaml_parser_t parser;
    size_t bad = node_schema_bad_byte(text, bytes, "\t");
    if (bad < bytes)
        return base_fail(why, BASE_EFORMAT, "found the byte 0x%02x at offset %zu, expected text in UTF-8",
                         (unsigned char)text[bad], bad);
    if (!yaml_parser_initialize(&parser))
        return no_memory(why);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    enum base_error error = read_events(&parser, &builder, why);
    yaml_parser_delete(&parser);
    if (error)
        node_schema_tree_drop(&builder);
    else
        *tree = builder.root;
    return error;
}
