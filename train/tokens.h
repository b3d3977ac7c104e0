// Text as a data set: one long sequence of tokens. An example is a window of `context` tokens; the label of
// each token is the next token. Windows are consecutive; in each epoch a feed shifts them all by one phase
// (train_tokens_window), so that window boundaries move.
//
// The tokens are in memory, shared by all data sets that were cut from them, in any thread. Every id is below
// the vocabulary: a loader checks all of them before it returns.
#ifndef TRAIN_TOKENS_H
#define TRAIN_TOKENS_H

#include "base/error.h"
#include "train/dataset.h"
#include <stddef.h>
#include <stdint.h>

struct train_tokens;
struct train_tokens *train_tokens_share(struct train_tokens *tokens); // adds an owner; NULL stays NULL
void train_tokens_release(struct train_tokens *tokens);               // NULL is allowed

struct train_text_options {
    enum train_text text; // TRAIN_TEXT_BYTES or TRAIN_TEXT_CHARACTERS
    size_t context;
    struct train_meaning
        *like; // borrowed: use its characters and their ids; NULL: take those of the file, by code point
};

// A text file, plain or gzip. Bytes: ids are the bytes, vocabulary 256. Characters: strict UTF-8; the
// distinct characters of the file in the order of their code points, or those of `like`. Errors name the file
// and the byte: BASE_EFORMAT, BASE_EMISMATCH (a character that `like` lacks), BASE_EINVAL (shorter than one
// window), BASE_ELIMIT, BASE_ENOMEM, BASE_ENOTFOUND, BASE_EIO.
enum base_error train_dataset_load_text(const char *path, const struct train_text_options *options,
                                        struct train_dataset *data, struct base_reason *why) BASE_CHECK;

// Little-endian ids of `width` bytes, 2 or 4: nanoGPT's train.bin, or llm.c's with its header of 256 int32
// (magic 20240520, version 1: 2 bytes; 20240801, version 7: 4 bytes), which then decides the width. Errors as
// above; BASE_EFORMAT, with the place, if an id is not below `vocabulary`, and if the ids look twice as wide.
enum base_error train_dataset_load_tokens(const char *path, size_t width, size_t vocabulary, size_t context,
                                          struct train_dataset *data, struct base_reason *why) BASE_CHECK;

// For a data set of text: writes ids[context] and labels[context] of window `example`. If the set also has
// the following window, the window is shifted by `phase` tokens (below context).
void train_tokens_window(const struct train_dataset *data, size_t example, size_t phase, uint32_t *ids,
                         uint32_t *labels);

// Splits a text into its characters, as the names of a vocabulary. BASE_EFORMAT: not UTF-8, or a duplicate
// character. On error the names are empty.
enum base_error train_tokens_alphabet(const char *characters, struct train_names *names,
                                      struct base_reason *why) BASE_CHECK;

// Writes the ids of a text in the vocabulary of `meaning` (bytes or characters) to ids[strlen(text)].
// BASE_EMISMATCH: a character that the vocabulary lacks. BASE_EFORMAT: not UTF-8.
enum base_error train_tokens_encode(const struct train_meaning *meaning, const char *text, uint32_t *ids,
                                    size_t *count, struct base_reason *why) BASE_CHECK;

#endif
