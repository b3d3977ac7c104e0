// A learner (gossip/life/learner.h) whose local steps are taken elsewhere: by the program around libp2pml, or
// by one at the other end of a socket. The vectors change hands:
//
//          steps                    give
//   NODE ---------> PROGRAM ------------------> NODE      ... until OVER
//
// While it is the program's turn, the learner thread waits in `boundary` and touches no vector; in the node's
// turn the program touches none. Where the program can judge (NODE_HOSTED_JUDGED), a model of others is a
// question in the node's turn, JUDGES, which the program answers (node_hosted_judge); meanwhile the vectors
// stay as they are, and the program may read them. The learner thread calls the table; the functions below
// are called by the program, one thread at a time, except release and over, which any thread may call.
// Memory: with NODE_HOSTED_TRACKED two vectors of d floats, and lists of what changed.
#ifndef NODE_LEARN_HOSTED_H
#define NODE_LEARN_HOSTED_H

#include "gossip/blob.h"
#include "gossip/life/learner.h"
#include "node/learn/step_time.h"
#include "train/probe.h"
#include "train/trainer.h"
#include "train/watch.h"
#include <pthread.h>

enum node_hosted_turn { NODE_HOSTED_NODE, NODE_HOSTED_JUDGES, NODE_HOSTED_PROGRAM, NODE_HOSTED_OVER };
enum node_hosted_way {          // several may be set
    NODE_HOSTED_CORRECTED = 1u, // steps are to be corrected
    NODE_HOSTED_TRACKED = 2u,   // changes are reported entry by entry
    NODE_HOSTED_JUDGED = 4u,    // the program judges the models of others
};

#define NODE_HOSTED_DENSE_PART 4u // more than d/4 changed entries are reported as a dense change

struct node_hosted_change {  // since the program gave its vectors; valid until it gives them again
    bool another;            // the model is another node's
    bool rolled_back;        // the given vectors were not finite: the model is the last published one
    bool dense;              // no lists: any entry may have changed
    size_t count;            // entries that changed
    const uint32_t *index;   // [count], ascending
    const float *model;      // [count] difference: its value when given plus this is its value now
    const float *correction; // [count] the new value; NULL without correction
};

struct node_hosted;

// The trainer holds the vectors (train_trainer_hold). Trainer and blob are borrowed; the blob belongs to the
// side that has the turn. `way`: of enum node_hosted_way. BASE_ENOMEM, BASE_EIO (no descriptor).
enum base_error node_hosted_create(struct train_trainer *trainer, struct gossip_blob *blob, unsigned way,
                                   struct node_hosted **hosted) BASE_CHECK;
void node_hosted_destroy(struct node_hosted *hosted); // the learner thread has ended
struct gossip_learner node_hosted_learner(struct node_hosted *hosted);
// Of the losses that the program gives; the learner thread's. The node only says what it shows: an earlier
// model of the program's own is not known here.
const struct train_watch *node_hosted_watch(const struct node_hosted *hosted);

// Readable while it is not the node's turn.
int node_hosted_descriptor(const struct node_hosted *hosted);
// Waits while it is the node's turn, until `deadline_ns` (CLOCK_MONOTONIC; 0: don't wait, UINT64_MAX: for
// ever), and returns whose turn it is.
enum node_hosted_turn node_hosted_wait(struct node_hosted *hosted, uint64_t deadline_ns);
// While JUDGES: the model in question, [parameters]; and the answer, which may be of unknown losses.
const float *node_hosted_offered(const struct node_hosted *hosted);
void node_hosted_judge(struct node_hosted *hosted, const struct train_probe *probe);
// In the program's turn: what it is to do, and what has changed.
uint64_t node_hosted_steps(const struct node_hosted *hosted);      // local steps of this round
uint64_t node_hosted_steps_done(const struct node_hosted *hosted); // before it, in all
double node_hosted_pace(const struct node_hosted *hosted);         // of steps here over the median
double *
node_hosted_weight(struct node_hosted *hosted); // of gradients; at first 1. The learner thread writes it
const struct node_hosted_change *node_hosted_change(const struct node_hosted *hosted);
// Ends the program's turn: `steps` were taken (fewer or more than asked for is allowed), whose learning rates
// sum to `step_scale`; `loss`: their mean, NAN: not known.
void node_hosted_give(struct node_hosted *hosted, uint64_t steps, double step_scale, double loss);
// Ends the program's turn, whose steps do not count: the program died in the middle of them.
void node_hosted_undo(struct node_hosted *hosted);
// The program takes no more steps: the vectors are the node's as they stand, now and in later rounds.
void node_hosted_release(struct node_hosted *hosted);
void node_hosted_over(struct node_hosted *hosted); // the node has ended

#endif
