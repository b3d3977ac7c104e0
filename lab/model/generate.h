// Text from a model of text (kind gpt2), token by token. Main thread.
#ifndef LAB_MODEL_GENERATE_H
#define LAB_MODEL_GENERATE_H

#include "node/store/model_file.h"

#include <stdio.h>

struct lab_generate {
    // UTF-8, or ids with blanks between them where the model knows neither bytes nor characters. "": begins
    // with a line feed, or with the last id.
    const char *prompt;
    size_t tokens;          // to write
    double temperature;     // 0: the likeliest one always
    size_t top_k;           // only this many of the likeliest tokens; 0: all
    uint64_t seed;          // the same text for the same seed
    bool scores;            // no text: the logits of the token behind the prompt, a line "id,logit" each
    const char *vocabulary; // file of GPT-2's vocab.json, by which ids are written as text; NULL: none
};

// Writes the prompt and what follows it to `out`, and the end of a line. Ids without a vocabulary are written
// as numbers. What has been written stays on error. BASE_EMISMATCH: not a text model, or a character that it
// does not know; BASE_EINVAL: an id it does not know; BASE_EFORMAT: the vocabulary; BASE_EIO, BASE_ENOMEM.
enum base_error lab_generate(const struct node_model_file *file, const struct lab_generate *options,
                             FILE *out, struct base_reason *why) BASE_CHECK;

#endif
