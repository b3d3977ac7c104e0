// The examples of one shard of all.
#include "node/learn/data.h"

#include <stdlib.h>

#define LEAST_EXAMPLES 10u // of a Dirichlet shard, if there are enough examples

static enum base_error partition(const struct node_config *config, const struct train_dataset *all,
                                 uint32_t *owner, struct base_reason *why)
{
    size_t shards = config->data.shards;
    if (config->data.partition == NODE_PARTITION_CONTIGUOUS)
        return train_partition_contiguous(all->examples, shards, owner);
    if (config->data.partition == NODE_PARTITION_IID)
        return train_partition_iid(all->examples, shards, config->data.seed, owner);
    size_t even = all->examples / shards, least = even < LEAST_EXAMPLES ? even : LEAST_EXAMPLES;
    return train_partition_dirichlet(all->labels, all->examples, all->classes, shards, config->data.alpha,
                                     least, config->data.seed, owner, why);
}

// Replaces the owner of each example by the shard that trains on it now.
static enum base_error pass_on(const struct node_config *config, const struct train_dataset *all,
                               const bool *living, uint32_t *owner, struct base_reason *why)
{
    enum base_error error =
        train_partition_living(owner, all->examples, living, config->data.shards, config->data.seed, owner);
    return error ? base_fail(why, error, "the %zu examples cannot be reassigned", all->examples) : BASE_OK;
}

enum base_error node_data_owners(const struct node_config *config, const struct train_dataset *all,
                                 const bool *living, uint32_t *owner, struct base_reason *why)
{
    if (all->examples < config->data.shards)
        return base_fail(why, BASE_EINVAL,
                         "data.shards: %zu training examples cannot be divided among %zu shards; give every "
                         "shard at least one",
                         all->examples, (size_t)config->data.shards);
    enum base_error error = partition(config, all, owner, why);
    return !error && living ? pass_on(config, all, living, owner, why) : error;
}

// The examples of a shard, ascending; *rows is the caller's.
static enum base_error rows_of(const uint32_t *owner, size_t examples, size_t shard, uint32_t **rows,
                               size_t *count, struct base_reason *why)
{
    for (size_t i = 0; i < examples; i++)
        *count += owner[i] == shard;
    if (*count == 0)
        return base_fail(why, BASE_EINVAL,
                         "data.shard: shard %zu got no example; use fewer shards or a larger data.alpha",
                         shard);
    *rows = malloc(*count * sizeof **rows);
    if (!*rows)
        return base_fail(why, BASE_ENOMEM, "out of memory for a shard of %zu examples", *count);
    for (size_t i = 0, row = 0; i < examples; i++)
        if (owner[i] == shard)
            (*rows)[row++] = (uint32_t)i;
    return BASE_OK;
}

enum base_error node_data_take(const struct train_dataset *all, const uint32_t *owner, size_t shard,
                               struct train_dataset *train, struct base_reason *why)
{
    uint32_t *rows = NULL;
    size_t count = 0;
    enum base_error error = rows_of(owner, all->examples, shard, &rows, &count, why);
    if (error)
        return error;
    error = train_dataset_subset(all, rows, count, train);
    free(rows);
    return error ? base_fail(why, error, "out of memory for a shard of %zu examples", count) : BASE_OK;
}

// The labels are generated first; they decide which examples belong to the shard.
enum base_error node_data_draw(const struct node_config *config, size_t shard, const bool *living,
                               struct train_dataset *train, struct base_reason *why)
{
    struct node_data_ranges ranges;
    struct train_dataset all = {0};
    uint32_t *owner = NULL, *rows = NULL;
    size_t count = 0;
    node_config_data_ranges(config, &ranges);
    enum base_error error =
        train_dataset_outline_digits(config->data.seed, ranges.train_first, ranges.train_count, &all, why);
    if (!error) {
        owner = malloc((all.examples + 1) * sizeof *owner);
        error = owner ? BASE_OK
                      : base_fail(why, BASE_ENOMEM, "out of memory for the partition of %zu examples",
                                  all.examples);
    }
    if (!error)
        error = node_data_owners(config, &all, living, owner, why);
    if (!error)
        error = rows_of(owner, all.examples, shard, &rows, &count, why);
    if (!error)
        error = train_dataset_draw_digits(config->data.seed, ranges.train_first, rows, count, train, why);
    if (!error)
        train->whole = all.examples;
    free(rows);
    free(owner);
    train_dataset_destroy(&all);
    return error;
}
