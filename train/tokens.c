#include "train/tokens.h"

#include "base/limits.h"
#include "train/loaders.h"
#include "train/tokens_private.h"
#include "train/unpack.h"

#include <stdlib.h>
#include <string.h>

#define CODES        0x110000u // Unicode's code points
#define PAGE         256u
#define ABSENT       UINT32_MAX
#define MOST_TOKENS  (LIMIT_DATA_FILE_BYTES / sizeof(uint16_t))
#define MOST_CONTEXT (1u << 20)
#define BYTE_VALUES  256u

struct train_tokens *train_tokens_share(struct train_tokens *tokens)
{
    if (tokens)
        atomic_fetch_add_explicit(&tokens->owners, 1, memory_order_relaxed);
    return tokens;
}

void train_tokens_release(struct train_tokens *tokens)
{
    if (tokens && atomic_fetch_sub_explicit(&tokens->owners, 1, memory_order_acq_rel) == 1)
        free(tokens);
}

struct train_tokens *train_tokens_make(size_t count)
{
    struct train_tokens *tokens =
        count <= MOST_TOKENS ? malloc(sizeof *tokens + count * sizeof tokens->ids[0]) : NULL;
    if (tokens) {
        atomic_init(&tokens->owners, 1);
        tokens->count = count;
    }
    return tokens;
}

enum base_error train_tokens_cut(const char *name, struct train_tokens *tokens, size_t vocabulary,
                                 size_t context, struct train_dataset *data, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    const size_t windows = tokens->count > 0 && context > 0 ? (tokens->count - 1) / context : 0;
    if (context == 0 || context > MOST_CONTEXT) {
        error =
            base_fail(why, BASE_EINVAL, "a context of %zu tokens; expected 1 to %u", context, MOST_CONTEXT);
    } else if (windows == 0) {
        error = base_fail(
            why, BASE_EINVAL,
            "%s: found %zu tokens, but a context of %zu needs at least %zu: use a longer text or a shorter "
            "model.context",
            name, tokens->count, context, context + 1);
    } else if (windows > UINT32_MAX) {
        error = base_fail(why, BASE_ELIMIT, "%s: %zu windows of %zu tokens are over the limit of %u", name,
                          windows, context, UINT32_MAX);
    }
    size_t *starts = error ? NULL : malloc(windows * sizeof *starts);
    if (!error && !starts)
        error = base_fail(why, BASE_ENOMEM, "no memory for %zu windows of text", windows);
    if (error) {
        train_tokens_release(tokens);
        return error;
    }
    for (size_t i = 0; i < windows; i++)
        starts[i] = i * context;
    *data = (struct train_dataset){.examples = windows,
                                   .features = context,
                                   .classes = vocabulary,
                                   .whole = windows,
                                   .input_divisor = 1.0f,
                                   .tokens = tokens,
                                   .starts = starts};
    return BASE_OK;
}

void train_tokens_window(const struct train_dataset *data, size_t example, size_t phase, uint32_t *ids,
                         uint32_t *labels)
{
    const size_t context = data->features, start = data->starts[example];
    const bool goes_on = example + 1 < data->examples && data->starts[example + 1] == start + context;
    const uint16_t *at = data->tokens->ids + start + (goes_on ? phase : 0);
    BASE_ASSERT(phase < context && example < data->examples);
    for (size_t t = 0; t < context; t++) {
        ids[t] = at[t];
        labels[t] = at[t + 1];
    }
}

// --- characters ---

// Decodes the code point at at[0 .. left) and returns its length; 0: not valid UTF-8 (overlong forms and
// surrogates are not).
static size_t decode(const uint8_t *at, size_t left, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t first = at[0];
    const size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (length == 0 || length > left || first > 0xf4)
        return 0;
    *code = length == 1 ? first : first & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0u) != 0x80u)
            return 0;
        *code = *code << 6 | (at[i] & 0x3fu);
    }
    const bool surrogate = *code >= 0xd800u && *code < 0xe000u;
    return *code < least[length] || *code >= CODES || surrogate ? 0 : length;
}

// A number for each code point, initially ABSENT; a page is allocated when a text has a character in it.
struct codes {
    uint32_t *page[CODES / PAGE]; // [PAGE] each
};

static uint32_t *slot(struct codes *codes, uint32_t code)
{
    uint32_t **page = &codes->page[code / PAGE];
    if (!*page && (*page = malloc(PAGE * sizeof **page)))
        memset(*page, 0xff, PAGE * sizeof **page);
    return *page ? *page + code % PAGE : NULL;
}

