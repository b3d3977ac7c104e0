// The learner thread: local steps, round boundaries, outer momentum, evaluation, metrics.jsonl. Owns the
// trainer.
#ifndef NODE_LEARNER_H
#define NODE_LEARNER_H

#include "node/config.h"
#include "node/counters.h"
#include "node/mail.h"
#include "node/mailbox.h"
#include "node/metrics.h"
#include "train/trainer.h"

struct node_learner;

struct node_learner_options {
    const struct node_config *config; // all borrowed
    struct train_trainer *trainer;    // on this node's shard; after join it takes no more steps
    struct train_model *model;
    const struct train_dataset *test;
    float *outer;         // [parameters] V of the outer momentum, or NULL when it is off (in checkpoints:
                          // "outer.momentum")
    uint64_t first_round; // rounds done before a resume
    struct node_metrics *metrics;
    struct node_mailbox *inbox, *worker, *loop;
    struct node_counters *counters;
};

enum base_error node_learner_start(const struct node_learner_options *options,
                                   struct node_learner **learner) BASE_CHECK;
void node_learner_join(struct node_learner *learner); // after it posted NODE_MAIL_LEFT; frees

#endif
