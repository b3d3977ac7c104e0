// The learners of a simulation: for each node its shard of the data, its model and its trainer, made by the
// functions that p2pml-node uses and with the same seeds, so that a node of `p2pml run` and its counterpart
// here see the same batches. The data are loaded once. Different threads may use the trainers of different
// nodes at the same time.
#ifndef LAB_COMPUTE_SHARD_TRAINERS_H
#define LAB_COMPUTE_SHARD_TRAINERS_H

#include "lab/compute/evaluate.h"
#include "train/trainer.h"

struct lab_shard_trainers;

// `bench` is borrowed for life: loaded and opened. BASE_EINVAL, BASE_ENOMEM with the reason.
enum base_error lab_shard_trainers_create(const struct lab_experiment *experiment,
                                          const struct lab_workbench *bench,
                                          struct lab_shard_trainers **shard_trainers,
                                          struct base_reason *why) BASE_CHECK;
void lab_shard_trainers_destroy(struct lab_shard_trainers *shard_trainers); // NULL is fine
const float *
lab_shard_trainers_start(const struct lab_shard_trainers *shard_trainers); // [parameters] the seed model
struct train_trainer *lab_shard_trainer_trainer(struct lab_shard_trainers *shard_trainers, size_t node);
struct train_model *lab_shard_trainer_model(struct lab_shard_trainers *shard_trainers,
                                            size_t node); // of that trainer
// living[s]: whether shard s has a living node; true for the shard of `node`. From its next step on, the node
// also trains on its part of the dead shards (node/learn/data.h); if all are alive, only on its own shard.
enum base_error lab_shard_trainer_share(struct lab_shard_trainers *shard_trainers, size_t node,
                                        const bool *living, struct base_reason *why) BASE_CHECK;
// From now on class i of this node's examples is called class classes - 1 - i: an attacker. The data have
// labels.
void lab_shard_trainer_flip(struct lab_shard_trainers *shard_trainers, size_t node);
// Starts the node again from the seed model at step 0, like a process without a checkpoint.
enum base_error lab_shard_trainer_restart(struct lab_shard_trainers *shard_trainers, size_t node,
                                          struct base_reason *why) BASE_CHECK;

#endif
