// The averaging of one node without its threads, mailboxes, files, sockets and words: exchange, edges, models
// that are given and fetched, and the merge of the final ones, and what each of them means for the others.
// The daemon's worker and the simulator drive this object; what follows from an event is nowhere else
// (README.md).
//
//              events                                            actions, for the owner
//   links, view, members --+                          +--> SEND, REFUSE: to peers
//   messages of peers -----+--> gossip_average_next --+--> JOURNAL, DROPS, STEPPED, SHORT: of the exchange
//   the trainer's rounds --+                          +--> DONE, FETCHED, MERGED: the trainer goes on
//   time ------------------+                          +--> LIVE: for the life
//
// The trainer does one thing at a time, a round, a fetch, a return or a merge, and its vectors are borrowed
// until that ends:
//
//     gossip_average_round  -> DONE       what is no longer met is forgotten; the exchange of a boundary
//     gossip_average_fetch  -> FETCHED    every edge is down meanwhile; with a model all of them begin anew
//     gossip_average_return -> DONE       likewise, with a model that is here
//     gossip_average_merge  -> MERGED     the exchange is frozen from here on
//
// Before a model of others replaces this node's, the trainer is asked about it: JUDGE,
// gossip_average_verdict.
//
// One owner (the worker's thread; the process of a simulation). The exchange is the owner's, and borrowed
// until destroy; meanwhile only this object steps it. The owner takes all actions after each event. While it
// carries out one of the first eight kinds it reports none; while it carries out another, it may.
#ifndef GOSSIP_HOST_AVERAGE_H
#define GOSSIP_HOST_AVERAGE_H

#include "base/error.h"
#include "gossip/exchange/exchange.h"
#include "gossip/exchange/tell.h"
#include "gossip/graph/graph.h"
#include "gossip/life/life.h"
#include "gossip/life/rounds.h"
#include "gossip/merge/merge.h"
#include "gossip/snapshot/snapshot.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gossip_average;

struct gossip_average_options {
    struct gossip_id self;
    struct gossip_exchange *exchange;
    bool local;                         // no edge ever comes up and no round meets a peer
    uint64_t merge_patience_ns;         // struct gossip_merge_options
    bool judges;                        // the owner answers JUDGE; false: every model is taken
    const struct gossip_teller *teller; // gets a line for each event and action of the exchange; NULL: nobody
    // What this node gives beside its published model, to nodes that ask for a copy. False: the trainer
    // changes it at this moment.
    bool (*rests)(const void *owner, struct gossip_snapshot_vectors *vectors);
    const void *owner;
};

// BASE_ENOMEM.
enum base_error gossip_average_create(const struct gossip_average_options *options,
                                      struct gossip_average **average) BASE_CHECK;
void gossip_average_destroy(struct gossip_average *average); // NULL is fine

// -- events of links, members and the life; now_ns: monotonic

// A link to `peer` is in use (what was asked for over an older one is lost), or ended. BASE_ENOMEM: no edge
// over this link.
enum base_error gossip_average_linked(struct gossip_average *average, const struct gossip_id *peer,
                                      uint64_t now_ns) BASE_CHECK;
void gossip_average_unlinked(struct gossip_average *average, const struct gossip_id *peer, uint64_t now_ns);
void gossip_average_view(struct gossip_average *average,
                         struct gossip_graph *graph); // takes over this reference
// Links and view are at rest, or a fetch has ended: edges follow. Those that go down come first, each by id.
void gossip_average_follow(struct gossip_average *average);
// A message of `peer`, for exchange, snapshots or merge.
void gossip_average_message(struct gossip_average *average, const struct gossip_id *peer,
                            const struct gossip_message *message, uint64_t now_ns);
// ASK, NEWS, END_FETCH, AMONG or FORGET.
void gossip_average_order(struct gossip_average *average, const struct gossip_life_action *order,
                          uint64_t now_ns);
void gossip_average_tick(struct gossip_average *average, uint64_t now_ns);
uint64_t gossip_average_deadline(const struct gossip_average *average); // when to tick; UINT64_MAX: never

// -- events of the trainer

// A look at a neighbour (gossip/exchange/trust.h), which never holds up a round: WANTED goes with a round and
// comes back as GIVEN, the trainer compares `model` with its own before its next steps, and JUDGED goes with
// a later round and comes back as UNUSED.
struct gossip_look {
    enum { GOSSIP_LOOK_UNUSED, GOSSIP_LOOK_WANTED, GOSSIP_LOOK_GIVEN, GOSSIP_LOOK_JUDGED } state;
    float *model; // [parameters] in ordinary memory, the owner's
    struct gossip_id peer;
    struct gossip_losses losses; // JUDGED
};
// Of a trainer that is about to take steps: GIVEN becomes JUDGED. `look` may be NULL.
void gossip_look_compare(struct gossip_look *look, const struct gossip_learner *learner, size_t which);
// After its steps.
void gossip_look_want(struct gossip_look *look, const struct gossip_learner_steps *did);

struct gossip_average_round {
    struct gossip_rounds_meet meet;
    bool others;      // gossip_life_others
    uint64_t pace_ns; // as in struct gossip_exchange_event, like the vectors
    struct gossip_learner_vectors vectors;
    bool scaled;              // vectors.blob is the scaling of the data
    struct gossip_look *look; // borrowed until DONE; NULL: neighbours are not judged
};
void gossip_average_round(struct gossip_average *average, const struct gossip_average_round *round);

