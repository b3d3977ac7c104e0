#include "lab/model/vocabulary.h"

#include "base/file.h"
#include "train/tokens.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX ((size_t)64 << 20)

void lab_vocabulary_close(struct lab_vocabulary *vocabulary)
{
    train_names_free(&vocabulary->tokens);
    *vocabulary = (struct lab_vocabulary){0};
}

// vocab.json writes a byte as a character: printable bytes as themselves, the others in order from U+0100 on
// (Radford et al. 2019, released code). Returns the byte, or -1 for any other character.
static int byte_of(uint32_t code)
{
    int other = 0x100;
    for (int byte = 0; byte < 256; byte++) {
        const bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
        if (code == (uint32_t)(prints ? byte : other))
            return byte;
        other += !prints;
    }
    return -1;
}

// The byte that the character token[*at] stands for, and *at after it; -1: it stands for none. Jansson
// accepts only UTF-8, and these characters have one or two bytes.
static int next_byte(const char *token, size_t *at)
{
    const unsigned char first = (unsigned char)token[*at], second = (unsigned char)token[*at + 1];
    const bool two = first >= 0xc0;
    *at += two ? 2 : 1;
    return first >= 0xe0 ? -1 : byte_of(two ? (uint32_t)((first & 0x1f) << 6 | (second & 0x3f)) : first);
}

// Replaces the characters of a token by their bytes, in place. False: one stands for none; nothing changes.
static bool unwrap(char *token, size_t *length)
{
    size_t out = 0;
    for (size_t at = 0; token[at];)
        if (next_byte(token, &at) < 0)
            return false;
    for (size_t at = 0; token[at];) {
        const int byte = next_byte(token, &at);
        token[out++] = (char)byte;
    }
    *length = out;
    return true;
}

// A token that contains a zero byte is written up to that byte.
static enum base_error take(const json_t *root, struct lab_vocabulary *v, const char *path,
                            struct base_reason *why)
{
    const char *key;
    json_t *value;
    char **list = calloc(v->count, sizeof *list);
    enum base_error error = list ? BASE_OK : base_fail(why, BASE_ENOMEM, "no memory for a vocabulary");
    json_object_foreach((json_t *)(uintptr_t)root, key, value) {
        const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (!error && (id < 0 || (size_t)id >= v->count || list[id]))
            error =
                base_fail(why, BASE_EFORMAT, "%s: '%.40s' has the id %lld, expected one of its own below %zu",
                          path, key, (long long)id, v->count);
        if (!error && !(list[id] = strdup(key)))
            error = base_fail(why, BASE_ENOMEM, "no memory for a vocabulary");
    }
    for (size_t id = 0; list && id < v->count && !error; id++) {
        size_t length = 0;
        if (list[id] && !unwrap(list[id], &length))
            length = strlen(list[id]); // "<|endoftext|>" and similar tokens may have any characters
        if (!train_names_add(&v->tokens, list[id] ? list[id] : "", length))
            error = base_fail(why, BASE_ENOMEM, "no memory for a vocabulary");
    }
    for (size_t id = 0; list && id < v->count; id++)
        free(list[id]);
    free(list);
    return error;
}

static enum base_error read_json(const char *path, struct lab_vocabulary *v, struct base_reason *why)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    json_error_t where;
    enum base_error error = base_file_read(path, FILE_MAX, &text, &bytes, why);
    if (error)
        return error;
    json_t *root = json_loadb((const char *)text, bytes, 0, &where);
    free(text);
    if (!json_is_object(root))
        error = base_fail(why, BASE_EFORMAT, "%s:%d: expected GPT-2's vocab.json, tokens with their ids",
                          path, root ? 1 : where.line);
    else
        error = take(root, v, path, why);
    json_decref(root);
    return error;
}

enum base_error lab_vocabulary_open(const struct node_model_file *file, const char *path,
                                    struct lab_vocabulary *vocabulary, struct base_reason *why)
{
    struct lab_vocabulary made = {.text = file->about.text, .count = file->spec.classes};
    enum base_error error = BASE_OK;
    if (made.text == TRAIN_TEXT_CHARACTERS)
        error = train_tokens_alphabet(file->about.characters, &made.tokens, why);
    else if (path)
        error = read_json(path, &made, why);
    if (error)
        lab_vocabulary_close(&made);
    *vocabulary = made;
    return error;
}

// The token before the beginning of a text.
static uint32_t first_token(const struct lab_vocabulary *v)
{
    if (v->text == TRAIN_TEXT_BYTES)
        return '\n';
    for (size_t i = 0; v->text == TRAIN_TEXT_CHARACTERS && i < v->tokens.count; i++)
        if (!strcmp(v->tokens.items[i], "\n"))
            return (uint32_t)i;
    return v->text == TRAIN_TEXT_CHARACTERS
               ? 0
               : (uint32_t)v->count - 1; // <|endoftext|> is the last token of GPT-2
}

static enum base_error parse_ids(const struct lab_vocabulary *v, const char *prompt, uint32_t *ids,
                                 size_t *count, struct base_reason *why)
{
    *count = 0;
    for (const char *at = prompt + strspn(prompt, " \n\t,"); *at; at += strspn(at, " \n\t,")) {
        char *end;
        const unsigned long id = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : v->count;
        if (id >= v->count)
            return base_fail(
                why, BASE_EINVAL,
                "the prompt has '%.20s', expected token ids below %zu: this model has no vocabulary", at,
                v->count);
        ids[(*count)++] = (uint32_t)id;
        at = end;
    }
    return BASE_OK;
}

enum base_error lab_vocabulary_encode(const struct lab_vocabulary *v, const char *prompt, uint32_t *ids,
                                      size_t *count, struct base_reason *why)
{
    const bool spells = v->text == TRAIN_TEXT_BYTES || v->text == TRAIN_TEXT_CHARACTERS;
    struct train_meaning meaning = {.text = v->text, .classes = v->tokens};
    enum base_error error = spells ? train_tokens_encode(&meaning, prompt, ids, count, why)
                                   : parse_ids(v, prompt, ids, count, why);
    if (!error && *count == 0)
        ids[(*count)++] = first_token(v);
    return error;
}

void lab_vocabulary_write(const struct lab_vocabulary *v, uint32_t id, FILE *out)
{
    if (v->text == TRAIN_TEXT_BYTES)
        putc((int)id, out);
    else if (v->tokens.count)
        fputs(v->tokens.items[id], out);
    else
        fprintf(out, "%u ", (unsigned)id);
}
