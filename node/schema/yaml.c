// A YAML file over a schema: libyaml's events, read by descent. The depth of the descent is that of the key
// names, because an unknown name ends it.
#include "base/file.h"
#include "base/limits.h"
#include "node/schema/tree_private.h"

#include <stdlib.h>
#include <string.h>

#define ORIGIN_BYTES 300u // "file:line"; a longer path keeps its end

struct section { // an opened section, to find a second one of the same name
    char name[SCHEMA_NAME_BYTES];
    size_t line;
};
struct reading {
    const struct node_schema *schema;
    const char *origin, *text;
    size_t bytes;
    yaml_parser_t parser;
    yaml_event_t event; // the latest
    struct schema_draft draft;
    struct section *sections; // [most]
    size_t n_sections;
    struct base_reason *why;
    struct schema_problems problems; // found so far; reading continues, but nothing is committed
    size_t noted_line;               // of the latest of them
    size_t depth;                    // of lists and maps around the latest event, its own included
    bool broken;                     // nothing more can be read
};

// "node.yaml:12" for the line 12, counted from 1.
static const char *place(const struct reading *reading, size_t line, char out[ORIGIN_BYTES])
{
    const size_t room = ORIGIN_BYTES - 32;
    size_t length = strlen(reading->origin);
    bool cut = length > room;
    snprintf(out, ORIGIN_BYTES, "%s%s:%zu", cut ? "..." : "", reading->origin + (cut ? length - room : 0),
             line);
    return out;
}

static size_t line_of(const yaml_event_t *event)
{
    return event->start_mark.line + 1;
}

// Puts the place, and `key` ("": the file as a whole), before the reason.
static enum base_error at(const struct reading *reading, size_t line, const char *key, enum base_error error)
{
    char where[ORIGIN_BYTES];
    place(reading, line, where);
    return key[0] ? base_fail_context(reading->why, error, "%s: %s", where, key)
                  : base_fail_context(reading->why, error, "%s", where);
}

static enum base_error fail(const struct reading *reading, size_t line, const char *key,
                            enum base_error error, const char *format, ...) BASE_PRINTF(5, 6);
static enum base_error fail(const struct reading *reading, size_t line, const char *key,
                            enum base_error error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)base_fail_list(reading->why, error, format, arguments);
    va_end(arguments);
    return at(reading, line, key, error);
}

static bool tab_indents(const struct reading *reading, size_t line)
{
    const char *from = reading->text, *end = reading->text + reading->bytes;
    while (line-- && from < end) {
        const char *newline = memchr(from, '\n', (size_t)(end - from));
        from = newline ? newline + 1 : end;
    }
    while (from < end && *from == ' ')
        from++;
    return from < end && *from == '\t';
}

static enum base_error broken(struct reading *reading)
{
    const yaml_parser_t *parser = &reading->parser;
    size_t line = parser->problem_mark.line;
    if (parser->error == YAML_MEMORY_ERROR)
        return fail(reading, line + 1, "", BASE_ENOMEM, "no memory to read YAML");
    if (tab_indents(reading, line))
        return fail(reading, line + 1, "", BASE_EFORMAT,
                    "found a tab in the indentation, expected spaces: YAML allows no tabs there");
    const char *problem = parser->problem ? parser->problem : "it cannot be read";
    if (parser->context)
        return fail(
            reading, line + 1, "", BASE_EFORMAT,
            "found broken YAML (%s, %s that starts in line %zu), expected lines such as 'key: value', "
            "indented alike",
            problem, parser->context, parser->context_mark.line + 1);
    return fail(reading, line + 1, "", BASE_EFORMAT,
                "found broken YAML (%s), expected lines such as 'key: value', indented alike", problem);
}

// The next event into reading->event; anchors, aliases and tags end the reading.
static enum base_error next(struct reading *reading, const char *key)
{
    yaml_event_t *event = &reading->event;
    yaml_event_delete(event);
    enum base_error error = yaml_parser_parse(&reading->parser, event) ? BASE_OK : broken(reading);
    if (!error) {
        reading->depth += event->type == YAML_SEQUENCE_START_EVENT || event->type == YAML_MAPPING_START_EVENT;
        const bool closes = event->type == YAML_SEQUENCE_END_EVENT || event->type == YAML_MAPPING_END_EVENT;
        BASE_ASSERT(reading->depth > 0 || !closes);
        reading->depth -= closes;
        error = node_schema_refuse_marks(event, reading->why);
        if (error)
            error = at(reading, line_of(event), key, error);
    }
    reading->broken = error != BASE_OK;
    return error;
}

