// One edge: what this end knows of its neighbour, the vectors that both ends keep alike, and the exchange in
// progress. Private to gossip/exchange.
#ifndef GOSSIP_EXCHANGE_EDGE_H
#define GOSSIP_EXCHANGE_EDGE_H

#include "gossip/exchange/blocks.h"
#include "gossip/exchange/exchange.h"
#include "gossip/exchange/packet.h"
#include "gossip/exchange/vector.h"
#include "gossip/pace/pace.h"
#include "gossip/plausible.h"

enum gossip_edge_start {
    GOSSIP_EDGE_UNMET,
    GOSSIP_EDGE_LATE,   // begins with a RESYNC, when this node begins its first round
    GOSSIP_EDGE_AGREED, // both ends have begun it at the seed model: it is never late again
};

struct gossip_edge {
    struct gossip_id peer;
    enum gossip_edge_state state;
    enum gossip_edge_start start;
    struct gossip_pace_peer pace;    // who waits for whom
    uint64_t pace_ns;                // time of a local step of the peer; 0: not known
    unsigned far_rates;              // exchanges in a row in which the two learning rates were far apart
    float rates;                     // the peer's over ours, once they have been for long; else 0
    uint64_t epoch, sequence;        // of the next exchange
    uint64_t resync_offset;          // elements that RESYNC has covered; equal to parameters when live
    double progress;                 // gossip_exchange.progress at the moment when our side of the latest
                                     // exchange was made
    double prepared;                 // the same for the request or answer in progress
    float since;                     // of the request or answer in progress: step scale since the latest
                                     // exchange
    float absence;                   // step scale of long absences whose drift has not been exchanged
                                     // completely
    uint64_t missed;                 // AWAY: rounds between the last exchange before the absence and the
                                     // first one after it
    uint64_t caught_up;              // AWAY: exchanges since then
    enum gossip_standing standing;   // of the other end, as last reported
    struct gossip_vector reference;  // [d] r, bit-identical on both ends; none before the first exchange
    struct gossip_vector correction; // [d] c, with opposite signs on the two ends; none: zero
    uint64_t reference_hash;
    struct gossip_packet request;     // ours, not answered yet
    struct gossip_packet answer;      // our answer to the latest request of the peer
    struct gossip_packet deferred;    // a request of the peer, which is ahead of our round (sync)
    uint64_t tell_ns;                 // when the peer is told again that its request waits
    struct compress_history sent;     // indices of our latest committed packet that the peer remembers
    struct compress_history received; // indices of the peer's packet, if it asked us to remember them
    uint64_t sent_ns;                 // when the block went out
    uint64_t alarm_ns;  // hello, in doubt: when to ask again; resync: when to give up the block, or to start
                        // the next one
    uint64_t barred_ns; // after implausible data, another scaling or too many RESYNCs: until then
    uint64_t orders_ns; // until then the RESYNCs that the peer has ordered are paid off
    uint64_t scaling_told; // by our latest HELLO
    uint64_t peer_scaling; // scaling of the data at the other end, as last told; 0: not known
    uint8_t question;      // number of our latest HELLO question, 1..127
    uint8_t repeats;       // how often that question was repeated
    struct gossip_trust trust;
    float peer_progress; // of the peer's learner in a round, as last told; 0: not known
    int doublings;       // of the reach, or halvings (clip.c)
    bool far;            // since the latest look an update was beyond the reach
    double moved;        // by how far this neighbour has moved our model since round `moved_round` began
    double swept;        // its square, by the blocks of the RESYNC under way
    uint64_t moved_round;
    double residual_energy, model_energy; // |x - r - q|^2 and |x|^2 when the request was made
    struct gossip_blocks blocks;
    uint64_t exchanges, crossings, resyncs, replays, discards, busy, timeouts, mismatches, implausible;
    uint64_t accounted; // of the exchanges, by the latest gossip_exchange_account
    uint8_t *stored;    // memory of the latest export
};

