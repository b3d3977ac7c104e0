// Applies a chain of filters. Entries pass in runs that stay in the L1 cache: each filter flags the entries
// of a run, then the run is compacted, so the next filter sees only the remaining entries. On a device the
// list, about a hundredth of the model, is copied to the host, filtered and copied back.
#include "compress/filter.h"

#include <stdlib.h>
#include <string.h>

#define RUN      1024u
#define PREFETCH 32u // prefetch distance in entries: their elements of x are far apart

// A list in ordinary memory that passes through the chain.
struct list {
    uint32_t *index;
    float *value;
    const float *model; // [count] x at the entries; NULL: it is read from `x`
    const float *x;     // the whole vector; NULL: no filter reads it
    size_t count;
};

static bool chain_drops(const struct compress_filters *filters)
{
    bool drops = false;
    for (size_t i = 0; i < filters->count; i++)
        drops |= filters->chain[i].filter->keep != NULL;
    return drops;
}

// Does a filter at this place or later read x?
static bool chain_reads_model(const struct compress_filters *filters, size_t place)
{
    bool reads = false;
    for (size_t i = place; i < filters->count; i++)
        reads |= filters->chain[i].filter->reads_model;
    return reads;
}

// entries_compact and model_compact keep the flagged entries, in order, without a branch on a flag, which
// would be mispredicted.
static size_t entries_compact(const uint8_t *keep, size_t count, uint32_t *index, float *value)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        index[kept] = index[i];
        value[kept] = value[i];
        kept += keep[i] != 0;
    }
    return kept;
}

static void model_compact(const uint8_t *keep, size_t count, float *model)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        model[kept] = model[i];
        kept += keep[i] != 0;
    }
}

static void run_model(const struct list *list, size_t first, size_t count, float model[RUN])
{
    if (list->model) {
        memcpy(model, list->model + first, count * sizeof *model);
    } else if (list->x) {
        const uint32_t *index = list->index + first;
        size_t ahead = list->count - first > PREFETCH ? list->count - first - PREFETCH : 0;
        for (size_t i = 0; i < count; i++) {
            if (i < ahead)
                __builtin_prefetch(&list->x[index[i + PREFETCH]]);
            model[i] = list->x[index[i]];
        }
    }
}

static size_t run_filter(const struct compress_filters *filters, uint64_t seed, uint32_t *index, float *value,
                         float *model, size_t count)
{
    uint8_t keep[RUN];
    for (size_t i = 0; i < filters->count && count > 0; i++) {
        const struct compress_filter *filter = filters->chain[i].filter;
        struct compress_filter_run run = {index, value, filter->reads_model ? model : NULL, count, seed};
        if (!filter->keep)
            continue;
        filter->keep(filters->chain[i].number, &run, keep);
        if (chain_reads_model(filters, i + 1))
            model_compact(keep, count, model);
        count = entries_compact(keep, count, index, value);
    }
    return count;
}

static size_t list_filter(const struct compress_filters *filters, uint64_t seed, struct list *list)
{
    float model[RUN];
    size_t kept = 0;
    for (size_t first = 0; first < list->count; first += RUN) {
        size_t count = list->count - first < RUN ? list->count - first : RUN;
        uint32_t *index = list->index + first;
        float *value = list->value + first;
        run_model(list, first, count, model);
        count = run_filter(filters, seed, index, value, model, count);
        memmove(list->index + kept, index, count * sizeof *index);
        memmove(list->value + kept, value, count * sizeof *value);
        kept += count;
    }
    return kept;
}

// A host copy of a list in a device's memory; `model` only if a filter reads it.
struct staging {
    uint32_t *index;
    float *value, *model;
    float *picked; // in the backend's memory
};

static void staging_release(const struct kernels *kernels, struct staging *staging)
{
    if (staging->picked)
        kernels->release(staging->picked);
    free(staging->model);
    free(staging->value);
    free(staging->index);
}

