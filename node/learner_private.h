// The learner's own state. Private to learner.c (training) and learner_meet.c (mail and rendezvous).
#ifndef NODE_LEARNER_PRIVATE_H
#define NODE_LEARNER_PRIVATE_H

#include "node/learner.h"
#include "node/pace.h"
#include "node/shards.h"
#include <pthread.h>

// What the loop has asked for and has not been done yet. Mail may come at any time, also in the middle of a
// rendezvous; it takes effect where the learner looks.
struct node_learner_orders {
    bool start, leave;
    bool fetch;  // take a snapshot
    bool paused; // train no further
    bool alone;  // all others have finished: end training here
};

struct node_learner {
    struct node_learner_options options;
    pthread_t thread;
    float *before;         // [parameters] x0 of the round, with outer momentum only
    float *device_scratch; // [parameters] in the kernels' memory, for evaluation
    uint64_t round;        // done so far; rounds are numbered from 1
    uint64_t progress_ns, checkpoint_ns;
    struct node_pace pace;
    const char *state;     // as last told
    double loss, accuracy; // latest; accuracy: latest measured
    struct gossip_exchange_totals totals;
    struct node_learner_orders orders;
    struct node_shards *shards; // NULL: nothing is ever taken over
    bool ended_alone;           // before train.steps
    bool incomplete;            // a snapshot was begun and not finished: the vectors are worth nothing
};

bool node_learner_stopped(const struct node_learner *l);
void node_learner_post(struct node_learner *l, struct node_mail *mail); // to the loop
// At most ten times a second, but for a new state or where it must be.
void node_learner_tell(struct node_learner *l, const char *state, bool always);
// Takes note of one mail, waiting for it if need be. A stop is told by a LEAVE, too, so that it wakes.
void node_learner_listen(struct node_learner *l, bool wait);
// Rendezvous: the worker has the vectors until it answers. Returns the error of a checkpoint.
enum base_error node_learner_meet(struct node_learner *l, bool meets, float step_scale, bool checkpoint);
// Carries out what was ordered, before the next round: fetch, pause, other examples once they are there.
// Returns when there is nothing to wait for.
void node_learner_obey(struct node_learner *l);

#endif
