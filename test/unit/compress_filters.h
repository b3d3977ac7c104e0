// For the tests of filters: a list of entries, the vectors that they come from, and the entries that a filter
// left.
#ifndef TEST_UNIT_COMPRESS_FILTERS_H
#define TEST_UNIT_COMPRESS_FILTERS_H

#include "base/rng.h"
#include "compress/filter.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT_MAX 5000u
#define STRIDE    7u // entry i is element 7i + 3
#define ELEMENTS  (STRIDE * COUNT_MAX + 8)

static inline void host_pick(const struct kernels_difference *a, size_t entries, const uint32_t *index,
                             float *value)
{
    for (size_t i = 0; i < entries; i++)
        value[i] = a->x[index[i]] - (a->r ? a->r[index[i]] : 0);
}

static const struct kernels_select host_select = {.pick = host_pick};
static const struct kernels host = {.name = "host", .shares_host = true, .select = &host_select};

// Entries of x - r at every STRIDE-th element, before and after filtering.
struct world {
    float x[ELEMENTS], r[ELEMENTS];
    uint32_t index[COUNT_MAX], kept_index[COUNT_MAX];
    float value[COUNT_MAX], kept_value[COUNT_MAX];
    struct kernels_difference a;
    struct compress_turn turn;
    struct compress_sparse entries;
};
static struct world world;

static inline void world_fill(size_t count)
{
    struct base_rng rng;
    base_rng_seed(&rng, 20261121 + count);
    for (size_t i = 0; i < ELEMENTS; i++) {
        world.x[i] = i % 5 == 0 ? 0 : (float)base_rng_normal(&rng);
        world.r[i] = world.x[i] + 0.1f * (float)base_rng_normal(&rng);
        if (i % 11 == 0)
            world.r[i] = world.x[i] * 1.25f; // exactly at a threshold of 1/4
        if (i % 13 == 0)
            world.r[i] = world.x[i] - ldexpf(1, -(int)base_rng_below(&rng, 40));
    }
    for (size_t i = 0; i < count; i++) {
        world.index[i] = world.kept_index[i] = STRIDE * (uint32_t)i + 3;
        world.value[i] = world.kept_value[i] = world.x[world.index[i]] - world.r[world.index[i]];
    }
    world.a = (struct kernels_difference){.x = world.x, .r = world.r, .count = ELEMENTS};
    world.turn = (struct compress_turn){.kernels = &host, .a = &world.a, .seed = 99};
    world.entries = (struct compress_sparse){
        .index = world.kept_index, .value = world.kept_value, .count = count, .capacity = count};
}

static inline struct compress_filters chain_of(const char *text)
{
    struct compress_filters filters;
    struct base_reason why;
    if (compress_filters_parse(text, &filters, &why))
        fail_msg("%s: %s", text, why.text);
    return filters;
}

static inline void world_drop(const char *text)
{
    struct compress_filters filters = chain_of(text);
    assert_int_equal(compress_filters_drop(&filters, &world.turn, &world.entries), BASE_OK);
}

// The kept entries are those for which `kept` is true, in order and with their values.
static inline void assert_keeps(size_t count, bool (*kept)(size_t i))
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (!kept(i))
            continue;
        assert_true(n < world.entries.count);
        assert_int_equal(world.kept_index[n], world.index[i]);
        assert_memory_equal(&world.kept_value[n], &world.value[i], sizeof(float));
        n++;
    }
    assert_int_equal(world.entries.count, n);
}

static const size_t counts[] = {0, 1, 2, 63, 1023, 1024, 1025, 2048, 2049, COUNT_MAX};
#define COUNTS (sizeof counts / sizeof *counts)

static inline bool all(size_t i)
{
    (void)i;
    return true;
}

#endif
