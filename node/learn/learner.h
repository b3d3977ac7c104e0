// The learner thread: carries out what gossip/life/rounds.h decides, with the built-in trainer or another
// learner (gossip/life/learner.h); evaluates the model and writes metrics.jsonl. Owns the trainer.
#ifndef NODE_LEARN_LEARNER_H
#define NODE_LEARN_LEARNER_H

#include "node/learn/built_in.h"
#include "node/learn/scaling.h"
#include "node/queue/counters.h"
#include "node/queue/mailbox.h"
#include "node/queue/message.h"
#include "node/store/keeper.h"
#include "node/store/metrics.h"
#include "node/store/rounds.h"
#include "node/store/tensorboard.h"

struct node_learner;

struct node_learner_options {
    const struct node_config *config;    // all borrowed
    struct node_built_in *trainee;       // on this node's shard; no more steps after join. NULL: `other` runs
    const struct gossip_learner *other;  // another learner: nothing is measured, no shard is taken over
    const struct train_watch *watch;     // of the losses of `other`: it is only told; or NULL
    double *weight;                      // of the gradients of `other`, written before its steps; or NULL
    struct train_model *model;           // of the trainee
    const struct train_dataset *test;    // to measure on, or NULL
    struct node_scaling *scaling;        // of these data, computed from the examples of all nodes, or NULL
    struct gossip_rounds_options resume; // where it begins: round, step, resumed, open, open_scale
    bool unsettled;                      // resumed: the learner has not been told EXCHANGED of that round yet
    struct node_metrics *metrics;
    struct node_rounds *rounds;           // takes the lines of metrics.jsonl, too; or NULL
    struct node_keeper *keeper;           // of node.dir, or NULL
    struct node_tensorboard *tensorboard; // NULL: none
    struct node_mailbox *inbox, *worker, *loop;
    struct node_counters *counters;
};

enum base_error node_learner_start(const struct node_learner_options *options,
                                   struct node_learner **learner) BASE_CHECK;
// Of `other`, from `steps` to `boundary`, by whichever thread takes them: whether the next boundary writes a
// checkpoint, if it can. That is decided before the steps, so that a program can have its state ready.
bool node_learner_saves(const struct node_learner *learner);
void node_learner_join(struct node_learner *learner); // after it posted NODE_MESSAGE_LEFT; frees

#endif
