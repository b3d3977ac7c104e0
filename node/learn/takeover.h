// The examples that this node trains on while other shards have no living node: its own, and its part of
// theirs (train_partition_living). A separate thread loads the whole data set again, keeps this part in
// addition to the node's own shard, and ends. Giving shards back needs no file.
//
// One owner (the learner). No call but destroy and wait ever waits for a file. If loading fails, the failure
// is logged, the set in use stays, and loading is tried again after NODE_SHARDS_RETRY_NS.
#ifndef NODE_LEARN_TAKEOVER_H
#define NODE_LEARN_TAKEOVER_H

#include "node/config/config.h"
#include "train/dataset.h"

#define NODE_SHARDS_RETRY_NS 30000000000ull

struct node_shards;

struct node_shards_set {
    const struct train_dataset *data; // the own shard itself if there is nothing to take over
    double weight;                    // of the gradient over it (node_data_weight)
    size_t orphans;                   // shards without a living node
    size_t taken;                     // examples of theirs in `data`
};

// `own`: the node's shard as node_data_load gave it; borrowed, and in use at the beginning, when all shards
// live. Everything needed from the configuration is copied. BASE_ENOMEM.
enum base_error node_shards_create(const struct node_config *config, const struct train_dataset *own,
                                   struct node_shards **shards) BASE_CHECK;
// Also frees the set in use: training on it must have stopped. Waits for a load that is still under way
// until `deadline_ns` (CLOCK_MONOTONIC); a thread that hangs longer, on a network drive for example, is left
// to itself.
void node_shards_destroy(struct node_shards *shards, uint64_t deadline_ns);

// The shards that have a living node, in any order; this node's own shard always has one. Numbers that are
// not shards are ignored. A newer request replaces older ones, whatever their state.
void node_shards_want(struct node_shards *shards, const uint32_t *living, size_t count);

// At a round boundary: is there another set to train on? *set stays valid until node_shards_commit, which
// must be the next call: with `taken` it is in use from then on, and the set before it is freed; else it is
// dropped, and tried again like one that could not be loaded.
bool node_shards_ready(struct node_shards *shards, uint64_t now_ns, struct node_shards_set *set);
void node_shards_commit(struct node_shards *shards, bool taken);

// Waits until nothing is being loaded (true) or the deadline has passed (CLOCK_MONOTONIC; UINT64_MAX: for
// ever).
bool node_shards_wait(struct node_shards *shards, uint64_t deadline_ns);

#endif
