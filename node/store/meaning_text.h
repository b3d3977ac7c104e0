// What data mean (train/meaning.h) as JSON: in the metadata "data" of a model, and in the file of
// data.scale_from. Any thread.
#ifndef NODE_STORE_MEANING_TEXT_H
#define NODE_STORE_MEANING_TEXT_H

#include "base/error.h"
#include "train/meaning.h"
#include <stddef.h>

// *text is malloc'ed; indent 0: one line. BASE_EINVAL: a name that is not UTF-8, or no memory.
enum base_error node_meaning_text(const struct train_meaning *meaning, size_t indent, char **text,
                                  struct base_reason *why) BASE_CHECK;
// Checks that it fits beside a model, before training instead of at its end. NULL fits. BASE_EINVAL,
// BASE_ELIMIT.
enum base_error node_meaning_check(const struct train_meaning *meaning, struct base_reason *why) BASE_CHECK;

// *meaning has one owner. `name` is what messages call the text. BASE_EFORMAT names the line or the entry.
enum base_error node_meaning_parse(const char *name, const char *text, size_t bytes,
                                   struct train_meaning **meaning, struct base_reason *why) BASE_CHECK;

#endif