static void free_codes(struct codes *codes)
{
    for (size_t i = 0; codes && i < CODES / PAGE; i++)
        free(codes->page[i]);
    free(codes);
}

static enum base_error no_memory(struct base_reason *why)
{
    return base_fail(why, BASE_ENOMEM, "no memory for a table of characters");
}

static enum base_error not_text(const struct train_bytes *text, size_t at, struct base_reason *why)
{
    return base_fail(
        why, BASE_EFORMAT,
        "%s: byte %zu: found 0x%02x, where no UTF-8 character begins; expected text, or data.text bytes",
        text->name, at, text->data[at]);
}

static size_t encode(uint32_t code, char name[4])
{
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    const size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length; i-- > 0; code >>= 6)
        name[i] = (char)(i == 0 ? lead[length] | code : 0x80u | (code & 0x3fu));
    return length;
}

// Converts the characters of a text to numbers or, if `ids` is NULL, only marks those that occur; *count: the
// number of characters.
static enum base_error walk(const struct train_bytes *text, struct codes *codes, uint16_t *ids, size_t *count,
                            struct base_reason *why)
{
    size_t found = 0;
    for (size_t at = 0, length; at < text->bytes; at += length, found++) {
        uint32_t code = 0, *number = NULL;
        length = decode(text->data + at, text->bytes - at, &code);
        if (length == 0 || code == 0)
            return not_text(text, at, why);
        if (!(number = slot(codes, code)))
            return no_memory(why);
        if (!ids) {
            *number = 0;
        } else if (*number != ABSENT) {
            ids[found] = (uint16_t)*number;
        } else {
            return base_fail(why, BASE_EMISMATCH,
                             "%s: byte %zu: found the character U+%04X, which the vocabulary lacks",
                             text->name, at, (unsigned)code);
        }
    }
    *count = found;
    return BASE_OK;
}

static enum base_error too_many(const char *file, struct base_reason *why)
{
    return base_fail(why, BASE_ELIMIT, "%s: the distinct characters need over %u bytes; use data.text bytes",
                     file, LIMIT_ALPHABET_BYTES - 1);
}

// Numbers and names the characters that occur, by code point.
static enum base_error name_codes(const char *file, struct codes *codes, struct train_names *names,
                                  struct base_reason *why)
{
    size_t used = 0;
    for (uint32_t code = 1; code < CODES; code++) {
        char name[4];
        uint32_t *page = codes->page[code / PAGE];
        if (!page) {
            code += PAGE - 1 - code % PAGE;
            continue;
        }
        if (page[code % PAGE] == ABSENT)
            continue;
        const size_t length = encode(code, name);
        if (length >= LIMIT_ALPHABET_BYTES - used)
            return too_many(file, why);
        used += length;
        page[code % PAGE] = (uint32_t)names->count;
        if (!train_names_add(names, name, length))
            return base_fail(why, BASE_ENOMEM, "no memory for the characters of %s", file);
    }
    return names->count >= 2
               ? BASE_OK
               : base_fail(why, BASE_EINVAL, "%s: found %zu different characters, expected 2 or more", file,
                           names->count);
}

// Sets the numbers of the characters of a vocabulary.
static enum base_error take_codes(const struct train_names *names, struct codes *codes,
                                  struct base_reason *why)
{
    size_t used = 1;
    for (size_t i = 0; i < names->count; i++) {
        uint32_t code = 0, *number = NULL;
        const size_t bytes = strlen(names->items[i]);
        const bool one = bytes > 0 && decode((const uint8_t *)names->items[i], bytes, &code) == bytes;
        if (one && !(number = slot(codes, code)))
            return no_memory(why);
        if (!one || *number != ABSENT)
            return base_fail(why, BASE_EFORMAT,
                             "entry %zu of the vocabulary is not a single character, or "
                             "a duplicate",
                             i);
        *number = (uint32_t)i;
        used += bytes;
    }
    return used <= LIMIT_ALPHABET_BYTES ? BASE_OK : too_many("the vocabulary", why);
}

