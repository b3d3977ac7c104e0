// The tokens in memory. Private to train/tokens.c and train/ids.c.
#ifndef TRAIN_TOKENS_PRIVATE_H
#define TRAIN_TOKENS_PRIVATE_H

#include "train/tokens.h"
#include <stdatomic.h>

struct train_tokens {
    atomic_size_t owners;
    size_t count;
    uint16_t ids[]; // [count]
};

struct train_tokens *train_tokens_make(size_t count); // one owner; NULL: no memory
// Makes the data set of all windows of the tokens. The data set takes over the tokens; on error they are
// released.
enum base_error train_tokens_cut(const char *name, struct train_tokens *tokens, size_t vocabulary,
                                 size_t context, struct train_dataset *data,
                                 struct base_reason *why) BASE_CHECK;

#endif
