// The sequence of a node's rounds: what comes next (local steps, a boundary, a snapshot, a wait, the end),
// the round and step that the node has reached, and what orders of the life cycle change. Pure: no thread,
// clock or file. The daemon's learner thread and the simulator do what gossip_rounds_next says and report the
// result.
//
//     WAITING -start-> TRAINING { STEPS -> MEET }* -last step, alone-> FINISHED -leave-> LEAVING -> LEFT
//        |              ^  |                                              ^                 ^
//        |            FETCH, PAUSE                     fetch the finished |                 |
//        +--------------------------------------- stop (at a boundary) --------------------+
//
// Round and step belong to the cluster. They only grow: a node that was away takes those of the others, and
// never repeats missed rounds. A stop takes effect at a boundary only; if it leaves the exchange of that
// boundary open, the checkpoint says so, and a resumed node makes it first.
#ifndef GOSSIP_LIFE_ROUNDS_H
#define GOSSIP_LIFE_ROUNDS_H

#include "gossip/exchange/exchange.h"
#include "gossip/graph/graph.h"
#include "gossip/life/learner.h"

#define GOSSIP_ROUNDS_UNUSABLE_MAX                                                                           \
    10u // rounds in a row whose model is not finite, after which the node ends with status 1

#define GOSSIP_ROUNDS_RETURNS_MAX                                                                            \
    8u // times that a node returns to its last good model, each within GOSSIP_ROUNDS_RETURN_SPAN rounds of
       // the one before, after which it ends with status 1. (With 5, two of six nodes ended after a rate that
       // was too high for 8 rounds: neighbours that had not returned yet pulled them up again.)
#define GOSSIP_ROUNDS_RETURN_SPAN 500u

#define GOSSIP_ROUNDS_NEAR 8u // rounds by which neighbours in lock-step may differ; the exchange ensures it

struct gossip_rounds_options {
    uint64_t local_steps; // of a round
    uint64_t steps;       // in total; UINT64_MAX: no end
    uint64_t round, step; // done before, from a checkpoint
    bool resumed;         // the vectors are those of a checkpoint
    bool open;            // resumed: the local steps of round + 1 are done, its exchange is not
    float open_scale;     // their step scale
    uint64_t reached;     // resumed: the round that the earlier process had reached after the checkpoint, by
                          // the journal of its edges; 0: not known. Those rounds are done
};

enum gossip_rounds_state {
    GOSSIP_ROUNDS_WAITING,  // for START
    GOSSIP_ROUNDS_TRAINING, //
    GOSSIP_ROUNDS_PAUSED,   // takes no step, answers others
    GOSSIP_ROUNDS_FINISHED, // the last step is done; lingers
    GOSSIP_ROUNDS_LEAVING,  // about to take the final state
    GOSSIP_ROUNDS_LEFT,
};

enum gossip_rounds_model { // whose it is
    GOSSIP_ROUNDS_OWN,
    GOSSIP_ROUNDS_APART,    // its own, and few of the latest rounds had an exchange, or it ended alone
    GOSSIP_ROUNDS_BORROWED, // a donor's; no step was taken since
    GOSSIP_ROUNDS_BEREFT,   // its own: no donor gave another
    GOSSIP_ROUNDS_FORSAKEN, // ... and it ended alone, before the last step
    GOSSIP_ROUNDS_NO_MODEL, // the seed model, while others train: not worth a checkpoint
};

enum gossip_rounds_progress { // of round + 1
    GOSSIP_ROUNDS_NOT_STEPPED,
    GOSSIP_ROUNDS_STEPPED, // its local steps are done
    GOSSIP_ROUNDS_OPEN,    // ... by an earlier process, or their exchange is left to the next one
};

#define GOSSIP_ROUNDS_NO_STOP UINT64_MAX

enum gossip_order_kind { // the first five: the later ones include those before them
    GOSSIP_ORDER_START,  // training may begin; may be repeated at any time to tell the cluster's progress
    GOSSIP_ORDER_PAUSE,  // `on`: no step from the next boundary on, and no wait for an exchange; else go on
    GOSSIP_ORDER_ALONE,  // all others have finished: end training at the next boundary
    GOSSIP_ORDER_MERGE,  // after FINISHED: average the final model with those of the other nodes
                         // (gossip/merge)
    GOSSIP_ORDER_LEAVE,  // after FINISHED, or while it waits at its STOP: this node is no longer needed
    GOSSIP_ORDER_FETCH,  // take a donor's model instead of its own. The open round ends without its exchange;
                         // local steps that have not reached their boundary are lost
    GOSSIP_ORDER_STOP,   // `round` 0: end at the next boundary (checkpoint, LEFT). Else stand still at the
                         // boundary of `round` until LEAVE, or a later STOP
    GOSSIP_ORDER_SETTING, // `setting` replaces the one of its kind
};
struct gossip_order {
    enum gossip_order_kind kind;
    bool fetch;           // START, ALONE: first take a donor's model; ALONE: that of a finished node
    bool away;            // START: this node was away and goes on with a model that is behind the others'
    bool on;              // PAUSE
    uint64_t round, step; // START: the cluster's, taken where they are higher; STOP: round
    enum gossip_setting_kind setting_kind;
    struct gossip_setting setting;
};

