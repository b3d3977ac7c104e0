#include "train/meaning.h"
#include "base/array.h"
#include "base/hash.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct train_meaning *train_meaning_create(size_t features)
{
    struct train_meaning *meaning = calloc(1, sizeof *meaning);
    if (!meaning)
        return NULL;
    atomic_init(&meaning->owners, 1);
    meaning->features = features;
    return meaning;
}

struct train_meaning *train_meaning_share(struct train_meaning *meaning)
{
    if (meaning)
        atomic_fetch_add_explicit(&meaning->owners, 1, memory_order_relaxed);
    return meaning;
}

void train_meaning_release(struct train_meaning *meaning)
{
    if (!meaning || atomic_fetch_sub_explicit(&meaning->owners, 1, memory_order_acq_rel) > 1)
        return;
    for (size_t i = 0; i < meaning->n_columns; i++) {
        free(meaning->columns[i].name);
        train_names_free(&meaning->columns[i].categories);
    }
    free(meaning->columns);
    train_names_free(&meaning->classes);
    train_names_free(&meaning->targets);
    train_names_free(&meaning->layout);
    free(meaning->label);
    free(meaning->shift);
    free(meaning->factor);
    free(meaning->target_shift);
    free(meaning->target_factor);
    free(meaning);
}

static uint64_t join(uint64_t hash, const void *data, size_t bytes)
{
    const uint64_t length = bytes;
    return base_hash_bytes(base_hash_bytes(hash, &length, sizeof length), data, bytes);
}

static uint64_t join_names(uint64_t hash, const struct train_names *names)
{
    const uint64_t count = names->count;
    hash = join(hash, &count, sizeof count);
    for (size_t i = 0; i < names->count; i++)
        hash = join(hash, names->items[i], strlen(names->items[i]));
    return hash;
}

static uint64_t join_floats(uint64_t hash, const float *values, size_t count)
{
    return !values ? hash : join(hash, values, count * sizeof *values);
}

static uint64_t join_doubles(uint64_t hash, const double *values, size_t count)
{
    return !values ? hash : join(hash, values, count * sizeof *values);
}

uint64_t train_meaning_digest(const struct train_meaning *meaning)
{
    if (!meaning)
        return 0;
    const uint64_t sizes[] = {meaning->features, meaning->n_columns, meaning->height,
                              meaning->width,    meaning->channels,  (uint64_t)meaning->scale};
    uint64_t hash = join(0x6d65616e696e67ull, sizes, sizeof sizes);
    for (size_t i = 0; i < meaning->n_columns; i++) {
        hash = join(hash, meaning->columns[i].name, strlen(meaning->columns[i].name));
        hash = join_names(hash, &meaning->columns[i].categories);
    }
    hash = join_names(join_names(hash, &meaning->classes), &meaning->targets);
    hash = join_doubles(hash, meaning->shift, meaning->features);
    hash = join_floats(hash, meaning->factor, meaning->features);
    hash = join_doubles(hash, meaning->target_shift, meaning->targets.count);
    hash = join_floats(hash, meaning->target_factor, meaning->targets.count);
    if (meaning->label)
        hash = join(hash, meaning->label, strlen(meaning->label));
    if (meaning->text != TRAIN_TEXT_NONE)
        hash = join(hash, &(uint64_t){(uint64_t)meaning->text}, sizeof(uint64_t));
    return hash ? hash : 1;
}

void train_meaning_feature(const struct train_meaning *meaning, size_t feature, char *text, size_t capacity)
{
    size_t left = feature;
    for (size_t i = 0; meaning && i < meaning->n_columns; i++) {
        const struct train_column *column = &meaning->columns[i];
        const size_t width = column->categories.count ? column->categories.count : 1;
        if (left < width) {
            if (column->categories.count)
                snprintf(text, capacity, "%s=%s", column->name, column->categories.items[left]);
            else
                snprintf(text, capacity, "%s", column->name);
            return;
        }
        left -= width;
    }
    snprintf(text, capacity, "feature %zu", feature + 1);
}

bool train_names_add(struct train_names *names, const char *text, size_t length)
{
    char *copy = strndup(text, length);
    char **items = copy ? base_array_grow(names->items, names->count, sizeof *items) : NULL;
    if (!items) {
        free(copy);
        return false;
    }
    names->items = items;
    items[names->count++] = copy;
    return true;
}

bool train_names_has(const struct train_names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->items[i], name) == 0)
            return true;
    return false;
}

bool train_names_are_positions(const struct train_names *names)
{
    char number[24];
    for (size_t i = 0; i < names->count; i++) {
        snprintf(number, sizeof number, "%zu", i + 1);
        if (strcmp(names->items[i], number) != 0)
            return false;
    }
    return true;
}

void train_names_free(struct train_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
    *names = (struct train_names){0};
}
