// The learner of a node, as a table of functions: the built-in trainer (node/learn/built_in.h), the
// simulator's, or a user's program. It takes local steps on vectors and is told how they were changed. It
// knows no round numbers, neighbours, checkpoints or snapshots: these belong to its caller
// (gossip/life/rounds.h decides, node/learn/learner.c and lab/sim/sim_train.c carry out).
//
//     begin -> { set* -> steps -> boundary -> adopt }* -> freeze -> end
//
// The vectors are the learner's between `steps` and the `boundary` that follows it, and the caller's at all
// other times. `end` may be called at any moment, because processes can die; the next process calls `begin`
// again. One owner may have several learners; `which` tells them apart (a node has one, 0). All functions are
// called by one thread at a time; between `steps` and `boundary` the learner may compute in a thread of its
// own.
#ifndef GOSSIP_LIFE_LEARNER_H
#define GOSSIP_LIFE_LEARNER_H

#include "gossip/losses.h"
#include "gossip/setting.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gossip_blob; // gossip/blob.h

struct gossip_learner_vectors { // [parameters] each, the learner's, at one place from begin to end. Those of
                                // outer momentum are ordinary memory, the first four that of the exchange's
                                // kernels
    float *model;               // x
    float *second_moment;       // of Adam, or NULL; shared if the exchange's options say so
    float *correction;          // what the exchange adds to every local step, or NULL
    float *held;                // what the steps hold back (average.hold), or NULL: the learner subtracts it
                                // from x before they begin, and adds it in `boundary`
    float *outer;               // outer momentum V, or NULL; part of snapshots and checkpoints
    float *round_start; // x0 of outer momentum, or NULL; for a checkpoint that is written before EXCHANGED
    struct gossip_blob *blob; // part of snapshots; NULL: none
    bool correction_stays;    // struct gossip_exchange_event
};

enum gossip_learner_result {
    GOSSIP_LEARNER_DONE,
    GOSSIP_LEARNER_OVER,       // there are no steps, and there will be none: the program leaves
    GOSSIP_LEARNER_UNDONE,     // not done, because the program that took the steps died during them
    GOSSIP_LEARNER_NOT_FINITE, // the loss or a vector is NaN or infinite: the model must not be published
    GOSSIP_LEARNER_DIVERGED,   // the loss is far above what it was: the vectors are the learner's last good
                               // ones again
};

struct gossip_learner_steps { // the result of the local steps since the last boundary
    uint64_t step;            // the learner's step in the schedule, these steps included
    float step_scale;         // the sum of their learning rates
    uint64_t step_ns;         // time that one takes; 0: not known
    enum gossip_learner_result result;
    bool affords;      // `compare` now, within the small part of its time that it spends on it
    double loss, rate; // for people: mean loss of these steps and the learning rate; NAN: not known
};

enum gossip_learner_change {    // what the caller did to the vectors
    GOSSIP_LEARNER_UNCHANGED,   // nothing: the learner is not told
    GOSSIP_LEARNER_EXCHANGED,   // a round's exchange: its update is applied
    GOSSIP_LEARNER_COLLECTED,   // between two rounds: pending updates are applied
    GOSSIP_LEARNER_RESTORED,    // they and the other state are those of a checkpoint; a round begins
    GOSSIP_LEARNER_TAKEN,       // model, second moment and outer momentum are another node's
    GOSSIP_LEARNER_ROLLED_BACK, // the steps were not finite: the model is the last published one again
    GOSSIP_LEARNER_RETURNED,    // the steps had diverged: the exchange has the learner's last good vectors
};

enum gossip_learner_offer {
    GOSSIP_LEARNER_DONORS, // the model of another node
    GOSSIP_LEARNER_MERGED, // the mean of the final models of all
};

struct gossip_learner_verdict {
    bool accepts;
    double own, other, nothing; // losses on the learner's own examples: of its model, of the other one, of
                                // one that knows nothing. NAN: not known, and then the other one is accepted
};

struct gossip_learner {
    void *owner;
    size_t parameters;
    // A process starts. The vectors hold the seed model, else zeroes.
    void (*begin)(void *owner, size_t which, struct gossip_learner_vectors *vectors);
    // Before `steps`: a setting of these steps; NAN: as the learner was made. NULL: a program chooses its
    // own.
    void (*set)(void *owner, size_t which, enum gossip_setting_kind kind, double value);
    // `count` >= 1 local steps begin; they may be done on return. `pace`: this node's time per step over the
    // median of its neighbours', 1 if not known. Returns how long they take (a simulator's virtual ns), else
    // 0.
    uint64_t (*steps)(void *owner, size_t which, uint64_t count, double pace);
    // Waits for the end of the steps; on return the vectors hold their result.
    void (*boundary)(void *owner, size_t which, struct gossip_learner_steps *did);
    // The vectors were changed, and the learner is now at `step` of the schedule.
    void (*adopt)(void *owner, size_t which, enum gossip_learner_change change, uint64_t step);
    // Between `adopt` and `steps`: is `model`, [parameters] in ordinary memory, clearly worse for this node's
    // own examples than the one in the vectors? NULL: it cannot tell, and takes the models of others as they
    // come.
    struct gossip_learner_verdict (*judge)(void *owner, size_t which, const float *model,
                                           enum gossip_learner_offer offer);
    // Likewise: the losses of `model` and of the one in the vectors, on a few of its own examples, others
    // each time. NULL: it has none.
    void (*compare)(void *owner, size_t which, const float *model, struct gossip_losses *losses);
    // For a checkpoint: writes the state besides the vectors, malloc'ed, which the caller frees; returns its
    // size. NULL if checkpoints are written in another way. `thaw` restores it; RESTORED follows.
    size_t (*freeze)(void *owner, size_t which, uint8_t **state);
    void (*thaw)(void *owner, size_t which, const uint8_t *state, size_t bytes);
    // The process has ended and its memory is lost. Waits for the learner's thread, if there is one.
    void (*end)(void *owner, size_t which);
};

#endif