enum gossip_rounds_todo {
    GOSSIP_ROUNDS_WAIT,   // nothing before the next order
    GOSSIP_ROUNDS_STEPS,  // `steps` local steps, then gossip_rounds_stepped
    GOSSIP_ROUNDS_MEET,   // the boundary: `meet`, then gossip_rounds_met
    GOSSIP_ROUNDS_FETCH,  // a donor's model; then gossip_rounds_fetched
    GOSSIP_ROUNDS_RETURN, // the vectors are the last good ones: the exchange adopts them as those of `round`,
                          // and every edge begins anew; then gossip_rounds_returned
    GOSSIP_ROUNDS_MERGE,  // the final models of all; `gives`; then gossip_rounds_merged
    GOSSIP_ROUNDS_ADOPT,  // the learner is told of `change` and that it stands at `step`
    GOSSIP_ROUNDS_END,    // `status`
};
struct gossip_rounds_meet {
    uint64_t round; // the round of this exchange, from 1; without `meets`: the latest boundary reached
    bool meets;     // false: no exchange; only pending updates are added
    bool last;      // the final state: then freeze the exchange and write a checkpoint
    bool finished;  // the node has done its last step
    bool away;      // reported to the neighbours from here on, until the node has caught up
    bool unusable;  // the model is not published; the published one comes back
    bool open;      // with `last`: the exchange of `round` was not made, `step_scale` is for the checkpoint
    float step_scale;
};
struct gossip_rounds_next {
    enum gossip_rounds_todo todo;
    uint64_t steps;
    struct gossip_rounds_meet meet;
    uint64_t round;                    // RETURN
    enum gossip_learner_change change; // ADOPT
    uint64_t step;
    bool gives; // MERGE: the model is this node's own work, and counts in the mean
    int status; // END: 0, or 1: failed
};

struct gossip_rounds {
    struct gossip_rounds_options options;
    enum gossip_rounds_state state;
    enum gossip_rounds_todo doing;  // what is being carried out; WAIT: nothing
    struct gossip_rounds_meet meet; // while doing that
    uint64_t round, step;           // done
    enum gossip_rounds_progress progress;
    enum gossip_learner_result result; // what became of the local steps of round + 1
    float step_scale;                  // of those steps
    enum gossip_learner_change change; // of which the learner is to be told
    enum gossip_rounds_model model;
    bool away;
    bool collects;  // it stands still, or was away: updates received meanwhile come first
    bool not_alone; // after this FETCH
    unsigned unusable_in_row;
    uint64_t unusable_rounds;         // in a row, so far
    unsigned returns_in_row;          // to the last good model, each soon after the one before
    uint64_t returns, returned_round; // so far; of the latest
    struct {
        enum gossip_order_kind end; // how far it has been ordered: START to LEAVE
        bool fetch;
        uint64_t stop_at;     // 0: the next boundary; NO_STOP
        uint64_t round, step; // the cluster's
    } orders;
    struct gossip_setting settings[GOSSIP_SETTINGS];
};

void gossip_rounds_init(struct gossip_rounds *rounds, const struct gossip_rounds_options *options);
// May be called at any time, also while an action is carried out; takes effect at the next boundary.
void gossip_rounds_order(struct gossip_rounds *rounds, const struct gossip_order *order);
// What to do now. When to call it again: after WAIT, once an order has come; after ADOPT, once that is done;
// after anything else, once its result was reported.
struct gossip_rounds_next gossip_rounds_next(struct gossip_rounds *rounds);
// Before STEPS: tells the learner the settings of that round.
void gossip_rounds_set(const struct gossip_rounds *rounds, const struct gossip_learner *learner,
                       size_t which);
// STEPS are done. `step`: where the learner stands; not below where it stood.
void gossip_rounds_stepped(struct gossip_rounds *rounds, uint64_t step, float step_scale,
                           enum gossip_learner_result result);
// The ROUND event of a boundary: the partner that the graph names and what the exchange is told about this
// node. The vectors and pace_ns are the caller's to fill in. `others`: others train (gossip_life_others).
void gossip_rounds_event(const struct gossip_rounds_meet *meet, const struct gossip_edges *edges, bool others,
                         struct gossip_exchange_event *event);
// MEET is over. `round`: the one that the node continues from (if it meets), at least that of the event.
// `met`: the exchange of the round was made, or none was due. `apart`: gossip_exchange_totals. With its last
// step done such a node takes the model of a finished one.
void gossip_rounds_met(struct gossip_rounds *rounds, uint64_t round, bool met, bool apart);
// FETCH is over. `complete`: the vectors are a donor's, taken after its `round` and `step`; else they have
// not changed.
void gossip_rounds_fetched(struct gossip_rounds *rounds, bool complete, uint64_t round, uint64_t step);
// Before a FETCH ends without a model: those that were asked gave none, or one that the learner has refused,
// and are not believed any more. ALONE is void; a new node begins with its first model.
void gossip_rounds_not_alone(struct gossip_rounds *rounds);
// RETURN is over.
void gossip_rounds_returned(struct gossip_rounds *rounds);
// MERGE is over. `merged`: the model is that of all nodes; else this node's own with the last
// updates.
void gossip_rounds_merged(struct gossip_rounds *rounds, bool merged);
// The first boundary at which a STOP can still take effect: that of the current round.
uint64_t gossip_rounds_least_stop(const struct gossip_rounds *rounds);
// The vectors are worth a checkpoint.
static inline bool gossip_rounds_complete(const struct gossip_rounds *rounds)
{
    return rounds->model != GOSSIP_ROUNDS_NO_MODEL;
}
// A STOP was ordered.
static inline bool gossip_rounds_stops(const struct gossip_rounds *rounds)
{
    return rounds->orders.stop_at != GOSSIP_ROUNDS_NO_STOP;
}
// It has reached the round of its STOP, and waits there for LEAVE or for a later STOP.
bool gossip_rounds_stand(const struct gossip_rounds *rounds);
// An order came that ends the current action: a stop ends the FETCH and the MERGE; a fetch or a pause ends
// the wait of a MEET for its exchange.
bool gossip_rounds_gives_up(const struct gossip_rounds *rounds);

#endif