// Skips the rest of what is wrong, to the end of `depth`.
static enum base_error skip_to(struct reading *reading, size_t depth)
{
    enum base_error error = BASE_OK;
    while (!error && reading->depth > depth)
        error = next(reading, "");
    return error;
}

static enum base_error not_a_value(struct reading *reading, const struct node_key *key, size_t line,
                                   const char *hint)
{
    char found[SCHEMA_FOUND_BYTES], expected[SCHEMA_EXPECTED_BYTES];
    node_schema_describe(&reading->event, found);
    node_schema_expected(key, expected);
    return fail(reading, line, key->name, BASE_EINVAL, "found %s, expected %s%s", found, expected, hint);
}

static enum base_error read_list(struct reading *reading, const struct node_key *key,
                                 union schema_value *value)
{
    union schema_value list = {0};
    enum base_error error = BASE_OK;
    for (;;) {
        error = next(reading, key->name);
        if (error || reading->event.type == YAML_SEQUENCE_END_EVENT)
            break;
        size_t line = line_of(&reading->event);
        if (reading->event.type != YAML_SCALAR_EVENT || node_schema_is_null(&reading->event)) {
            error = not_a_value(reading, key, line, "; it is an element of the list");
            break;
        }
        error = node_schema_list_append(key, schema_scalar(&reading->event),
                                        reading->event.data.scalar.length, &list, reading->why);
        if (error) {
            error = at(reading, line, key->name, error);
            break;
        }
    }
    if (error)
        node_schema_value_free(key, &list);
    else
        *value = list;
    return error;
}

static enum base_error read_maps(struct reading *reading, const struct node_key *key,
                                 union schema_value *value)
{
    struct schema_tree_builder builder = {.root = {.kind = NODE_TREE_LIST}};
    enum base_error error = BASE_OK;
    while (!error && !builder.done) {
        size_t line = line_of(&reading->event);
        error = node_schema_tree_take(&builder, &reading->event, line, reading->why);
        if (error)
            error = at(reading, line, key->name, error);
        else if (!builder.done)
            error = next(reading, key->name);
    }
    if (error)
        node_schema_tree_drop(&builder);
    else
        value->tree = builder.root;
    return error;
}

// The value of a key; reading->event is its first event.
static enum base_error read_value(struct reading *reading, size_t index, size_t key_line)
{
    const struct node_key *key = &reading->schema->keys[index];
    union schema_value value = {0};
    enum base_error error = BASE_OK;
    char where[ORIGIN_BYTES];
    const yaml_event_t *event = &reading->event;
    bool null = node_schema_is_null(event);
    size_t line = null ? key_line : line_of(event);
    if (key->type == NODE_KEY_MAPS) {
        value.tree.kind = NODE_TREE_LIST;
        error = null ? BASE_OK : read_maps(reading, key, &value);
    } else if (node_schema_is_list(key)) {
        if (event->type == YAML_SEQUENCE_START_EVENT)
            error = read_list(reading, key, &value);
        else if (!null) // `peers:` with all its lines commented out is an empty list
            error = not_a_value(reading, key, line, ", such as [a, b]");
    } else if (event->type != YAML_SCALAR_EVENT || null) {
        bool quotes = null && key->type == NODE_KEY_TEXT;
        error = not_a_value(reading, key, line, quotes ? "; write \"\" for an empty one" : "");
    } else {
        error = node_schema_value_parse(key, schema_scalar(event), event->data.scalar.length, &value,
                                        reading->why);
        if (error)
            error = at(reading, line, key->name, error);
    }
    if (error)
        return error;
    return node_schema_draft_put(&reading->draft, index, place(reading, key_line, where), &value,
                                 reading->why);
}

// Sections that a file can open: at most one for each dot of a name.
static size_t count_sections(const struct node_schema *schema)
{
    size_t count = 1;
    for (size_t i = 0; i < schema->count; i++)
        for (const char *c = schema->keys[i].name; *c; c++)
            count += *c == '.';
    return count;
}

static enum base_error open_section(struct reading *reading, const char *name, size_t line)
{
    char first[ORIGIN_BYTES];
    for (size_t i = 0; i < reading->n_sections; i++)
        if (strcmp(reading->sections[i].name, name) == 0)
            return fail(reading, line, name, BASE_EINVAL,
                        "given a second time (the first is at %s), expected all its keys in one section",
                        place(reading, reading->sections[i].line, first));
    BASE_ASSERT(reading->n_sections < count_sections(reading->schema));
    struct section *section = &reading->sections[reading->n_sections++];
    snprintf(section->name, sizeof section->name, "%s", name);
    section->line = line;
    return BASE_OK;
}

