// The learner of a node, as a table of functions: the built-in trainer (node/learn/built_in.h), the
// simulator's, or a program of the user's own. It takes local steps on vectors and is told how they were
// changed. It knows no round numbers, neighbours, checkpoints or snapshots: these are its caller's
// (gossip/life/rounds.h decides, node/learn/learner.c and lab/sim/sim_train.c carry out).
//
//     begin -> { steps -> boundary -> adopt }* -> freeze -> end
//
// The vectors are the learner's between `steps` and the `boundary` that follows it, and the caller's at all
// other times. `end` may come at any moment, as processes can die; `begin` comes again with the next process.
// One owner may have several learners; `which` tells them apart (a node has one, 0). All functions are called
// by one thread at a time; between `steps` and `boundary` the learner may compute in a thread of its own.
#ifndef GOSSIP_LIFE_LEARNER_H
#define GOSSIP_LIFE_LEARNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gossip_blob; // gossip/blob.h

struct gossip_learner_vectors { // [parameters] each, the learner's, at one place from begin to end. Those of
                                // outer momentum are ordinary memory, the first three that of the exchange's
                                // kernels
    float *model;               // x
    float *second_moment;       // of Adam, or NULL: shared where the exchange's options say so
    float *correction;          // what the exchange adds to every local step, or NULL
    float *outer;               // outer momentum V, or NULL; travels with snapshots and checkpoints
    float *round_start;         // x0 of outer momentum, or NULL: for the checkpoint of a round before its
                                // EXCHANGED
    struct gossip_blob *blob;   // travels with snapshots; NULL: none
    bool correction_stays;      // struct gossip_exchange_event
};

struct gossip_learner_steps { // the result of the local steps since the last boundary
    uint64_t step;            // where the learner stands in the schedule, these included
    float step_scale;         // the sum of their learning rates
    uint64_t step_ns;         // time that one takes; 0: not known
    bool undone;              // not finite, because what took the steps died in the middle of them
    bool finite;       // false: the loss or a vector is NaN or infinite, so the model must not be published
    double loss, rate; // for people: mean loss of these steps and the learning rate; NAN: not known
};

enum gossip_learner_change {    // what the caller did to the vectors
    GOSSIP_LEARNER_EXCHANGED,   // a round's exchange: its corrections are in
    GOSSIP_LEARNER_COLLECTED,   // between two rounds: corrections received meanwhile are in
    GOSSIP_LEARNER_RESTORED,    // they and the state beside them are those of a checkpoint; a round begins
    GOSSIP_LEARNER_TAKEN,       // model, second moment and outer momentum are another node's
    GOSSIP_LEARNER_ROLLED_BACK, // the steps were not finite: the model is the last published one again
};

struct gossip_learner {
    void *owner;
    size_t parameters;
    // A process starts. The vectors hold the seed model, else zeroes.
    void (*begin)(void *owner, size_t which, struct gossip_learner_vectors *vectors);
    // `count` >= 1 local steps begin; they may be done on return. `pace`: the time that a step takes here
    // over the median of the neighbours', 1 where unknown. Returns how long they take (a simulator's virtual
    // ns), else 0.
    uint64_t (*steps)(void *owner, size_t which, uint64_t count, double pace);
    // Waits for the end of the steps; on return the vectors hold their result.
    void (*boundary)(void *owner, size_t which, struct gossip_learner_steps *did);
    // The vectors were changed, and the learner stands at `step` of the schedule now.
    void (*adopt)(void *owner, size_t which, enum gossip_learner_change change, uint64_t step);
    // For a checkpoint: the state beside the vectors, malloc'ed, the caller's to free; returns its size. NULL
    // where a checkpoint is written in another way. `thaw` takes it back; RESTORED follows.
    size_t (*freeze)(void *owner, size_t which, uint8_t **state);
    void (*thaw)(void *owner, size_t which, const uint8_t *state, size_t bytes);
    // The process is gone, its memory with it. Waits for a thread of the learner's.
    void (*end)(void *owner, size_t which);
};

#endif