struct gossip_average_fetch {
    struct gossip_snapshot_vectors into; // in ordinary memory: see gossip_joiner_create
    bool scaled;                         // into.blob is the scaling of the data
    float *correction;                   // in the kernels' memory: zero with a new model; or NULL
    uint64_t seed;                       // struct gossip_joiner_options
};
// BASE_ENOMEM: nothing has begun.
enum base_error gossip_average_fetch(struct gossip_average *average,
                                     const struct gossip_average_fetch *fetch) BASE_CHECK;
// last.into: the last good vectors, as those of its round.
void gossip_average_return(struct gossip_average *average, const struct gossip_average_fetch *last);
// model: [parameters] in ordinary memory; gets the published one, and at the end that of all nodes. gives: it
// counts in the mean. BASE_ENOMEM: no merge has begun.
enum base_error gossip_average_merge(struct gossip_average *average, float *model, bool gives,
                                     uint64_t now_ns) BASE_CHECK;
// What the trainer says of the model of the latest JUDGE. A donor whose model it refuses is not asked again;
// instead of a merged model it keeps its own. Does nothing if fetch or merge have ended meanwhile.
void gossip_average_verdict(struct gossip_average *average, bool accepts, uint64_t now_ns);
// The trainer waits no longer: a round ends without its exchange, a fetch or a merge without a result. Does
// nothing if that has just ended.
void gossip_average_give_up(struct gossip_average *average, uint64_t now_ns);

// -- actions

enum gossip_average_action_kind {
    GOSSIP_AVERAGE_SEND,    // `message` to `peer`
    GOSSIP_AVERAGE_REFUSE,  // close the link of `peer` and say `why`
    GOSSIP_AVERAGE_JOURNAL, // keep `records` before the messages of this step are sent
    GOSSIP_AVERAGE_JUDGED,  // `verdict` about `peer`, by `trust`
    GOSSIP_AVERAGE_DROPS,   // the edge of `peer`, or what was left of it; `dead`: that is why
    GOSSIP_AVERAGE_STEPPED, // the exchange has handled an event: edges and totals may have changed
    GOSSIP_AVERAGE_SHORT,   // of memory: an event of the exchange was not handled, as if it were lost
    GOSSIP_AVERAGE_UNGIVEN, // no copy of this node's model: BASE_ESTATE (it is not finite) or BASE_ENOMEM
    // The trainer goes on, or the life must know something.
    GOSSIP_AVERAGE_DONE,    // `round`: the one to continue from; `met`, `apart`: gossip_rounds_met
    GOSSIP_AVERAGE_FETCHED, // `live.ok`: the model is a donor's, of `live.round` and `live.step`; `fetched`
    GOSSIP_AVERAGE_MERGED,  // `live.ok`: the model is that of all nodes; `end`, `merged`
    GOSSIP_AVERAGE_JUDGE,   // `model`: does it serve this node's own examples as well as its own model?
    GOSSIP_AVERAGE_LIVE,    // `live`: WANTS, STARVED, UNFIT or SERVED; `answered`: at once
};
enum gossip_average_why {
    GOSSIP_AVERAGE_IMPLAUSIBLE, // the first three: enum gossip_refusal
    GOSSIP_AVERAGE_BROKEN,
    GOSSIP_AVERAGE_SCALING,
    GOSSIP_AVERAGE_ASK,   // for a block that does not exist
    GOSSIP_AVERAGE_BLOCK, // of a snapshot, that does not fit
    GOSSIP_AVERAGE_MERGE, // a message of a merge that does not fit
};
struct gossip_average_action {
    enum gossip_average_action_kind kind;
    struct gossip_id peer;
    const struct gossip_message *message;
    enum gossip_average_why why;
    const uint8_t *records;
    size_t bytes;                // of `records`
    enum gossip_verdict verdict; // JUDGED
    struct gossip_trust trust;   // JUDGED: of the edge of `peer`, now
    bool dead, met, apart, answered;
    const float *model;                         // JUDGE: [parameters] in ordinary memory, until the verdict
    bool refused;                               // MERGED: the merged one was
    bool not_alone;                             // FETCHED: gossip_rounds_not_alone
    enum base_error error;                      // UNGIVEN
    uint64_t round;                             // DONE
    const struct gossip_round_account *account; // DONE: of a boundary that met others; else NULL
    struct gossip_life_event live;              // FETCHED, MERGED, LIVE: for the life; now_ns is the owner's
    struct gossip_joiner_progress fetched;
    enum gossip_merge_end end; // GOES_ON: it was given up
    struct gossip_merge_info merged;
};
// The next action; pointers in it are valid until the next call. False: there is none.
bool gossip_average_next(struct gossip_average *average, uint64_t now_ns,
                         struct gossip_average_action *action);

// At a boundary, while `rests` is true: the next block for a node that waits for a copy of this model (SEND,
// or UNGIVEN). False: no other.
bool gossip_average_give(struct gossip_average *average, uint64_t now_ns,
                         struct gossip_average_action *action);

#endif
