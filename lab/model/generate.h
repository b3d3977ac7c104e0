// Text from a model of text (kind gpt2), token by token. Main thread.
#ifndef LAB_MODEL_GENERATE_H
#define LAB_MODEL_GENERATE_H

#include "node/store/model_file.h"

#include <stdio.h>

struct lab_generate {
    // UTF-8, or ids with blanks between them for a model of ids. "": begins with a line feed, or with the
    // highest id of the vocabulary (GPT-2: <|endoftext|>).
    const char *prompt;
    size_t tokens;          // to write
    double temperature;     // 0: always the likeliest token
    size_t top_k;           // only this many of the likeliest tokens; 0: all
    uint64_t seed;          // the same text for the same seed
    bool scores;            // no text, but the logits of the token after the prompt, as lines "id,logit"
    const char *vocabulary; // file of GPT-2's vocab.json, to write ids as text; NULL: none
};

// Writes the prompt and the generated text to `out`, with a final newline. Ids without a vocabulary are
// written as numbers. Text already written stays on error. BASE_EMISMATCH: not a text model, or a character
// outside its vocabulary; BASE_EINVAL: an id outside it; BASE_EFORMAT: the vocabulary; BASE_EIO, BASE_ENOMEM.
enum base_error lab_generate(const struct node_model_file *file, const struct lab_generate *options,
                             FILE *out, struct base_reason *why) BASE_CHECK;

#endif
