// Text as a data set: one long run of tokens, of which an example is a window of `context` tokens, each with
// the token behind it as its label. Windows lie end to end; a feed moves those of an epoch by one phase
// (train_tokens_window), so that the same tokens meet other neighbours' places.
//
// The tokens are in memory, shared by all data sets that were cut from them, in any thread. Every id is below
// the vocabulary: all are looked at before a loader returns.
#ifndef TRAIN_TOKENS_H
#define TRAIN_TOKENS_H

#include "base/error.h"
#include "train/dataset.h"
#include <stddef.h>
#include <stdint.h>

struct train_tokens;
struct train_tokens *train_tokens_share(struct train_tokens *tokens); // one owner more; NULL stays NULL
void train_tokens_release(struct train_tokens *tokens);               // NULL is fine

struct train_text_options {
    enum train_text text; // TRAIN_TEXT_BYTES or TRAIN_TEXT_CHARACTERS
    size_t context;
    struct train_meaning
        *like; // borrowed: characters and their ids as there; NULL: those of the file, by code
};

// A text file, plain or gzip. Bytes: ids are the bytes, vocabulary 256. Characters: strict UTF-8; the
// different characters of the file in the order of their code points, or those of `like`. Errors name the
// file and the byte: BASE_EFORMAT, BASE_EMISMATCH (a character that `like` lacks), BASE_EINVAL (not one
// window), BASE_ELIMIT, BASE_ENOMEM, BASE_ENOTFOUND, BASE_EIO.
enum base_error train_dataset_load_text(const char *path, const struct train_text_options *options,
                                        struct train_dataset *data, struct base_reason *why) BASE_CHECK;

// uint16 ids, little-endian: nanoGPT's train.bin, or llm.c's with its header of 256 int32 (magic 20240520,
// version 1, count). Errors as above; an id from `vocabulary` on is BASE_EFORMAT with its place.
enum base_error train_dataset_load_tokens(const char *path, size_t vocabulary, size_t context,
                                          struct train_dataset *data, struct base_reason *why) BASE_CHECK;

// For a data set whose `tokens` is there: ids[context] and labels[context] of window `example`. Where the set
// also has the next window, the window moves on by `phase` tokens (below context).
void train_tokens_window(const struct train_dataset *data, size_t example, size_t phase, uint32_t *ids,
                         uint32_t *labels);

// The characters of a text, each once, as names: what a vocabulary of characters is. BASE_EFORMAT: no UTF-8,
// or one that is there twice. On error the names are empty.
enum base_error train_tokens_alphabet(const char *characters, struct train_names *names,
                                      struct base_reason *why) BASE_CHECK;

// The ids of a text in the vocabulary that `meaning` states (bytes or characters). ids[strlen(text)].
// BASE_EMISMATCH: a character that it lacks; BASE_EFORMAT: no UTF-8.
enum base_error train_tokens_encode(const struct train_meaning *meaning, const char *text, uint32_t *ids,
                                    size_t *count, struct base_reason *why) BASE_CHECK;

#endif
