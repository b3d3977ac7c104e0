// Files of token ids.
#include "train/loaders.h"
#include "train/tokens_private.h"
#include "train/unpack.h"

#include <stdlib.h>
#include <string.h>

#define LLMC_HEADER    1024u     // bytes: 256 int32
#define LLMC_MAGIC     20240520u // uint16 ids, version 1
#define LLMC_MAGIC_4   20240801u // uint32 ids, version 7
#define WORDS_TO_JUDGE 32u
#define HIGH_WORD      16u // ids of up to a million have no higher one

static uint32_t word_at(const uint8_t *at, size_t bytes)
{
    uint32_t word = 0;
    for (size_t i = 0; i < bytes; i++)
        word |= (uint32_t)at[i] << 8 * i;
    return word;
}

// llm.c's header says how wide the ids are, whatever `width` was.
static enum base_error skip_header(struct train_bytes *file, size_t *width, struct base_reason *why)
{
    if (file->bytes < LLMC_HEADER)
        return BASE_OK;
    const uint32_t magic = word_at(file->data, 4), version = word_at(file->data + 4, 4),
                   count = word_at(file->data + 8, 4);
    if (magic != LLMC_MAGIC && magic != LLMC_MAGIC_4)
        return BASE_OK;
    const uint32_t expected = magic == LLMC_MAGIC ? 1 : 7;
    *width = magic == LLMC_MAGIC ? 2 : 4;
    if (version != expected)
        return base_fail(why, BASE_EFORMAT,
                         "%s: found version %u in llm.c's header, expected %u (uint%zu ids)", file->name,
                         (unsigned)version, (unsigned)expected, 8 * *width);
    file->data += LLMC_HEADER;
    file->bytes -= LLMC_HEADER;
    if (count != file->bytes / *width)
        return base_fail(why, BASE_EFORMAT, "%s: llm.c's header says %u tokens, but %zu follow", file->name,
                         (unsigned)count, file->bytes / *width);
    return BASE_OK;
}

// Ids of twice the width look like ids of which every other one is nearly 0.
static bool is_wider(const struct train_bytes *file, size_t width)
{
    const size_t words = file->bytes / width;
    uint32_t low = 0, high = 0;
    for (size_t i = 0; i < words; i++) {
        const uint32_t word = word_at(file->data + i * width, width);
        uint32_t *most = i % 2 ? &high : &low;
        *most = word > *most ? word : *most;
    }
    return words >= WORDS_TO_JUDGE && words % 2 == 0 && high <= HIGH_WORD && low > HIGH_WORD;
}

static enum base_error check_width(const struct train_bytes *file, size_t width, struct base_reason *why)
{
    if (file->bytes >= 6 && memcmp(file->data, "\x93NUMPY", 6) == 0)
        return base_fail(why, BASE_EFORMAT,
                         "%s: found a NumPy file, expected the ids alone: write them with "
                         "ids.astype('uint16').tofile(FILE)",
                         file->name);
    if (file->bytes % width != 0)
        return base_fail(why, BASE_EFORMAT,
                         "%s: found %zu bytes, expected a multiple of %zu, the bytes of a token", file->name,
                         file->bytes, width);
    if (!is_wider(file, width))
        return BASE_OK;
    return base_fail(why, BASE_EFORMAT,
                     width == 2
                         ? "%s: every other of its %zu words of 2 bytes is nearly 0, as in ids of 4 bytes; "
                           "set data.token_bytes: 4"
                         : "%s: every other of its %zu words of 4 bytes is nearly 0, as in ids of 8 bytes; "
                           "write them with 4: ids.astype('uint32').tofile(FILE)",
                     file->name, file->bytes / width);
}

static enum base_error fill(const struct train_bytes *file, size_t width, size_t vocabulary,
                            struct train_tokens *tokens, struct base_reason *why)
{
    for (size_t i = 0; i < tokens->count; i++) {
        const uint32_t id = word_at(file->data + i * width, width);
        if (id >= vocabulary || id > UINT16_MAX)
            return base_fail(why, BASE_EFORMAT,
                             "%s: token %zu: found id %u, expected below data.vocabulary, %zu", file->name, i,
                             (unsigned)id, vocabulary);
        tokens->ids[i] = (uint16_t)id;
    }
    return BASE_OK;
}

enum base_error train_tokens_parse(const struct train_bytes *bytes, size_t width, size_t vocabulary,
                                   size_t context, struct train_dataset *data, struct base_reason *why)
{
    struct train_bytes file = *bytes;
    struct train_meaning *meaning = NULL;
    struct train_tokens *tokens = NULL;
    enum base_error error = width == 2 || width == 4
                                ? skip_header(&file, &width, why)
                                : base_fail(why, BASE_EINVAL, "tokens of %zu bytes, expected 2 or 4", width);
    if (!error)
        error = check_width(&file, width, why);
    if (!error) {
        meaning = train_meaning_create(context);
        tokens = train_tokens_make(file.bytes / width);
        if (!tokens || !meaning)
            error = base_fail(why, BASE_ENOMEM, "no memory for the %zu bytes of %s", file.bytes, file.name);
    }
    if (!error)
        error = fill(&file, width, vocabulary, tokens, why);
    if (!error)
        error = train_tokens_cut(file.name, train_tokens_share(tokens), vocabulary, context, data, why);
    train_tokens_release(tokens);
    if (error) {
        train_meaning_release(meaning);
        return error;
    }
    meaning->text = TRAIN_TEXT_IDS;
    data->meaning = meaning;
    return BASE_OK;
}

enum base_error train_dataset_load_tokens(const char *path, size_t width, size_t vocabulary, size_t context,
                                          struct train_dataset *data, struct base_reason *why)
{
    struct train_bytes file;
    uint8_t *owned = NULL;
    enum base_error error = train_unpack_file(path, &file, &owned, why);
    if (!error)
        error = train_tokens_parse(&file, width, vocabulary, context, data, why);
    free(owned);
    return error;
}
