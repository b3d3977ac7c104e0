// The life of one node: when it counts in the graph, where its model comes from, when it trains, pauses,
// stops, lingers and leaves; whose edges are forgotten and which shards have no living node. These rules are
// nowhere else: node/ and lab/sim carry out what this object decides, with sockets and threads or under
// virtual time (rules and their reasons: RULES.md).
//
// A state machine: time comes in with the event, the state of others is read through a table of the owner's
// functions while a step runs, actions go out through gossip_life_next. No socket, thread, clock, file or
// randomness.
//
//             others train                     model complete
//   JOINING ---------------> FETCHING ---------------------------+
//      | counts                 ^ others have finished,          v
//      v                        | or it is far behind      +-- PAUSED <-+  held out, cut off, minority,
//   WAITING --------------------+--------> TRAINING <------+     |      |  edges not there yet
//      |        expected ones and edges       |  ^---------------+------+
//      |        are there                     | last step done, or left alone
//      |                                      v
//      |                                  FINISHED  others still meet it
//      | told to stop (from anywhere)         | others are done, too, or linger has passed
//      v                                      v
//   STOPPING  to the stop round           LEAVING   takes in what came last
//      +---------------> LEFT <---------------+     the exchange is frozen: told to all
//                         |
//                         v  told, links are gone, and the last checkpoint is written
//                       ENDED                       (from anywhere: another process has this identity;
//                                                    before its first step: it moves to another shard)
//
// One owner (the loop's thread; the process of a simulation). Memory: a list of members that are away and one
// of a partition's other side, at most LIMIT_MEMBERS entries each.
#ifndef GOSSIP_LIFE_LIFE_H
#define GOSSIP_LIFE_LIFE_H

#include "base/error.h"
#include "gossip/graph/graph.h"
#include "gossip/life/rounds.h"
#include "gossip/links/links.h"
#include "gossip/member/member.h"
#include "gossip/merge/merge.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GOSSIP_LIFE_DONORS     4u                // members that are asked for a model at a time
#define GOSSIP_LIFE_LINKS_MOST GOSSIP_MERGE_MOST // members to which it wants links besides its neighbours

struct gossip_life;

enum gossip_life_state {
    GOSSIP_LIFE_JOINING,  // looks for others; does not count
    GOSSIP_LIFE_FETCHING, // fetches a model from a donor
    GOSSIP_LIFE_WAITING,  // counts in the graph, waits for the expected members
    GOSSIP_LIFE_TRAINING, //
    GOSSIP_LIFE_PAUSED,   // takes no step: see enum gossip_life_pause
    GOSSIP_LIFE_FINISHED, // has done its last step and still answers
    GOSSIP_LIFE_MERGING,  // averages its final model with those of the others
    GOSSIP_LIFE_STOPPING, // was told to stop; trains up to its stop round
    GOSSIP_LIFE_LEAVING,  // applies its last exchanges, until the exchange is frozen
    GOSSIP_LIFE_LEFT,     // tells the others; its last checkpoint may still be on its way to the disk
    GOSSIP_LIFE_ENDED,
};
const char *gossip_life_state_name(enum gossip_life_state state);

enum gossip_life_pause {      // why no step is taken; bits
    GOSSIP_LIFE_EDGES = 1,    // it joined late and its edges are not live yet
    GOSSIP_LIFE_HELD_OUT = 2, // membership holds it out of the graph (flap damping)
    GOSSIP_LIFE_CUT_OFF = 4,  // it hears no other member, or none hears it
    GOSSIP_LIFE_MINORITY = 8, // the smaller side of a partition, with the policy pause-minority
    GOSSIP_LIFE_NO_WORD = 16, // it was away, and no node has reported the others' round since
};

enum gossip_life_partition { GOSSIP_LIFE_MERGE, GOSSIP_LIFE_MAJORITY, GOSSIP_LIFE_PAUSE_MINORITY };

