// Lists of ascending indices of many kinds for the tests of the index codes.
#ifndef TEST_PROPERTY_COMPRESS_LISTS_H
#define TEST_PROPERTY_COMPRESS_LISTS_H

#include "base/rng.h"
#include "kernels/cpu/cpu.h"
#include <stdio.h>
#include <stdlib.h>

enum list_kind {
    LIST_UNIFORM,
    LIST_STRETCHES, // stretches of different density, like tensors of different scales
    LIST_RUNS,      // runs of neighbouring indices with long gaps between them
    LIST_FRONT,     // all at the front, and the last element
    LIST_BACK,      // all at the back
    LIST_KINDS
};

struct list {
    uint32_t *index;
    float *value;
    size_t entries, count;
};

static inline uint64_t lists_seed(void)
{
    const char *given = getenv("P2PML_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 20261121;
    printf("P2PML_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static inline bool list_has(struct base_rng *rng, enum list_kind kind, size_t i, size_t count, double density)
{
    static const double stretches[] = {0.01, 1.0, 8.0, 0.1};
    switch (kind) {
    case LIST_UNIFORM:
        return base_rng_uniform(rng) < density;
    case LIST_STRETCHES:
        return base_rng_uniform(rng) < density * stretches[4 * i / count];
    case LIST_RUNS:
        return (i / 40) % 5 == 0 && base_rng_uniform(rng) < 5.0 * density;
    case LIST_FRONT:
        return i < (size_t)((double)count * density) || i + 1 == count;
    case LIST_BACK:
        return i + (size_t)((double)count * density) >= count;
    case LIST_KINDS:
        break;
    }
    return false;
}

static inline struct list list_make(struct base_rng *rng, enum list_kind kind, size_t count, double density)
{
    struct list list = {.index = malloc(count * sizeof *list.index + 1),
                        .value = malloc(count * sizeof *list.value + 1),
                        .count = count};
    BASE_ASSERT(list.index && list.value);
    for (size_t i = 0; i < count; i++) {
        if (list_has(rng, kind, i, count, density)) {
            list.value[list.entries] = (float)base_rng_normal(rng);
            list.index[list.entries++] = (uint32_t)i;
        }
    }
    return list;
}

static inline void list_free(struct list *list)
{
    free(list->index);
    free(list->value);
}

// The paths that this processor has, the plain one first; *paths has room for 3. Prints which are missing.
static inline size_t list_paths(const struct kernels *paths[3])
{
    static const char *const names[] = {"scalar", "avx2", "avx512"};
    size_t found = 0;
    for (size_t i = 0; i < 3; i++) {
        const struct kernels *table = kernels_cpu_table(names[i]);
        if (table)
            paths[found++] = table;
        else
            printf("this processor lacks the path %s: not tested\n", names[i]);
    }
    return found;
}

#endif
