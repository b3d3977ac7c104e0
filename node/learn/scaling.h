// The scaling of a node, computed from the examples of all nodes (data.scale_from: cluster). It belongs to
// the model: snapshots and checkpoints contain it in a blob, and a node that takes a model takes its scaling,
// too. Owned by the learner thread once that runs; nothing else changes data and meaning.
#ifndef NODE_LEARN_SCALING_H
#define NODE_LEARN_SCALING_H

#include "base/error.h"
#include "gossip/blob.h"
#include "train/scale.h"

struct node_scaling {
    struct train_dataset *train, *test; // borrowed; with one meaning, opened by train_scale_open
    size_t columns;                     // features, then targets
    struct train_spread *own;           // [columns] of this node's rows as they were read
    struct gossip_blob blob;            // of the scaling in use; 0 bytes: none yet
};

// BASE_EINVAL: more columns than a blob can hold. BASE_ENOMEM.
enum base_error node_scaling_create(struct train_dataset *train, struct train_dataset *test,
                                    struct node_scaling **scaling, struct base_reason *why) BASE_CHECK;
void node_scaling_destroy(struct node_scaling *scaling); // NULL is fine

// Sets the scaling from the statistics of all nodes, spreads[columns]. Does nothing if a scaling is in use.
void node_scaling_agree(struct node_scaling *scaling, const struct train_spread *spreads);
// Takes the scaling of another node, with its model, or of a checkpoint. BASE_EFORMAT: not of these columns,
// or no scaling (train_scale_is_plausible): nothing has changed.
enum base_error node_scaling_take(struct node_scaling *scaling, const struct gossip_blob *blob,
                                  struct base_reason *why) BASE_CHECK;

#endif
