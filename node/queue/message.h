// The messages between the three threads. Loop: owns links, sessions, membership and HTTP. Worker: owns the
// exchange object. Learner: owns the trainer. Every message is malloc'ed, has one owner and is freed by
// node_message_free.
#ifndef NODE_QUEUE_MESSAGE_H
#define NODE_QUEUE_MESSAGE_H

#include "gossip/blob.h"
#include "gossip/exchange/exchange.h"
#include "gossip/exchange/tell.h"
#include "gossip/graph/graph.h"
#include "gossip/host/average.h"
#include "gossip/id.h"
#include "gossip/life/life.h"
#include "gossip/life/rounds.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum node_message_kind {
    // loop -> worker
    NODE_MESSAGE_LINK_UP,   // peer
    NODE_MESSAGE_LINK_DOWN, // peer
    NODE_MESSAGE_EXCHANGE,  // peer, as.received, bytes: one plaintext message, and where its payloads are
    NODE_MESSAGE_VIEW,      // as.graph: of the view in use
    NODE_MESSAGE_LIFE,      // as.life: for the owner of the exchange; bytes: its array
    NODE_MESSAGE_STOP,      // finish the thread
    // learner -> worker
    NODE_MESSAGE_ROUND,   // as.round: borrowed from the learner until it is answered
    NODE_MESSAGE_GIVE_UP, // the learner no longer waits: its round ends without its exchange, model or merge
    NODE_MESSAGE_VERDICT, // as.accepts: the model of the latest JUDGE
    // worker -> learner
    NODE_MESSAGE_ROUND_DONE, // as.round
    NODE_MESSAGE_JUDGE,      // as.model: does it serve this node's own examples? Borrowed until VERDICT
    // worker -> loop
    NODE_MESSAGE_SEND,          // peer, bytes: one plaintext message, header and payloads
    NODE_MESSAGE_IMPLAUSIBLE,   // peer: its numbers are too far from this model's; end the link
    NODE_MESSAGE_OTHER_SCALING, // peer: its data have another scaling; end the link
    NODE_MESSAGE_CLOSE,         // peer, as.reason: its bytes broke the protocol; end the link
    NODE_MESSAGE_EDGES,         // bytes: struct gossip_edge_info[] without vectors; totals
    NODE_MESSAGE_LIVE,          // as.live: an event for the life, of worker or learner
    // learner -> loop
    NODE_MESSAGE_PROGRESS, // progress; bytes: the latest line of metrics.jsonl, a text
    NODE_MESSAGE_FINISHED, // the last step is done, or it ended alone: tell the peers, and answer them until
                           // they are done too or linger has passed
    NODE_MESSAGE_LEFT,     // final checkpoint written: end the loop when the links are flushed; as.left
    // owner of the threads -> loop
    NODE_MESSAGE_LEAVE_CLUSTER, // as on SIGTERM
    NODE_MESSAGE_RELOAD,        // as on SIGHUP
    NODE_MESSAGE_SAVE,          // to the learner: a checkpoint at the next boundary with an exchange
    NODE_MESSAGE_ACCURACY,      // to the learner: progress.accuracy, as the program that trains measured it
    NODE_MESSAGE_ASK_STATUS,    // post the text of /status to the loop's `answers`
    // loop -> learner
    NODE_MESSAGE_ORDER,      // as.order: takes effect at the next boundary
    NODE_MESSAGE_SHARDS,     // bytes: uint32_t[]: shards whose node is alive, ascending
    NODE_MESSAGE_WEIGHT,     // as.weight: of this node's gradient from the next round on
    NODE_MESSAGE_STATISTICS, // bytes: struct train_spread[]: of all nodes' columns, for a node that has no
                             // scaling yet
};

enum node_adoption {
    NODE_ADOPTED_NONE,   // the model is this node's own
    NODE_ADOPTED_NEW,    // it began while others trained already
    NODE_ADOPTED_BEHIND, // it was far behind the others
    NODE_ADOPTED_END,    // the others had finished
    NODE_ADOPTED_MERGED, // the mean of all final models (average.finish)
};
struct node_adopted { // the latest model of others that replaced this node's own
    enum node_adoption why;
    struct gossip_id donor; // unless it is merged
    size_t nodes;           // whose models are in a merged one
    uint64_t round, step;
    double own, other, nothing; // struct gossip_learner_verdict
};