static enum base_error read_mapping(struct reading *reading, const char *prefix);

// The content of a section; reading->event is its first event.
static enum base_error read_section(struct reading *reading, const char *name, size_t first_key, size_t line)
{
    char found[SCHEMA_FOUND_BYTES];
    enum base_error error = open_section(reading, name, line);
    if (error || node_schema_is_null(&reading->event)) // a section with all its lines commented out
        return error;
    if (reading->event.type == YAML_MAPPING_START_EVENT)
        return read_mapping(reading, name);
    node_schema_describe(&reading->event, found);
    return fail(reading, line, name, BASE_EINVAL, "found %s, expected a section with keys such as %s", found,
                reading->schema->keys[first_key].name);
}

// prefix.name into path; false when it is longer than any key.
static bool join(const char *prefix, const yaml_event_t *name, char path[SCHEMA_NAME_BYTES])
{
    int length = snprintf(path, SCHEMA_NAME_BYTES, "%s%s%s", prefix, prefix[0] ? "." : "",
                          (const char *)name->data.scalar.value);
    return length >= 0 && (size_t)length < SCHEMA_NAME_BYTES &&
           strlen((const char *)name->data.scalar.value) == name->data.scalar.length; // no zero byte inside
}

// Which key or section the latest event names; its path, "" if it names none.
static enum base_error find_entry(struct reading *reading, const char *prefix, char path[SCHEMA_NAME_BYTES],
                                  size_t *key, size_t *inner)
{
    char found[SCHEMA_FOUND_BYTES], where[ORIGIN_BYTES];
    size_t line = line_of(&reading->event);
    node_schema_describe(&reading->event, found);
    if (reading->event.type != YAML_SCALAR_EVENT || !schema_scalar(&reading->event)[0])
        return fail(reading, line, prefix, BASE_EINVAL, "found %s in the place of a key, expected a name",
                    found);
    if (!join(prefix, &reading->event, path))
        return fail(reading, line, prefix, BASE_EINVAL,
                    "found the unknown key %s, expected one of the keys that --help lists", found);
    *key = node_schema_find(reading->schema, path);
    *inner = node_schema_find_section(reading->schema, path);
    if (*key == reading->schema->count && *inner == reading->schema->count)
        return node_schema_unknown(reading->schema, place(reading, line, where), path, reading->why);
    return BASE_OK;
}

// Records the reason, so that reading can continue.
static void note(struct reading *reading, size_t line)
{
    node_schema_note(&reading->problems, reading->why);
    BASE_ASSERT(line > 0 && reading->problems.count > 0);
    reading->noted_line = line;
}

// A name and its value. An error that is not in reading->problems ends the reading.
static enum base_error read_entry(struct reading *reading, const char *prefix)
{
    char path[SCHEMA_NAME_BYTES] = "";
    size_t line = line_of(&reading->event), key = 0, inner = 0, depth = reading->depth;
    bool named =
        reading->event.type != YAML_SEQUENCE_START_EVENT && reading->event.type != YAML_MAPPING_START_EVENT;
    enum base_error wrong = find_entry(reading, prefix, path, &key, &inner), error = BASE_OK;
    if (wrong)
        note(reading, line);
    if (!named) // a list or a map in the place of the name
        error = skip_to(reading, --depth);
    if (!error)
        error = next(reading, path);
    if (error)
        return error;
    if (!wrong) {
        error = key < reading->schema->count ? read_value(reading, key, line)
                                             : read_section(reading, path, inner, line);
        if (error && (reading->broken || error == BASE_ENOMEM))
            return error;
        if (error)
            note(reading, line);
    }
    return skip_to(reading, depth);
}

static enum base_error read_mapping(struct reading *reading, const char *prefix)
{
    for (;;) {
        enum base_error error = next(reading, prefix);
        if (error || reading->event.type == YAML_MAPPING_END_EVENT)
            return error;
        error = read_entry(reading, prefix);
        if (error)
            return error;
    }
}

static enum base_error read_document(struct reading *reading)
{
    char found[SCHEMA_FOUND_BYTES];
    enum base_error error = next(reading, "");
    if (error)
        return error;
    if (reading->event.type == YAML_MAPPING_START_EVENT)
        error = read_mapping(reading, "");
    else if (!node_schema_is_null(&reading->event)) { // a lone "---" is an empty file
        node_schema_describe(&reading->event, found);
        error = fail(reading, line_of(&reading->event), "", BASE_EFORMAT,
                     "found %s, expected lines such as 'key: value'", found);
    }
    return error ? error : next(reading, ""); // the end of the document
}

