#include "node/schema/private.h"

#include "base/array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NS 1000000000u // nanoseconds of a second: bounds of durations are in seconds

bool node_schema_is_list(const struct node_key *key)
{
    return key->type == NODE_KEY_TEXTS || key->type == NODE_KEY_INTEGERS;
}

// Every member of a value begins where the value does, so one memcpy works for all types.
static size_t bytes_of(const struct node_key *key)
{
    static const size_t bytes[] = {[NODE_KEY_TEXT] = sizeof(char *),
                                   [NODE_KEY_CHOICE] = sizeof(int),
                                   [NODE_KEY_BOOL] = sizeof(bool),
                                   [NODE_KEY_INTEGER] = sizeof(uint64_t),
                                   [NODE_KEY_DURATION] = sizeof(uint64_t),
                                   [NODE_KEY_REAL] = sizeof(double),
                                   [NODE_KEY_RATE] = sizeof(double),
                                   [NODE_KEY_TEXTS] = sizeof(struct node_texts),
                                   [NODE_KEY_INTEGERS] = sizeof(struct node_integers),
                                   [NODE_KEY_MAPS] = sizeof(struct node_tree)};
    BASE_ASSERT((size_t)key->type < sizeof bytes / sizeof *bytes && bytes[key->type] > 0);
    return bytes[key->type];
}

void node_schema_value_load(const struct node_key *key, const void *config, union schema_value *value)
{
    memcpy(value, (const char *)config + key->offset, bytes_of(key));
}

void node_schema_value_store(const struct node_key *key, const union schema_value *value, void *config)
{
    memcpy((char *)config + key->offset, value, bytes_of(key));
}

void node_schema_value_free(const struct node_key *key, union schema_value *value)
{
    if (key->type == NODE_KEY_TEXT)
        free(value->text);
    if (key->type == NODE_KEY_INTEGERS)
        free(value->integers.items);
    if (key->type == NODE_KEY_TEXTS) {
        for (size_t i = 0; i < value->texts.count; i++)
            free(value->texts.items[i]);
        free(value->texts.items);
    }
    if (key->type == NODE_KEY_MAPS)
        node_schema_tree_free(&value->tree);
    memset(value, 0, sizeof *value);
}

static bool equal_texts(const struct node_texts *a, const struct node_texts *b)
{
    for (size_t i = 0; a->count == b->count && i < a->count; i++)
        if (strcmp(a->items[i], b->items[i]) != 0)
            return false;
    return a->count == b->count;
}

static bool equal_integers(const struct node_integers *a, const struct node_integers *b)
{
    return a->count == b->count &&
           (!a->count || memcmp(a->items, b->items, a->count * sizeof *a->items) == 0);
}

bool node_schema_value_equal(const struct node_key *key, const union schema_value *a,
                             const union schema_value *b)
{
    switch (key->type) {
    case NODE_KEY_TEXT:
        return strcmp(a->text, b->text) == 0;
    case NODE_KEY_TEXTS:
        return equal_texts(&a->texts, &b->texts);
    case NODE_KEY_INTEGERS:
        return equal_integers(&a->integers, &b->integers);
    case NODE_KEY_MAPS:
        return node_schema_tree_equal(&a->tree, &b->tree);
    default: // a number: no NaN, and no -0
        return memcmp(a, b, bytes_of(key)) == 0;
    }
}

static void print_bounds(const struct node_key *key, char *out, size_t capacity)
{
    char least[SCHEMA_REAL_BYTES], most[SCHEMA_REAL_BYTES];
    bool duration = key->type == NODE_KEY_DURATION;
    uint64_t unit = duration ? NS : 1;
    if (key->type == NODE_KEY_REAL || key->type == NODE_KEY_RATE) {
        node_schema_print_real(key->least, least);
        node_schema_print_real(key->most, most);
    } else if (duration) {
        node_schema_print_duration(node_schema_bound(key->least, unit), least);
        node_schema_print_duration(node_schema_bound(key->most, unit), most);
    } else {
        snprintf(least, sizeof least, "%" PRIu64, node_schema_bound(key->least, unit));
        snprintf(most, sizeof most, "%" PRIu64, node_schema_bound(key->most, unit));
    }
    snprintf(out, capacity, "from %s to %s", least, most);
}

