// The learner's own state. Private to learner.c (what comes next) and boundary.c (messages and
// rendezvous).
#ifndef NODE_LEARN_PRIVATE_H
#define NODE_LEARN_PRIVATE_H

#include "node/learn/distance.h"
#include "node/learn/learner.h"
#include "node/learn/takeover.h"
#include <pthread.h>

struct node_learner {
    struct node_learner_options options;
    pthread_t thread;
    struct gossip_learner learner; // in use: the built-in trainer, or options.other
    struct gossip_learner_vectors vectors;
    struct gossip_rounds rounds; // what comes next
    float *device_scratch;       // [parameters] for evaluation on a device; NULL where the vectors are there
    uint64_t progress_ns;
    uint64_t checkpoint_due_ns;               // the next one, 0: at once
    uint64_t checkpoint_again_ns, failure_ns; // not before; the latest that failed, 0: none
    const char *state;                        // as last reported
    double accuracy;                          // latest measured
    double reported;                          // by the program, in this round; NAN: not
    double rmse;                              // of a regression, likewise
    bool regression;
    uint64_t given_steps; // by options.other in this process
    double loss, rate;    // of the latest round that had steps, NAN before
    double pace;          // of this node's steps over the median of its neighbours'
    uint64_t step_ns;     // of one step, as the learner reported it
    struct gossip_exchange_totals totals;
    struct gossip_round_account account; // of the round whose row is to be written
    bool merged;                         // the model is that of all nodes
    bool merge_refused;                  // it is this node's own: that of all nodes was worse
    size_t merged_nodes;
    struct gossip_id donor; // of the latest model that was fetched
    struct node_adopted adopted;
    struct gossip_learner_verdict verdict; // about the latest model that was offered
    struct train_score own;                // then: of this node's own final model; NAN: not measured
    struct node_distance distance;         // of the models, over the latest exchanges
    struct train_spread *spreads;          // for the scaling, from the loop; NULL: not here yet
    struct node_shards *shards;            // NULL: nothing is ever taken over
    struct node_message *weight;           // the latest of its kind that is not carried out yet, or NULL
    bool round_is_over;                    // its row is to be written
    bool offered;                          // others may take the model during the steps
    enum gossip_learner_result result;     // of the latest steps
    uint64_t own_rounds, last_round;       // ended by this process; the round of its latest report
    uint64_t late_missed, adopted_step, late_rounds, exchanges_before; // struct node_progress
    double usual_consensus;
    struct gossip_look look;           // its model is NULL where neighbours are not judged
    bool told_finished, told_diverged; // told_diverged: of a program's losses, until they recover
    char refused[256];                 // why a received model cannot be used; ""
    bool checkpoint_failed;            // the latest one
    bool save;                         // one was requested
    bool announced;                    // to `other`: one is due at the next boundary
    bool row_failed;                   // of metrics.jsonl, the latest one
    uint64_t disk_ns, disk_free;       // when it was read for node.dir, and its value
};

// The steps that this process has computed, and the examples in them (NODE_NOT_COUNTED: not known).
uint64_t node_learner_own_steps(const struct node_learner *l);
uint64_t node_learner_own_examples(const struct node_learner *l);
void node_learner_note_way(struct node_learner *l, enum gossip_learner_change change); // rounds have passed
struct gossip_look *node_learner_look(struct node_learner *l); // NULL: neighbours are not judged
// Of the losses, or NULL: nothing watches them.
const struct train_watch *node_learner_watch(const struct node_learner *l);
void node_learner_post(struct node_learner *l, struct node_message *message); // to the loop
// At most ten times a second, except for a new state or when `always`.
void node_learner_tell(struct node_learner *l, const char *state, bool always);
// Handles the messages that are there; if there are none and `wait`, waits for one.
void node_learner_listen(struct node_learner *l, bool wait);
void node_learner_agree(struct node_learner *l); // on the scaling, once its statistics are here
// Rendezvous: the worker has the vectors until it answers.
void node_learner_meet(struct node_learner *l, const struct gossip_rounds_meet *meet);
void node_learner_offer(struct node_learner *l); // its vectors, where no boundary precedes the steps
// Likewise, until a snapshot is complete (true) or is given up.
bool node_learner_fetch(struct node_learner *l);
// The exchange takes the last good vectors of the learner, as those of `round`.
void node_learner_return(struct node_learner *l, uint64_t round);
// Likewise, until the final models are one (true) or that is given up. *model: what the node is to end with,
// for node_learner_put, which frees it.
bool node_learner_merge(struct node_learner *l, bool gives, float **model);
void node_learner_put(struct node_learner *l, float *model);
bool node_learner_checkpoint_is_due(const struct node_learner *l);
// Other examples to train on, once they are there.
void node_learner_take_shards(struct node_learner *l);
void node_learner_take_weight(struct node_learner *l); // of this node, beside nodes with other examples

#endif
