// Warnings about data that can be read but will train badly.
#include "base/log.h"
#include "node/learn/data.h"
#include "train/scale.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define COPIES_LEAST 5u
#define COPIES_PART  0.05   // of the held-out examples
#define APART        1000.0 // largest over smallest feature from which on one learning rate does not suit both

static void advise_scale(const struct node_config *config, const struct train_dataset *train)
{
    double least = INFINITY, most = 0;
    size_t small = 0, large = 0;
    if (config->data.scale != TRAIN_SCALE_NONE || config->data.kind == NODE_DATA_DIGITS ||
        train->height > 0 || train->csr || node_config_is_text(config))
        return;
    for (size_t i = 0; i < train->features; i++) {
        const struct train_spread s =
            train_scale_spread(train->x, train->x_rest, train->examples, train->features, i);
        const double size = fmax(fabs(s.least), fabs(s.most));
        if (s.most > s.least && size < least) {
            least = size;
            small = i;
        }
        if (s.most > s.least && size > most) {
            most = size;
            large = i;
        }
    }
    if (!(most > APART * least))
        return;
    char names[2][64];
    train_meaning_feature(train->meaning, large, names[0], sizeof names[0]);
    train_meaning_feature(train->meaning, small, names[1], sizeof names[1]);
    base_log(BASE_LOG_WARN, "data",
             "features differ by orders of magnitude (%s reaches %.3g, %s only %.3g): data.scale standard "
             "makes them alike; without it training is likely to be poor",
             names[0], most, names[1], least);
}

static const char *class_name(const struct train_dataset *data, size_t label, char *text, size_t capacity)
{
    const bool named = data->meaning && label < data->meaning->classes.count;
    if (named)
        snprintf(text, capacity, "%s", data->meaning->classes.items[label]);
    else
        snprintf(text, capacity, "%zu", label);
    return text;
}

static void advise_classes(const struct train_dataset *data, const char *what, enum base_log_level level)
{
    size_t *counts = calloc(data->classes + 1, sizeof *counts), missing = 0, first = 0;
    char name[64];
    for (size_t i = 0; counts && i < data->examples; i++)
        counts[data->labels[i]]++;
    for (size_t c = data->classes; counts && c-- > 0;)
        if (counts[c] == 0) {
            missing++;
            first = c;
        }
    free(counts);
    if (missing > 0)
        base_log(level, "data", "%s have no example of %zu of the %zu classes, among them \"%s\"", what,
                 missing, data->classes, class_name(data, first, name, sizeof name));
}

static void advise_collapse(const struct train_dataset *train)
{
    char name[64];
    if (train->collapsed == 0)
        return;
    train_meaning_feature(train->meaning, train->collapsed - 1, name, sizeof name);
    base_log(
        BASE_LOG_WARN, "data",
        "%s: of %zu different numbers, 32-bit floats keep %zu apart; data.scale standard or minmax shifts "
        "them first, in double",
        name, train->different, train->left);
}

// Observations of few different values are equal by chance, copies are not: this cannot be told from the
// file.
static void advise_copies(const struct train_split *split)
{
    if (split->seen < COPIES_LEAST || (double)split->seen < COPIES_PART * (double)split->tests)
        return;
    base_log(BASE_LOG_WARN, "data",
             "%zu of the %zu examples that are held out have the same values as some to train on. If these "
             "are copies of one observation, test figures are better than on new data: remove copies, or "
             "give a file of tests",
             split->seen, split->tests);
}

void node_data_advise(const struct node_config *config, size_t shard, const struct train_dataset *train,
                      const struct train_dataset *test)
{
    const bool whole = shard == NODE_DATA_ALL || config->data.shards == 1;
    const bool meant = !whole && config->data.partition == NODE_PARTITION_DIRICHLET;
    advise_scale(config, train);
    advise_collapse(train);
    advise_copies(&train->split);
    if (train->labels)
        advise_classes(train, whole ? "the training examples" : "the training examples of this shard",
                       meant ? BASE_LOG_INFO : BASE_LOG_WARN);
    if (test && test->labels)
        advise_classes(test, "the test examples", BASE_LOG_WARN);
}

void node_data_advise_test_file(const struct train_split *train, const struct train_split *test)
{
    if (train->digest == test->digest)
        base_log(
            BASE_LOG_WARN, "data",
            "the test file has the examples of the training file, all %zu: the measured accuracy will be "
            "too good; name another file, or none: data.test_part of the examples is then held out",
            train->examples);
}