static enum base_error staging_create(const struct kernels *kernels, size_t count, bool reads_model,
                                      struct staging *staging)
{
    *staging = (struct staging){.index = malloc(count * sizeof(uint32_t)),
                                .value = malloc(count * sizeof(float)),
                                .model = reads_model ? malloc(count * sizeof(float)) : NULL,
                                .picked = reads_model ? kernels->alloc(count * sizeof(float)) : NULL};
    if (staging->index && staging->value && (!reads_model || (staging->model && staging->picked)))
        return BASE_OK;
    staging_release(kernels, staging);
    return BASE_ENOMEM;
}

static enum base_error device_drop(const struct compress_filters *filters, const struct compress_turn *turn,
                                   bool reads_model, struct compress_sparse *entries)
{
    const struct kernels *kernels = turn->kernels;
    struct staging staging;
    size_t count = entries->count;
    enum base_error error = staging_create(kernels, count, reads_model, &staging);
    if (error)
        return error;
    kernels->download(staging.index, entries->index, count * sizeof *entries->index);
    kernels->download(staging.value, entries->value, count * sizeof *entries->value);
    if (reads_model) {
        const struct kernels_difference x = {.x = turn->a->x, .r = NULL, .count = turn->a->count};
        kernels->select->pick(&x, count, entries->index, staging.picked);
        kernels->download(staging.model, staging.picked, count * sizeof *staging.model);
    }
    struct list list = {
        .index = staging.index, .value = staging.value, .model = staging.model, .count = count};
    entries->count = list_filter(filters, turn->seed, &list);
    kernels->upload(entries->index, staging.index, entries->count * sizeof *entries->index);
    kernels->upload(entries->value, staging.value, entries->count * sizeof *entries->value);
    kernels->wait(); // the staging memory is released next
    staging_release(kernels, &staging);
    return BASE_OK;
}

enum base_error compress_filters_drop(const struct compress_filters *filters,
                                      const struct compress_turn *turn, struct compress_sparse *entries)
{
    if (!chain_drops(filters) || entries->count == 0)
        return BASE_OK;
    bool reads_model = chain_reads_model(filters, 0);
    if (!turn->kernels->shares_host)
        return device_drop(filters, turn, reads_model, entries);
    struct list list = {.index = entries->index,
                        .value = entries->value,
                        .x = reads_model ? turn->a->x : NULL,
                        .count = entries->count};
    entries->count = list_filter(filters, turn->seed, &list);
    return BASE_OK;
}

// The indices that a filter provides are used as addresses, so its contract is checked.
static void assert_ascending(const uint32_t *index, size_t count, size_t below)
{
    bool ascending = index[count - 1] < below;
    for (size_t i = 1; i < count; i++)
        ascending &= index[i - 1] < index[i];
    BASE_ASSERT(ascending);
}

static size_t chain_choose(const struct compress_filters *filters, const struct compress_turn *turn,
                           uint32_t *index, size_t room)
{
    size_t count = 0;
    for (size_t i = 0; i < filters->count && count == 0; i++) {
        const struct compress_filter *filter = filters->chain[i].filter;
        if (filter->choose)
            count = filter->choose(filters->chain[i].number, turn, index, room);
    }
    BASE_ASSERT(count <= room);
    if (count > 0)
        assert_ascending(index, count, turn->a->count);
    return count;
}

bool compress_filters_remember(const struct compress_filters *filters)
{
    bool chooses = false;
    for (size_t i = 0; i < filters->count; i++)
        chooses |= filters->chain[i].filter->choose != NULL;
    return chooses;
}

enum base_error compress_filters_choose(const struct compress_filters *filters,
                                        const struct compress_turn *turn, struct compress_sparse *entries,
                                        bool *chosen)
{
    const struct kernels *kernels = turn->kernels;
    uint32_t *index = entries->index;
    *chosen = false;
    if (!compress_filters_remember(filters) || entries->capacity == 0)
        return BASE_OK;
    if (!kernels->shares_host && !(index = malloc(entries->capacity * sizeof *index)))
        return BASE_ENOMEM;
    size_t count = chain_choose(filters, turn, index, entries->capacity);
    if (count > 0) {
        if (index != entries->index)
            kernels->upload(entries->index, index, count * sizeof *index);
        kernels->select->pick(turn->a, count, entries->index, entries->value);
        entries->count = count;
        *chosen = true;
    }
    if (index != entries->index) {
        kernels->wait();
        free(index);
    }
    return BASE_OK;
}