struct gossip_life_options {
    struct gossip_id self;
    bool trains;      // false: the node is a member and counts, but never trains (tests of membership)
    bool resumed;     // from a checkpoint: its state is complete
    bool sync;        // rounds run in lock-step: nodes agree on the round of a stop
    bool local;       // there are no edges
    bool merges;      // after the last step all final models become one
    bool gathers;     // the scaling of its examples follows from those of all nodes (gossip/statistics)
    bool alone_stops; // train.alone is stop: once only finished nodes are left, or most have finished and
                      // this node is far behind, it ends with their model; if it never met another node, it
                      // ends as failed
    uint64_t round, step; // done so far
    uint64_t steps;       // at which training ends: train.steps
    uint64_t local_steps; // of a round
    uint64_t reach;       // rounds that a node may miss and still continue with its own model
    uint64_t behind;      // resumed: gossip_exchange_behind
    size_t start_members; // in the view before training begins; 0: the peer list's
    enum gossip_life_partition partition;
    uint64_t start_timeout_ns, linger_ns, forget_after_ns;
    uint32_t shards; // of the data set; below 2: there are none
    bool told_shard; // the cluster chose its shard: it may change to another one
    struct gossip_setting settings[GOSSIP_SETTINGS]; // resumed: that an earlier process knew of
    double least[GOSSIP_SETTINGS], most[GOSSIP_SETTINGS];
    uint64_t takeover_after_ns; // a shard is orphaned when its nodes are gone this long; UINT64_MAX: never
    uint64_t now_ns;
};

// -- what a step reads about other nodes, through functions of the owner

struct gossip_life_self {   // what membership and links say of this node
    bool in_view;           // it counts, and the view in use says so
    bool edges_live;        // to all its neighbours; true where there are none
    bool edge_live;         // to one at least
    bool links_ended;       // no link is open any more
    bool minority, cut_off; // gossip_membership_totals
    uint64_t held_until_ns; // held out of the graph (flap damping) until then; 0: it is not
    size_t n_view;          // members of the view in use
    size_t n_neighbours;
    size_t apart;        // of them: scale their data differently
    uint64_t scaling[2]; // then: ours, and that of one of them
    size_t listed;       // entries of the peer list that do not lead to this node itself
    size_t missing;      // of them: those that lead to no node in the view
    size_t refused;      // of them: lead to a node that trains something else, or one end refuses the other
};

struct gossip_life_census { // of the others
    size_t others;          // alive or suspected
    size_t claim;           // of them: report that they have begun to train
    size_t training;        // of these: have answered this process
    size_t eligible;        // of them: count in the graph
    size_t ready;           // of these: are ready to train, or have begun
    size_t busy;            // of them: count and have not finished
    size_t company;         // of these: have answered this process
    size_t unfinished;      // of the others, whether they count or not
    size_t finished;        // here or not: a node that left or died after its last step counts
};

struct gossip_life_edges { // of this node's exchange, those of a checkpoint included
    const void *owner;
    size_t (*count)(const void *owner);
    void (*at)(const void *owner, size_t index, struct gossip_edge_info *info);
};

struct gossip_life_world {
    const void *owner;
    const struct gossip_life_edges *edges; // NULL: there are none
    size_t (*members)(const void *owner);  // this node first, as membership lists them
    void (*member)(const void *owner, size_t index, struct gossip_member_info *info);
    bool (*linked)(const void *owner, const struct gossip_id *peer); // a link to it is in use
    bool (*listed)(const void *owner, const struct gossip_id *peer); // an entry of the peer list leads to it
    void (*self)(const void *owner, struct gossip_life_self *self);
    // The statistics of its examples have arrived; NULL if none are gathered.
    bool (*gathered)(const void *owner, const struct gossip_id *peer);
    // NULL, or the result of gossip_life_count over all others: for an owner that keeps such sums.
    void (*census)(const void *owner, struct gossip_life_census *census);
};

// These fill in parts of `self`, for the owner's function of that name; see_entry is called for each entry of
// the peer list.
void gossip_life_see_membership(struct gossip_life_self *self, const struct gossip_membership *membership);
void gossip_life_see_graph(struct gossip_life_self *self, const struct gossip_graph *graph,
                           const struct gossip_life_edges *edges);