void node_schema_expected(const struct node_key *key, char out[SCHEMA_EXPECTED_BYTES])
{
    static const char *const forms[] = {
        [NODE_KEY_TEXT] = "a text",
        [NODE_KEY_BOOL] = "true or false",
        [NODE_KEY_INTEGER] = "a whole number %s",
        [NODE_KEY_REAL] = "a number %s",
        [NODE_KEY_RATE] = "a number of Mbit/s %s, or one with kbit/s, Mbit/s or Gbit/s",
        [NODE_KEY_DURATION] = "a duration %s: a whole number and ms, s, m or h",
        [NODE_KEY_TEXTS] = "a list of texts",
        [NODE_KEY_INTEGERS] = "a list of whole numbers %s",
        [NODE_KEY_MAPS] = "a list of maps"};
    char bounds[2 * SCHEMA_REAL_BYTES + 16];
    print_bounds(key, bounds, sizeof bounds);
    if (key->type != NODE_KEY_CHOICE) {
        int used = snprintf(out, SCHEMA_EXPECTED_BYTES, forms[key->type], bounds);
        if (key->choices && used > 0 && (size_t)used < SCHEMA_EXPECTED_BYTES)
            snprintf(out + used, SCHEMA_EXPECTED_BYTES - (size_t)used, ", or %s", key->choices);
        return;
    }
    size_t used = (size_t)snprintf(out, SCHEMA_EXPECTED_BYTES, "one of ");
    for (const char *c = key->choices; *c && used + 3 < SCHEMA_EXPECTED_BYTES; c++) {
        out[used++] = *c == '|' ? ',' : *c;
        if (*c == '|')
            out[used++] = ' ';
    }
    out[used] = 0;
}

static enum base_error unexpected(const struct node_key *key, const char *text, size_t bytes,
                                  struct base_reason *why)
{
    char found[SCHEMA_FOUND_BYTES], expected[SCHEMA_EXPECTED_BYTES];
    node_schema_found(text, bytes, found);
    node_schema_expected(key, expected);
    return base_fail(why, BASE_EINVAL, "found %s, expected %s", found, expected);
}

static enum base_error parse_text(const char *text, size_t bytes, char **value, struct base_reason *why)
{
    char found[SCHEMA_FOUND_BYTES];
    size_t bad = node_schema_bad_byte(text, bytes, "");
    if (bad < bytes) {
        node_schema_found(text, bytes, found);
        return base_fail(
            why, BASE_EINVAL,
            "found %s with the byte 0x%02x at offset %zu, expected a text in UTF-8 without control "
            "characters",
            found, (unsigned char)text[bad], bad);
    }
    *value = strndup(text, bytes);
    return *value ? BASE_OK : base_fail(why, BASE_ENOMEM, "no memory for a text of %zu bytes", bytes);
}

static bool parse_choice(const char *choices, const char *text, size_t bytes, int *value)
{
    int index = 0;
    for (const char *at = choices;; index++) {
        size_t length = strcspn(at, "|");
        if (length == bytes && memcmp(at, text, bytes) == 0) {
            *value = index;
            return true;
        }
        if (!at[length])
            return false;
        at += length + 1;
    }
}

static bool parse_bool(const char *text, size_t bytes, bool *value)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == bytes && strncasecmp(words[i], text, bytes) == 0) {
            *value = i % 2;
            return true;
        }
    return false;
}

static bool parse_integer(const struct node_key *key, const char *text, size_t bytes, uint64_t *value)
{
    return node_schema_parse_integer(text, bytes, value) && *value >= node_schema_bound(key->least, 1) &&
           *value <= node_schema_bound(key->most, 1);
}

static bool parse_real(const struct node_key *key, const char *text, size_t bytes, double *value)
{
    if (key->choices && strlen(key->choices) == bytes && memcmp(key->choices, text, bytes) == 0) {
        *value = key->least > 0 ? 0 : -1;
        return true;
    }
    return node_schema_parse_real(text, bytes, value) && *value >= key->least && *value <= key->most;
}

