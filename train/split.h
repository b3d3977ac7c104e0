// Which examples of a file are held out for tests. Each example decides for itself, by a hash of what is in
// it, so that no example changes sides when others are added, removed or moved. Pure; any thread.
#ifndef TRAIN_SPLIT_H
#define TRAIN_SPLIT_H

#include "train/dataset.h"
#include <stdbool.h>

// Decides is_test[data->examples], before the data are scaled: about `part` of the examples, at least one and
// not all, the same for the same seed. Equal examples decide separately, by how many came before: `seen`
// counts what that puts on both sides. A text is held out from one place on to its end, because neighbouring
// windows belong together. Describes the result in *split. BASE_ENOMEM; BASE_EINVAL: fewer than two examples.
enum base_error train_split_draw(const struct train_dataset *data, double part, uint64_t seed, bool *is_test,
                                 struct train_split *split, struct base_reason *why) BASE_CHECK;

#endif
