#include "train/split.h"
#include "base/hash.h"
#include "train/rows.h"
#include "train/tokens.h"
#include <stdlib.h>
#include <string.h>

#define STREAM 0x74657374u // of the seed
#define COPY   0x9e3779b97f4a7c15ull

// Room for one example: a number for each column, or its ids and labels.
struct scratch {
    uint64_t *keys;
    uint32_t *ids;
};

static uint64_t key_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double number_at(const struct train_dataset *data, size_t at)
{
    return (double)data->x[at] + (data->x_rest ? (double)data->x_rest[at] : 0);
}

// A category counts by its word: its place depends on the other rows.
static uint64_t key_of_word(const struct train_column *column, const struct train_dataset *data, size_t at)
{
    for (size_t i = 0; i < column->categories.count; i++)
        if (data->x[at + i] > 0)
            return base_hash_bytes(1, column->categories.items[i], strlen(column->categories.items[i]));
    return 0;
}

static uint64_t hash_table_row(const struct train_dataset *data, size_t row, uint64_t seed, uint64_t *keys)
{
    const struct train_meaning *m = data->meaning;
    size_t at = row * data->features;
    for (size_t i = 0; i < m->n_columns; i++) {
        const size_t categories = m->columns[i].categories.count;
        keys[i] = categories ? key_of_word(&m->columns[i], data, at) : key_of(number_at(data, at));
        at += categories ? categories : 1;
    }
    return base_hash_bytes(seed, keys, m->n_columns * sizeof *keys);
}

static uint64_t hash_example(const struct train_dataset *data, size_t i, uint64_t seed,
                             const struct scratch *scratch)
{
    if (data->tokens) {
        train_tokens_window(data, i, 0, scratch->ids, scratch->ids + data->features);
        return base_hash_bytes(seed, scratch->ids, 2 * data->features * sizeof *scratch->ids);
    }
    if (data->csr) {
        const size_t at = data->csr->start[i], count = data->csr->start[i + 1] - at;
        const uint64_t hash = base_hash_bytes(seed, data->csr->column + at, count * sizeof(uint32_t));
        return base_hash_bytes(hash, data->csr->value + at, count * sizeof(float));
    }
    if (data->meaning && data->meaning->n_columns > 0)
        return hash_table_row(data, i, seed, scratch->keys);
    for (size_t k = 0; k < data->features; k++)
        scratch->keys[k] = key_of(number_at(data, i * data->features + k));
    return base_hash_bytes(seed, scratch->keys, data->features * sizeof *scratch->keys);
}

// What the example is to learn, so that another label makes another file.
static uint64_t hash_answer(const struct train_dataset *data, size_t i, uint64_t hash)
{
    if (data->targets)
        return base_hash_bytes(hash, data->targets + i * data->outputs,
                               data->outputs * sizeof *data->targets);
    if (!data->labels)
        return base_hash_mix(hash + i); // windows have an order
    const uint32_t label = data->labels[i];
    const struct train_names *names = data->meaning ? &data->meaning->classes : NULL;
    return names && label < names->count
               ? base_hash_bytes(hash, names->items[label], strlen(names->items[label]))
               : base_hash_mix(hash + label);
}

struct placed {
    uint64_t hash;
    size_t example;
    bool copy; // of the one before
};

static int order_placed(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash)
                              : (x->example > y->example) - (x->example < y->example);
}

// Hashes all examples; equal ones get different hashes, in their order.
static bool hash_all(const struct train_dataset *data, uint64_t seed, struct placed *placed)
{
    const size_t columns = data->meaning && data->meaning->n_columns > data->features
                               ? data->meaning->n_columns
                               : data->features;
    const bool dense = !data->csr && !data->tokens;
    const struct scratch scratch = {dense ? malloc(columns * sizeof(uint64_t)) : NULL,
                                    data->tokens ? malloc(2 * data->features * sizeof(uint32_t)) : NULL};
    const bool made = (!dense || scratch.keys) && (!data->tokens || scratch.ids);
    for (size_t i = 0; made && i < data->examples; i++)
        placed[i] = (struct placed){.hash = hash_example(data, i, seed, &scratch), .example = i};
    free(scratch.keys);
    free(scratch.ids);
    if (made)
        qsort(placed, data->examples, sizeof *placed, order_placed);
    uint64_t copies = 0, last = 0;
    for (size_t i = 0; made && i < data->examples; i++) {
        copies = i > 0 && placed[i].hash == last ? copies + 1 : 0;
        last = placed[i].hash;
        placed[i].hash = base_hash_mix(last + COPY * copies);
        placed[i].copy = copies > 0;
    }
    return made;
}

static void choose(const struct train_dataset *data, double part, const struct placed *placed, bool *is_test)
{
    const size_t n = data->examples;
    const uint64_t bound = (uint64_t)(part * 0x1p64);
    const size_t ends = (size_t)(part * (double)n + 0.5);
    const size_t last = ends < 1 ? 1 : ends >= n ? n - 1 : ends;
    size_t tests = 0, least = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        is_test[placed[i].example] = data->tokens ? placed[i].example >= n - last : placed[i].hash < bound;
        tests += is_test[placed[i].example];
        least = placed[i].hash < placed[least].hash ? i : least;
        most = placed[i].hash > placed[most].hash ? i : most;
    }
    if (tests == 0)
        is_test[placed[least].example] = true;
    if (tests == n)
        is_test[placed[most].example] = false;
}

// Of the examples that are held out: those that the training has seen.
static size_t count_seen(const struct placed *placed, size_t n, const bool *is_test)
{
    size_t seen = 0, tests = 0, first = 0;
    for (size_t i = 0; i < n; i++) {
        first = placed[i].copy ? first : i;
        tests = (placed[i].copy ? tests : 0) + is_test[placed[i].example];
        if ((i + 1 == n || !placed[i + 1].copy) && tests < i + 1 - first)
            seen += tests;
    }
    return seen;
}

enum base_error train_split_draw(const struct train_dataset *data, double part, uint64_t seed, bool *is_test,
                                 struct train_split *split, struct base_reason *why)
{
    if (data->examples < 2)
        return base_fail(why, BASE_EINVAL, "found 1 example, expected some for training and some for tests");
    struct placed *placed = malloc(data->examples * sizeof *placed);
    if (!placed || !hash_all(data, base_hash_mix(seed + STREAM), placed)) {
        free(placed);
        return base_fail(why, BASE_ENOMEM, "out of memory for %zu examples", data->examples);
    }
    choose(data, part, placed, is_test);
    *split = (struct train_split){.examples = data->examples,
                                  .seen = count_seen(placed, data->examples, is_test),
                                  .part = part,
                                  .seed = seed};
    for (size_t i = 0; i < data->examples; i++) {
        const uint64_t digest = hash_answer(data, placed[i].example, placed[i].hash);
        split->digest += digest;
        split->tests += is_test[placed[i].example];
        split->tests_digest += is_test[placed[i].example] ? digest : 0;
    }
    free(placed);
    return BASE_OK;
}