// edge.c. Writes the seed model, from which both ends of a new edge begin, to start. False: out of memory.
bool gossip_edge_start(const struct gossip_exchange *exchange, struct gossip_vector *start);
// An edge without an exchange has no vectors: its r is the seed model, or zero once a RESYNC has begun, and
// its c is zero. Selection reads the seed model from one vector that all these edges share (`seed`); the
// first one that commits takes it. False: out of memory.
bool gossip_edge_reads(struct gossip_exchange *exchange, const struct gossip_edge *edge);
// An exchange is about to be committed, and was checked: the edge has vectors of its own from now on.
// BASE_ENOMEM: r and c are what they were.
enum base_error gossip_edge_own(struct gossip_exchange *exchange, struct gossip_edge *edge) BASE_CHECK;
// The link has ended, or the edge restarts: frees what is not needed for a replay.
void gossip_edge_rests(struct gossip_exchange *exchange, struct gossip_edge *edge);
struct gossip_edge *gossip_edge_find(const struct gossip_exchange *exchange, const struct gossip_id *peer);
enum base_error gossip_edge_add(struct gossip_exchange *exchange, const struct gossip_id *peer,
                                struct gossip_edge **edge) BASE_CHECK;
void gossip_edge_free(const struct gossip_exchange *exchange, struct gossip_edge *edge); // NULL is fine
void gossip_edge_remove(struct gossip_exchange *exchange, struct gossip_edge *edge);
// resync.c. Sets r = 0, seq = 0, c = 0, with nothing open: both ends then average their models block by
// block.
void gossip_edge_resync(struct gossip_exchange *exchange, struct gossip_edge *edge, uint64_t epoch);
// The same without a link, as a journal has it; `fades`: the correction stays, and fades.
void gossip_edge_restart(struct gossip_exchange *exchange, struct gossip_edge *edge, uint64_t epoch,
                         bool fades);
// exchange.c. The edge ends; on_death decides what happens to its correction. BASE_ENOMEM: it stays.
enum base_error gossip_edge_forget(struct gossip_exchange *exchange, const struct gossip_id *peer,
                                   bool dead) BASE_CHECK;
// record.c. A request is open at the place of its edge.
bool gossip_edge_request_fits(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
void gossip_edge_drop_correction(struct gossip_exchange *exchange, struct gossip_edge *edge);
void gossip_edge_drop_request(struct gossip_edge *edge);
// The edge exchanges, or is about to.
bool gossip_edge_is_met(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
// Does this end ask where only one end may (RESYNC)? The end with the lower id does.
bool gossip_edge_leads(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
// Every change of an edge's state; says what the edge allows to pace.
void gossip_edge_enter(struct gossip_exchange *exchange, struct gossip_edge *edge,
                       enum gossip_edge_state state);
// The two ends scale their data differently: their models are never averaged.
bool gossip_edge_apart(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
// LIVE, or RESYNC at its current offset.
void gossip_edge_resume(struct gossip_exchange *exchange, struct gossip_edge *edge);
// HELLO or IN_DOUBT: a question is open, and is repeated until it is answered.
bool gossip_edge_asks(const struct gossip_edge *edge);
// How long to wait for the answer to a HELLO.
uint64_t gossip_edge_patience(const struct gossip_exchange *exchange, const struct gossip_edge *edge);

void gossip_edge_send(struct gossip_exchange_actions *actions, const struct gossip_edge *edge,
                      const struct gossip_message *message);
// The link has ended, or is to: nothing is sent over it any more, and what still comes is ignored.
void gossip_edge_down(struct gossip_exchange *exchange, struct gossip_edge *edge);
// What a message of this edge's peer has led to: an error that is the peer's fault becomes REFUSE, which
// names it, whichever event the step is handling, and the edge is down. BASE_ENOMEM stays, as the error of
// the step.
enum base_error gossip_edge_settle(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                   enum base_error error, struct gossip_exchange_actions *actions) BASE_CHECK;

#endif
