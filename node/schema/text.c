// A schema as texts for people: --help, and a configuration written back as YAML.
#include "node/schema/private.h"

#include "base/file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HELP_COLUMNS 100u
#define HELP_INDENT  4u

// Words, wrapped and indented; *column continues from the text before.
static void print_wrapped(const char *text, size_t *column, FILE *out)
{
    while (*text) {
        size_t word = strcspn(text, " ");
        if (*column && *column + 1 + word > HELP_COLUMNS) {
            fputc('\n', out);
            *column = 0;
        }
        const char *gap = *column ? " " : "    ";
        fprintf(out, "%s%.*s", gap, (int)word, text);
        *column += (*column ? 1 : HELP_INDENT) + word;
        text += word + strspn(text + word, " ");
    }
}

static void print_share(const struct node_key *key, size_t *column, FILE *out)
{
    static const char *const words[] = {
        [NODE_KEY_TOLD] = "A late node that does not set it takes the value of the cluster.",
        [NODE_KEY_SHARED] = "Must be the same on all nodes; a late node that does not set it takes the value "
                            "of the cluster."};
    if (key->share != NODE_KEY_OWN)
        print_wrapped(words[key->share], column, out);
}

char *node_schema_help(const struct node_schema *schema)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    for (size_t i = 0; i < schema->count; i++) {
        const struct node_key *key = &schema->keys[i];
        char expected[SCHEMA_EXPECTED_BYTES], type[SCHEMA_EXPECTED_BYTES + 4];
        size_t column = 0;
        node_schema_expected(key, expected);
        expected[strcspn(expected, ":")] = 0; // how a duration is written shows in its default
        snprintf(type, sizeof type, "(%s)", expected);
        fprintf(out, "%s = %s\n", key->name, key->initial[0] ? key->initial : "\"\"");
        print_wrapped(type, &column, out);
        print_wrapped(key->meaning, &column, out);
        print_share(key, &column, out);
        fputc('\n', out);
    }
    return base_text_close(out, &text);
}

// Double-quoted YAML. Escapes what libyaml would read as a line break, or refuse.
static void write_quoted(const char *text, FILE *out)
{
    size_t left = strlen(text);
    fputc('"', out);
    while (left) {
        uint32_t code = 0;
        size_t length = node_schema_code_point(text, left, &code);
        if (!length) { // never in a value that was parsed
            length = 1;
            code = '?';
        }
        if (code == '"' || code == '\\')
            fprintf(out, "\\%c", (char)code);
        else if (code < 0x20 || (code >= 0x7f && code < 0xa0))
            fprintf(out, "\\x%02" PRIx32, code);
        else if (code == 0x2028 || code == 0x2029 || code == 0xfeff || code == 0xfffe || code == 0xffff)
            fprintf(out, "\\u%04" PRIx32, code);
        else
            fwrite(text, 1, length, out);
        text += length;
        left -= length;
    }
    fputc('"', out);
}

static void write_choice(const char *choices, int index, FILE *out)
{
    while (index--)
        choices += strcspn(choices, "|") + 1;
    fprintf(out, "%.*s", (int)strcspn(choices, "|"), choices);
}

// Without quotes where no reader could take it for anything else.
static void write_word(const char *text, FILE *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    bool null = strcasecmp(text, "null") == 0;
    if (text[0] && !null && !text[strspn(text, plain)])
        fputs(text, out);
    else
        write_quoted(text, out);
}

static void write_tree(const struct node_tree *tree, FILE *out)
{
    if (tree->name) {
        write_word(tree->name, out);
        fputs(": ", out);
    }
    if (tree->kind == NODE_TREE_TEXT) {
        write_word(tree->text, out);
        return;
    }
    fputc(tree->kind == NODE_TREE_LIST ? '[' : '{', out);
    for (size_t i = 0; i < tree->count; i++) {
        fputs(i ? ", " : "", out);
        write_tree(&tree->items[i], out);
    }
    fputc(tree->kind == NODE_TREE_LIST ? ']' : '}', out);
}

static void write_value(const struct node_key *key, const void *config, FILE *out)
{
    union schema_value value = {0};
    char number[SCHEMA_REAL_BYTES];
    node_schema_value_load(key, config, &value);
    switch (key->type) {
    case NODE_KEY_TEXT:
        write_quoted(value.text, out);
        break;
    case NODE_KEY_CHOICE:
        write_choice(key->choices, value.choice, out);
        break;
    case NODE_KEY_BOOL:
        fputs(value.boolean ? "true" : "false", out);
        break;
    case NODE_KEY_INTEGER:
        fprintf(out, "%" PRIu64, value.integer);
        break;
    case NODE_KEY_REAL:
    case NODE_KEY_RATE:
        node_schema_print_real(value.real, number);
        fputs(key->choices && value.real < key->least ? key->choices : number, out);
        break;
    case NODE_KEY_DURATION:
        node_schema_print_duration(value.integer, number);
        fputs(number, out);
        break;
    case NODE_KEY_TEXTS:
        fputc('[', out);
        for (size_t i = 0; i < value.texts.count; i++) {
            fputs(i ? ", " : "", out);
            write_quoted(value.texts.items[i], out);
        }
        fputc(']', out);
        break;
    case NODE_KEY_INTEGERS:
        fputc('[', out);
        for (size_t i = 0; i < value.integers.count; i++)
            fprintf(out, "%s%" PRIu64, i ? ", " : "", value.integers.items[i]);
        fputc(']', out);
        break;
    case NODE_KEY_MAPS:
        write_tree(&value.tree, out);
        break;
    }
}

// All keys whose names start with the first `prefix` bytes of `head`; each inner section where its first key
// stands, so that a table may mix its sections.
static void write_section(const struct node_schema *schema, const void *config, const char *head,
                          size_t prefix, int depth, FILE *out)
{
    for (size_t i = 0; i < schema->count; i++) {
        const struct node_key *key = &schema->keys[i];
        if (strncmp(key->name, head, prefix) != 0)
            continue;
        size_t part = strcspn(key->name + prefix, ".");
        if (!key->name[prefix + part]) {
            fprintf(out, "%*s%s: ", 2 * depth, "", key->name + prefix);
            write_value(key, config, out);
            fputc('\n', out);
            continue;
        }
        size_t first = 0, inner = prefix + part + 1; // the dot belongs to the prefix
        while (strncmp(schema->keys[first].name, key->name, inner) != 0)
            first++;
        if (first < i)
            continue;
        fprintf(out, "%*s%.*s:\n", 2 * depth, "", (int)part, key->name + prefix);
        write_section(schema, config, key->name, inner, depth + 1, out);
    }
}

char *node_schema_write(const struct node_schema *schema, const void *config)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    write_section(schema, config, "", 0, 0, out);
    return base_text_close(out, &text);
}

char *node_schema_value(const struct node_schema *schema, const void *config, const char *key)
{
    size_t index = node_schema_find(schema, key), bytes = 0;
    char *text = NULL;
    FILE *out = open_memstream(&text, &bytes);
    BASE_ASSERT(index < schema->count);
    if (!out)
        return NULL;
    write_value(&schema->keys[index], config, out);
    return base_text_close(out, &text);
}