void gossip_life_see_entry(struct gossip_life_self *self, const struct gossip_graph *graph,
                           const struct gossip_entry *entry);
// True: the entry leads neither to a node in the graph nor to this node itself.
bool gossip_life_misses(const struct gossip_graph *graph, const struct gossip_entry *entry);

// The shard that the fewest living nodes have, this node included; of several, the lowest. A node that joins
// late gets this one. shards <= LIMIT_PEERS.
uint32_t gossip_life_free_shard(const struct gossip_life_world *world, uint32_t shards);

// Adds one member other than this node to a census.
void gossip_life_count(struct gossip_life_census *census, const struct gossip_member_info *info,
                       uint64_t steps);
// A member that decisions may rely on: it is here and has answered this process.
bool gossip_life_believes(const struct gossip_member_info *info);

// -- events

enum gossip_life_event_kind {
    GOSSIP_LIFE_LOOK,      // time has passed, or something that a step reads has changed
    GOSSIP_LIFE_MEMBER,    // `peer` is `state` now
    GOSSIP_LIFE_LINKED,    // a link to `peer` came into use, which may replace another
    GOSSIP_LIFE_REMOVED,   // `peer` was forgotten
    GOSSIP_LIFE_PROGRESS,  // the learner has done `round` rounds and `step` steps; `ok`: it stands at its
                           // stop; `least`: the first boundary at which it can still stop
    GOSSIP_LIFE_WANTS,     // the learner waits for a model: donors are needed
    GOSSIP_LIFE_STARVED,   // none of the donors that it asks has sent a block for `silent_ns`
    GOSSIP_LIFE_FETCHED,   // `ok`: the model is complete, round and step are the model's; else nothing was
                           // fetched
    GOSSIP_LIFE_UNFIT,     // the learner has refused the model of `peer`
    GOSSIP_LIFE_SERVED,    // a member has asked this node for a block of its model
    GOSSIP_LIFE_DONE,      // the learner has done its last step, or has ended alone
    GOSSIP_LIFE_MERGED,    // the merge has ended, with one model or without
    GOSSIP_LIFE_FROZEN,    // the exchange has had its last round and answers nothing more: the final state
    GOSSIP_LIFE_WRITTEN,   // the learner has written its last checkpoint and accepts nothing more; `status`
    GOSSIP_LIFE_STOP,      // this node is to stop
    GOSSIP_LIFE_SET,       // `setting_kind` is to become `value`, which is within its bounds, on all nodes:
                           // gossip_life_answer
    GOSSIP_LIFE_DUPLICATE, // another process runs with this identity. `ok`: membership says that this one
                           // ends; else a peer says that it has a working link to the other
};
struct gossip_life_event {
    enum gossip_life_event_kind kind;
    uint64_t now_ns;
    bool still; // LOOK: nothing but time has changed since the previous event
    struct gossip_id peer;
    enum gossip_member_state state;
    uint64_t round, step, least;
    uint64_t silent_ns;
    int status;
    bool ok;
    enum gossip_setting_kind setting_kind;
    double value;
};

// -- actions

