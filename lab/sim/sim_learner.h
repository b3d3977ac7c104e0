// Who learns in a simulated process: a table of functions of whoever runs the simulation. The core says when
// steps begin, when their results are needed, and what came of the exchange; it never computes a gradient.
//
// All are called by the thread that runs the world, in the order of virtual time. Between `steps` and the
// next `collect`, or `end`, of one host its vectors are the learner's, and another thread may compute on
// them; results may not depend on when it does. At all other times they are read and written by the core.
//
//     begin -> (load) -> ready -> { steps -> collect -> done }* -> finish -> end
//
// `end` may come at any moment, as processes do die; `begin` comes again with the next process of that host.
#ifndef LAB_SIM_LEARNER_H
#define LAB_SIM_LEARNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_NO_STEPS UINT64_MAX

struct sim_vectors {      // [parameters] each, the learner's, at one place from begin to end
    float *model;         // x
    float *second_moment; // of Adam, or NULL: shared where the exchange's options say so
    float *correction;    // what the exchange adds to every local step, or NULL
    float *outer;         // outer momentum, or NULL; travels with snapshots and checkpoints
};

enum sim_origin { SIM_FROM_SEED, SIM_FROM_CHECKPOINT, SIM_FROM_SNAPSHOT };

struct sim_steps {    // what one round's local steps came to
    uint64_t step;    // done by this learner in all
    float step_scale; // the sum of their learning rates
    uint64_t pace_ns; // virtual time of one; 0: not known
};

struct sim_learner {
    void *owner;
    size_t parameters;
    const float *start; // [parameters] the seed model: r of an edge that both ends begin from it
    // A process starts; the vectors hold the seed model, zeroes else.
    void (*begin)(void *owner, size_t host, struct sim_vectors *vectors);
    // What save gave; the vectors have been read back already. May be NULL, as save.
    void (*load)(void *owner, size_t host, const uint8_t *bytes, size_t count);
    // The vectors are complete, `round` rounds and `step` steps behind them: training may begin. A snapshot
    // brings model, second moment and outer momentum; the rest is the learner's to begin anew. Comes again
    // when others' model takes the place of a checkpoint's. May be NULL.
    void (*ready)(void *owner, size_t host, enum sim_origin origin, uint64_t round, uint64_t step);
    // Local steps of `round` (from 1) begin. Returns how long they take; SIM_NO_STEPS: the last one was done.
    // pace: this node's time for a step over the median of its neighbours', 1 where not known.
    uint64_t (*steps)(void *owner, size_t host, uint64_t round, double pace);
    // All others have finished: from now on `steps` returns SIM_NO_STEPS. May be NULL: it goes on alone. May
    // come while steps are under way.
    void (*alone)(void *owner, size_t host);
    // Shards of the data that have a living node, ascending: the others' may be taken over. May be NULL.
    void (*shards)(void *owner, size_t host, const uint32_t *living, size_t count);
    // They have ended: on return the vectors hold their result.
    void (*collect)(void *owner, size_t host, uint64_t round, struct sim_steps *did);
    // The round's exchange is over and its corrections are in the vectors. May be NULL.
    void (*done)(void *owner, size_t host, uint64_t round);
    // The last one: others have finished, too, or it leaves. May be NULL.
    void (*finish)(void *owner, size_t host, uint64_t round);
    // The process is gone, its memory with it; waits for its thread.
    void (*end)(void *owner, size_t host);
    // State beside the vectors, for a checkpoint: malloc'ed bytes, the core's to free.
    size_t (*save)(void *owner, size_t host, uint8_t **bytes);
};

#endif