static enum base_error read_stream(struct reading *reading)
{
    enum base_error error = next(reading, "");
    for (size_t documents = 0; !error && reading->event.type != YAML_STREAM_END_EVENT;) {
        error = next(reading, "");
        if (error || reading->event.type != YAML_DOCUMENT_START_EVENT)
            continue;
        if (documents++)
            return fail(reading, line_of(&reading->event), "", BASE_EFORMAT,
                        "found a second document, expected one in a file");
        error = read_document(reading);
    }
    return error;
}

// Before YAML: all bytes are text. libyaml reports such bytes by offset only.
static enum base_error check_bytes(const struct reading *reading)
{
    size_t bad = node_schema_bad_byte(reading->text, reading->bytes, "\t\n\r"), line = 1;
    if (bad == reading->bytes)
        return BASE_OK;
    for (size_t i = 0; i < bad; i++)
        line += reading->text[i] == '\n';
    unsigned byte = (unsigned char)reading->text[bad];
    if (byte < 0x80)
        return fail(reading, line, "", BASE_EFORMAT, "found the control character 0x%02x, expected text",
                    byte);
    return fail(reading, line, "", BASE_EFORMAT, "found the byte 0x%02x, expected text in UTF-8", byte);
}

// Tag directives serve only tags, which are refused; and libyaml compares each directive with all earlier
// ones.
static enum base_error refuse_tag_directives(const struct reading *reading)
{
    static const char directive[] = "%TAG";
    const char *from = reading->text, *end = reading->text + reading->bytes;
    for (size_t line = 1; from < end; line++) {
        if ((size_t)(end - from) >= strlen(directive) && memcmp(from, directive, strlen(directive)) == 0)
            return fail(reading, line, "", BASE_EFORMAT, "found a %%TAG directive, expected plain values");
        const char *newline = memchr(from, '\n', (size_t)(end - from));
        from = newline ? newline + 1 : end;
    }
    return BASE_OK;
}

// All that was found; `error` is what ended the reading.
static enum base_error conclude(struct reading *reading, enum base_error error)
{
    if (error == BASE_ENOMEM || !reading->problems.count)
        return error;
    bool follows = reading->parser.error != YAML_NO_ERROR && // from an earlier error in the same line
                   reading->parser.problem_mark.line + 1 == reading->noted_line;
    if (error && !follows)
        node_schema_note(&reading->problems, reading->why);
    return node_schema_problems(&reading->problems, reading->why);
}

enum base_error node_schema_read_text(const struct node_schema *schema, const char *origin, const char *text,
                                      size_t bytes, void *config, struct base_reason *why)
{
    struct base_reason none;
    struct reading reading = {
        .schema = schema, .origin = origin, .text = text, .bytes = bytes, .why = why ? why : &none};
    if (bytes > LIMIT_CONFIG_BYTES)
        return base_fail(why, BASE_ELIMIT, "%s: found %zu bytes, expected a configuration of at most %u",
                         origin, bytes, LIMIT_CONFIG_BYTES);
    enum base_error error = check_bytes(&reading);
    if (!error)
        error = refuse_tag_directives(&reading);
    if (error)
        return error;
    if (!yaml_parser_initialize(&reading.parser))
        return base_fail(why, BASE_ENOMEM, "%s: no memory to read YAML", origin);
    yaml_parser_set_encoding(&reading.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reading.parser, (const unsigned char *)text, bytes);
    error = node_schema_draft_create(schema, &reading.draft, why);
    if (error)
        goto out;
    reading.sections = calloc(count_sections(schema), sizeof *reading.sections);
    if (!reading.sections) {
        error = base_fail(why, BASE_ENOMEM, "%s: no memory to read it", origin);
        goto out;
    }
    error = conclude(&reading, read_stream(&reading));
    if (!error)
        node_schema_draft_commit(&reading.draft, config);
out:
    free(reading.sections);
    node_schema_draft_destroy(&reading.draft);
    yaml_event_delete(&reading.event);
    yaml_parser_delete(&reading.parser);
    return error;
}

enum base_error node_schema_read_file(const struct node_schema *schema, const char *path, void *config,
                                      struct base_reason *why)
{
    uint8_t *data = NULL;
    size_t bytes = 0;
    enum base_error error = base_file_read(path, LIMIT_CONFIG_BYTES, &data, &bytes, why);
    if (!error)
        error = node_schema_read_text(schema, path, (const char *)data, bytes, config, why);
    free(data);
    return error;
}
