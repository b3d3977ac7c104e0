// The examples of one node (or of all nodes together) from the configuration: loaded, partitioned, cut to the
// shard. The same for the same configuration on every machine. Any thread; blocking.
#ifndef NODE_LEARN_DATA_H
#define NODE_LEARN_DATA_H

#include "base/error.h"
#include "node/config/config.h"
#include "train/dataset.h"

struct train_meaning;

#define NODE_DATA_ALL SIZE_MAX // instead of a shard: the training examples of all shards

// `test` may be NULL. On error both are as they were. The configuration has passed node_config_check.
enum base_error node_data_load(const struct node_config *config, size_t shard, struct train_dataset *train,
                               struct train_dataset *test, struct base_reason *why) BASE_CHECK;

// All examples of the training file as it is, to be looked at: dense, not divided and not scaled, with the
// rests of their numbers (train/dataset.h).
enum base_error node_data_load_whole(const struct node_config *config, struct train_dataset *data,
                                     struct base_reason *why) BASE_CHECK;

// The same for a node with a file of its own whose scaling is computed from the examples of all nodes
// (node_config_gathers). The data are not scaled yet; train_scale_open has made their meaning.
enum base_error node_data_load_open(const struct node_config *config, struct train_dataset *train,
                                    struct train_dataset *test, struct base_reason *why) BASE_CHECK;

// The test examples alone. `like`: the meaning of the data according to a model, whose columns, classes and
// statistics then apply, and test->split describes a whole test file, with 0 tests; NULL: the training
// examples decide. The configuration has passed node_config_check_tests.
enum base_error node_data_load_tests(const struct node_config *config, struct train_meaning *like,
                                     struct train_dataset *test, struct base_reason *why) BASE_CHECK;

// The training examples of `shard` while only the shards with living[s] (of data.shards) have a node: its own
// and its part of the orphaned ones (train_partition_living). `shard` lives.
enum base_error node_data_load_living(const struct node_config *config, size_t shard, const bool *living,
                                      struct train_dataset *train, struct base_reason *why) BASE_CHECK;

// The same in two steps, for a caller with all examples in memory. owner[all->examples]: the shard that
// trains on each example; `living` as above, NULL: all live. BASE_EINVAL: fewer examples than shards.
enum base_error node_data_owners(const struct node_config *config, const struct train_dataset *all,
                                 const bool *living, uint32_t *owner, struct base_reason *why) BASE_CHECK;
// Copies the examples that `shard` owns. BASE_EINVAL: it owns none.
enum base_error node_data_take(const struct train_dataset *all, const uint32_t *owner, size_t shard,
                               struct train_dataset *train, struct base_reason *why) BASE_CHECK;
// Generates the built-in digits of `shard` only; `living` as above, NULL: all live.
enum base_error node_data_draw(const struct node_config *config, size_t shard, const bool *living,
                               struct train_dataset *train, struct base_reason *why) BASE_CHECK;

// The weight of the gradient over `data` where `living` shards have a node: train.weight, or, if that is 0,
// the number of examples divided by the mean over the living shards. The nodes average their models node by
// node, which is the mean over all examples only if each node counts in proportion to its examples.
double node_data_weight(const struct node_config *config, const struct train_dataset *data, size_t living);

// What 'p2pml data info --stats' writes and data.scale_from names: columns, categories, classes, statistics,
// as JSON. Reading: BASE_EFORMAT, BASE_ELIMIT, BASE_ENOTFOUND with the file and what was expected.
enum base_error node_data_meaning_write(const char *path, const struct train_meaning *meaning,
                                        struct base_reason *why) BASE_CHECK;
enum base_error node_data_meaning_read(const char *path, struct train_meaning **meaning,
                                       struct base_reason *why) BASE_CHECK;

// Warns in the log about what is likely to go wrong with these examples of `shard` (or NODE_DATA_ALL):
// features of very different size, classes that are missing.
void node_data_advise(const struct node_config *config, size_t shard, const struct train_dataset *train,
                      const struct train_dataset *test);
// Likewise about two different files, each described as a whole, with the same seed.
void node_data_advise_test_file(const struct train_split *train, const struct train_split *test);

#endif