static bool parse_number(const struct node_key *key, const char *text, size_t bytes,
                         union schema_value *value)
{
    if (key->type == NODE_KEY_INTEGER)
        return parse_integer(key, text, bytes, &value->integer);
    if (key->type == NODE_KEY_REAL)
        return parse_real(key, text, bytes, &value->real);
    if (key->type == NODE_KEY_RATE)
        return node_schema_parse_rate(text, bytes, &value->real) && value->real >= key->least &&
               value->real <= key->most;
    return node_schema_parse_duration(text, bytes, &value->integer) &&
           value->integer >= node_schema_bound(key->least, NS) &&
           value->integer <= node_schema_bound(key->most, NS);
}

enum base_error node_schema_list_append(const struct node_key *key, const char *text, size_t bytes,
                                        union schema_value *list, struct base_reason *why)
{
    static const char no_memory[] = "no memory for a longer list";
    if (!bytes)
        return base_fail(why, BASE_EINVAL, "found an empty element, expected a text or a number in each");
    if (key->type == NODE_KEY_INTEGERS) {
        uint64_t number;
        if (!parse_integer(key, text, bytes, &number))
            return unexpected(key, text, bytes, why);
        return base_array_add(&list->integers.items, &list->integers.count, &number, sizeof number)
                   ? BASE_OK
                   : base_fail(why, BASE_ENOMEM, no_memory);
    }
    char *copy = NULL;
    enum base_error error = parse_text(text, bytes, &copy, why);
    if (error)
        return error;
    if (base_array_add(&list->texts.items, &list->texts.count, &copy, sizeof copy))
        return BASE_OK;
    free(copy);
    return base_fail(why, BASE_ENOMEM, no_memory);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static void trim(const char **text, size_t *bytes)
{
    while (*bytes && is_blank(**text)) {
        ++*text;
        --*bytes;
    }
    while (*bytes && is_blank((*text)[*bytes - 1]))
        --*bytes;
}

// "a,b" or "[a, b]"; nothing at all is the empty list.
static enum base_error parse_list(const struct node_key *key, const char *text, size_t bytes,
                                  union schema_value *value, struct base_reason *why)
{
    union schema_value list = {0};
    enum base_error error = BASE_OK;
    trim(&text, &bytes);
    if (bytes >= 2 && text[0] == '[' && text[bytes - 1] == ']') {
        text++;
        bytes -= 2;
        trim(&text, &bytes);
    }
    for (bool more = bytes > 0; more && !error;) {
        const char *comma = memchr(text, ',', bytes), *item = text;
        size_t length = comma ? (size_t)(comma - text) : bytes;
        more = comma;
        text += length + (comma ? 1 : 0);
        bytes -= length + (comma ? 1 : 0);
        trim(&item, &length);
        error = node_schema_list_append(key, item, length, &list, why);
    }
    if (error)
        node_schema_value_free(key, &list);
    else
        *value = list;
    return error;
}

enum base_error node_schema_value_parse(const struct node_key *key, const char *text, size_t bytes,
                                        union schema_value *value, struct base_reason *why)
{
    union schema_value parsed = {0};
    bool good = false;
    switch (key->type) {
    case NODE_KEY_TEXT: {
        enum base_error error = parse_text(text, bytes, &parsed.text, why);
        if (error)
            return error;
        good = true;
        break;
    }
    case NODE_KEY_CHOICE:
        good = parse_choice(key->choices, text, bytes, &parsed.choice);
        break;
    case NODE_KEY_BOOL:
        good = parse_bool(text, bytes, &parsed.boolean);
        break;
    case NODE_KEY_INTEGER:
    case NODE_KEY_REAL:
    case NODE_KEY_RATE:
    case NODE_KEY_DURATION:
        good = parse_number(key, text, bytes, &parsed);
        break;
    case NODE_KEY_TEXTS:
    case NODE_KEY_INTEGERS:
        return parse_list(key, text, bytes, value, why);
    case NODE_KEY_MAPS:
        return node_schema_tree_parse(text, bytes, &value->tree, why);
    }
    if (!good)
        return unexpected(key, text, bytes, why);
    *value = parsed;
    return BASE_OK;
}