enum gossip_life_action_kind {
    // for membership and links
    GOSSIP_LIFE_FLAGS,    // of this node's record: set, clear
    GOSSIP_LIFE_ANNOUNCE, // the round at which this node stops, in its record
    GOSSIP_LIFE_SETTING,  // setting, setting_kind: for the record, and for the learner
    GOSSIP_LIFE_LINKS,    // ids: the members to which links are wanted besides the neighbours; may be none
    GOSSIP_LIFE_DEPART,   // announce that this node leaves, then end its links
    GOSSIP_LIFE_GATHER,   // peer: the node that begins first. Send it the statistics of this node's examples;
                          // until the next LINKS a link to it is wanted
    // for the owner of the exchange
    GOSSIP_LIFE_ASK,  // ids: members that can be asked for blocks of a model now. round, step: a donor that
                      // reports more is lying; 0: not known
    GOSSIP_LIFE_NEWS, // reports, count, members: GOSSIP_EXCHANGE_NEWS
    GOSSIP_LIFE_END_FETCH, // no node with a model is left: it continues with its own. on: nobody else trains
                           // or
                           // has finished, whatever they say (gossip_rounds_not_alone)
    GOSSIP_LIFE_AMONG,     // merging[count]: members that have finished, this node included (gossip/merge)
    GOSSIP_LIFE_FORGET,    // peer: dead or gone for forget_after; forget its edge
    // for the learner; they take effect at its next boundary
    GOSSIP_LIFE_START, // fetch: fetch a model first. round, step: the cluster's, if higher than its own.
                       // away: it was absent when the others did these rounds
    GOSSIP_LIFE_FETCH_AGAIN, // fetch a donor's model
    GOSSIP_LIFE_PAUSE,       // on: take no step; off: continue
    GOSSIP_LIFE_STOP_AT,     // round: the last one before it ends; 0: the next boundary
    GOSSIP_LIFE_ALONE,       // training ends; fetch: with the model of a node that has finished
    GOSSIP_LIFE_SHARDS,      // numbers: shards that have a living node, ascending
    GOSSIP_LIFE_UNITE,       // others are done: merge the final models
    GOSSIP_LIFE_LEAVE,       // others are done: apply the last exchanges, write the last checkpoint
    // for people and tools
    GOSSIP_LIFE_TELL, // notice
    // for the owner; no action follows
    GOSSIP_LIFE_END,  // status
    GOSSIP_LIFE_MOVE, // the process begins anew with `shard`, because `peer` has the same shard
};

enum gossip_life_notice {        // with its numbers in a and b
    GOSSIP_LIFE_BEGINS,          // a: other members present
    GOSSIP_LIFE_BEGINS_WITHOUT,  // a: members in the view, b: listed peers that are missing
    GOSSIP_LIFE_UNHEARD,         // a: members that are there and whose statistics are not in the scaling
    GOSSIP_LIFE_OTHERS_TRAIN,    // it fetches a model first
    GOSSIP_LIFE_OTHERS_FINISHED, // it fetches the model of a node that has finished
    GOSSIP_LIFE_FAR_BEHIND,      // it fetches a model. a: its round, b: the cluster's
    GOSSIP_LIFE_TAKES_ROUND,     // it continues with its own model. a: its round, b: the cluster's
    GOSSIP_LIFE_COMPLETE,        // the model is there
    GOSSIP_LIFE_NO_DONOR,        // there is no donor; waiting
    GOSSIP_LIFE_GAVE_UP,         // END_FETCH
    GOSSIP_LIFE_STARVED_BY,      // a: members that sent nothing, b: for how many s; others are asked
    GOSSIP_LIFE_NO_SCALING, // this node ends: a resumed member has the scaling that it needs, and does not
                            // begin to train. a: s waited
    GOSSIP_LIFE_UNMERGED,   // no other node that has finished is here to merge the final models with
    GOSSIP_LIFE_NO_MODEL, // this node ends: it has no model of its own. b: s in which no node sent one. a: 1:
                          // all that had one have finished and are gone
    GOSSIP_LIFE_PARTITION,   // half or more of the members that counted are dead
    GOSSIP_LIFE_HEALED,      // majority: it takes the model of the larger side
    GOSSIP_LIFE_PAUSES,      // a: enum gossip_life_pause bits
    GOSSIP_LIFE_GOES_ON,     // a: the bits that it paused for
    GOSSIP_LIFE_LEFT_ALONE,  // all or most others have finished. a: steps done here; b: bits: 1: it fetches
                             // their model, 2: not all have finished
    GOSSIP_LIFE_LAST_STEP,   // a: others that still train
    GOSSIP_LIFE_LINGERED,    // linger has passed. a: others that still train
    GOSSIP_LIFE_MERGES,      // a: nodes that have finished, this one included
    GOSSIP_LIFE_CANNOT_WAIT, // it does not merge: linger is 0. a: nodes that have finished, this one included
    GOSSIP_LIFE_ISOLATED,    // a: neighbours; it averages with no node
    GOSSIP_LIFE_APART,       // it ends: all neighbours have another scaling. a: ours, b: one of theirs
    GOSSIP_LIFE_MEETS_AGAIN, // no longer isolated
    GOSSIP_LIFE_STOPS_AT,    // a: round
    GOSSIP_LIFE_ORPHANS,     // numbers: shards without a living node, ascending
    GOSSIP_LIFE_GIVES_WAY,   // to another process with this identity
    GOSSIP_LIFE_REFUSED,     // it ends. a: listed peers; this node can train with none of them
    GOSSIP_LIFE_MET_NOBODY,  // its steps are done. a: listed peers; none has ever answered
    GOSSIP_LIFE_OTHER_WEIGHTS, // the node that goes first has other first weights: this node will take its
                               // model
};

