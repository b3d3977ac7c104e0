// The tokens of a model of text in the metadata: "text" is bytes, characters or ids; "characters.0",
// "characters.1", ... are the characters in the order of their ids, cut between two of them.
#include "node/store/model_private.h"

#include "train/tokens.h"
#include <stdio.h>
#include <string.h>

static const char *const names[] = {"", "bytes", "characters", "ids"}; // enum train_text
_Static_assert(sizeof names / sizeof *names == TRAIN_TEXTS, "every kind of text has a name");

size_t node_model_text_pairs(const struct node_model_about *about, struct node_text_pair *pairs)
{
    size_t count = 0;
    if (about->text == TRAIN_TEXT_NONE)
        return 0;
    snprintf(pairs[count].key, sizeof pairs->key, "text");
    snprintf(pairs[count++].value, sizeof pairs->value, "%s", names[about->text]);
    for (const char *at = about->characters; *at;) {
        size_t taken = strlen(at);
        if (taken > NODE_MODEL_PIECE)
            for (taken = NODE_MODEL_PIECE; ((unsigned char)at[taken] & 0xc0) == 0x80;) // within a character
                taken--;
        BASE_ASSERT(count < NODE_MODEL_ABOUT_PAIRS);
        snprintf(pairs[count].key, sizeof pairs->key, "characters.%zu", count - 1);
        snprintf(pairs[count++].value, sizeof pairs->value, "%.*s", (int)taken, at);
        at += taken;
    }
    return count;
}

static enum base_error read_characters(const struct node_safetensors *file, size_t classes,
                                       struct node_model_about *about, struct base_reason *why)
{
    size_t used = 0, count = 0;
    for (size_t piece = 0;; piece++) {
        char key[32];
        snprintf(key, sizeof key, "characters.%zu", piece);
        const char *text = node_safetensors_metadata(file, key);
        if (!text)
            break;
        if (strlen(text) >= sizeof about->characters - used)
            return base_fail(why, BASE_ELIMIT, "metadata '%s' has characters of over %zu bytes in all", key,
                             sizeof about->characters - 1);
        used += (size_t)snprintf(about->characters + used, sizeof about->characters - used, "%s", text);
    }
    struct train_names split = {0};
    enum base_error error = train_tokens_alphabet(about->characters, &split, why);
    count = split.count;
    train_names_free(&split);
    if (!error && count != classes)
        error = base_fail(why, BASE_EFORMAT, "metadata has %zu characters, expected %zu, one per token",
                          count, classes);
    return error;
}

enum base_error node_model_read_text(const struct node_safetensors *file, size_t classes,
                                     struct node_model_about *about, struct base_reason *why)
{
    const char *text = node_safetensors_metadata(file, "text");
    about->text = TRAIN_TEXT_NONE;
    about->characters[0] = 0;
    if (!text)
        return BASE_OK;
    for (int i = TRAIN_TEXT_BYTES; i <= TRAIN_TEXT_IDS; i++)
        if (!strcmp(text, names[i]))
            about->text = (enum train_text)i;
    if (about->text == TRAIN_TEXT_NONE)
        return base_fail(why, BASE_EFORMAT, "metadata 'text' is '%.40s', expected bytes, characters or ids",
                         text);
    if (about->text == TRAIN_TEXT_BYTES && classes != 256)
        return base_fail(why, BASE_EFORMAT,
                         "metadata 'text' is bytes, but the model has %zu tokens, expected 256", classes);
    return about->text == TRAIN_TEXT_CHARACTERS ? read_characters(file, classes, about, why) : BASE_OK;
}
