// The examples of one node (or of all nodes together) from the configuration: loaded, partitioned, cut to the
// shard. The same for the same configuration on every machine. Before threads start.
#ifndef NODE_DATA_H
#define NODE_DATA_H

#include "base/error.h"
#include "node/config.h"
#include "train/dataset.h"

#define NODE_DATA_ALL SIZE_MAX // instead of a shard: the training examples of all shards

// `test` may be NULL. On error both are as they were. The configuration has passed node_config_check.
enum base_error node_data_load(const struct node_config *config, size_t shard, struct train_dataset *train,
                               struct train_dataset *test, struct base_reason *why) BASE_CHECK;

#endif