#define GOSSIP_LIFE_ABANDONED (-1) // status of END: at once, whatever other threads are doing
#define GOSSIP_LIFE_FAILED    1    // status of END: it should have trained with others and has met none

struct gossip_life_action {
    enum gossip_life_action_kind kind;
    uint8_t set, clear;
    bool on, fetch, away;
    uint64_t round, step;
    int status;
    uint32_t shard;
    struct gossip_id peer;
    const struct gossip_id *ids;               // [count], until the next step
    const struct gossip_merge_member *merging; // [count], until the next step
    const uint32_t *numbers;                   // [count], until the next step
    const struct gossip_report
        *reports; // [count], until the next step; of `members` that train; `on`: some do
    size_t members;
    size_t count;
    enum gossip_setting_kind setting_kind;
    struct gossip_setting setting;
    enum gossip_life_notice notice;
    uint64_t a, b;
};

// BASE_ENOMEM
enum base_error gossip_life_create(const struct gossip_life_options *options,
                                   struct gossip_life **life) BASE_CHECK;
void gossip_life_destroy(struct gossip_life *life); // NULL is fine

// Takes one event. The actions of earlier steps must have been taken. `world` is read during the call only.
void gossip_life_step(struct gossip_life *life, const struct gossip_life_event *event,
                      const struct gossip_life_world *world);
bool gossip_life_next(struct gossip_life *life, struct gossip_life_action *action);
// Translates SETTING, START, FETCH_AGAIN, PAUSE, STOP_AT, ALONE, UNITE or LEAVE into the order for the
// learner.
struct gossip_order gossip_life_order(const struct gossip_life_action *action);
// When to LOOK next if no other event comes (monotonic ns); UINT64_MAX: never.
uint64_t gossip_life_deadline(const struct gossip_life *life);

enum gossip_life_answer {       // to the latest SET
    GOSSIP_LIFE_IS_SET,         // gossip_life_setting
    GOSSIP_LIFE_TRAINS_NOT,     // this node does not train now
    GOSSIP_LIFE_HAS_JUST_BEGUN, // it does not know well yet how long a round takes
    GOSSIP_LIFE_CHANGES,        // an earlier change is under way
    GOSSIP_LIFE_ENDS_BEFORE,    // the training is over before all could have heard of it
};
enum gossip_life_answer gossip_life_answer(const struct gossip_life *life);
// The latest change that this node knows of.
const struct gossip_setting *gossip_life_setting(const struct gossip_life *life,
                                                 enum gossip_setting_kind kind);

enum gossip_life_state gossip_life_state(const struct gossip_life *life);
unsigned gossip_life_pauses(const struct gossip_life *life); // enum gossip_life_pause bits
bool gossip_life_isolated(const struct gossip_life *life);   // it trains and averages with no node
bool gossip_life_counts(const struct gossip_life *life);     // its state is complete (ELIGIBLE)
// Others that have answered train, or are about to begin: event.round.others.
bool gossip_life_others(const struct gossip_life *life);
bool gossip_life_stopping(const struct gossip_life *life); // it was told to stop
// Does the node keep the graph that it has, whatever the view says? Nodes that stop leave one after the
// other. One that still waits for the exchange of its last round needs the neighbour with which it was
// planned, and an edge to another one would begin late.
bool gossip_life_keeps_graph(const struct gossip_life *life, const struct gossip_life_world *world);

#endif
