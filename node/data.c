#include "node/data.h"
#include <stdlib.h>

#define LEAST_EXAMPLES 10u // of a Dirichlet shard, where there are enough

static enum base_error load(const struct node_config *config, bool test, struct train_dataset *data,
                            struct base_reason *why)
{
    struct node_data_ranges ranges;
    node_config_data_ranges(config, &ranges);
    size_t first = test ? ranges.test_first : ranges.train_first,
           count = test ? ranges.test_count : ranges.train_count;
    switch (config->data.kind) {
    case NODE_DATA_IDX:
        return train_dataset_load_idx(test ? config->data.test_images : config->data.train_images,
                                      test ? config->data.test_labels : config->data.train_labels, first,
                                      count, config->data.classes, data, why);
    case NODE_DATA_LIBSVM:
        return train_dataset_load_libsvm(test ? config->data.test_file : config->data.train_file,
                                         config->data.features, config->data.classes, first, count, data,
                                         why);
    default:
        return train_dataset_make_digits(config->data.seed, first, count, data, why);
    }
}

static enum base_error partition(const struct node_config *config, const struct train_dataset *all,
                                 uint32_t *owner, struct base_reason *why)
{
    size_t shards = config->data.shards;
    if (config->data.partition == NODE_PARTITION_IID)
        return train_partition_iid(all->examples, shards, config->data.seed, owner);
    size_t even = all->examples / shards, least = even < LEAST_EXAMPLES ? even : LEAST_EXAMPLES;
    return train_partition_dirichlet(all->labels, all->examples, all->classes, shards, config->data.alpha,
                                     least, config->data.seed, owner, why);
}

// From the owners to who trains on what now.
static enum base_error pass_on(const struct node_config *config, const struct train_dataset *all,
                               const bool *living, uint32_t *owner, struct base_reason *why)
{
    enum base_error code =
        train_partition_living(owner, all->examples, living, config->data.shards, config->data.seed, owner);
    return code == BASE_OK ? BASE_OK
                           : base_fail(why, code, "the %zu examples can't be passed on", all->examples);
}

enum base_error node_data_owners(const struct node_config *config, const struct train_dataset *all,
                                 const bool *living, uint32_t *owner, struct base_reason *why)
{
    if (all->examples < config->data.shards)
        return base_fail(why, BASE_EINVAL,
                         "data.shards: %zu training examples can't be dealt out to %zu shards; give every "
                         "shard at least one",
                         all->examples, (size_t)config->data.shards);
    enum base_error code = partition(config, all, owner, why);
    return code == BASE_OK && living ? pass_on(config, all, living, owner, why) : code;
}

enum base_error node_data_take(const struct train_dataset *all, const uint32_t *owner, size_t shard,
                               struct train_dataset *train, struct base_reason *why)
{
    size_t count = 0;
    for (size_t i = 0; i < all->examples; i++)
        count += owner[i] == shard;
    if (count == 0)
        return base_fail(why, BASE_EINVAL,
                         "data.shard: shard %zu got no example; use fewer shards or a larger data.alpha",
                         shard);
    uint32_t *rows = malloc(count * sizeof *rows);
    enum base_error code = rows ? BASE_OK : BASE_ENOMEM;
    for (size_t i = 0, row = 0; rows && i < all->examples; i++)
        if (owner[i] == shard)
            rows[row++] = (uint32_t)i;
    if (code == BASE_OK)
        code = train_dataset_subset(all, rows, count, train);
    free(rows);
    return code == BASE_OK ? code : base_fail(why, code, "out of memory for a shard of %zu examples", count);
}

// Replaces the whole set by what `shard` trains on; `living` NULL: all.
static enum base_error cut(const struct node_config *config, size_t shard, const bool *living,
                           struct train_dataset *data, struct base_reason *why)
{
    struct train_dataset subset = {0};
    uint32_t *owner = malloc((data->examples + 1) * sizeof *owner);
    if (!owner)
        return base_fail(why, BASE_ENOMEM, "out of memory for the partition of %zu examples", data->examples);
    enum base_error code = node_data_owners(config, data, living, owner, why);
    if (code == BASE_OK)
        code = node_data_take(data, owner, shard, &subset, why);
    free(owner);
    if (code != BASE_OK)
        return code;
    train_dataset_destroy(data);
    *data = subset;
    return BASE_OK;
}

enum base_error node_data_load(const struct node_config *config, size_t shard, struct train_dataset *train,
                               struct train_dataset *test, struct base_reason *why)
{
    struct train_dataset examples = {0}, tests = {0};
    enum base_error code = load(config, false, &examples, why);
    if (code == BASE_OK && shard != NODE_DATA_ALL && config->data.shards > 1)
        code = cut(config, shard, NULL, &examples, why);
    if (code == BASE_OK && test)
        code = load(config, true, &tests, why);
    if (code == BASE_OK && test && tests.features != examples.features)
        code = base_fail(why, BASE_EMISMATCH, "the test examples have %zu features, those to train on %zu",
                         tests.features, examples.features);
    if (code != BASE_OK) {
        train_dataset_destroy(&examples);
        train_dataset_destroy(&tests);
        return code;
    }
    *train = examples;
    if (test)
        *test = tests;
    return BASE_OK;
}

enum base_error node_data_load_tests(const struct node_config *config, struct train_dataset *test,
                                     struct base_reason *why)
{
    return load(config, true, test, why);
}

enum base_error node_data_load_living(const struct node_config *config, size_t shard, const bool *living,
                                      struct train_dataset *train, struct base_reason *why)
{
    struct train_dataset examples = {0};
    BASE_ASSERT(shard < config->data.shards && living[shard]);
    enum base_error code = load(config, false, &examples, why);
    if (code == BASE_OK && config->data.shards > 1)
        code = cut(config, shard, living, &examples, why);
    if (code != BASE_OK) {
        train_dataset_destroy(&examples);
        return code;
    }
    *train = examples;
    return BASE_OK;
}

double node_data_weight(const struct node_config *config, const struct train_dataset *data, size_t living)
{
    if (config->train.weight > 0)
        return config->train.weight;
    if (data->examples == data->whole)
        return 1.0;
    return (double)data->examples * (double)living / (double)data->whole;
}