#define NODE_NOT_COUNTED UINT64_MAX
struct node_progress {
    uint64_t round, step;  // the cluster's, which this node has reached, by itself or with another's model
    uint64_t own_steps;    // that this process has computed
    uint64_t own_examples; // in them; NODE_NOT_COUNTED: only the program that trains knows
    uint64_t exchanges;    // that this process has made
    uint64_t own_rounds;   // with local steps that this process has ended
    uint64_t late_missed;  // rounds of the last quarter of the training that it has not made
    uint64_t late_rounds, late_exchanges; // those that it has made, and their exchanges
    uint64_t adopted_step;                // of the latest model of another node that it took; 0: none
    struct node_adopted adopted;
    double usual_consensus; // the usual one of this process; NAN: too few rounds
    bool stands;            // at the round of its stop
    uint64_t least_stop;    // the first boundary at which it can stop
    double loss, accuracy,
        consensus; // NAN: not measured; accuracy is the latest measured; R2 of a regression
    double apart;  // the distance at which the models stay apart, for people; 0: they do not
    double rmse;   // of a regression, likewise
    bool regression;
    double rate;
    uint64_t rollbacks;        // rounds so far whose model was not finite: the published one was restored
    unsigned rollbacks_in_row; // up to now
    uint64_t returns;          // to the last good model so far, because the loss had diverged
    unsigned returns_in_row;   // each soon after the one before
    struct {                   // of windows of rounds; all 0: nothing watches the losses
        double latest, best, bound; // bound: a larger one is far (train/watch.h)
        unsigned far;               // windows in a row that are
        bool risen;                 // the usual loss is far above its best
        bool recovers;              // it has returned, and is not yet as good as it was
        bool program;               // they are a program's, for which nothing returns
    } losses;
    uint64_t step_ns;   // computing time of one local step; 0: not known
    uint64_t disk_free; // bytes in node.dir; UINT64_MAX: not known
    uint64_t memory;    // bytes of the trainer's vectors and of the outer momentum's; 0: not known
    bool unwritten;     // the latest checkpoint or row of metrics could not be written
    const char
        *state;  // constant: "waiting", "fetching", "training", "paused", "lingering", "merging", "stopping"
    bool merged; // the model is that of all nodes
    double own_accuracy; // then: of its own final model; NAN: not measured
};

enum node_round_kind {
    NODE_ROUND_MEET,   // a boundary: gossip_average_round
    NODE_ROUND_OFFER,  // steps follow that no boundary precedes: others may take these vectors
    NODE_ROUND_RETURN, // replace the model of the exchange by these vectors, those of `round`
    NODE_ROUND_FETCH,  // fill the vectors from a donor's snapshot; round and step become its
    NODE_ROUND_MERGE,  // merge the model with those of the other nodes
};
struct node_round { // one rendezvous of learner and worker
    enum node_round_kind kind;
    // `others` is the worker's. MEET and OFFER: vectors in the memory of the exchange's kernels; FETCH and
    // MERGE: model and second moment are in ordinary memory.
    struct gossip_average_round at;
    uint64_t step;          // local steps done
    bool gives;             // MERGE: the model counts in the mean
    bool done;              // out. FETCH: the vectors are a donor's; MERGE: the model is that of all nodes
    bool refused;           // out. MERGE: the learner has refused the merged one
    bool not_alone;         // out. FETCH: gossip_rounds_not_alone
    struct gossip_id donor; // out, of the vectors
    size_t nodes;           // out. MERGE: whose models are in the mean
    bool checkpoint;        // begin a checkpoint while nothing changes
    bool checkpoint_wanted; // out: begin one at the next boundary
    uint64_t round;         // out: completed rounds to continue from; with a snapshot, its donor's
    bool met;               // out: the exchange of this round was made, or none was due
    struct gossip_round_account account;  // out, of a round that meets
    struct gossip_exchange_totals totals; // out
    double pace;                          // out: of this node's steps over the median of its neighbours'
    int checkpoint_error; // out: enum base_error, of this one or of one that was begun at an earlier round
};

struct node_message {
    enum node_message_kind kind;
    struct gossip_id peer;
    uint8_t *bytes; // owned
    size_t n_bytes;
    _Atomic size_t *charged;            // where its size is counted until this message is freed, or NULL
    union {                             // by kind
        struct gossip_message received; // EXCHANGE: payloads point into `bytes`
        struct gossip_graph *graph;     // VIEW: a reference of its own, or NULL
        struct node_round *round;       // ROUND, ROUND_DONE: borrowed
        const float *model;             // JUDGE
        bool accepts;                   // VERDICT
        struct gossip_order order;      // ORDER
        char reason[256];               // CLOSE
        struct {                        // LEFT
            int exit_status;
            char cause[256]; // of a status that is not 0, if the learner knows it
        } left;
        struct gossip_life_action life; // LIFE
        struct gossip_life_event live;  // LIVE
        struct {                        // WEIGHT
            double weight;
            uint64_t own, examples; // examples of this node, and of all
            size_t nodes;
        } weight;
    } as;
    struct node_progress progress;
    struct gossip_exchange_totals totals;
};

struct node_message *
node_message_new(enum node_message_kind kind); // aborts when out of memory: a message is < 4 KiB
size_t node_message_size(const struct node_message *message); // bytes in memory: many small ones count, too
void node_message_free(void *message);

#endif
