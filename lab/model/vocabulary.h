// The tokens of a model as text. One owner.
#ifndef LAB_MODEL_VOCABULARY_H
#define LAB_MODEL_VOCABULARY_H

#include "node/store/model_file.h"

#include <stdio.h>

struct lab_vocabulary {
    enum train_text text;      // NONE and IDS: numbers, unless `tokens` is filled
    struct train_names tokens; // [id] characters, or the bytes of vocab.json; "": none
    size_t count;              // of the model
};

// `path`: of GPT-2's vocab.json; NULL: none. BASE_EFORMAT, BASE_ENOTFOUND, BASE_ENOMEM.
enum base_error lab_vocabulary_open(const struct node_model_file *file, const char *path,
                                    struct lab_vocabulary *vocabulary, struct base_reason *why) BASE_CHECK;
void lab_vocabulary_close(struct lab_vocabulary *vocabulary); // leaves {0}

// ids[strlen(prompt) + 1] of a prompt; at least one (for "" see struct lab_generate). BASE_EMISMATCH,
// BASE_EINVAL.
enum base_error lab_vocabulary_encode(const struct lab_vocabulary *vocabulary, const char *prompt,
                                      uint32_t *ids, size_t *count, struct base_reason *why) BASE_CHECK;
void lab_vocabulary_write(const struct lab_vocabulary *vocabulary, uint32_t id, FILE *out);

#endif