// The meaning of a text: shared from `like`, or created.
static enum base_error mean(const struct train_bytes *text, const struct train_text_options *options,
                            struct codes *codes, size_t *count, struct train_meaning **meaning,
                            struct base_reason *why)
{
    if (options->like) {
        *meaning = train_meaning_share(options->like);
        if (options->text != options->like->text)
            return base_fail(why, BASE_EMISMATCH,
                             "%s: data.scale_from was not written for data.kind text with this data.text",
                             text->name);
        *count = text->bytes; // an upper bound
        return options->text == TRAIN_TEXT_CHARACTERS ? take_codes(&options->like->classes, codes, why)
                                                      : BASE_OK;
    }
    *meaning = train_meaning_create(options->context);
    if (!*meaning)
        return base_fail(why, BASE_ENOMEM, "no memory for a vocabulary");
    (*meaning)->text = options->text;
    *count = text->bytes;
    if (options->text == TRAIN_TEXT_BYTES)
        return BASE_OK;
    enum base_error error = walk(text, codes, NULL, count, why);
    return error ? error : name_codes(text->name, codes, &(*meaning)->classes, why);
}

enum base_error train_text_parse(const struct train_bytes *text, const struct train_text_options *options,
                                 struct train_dataset *data, struct base_reason *why)
{
    struct train_meaning *meaning = NULL;
    struct train_tokens *tokens = NULL;
    size_t count = 0;
    const bool characters = options->text == TRAIN_TEXT_CHARACTERS;
    struct codes *codes = calloc(1, sizeof *codes);
    enum base_error error = !codes ? no_memory(why) : mean(text, options, codes, &count, &meaning, why);
    if (!error && !(tokens = train_tokens_make(count)))
        error = base_fail(why, BASE_ENOMEM, "no memory for the %zu characters of %s", count, text->name);
    if (!error && characters)
        error = walk(text, codes, tokens->ids, &tokens->count, why);
    for (size_t i = 0; !error && !characters && i < count; i++)
        tokens->ids[i] = text->data[i];
    free_codes(codes);
    if (!error)
        error =
            train_tokens_cut(text->name, train_tokens_share(tokens),
                             characters ? meaning->classes.count : BYTE_VALUES, options->context, data, why);
    train_tokens_release(tokens);
    if (error) {
        train_meaning_release(meaning);
        return error;
    }
    data->meaning = meaning;
    return BASE_OK;
}

enum base_error train_dataset_load_text(const char *path, const struct train_text_options *options,
                                        struct train_dataset *data, struct base_reason *why)
{
    struct train_bytes text;
    uint8_t *owned = NULL;
    enum base_error error = train_unpack_file(path, &text, &owned, why);
    if (!error)
        error = train_text_parse(&text, options, data, why);
    free(owned);
    return error;
}

enum base_error train_tokens_alphabet(const char *characters, struct train_names *names,
                                      struct base_reason *why)
{
    const struct train_bytes text = {
        .name = "the vocabulary", .data = (const uint8_t *)characters, .bytes = strlen(characters)};
    struct codes *codes = calloc(1, sizeof *codes);
    enum base_error error = !codes ? no_memory(why) : BASE_OK;
    *names = (struct train_names){0};
    for (size_t at = 0, length; !error && at < text.bytes; at += length) {
        uint32_t code = 0;
        length = decode(text.data + at, text.bytes - at, &code);
        if (length == 0)
            error = not_text(&text, at, why);
        else if (!train_names_add(names, characters + at, length))
            error = no_memory(why);
    }
    if (!error)
        error = take_codes(names, codes, why);
    free_codes(codes);
    if (error)
        train_names_free(names);
    return error;
}

enum base_error train_tokens_encode(const struct train_meaning *meaning, const char *text, uint32_t *ids,
                                    size_t *count, struct base_reason *why)
{
    const struct train_bytes bytes = {
        .name = "the text", .data = (const uint8_t *)text, .bytes = strlen(text)};
    *count = bytes.bytes;
    if (meaning->text == TRAIN_TEXT_BYTES) {
        for (size_t i = 0; i < bytes.bytes; i++)
            ids[i] = bytes.data[i];
        return BASE_OK;
    }
    uint16_t *narrow = malloc((bytes.bytes + 1) * sizeof *narrow);
    struct codes *codes = calloc(1, sizeof *codes);
    enum base_error error = !codes || !narrow ? no_memory(why) : take_codes(&meaning->classes, codes, why);
    if (!error)
        error = walk(&bytes, codes, narrow, count, why);
    for (size_t i = 0; !error && i < *count; i++)
        ids[i] = narrow[i];
    free_codes(codes);
    free(narrow);
    return error;
}
