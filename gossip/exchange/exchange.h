// Pairwise averaging over an edge reference (DESIGN: averaging). One object per node holds the published
// model, every edge's reference r and drift correction c, and runs the exchanges as a state machine: time
// comes in with the event, messages and round ends go out as actions. The same object serves the daemon, the
// simulator and the fuzzer.
//
// Rule of one exchange, C = top-k, quantised:
//     q_i = C(x_i - r)            q_j = C(x_j - r)
//     x_i += w (q_j - q_i)        r += (q_i + q_j)/2        seq += 1
//     c_i += beta/s * w (q_j - q_i)   w = 1/2 unless the topology says otherwise (base-2 graphs)
//     beta = min(gain*k/d, limit), s = mean step scale, k = mean entries
//
// One owner (the worker thread). Memory, in vectors of d floats:
//   1            the published model
//   1            with drift correction: the sum of c. Where the trainer's own vector stays in place
//                (correction_stays) only before the first round and while a correction fades
//   1, then 2    with shared second moments; the second one from the first update that comes while the
//                trainer computes
//   1            for a while, where a RESYNC or many exchanges fall into one round: pending updates
//   1 or 2       of each edge: r, and c with drift correction; half as large each with reference_bf16
//   1            of each dead neighbour whose correction is kept
// Beside them: one list of about k entries, 64 KiB, the latest packets of every edge, and those of exchanges
// not yet passed to the trainer (4% of the model at most).
#ifndef GOSSIP_EXCHANGE_EXCHANGE_H
#define GOSSIP_EXCHANGE_EXCHANGE_H

#include "base/error.h"
#include "compress/filter.h"
#include "compress/select.h"
#include "gossip/id.h"
#include "gossip/wire/message.h"
#include "kernels/kernels.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gossip_exchange;

// The most corrections of ended edges that are kept (on_death). At the limit the one that has faded most is
// dropped, of equal ones the oldest.
#define GOSSIP_ORPHANS_MAX 32u

enum gossip_on_death { // what becomes of the last c_e of a neighbour that died
    GOSSIP_ON_DEATH_DROP,
    GOSSIP_ON_DEATH_KEEP,
    GOSSIP_ON_DEATH_FADE, // full force at first, then less each round, until the others have learned to do
                          // without it. So does the c_e of a living neighbour that is no longer met and,
                          // at an end that was not away, that of an edge whose RESYNC begins
};

struct gossip_exchange_options {
    struct gossip_id self;
    const struct kernels *kernels; // a table whose vectors are ordinary memory: the CPU's
    size_t parameters;             // d
    const float *start; // [d] the seed model, borrowed for life: r of an edge that both ends begin from it
    void (*make_start)(void *owner, float *start); // where start is NULL: makes it, the same each time; by
                                                   // the owner's thread, for each edge
    void *start_owner;
    const float *model; // [d] what is published before the first round; copied; NULL: start
    uint64_t round;     // rounds that `model` has done, without one that a checkpoint left open. Requests of
                        // later rounds wait until the trainer gets there. Not 0: resumed; until the first
                        // ROUND event this node is AWAY in blocks of a RESYNC
    float ratio;        // kept entries / d, in (0, 1]
    enum kernels_format values;
    struct compress_selection selection; // method, block and seed; k is the ratio's, at least 1 a block
    struct compress_filters filters;
    bool sync; // a round ends after its own exchange (or its deadline), else at once
    bool drift_correction;
    float drift_gain, drift_limit; // 2 and 0.25. A gain of 4 is stable in sync mode only
    unsigned share_second_moment;  // rounds until every second moment has been sent once; 0: never
    float clip; // |(q_j - q_i)/2| is cut to this multiple of its running median; 0: never. r is not cut
    enum gossip_on_death on_death; // what becomes of the correction of a neighbour that died, until LINK_UP
                                   // or a FORGET that says that it lives
    unsigned fade_rounds; // FADE: rounds until nothing of it is left, evenly; at least 1. Between two
                          // living nodes twice as many
    bool bounded;         // a round ends once no neighbour is more than max_delay rounds behind
    uint64_t max_delay;   // unless sync, also: rounds in a row that a node does without an exchange
    uint64_t deadline_floor_ns, deadline_ceiling_ns;
    bool reference_bf16; // r and c of every edge take 2 bytes an element. The same at both ends of an edge
    bool mutate_ignore_sequence; // tests only: accept any sequence number (consensus must then stall)
};

enum gossip_exchange_event_kind {
    GOSSIP_EXCHANGE_LINK_UP,   // an authenticated stream to `peer` exists, and it trains the same model
    GOSSIP_EXCHANGE_LINK_DOWN, // that stream ended, or `unmet`: no round meets `peer` any longer
    GOSSIP_EXCHANGE_FORGET,    // `peer` is no longer a neighbour: free r, drop c
    GOSSIP_EXCHANGE_MESSAGE,   // HELLO, XCHG, XACK, BUSY or CLOCK of `peer`
    GOSSIP_EXCHANGE_ROUND,     // the trainer stands at a round boundary
    GOSSIP_EXCHANGE_GIVE_UP,   // the trainer waits no longer: an open round ends now, without its exchange
    GOSSIP_EXCHANGE_TIMER,     // the deadline from gossip_exchange_deadline has passed
};
struct gossip_exchange_event {
    enum gossip_exchange_event_kind kind;
    uint64_t now_ns;                      // monotonic
    struct gossip_id peer;                // all but ROUND, GIVE_UP and TIMER
    const struct gossip_message *message; // MESSAGE
    bool dead;                            // FORGET: it died (on_death); else it lives and is no longer met
    bool unmet;                           // LINK_DOWN: nothing from it is awaited
    struct {                              // ROUND; vectors are borrowed until ROUND_DONE
        uint64_t round;                   // >= 1, growing
        bool meets;                       // the schedule names a partner: `partner`
        struct gossip_id partner;
        float weight;     // w of this meeting: x_i += w (q_j - q_i); 0 stands for 1/2
        uint64_t pace_ns; // time of one local step of this node; 0: not known
        bool idle;        // bounded: until its next round no node need wait for this one (it has finished, or
                          // pauses), and it waits for none
        bool follows; // sync, idle: the node is about to go on. The round lasts until every LIVE neighbour
                      // has said where it is now, a deadline at most
        bool others;  // sync: the view has others that train, so that no local step is made alone: the
                      // round waits, up to the deadline's ceiling, while no edge can be met over
        uint8_t standing;      // enum gossip_standing of this node from now on. AWAY takes effect when first
                               // passed and ends by itself; PRESENT ends FINISHED, never AWAY
        bool unusable;         // the trainer's x is not finite: it is not published, and ROUND_DONE hands the
                               // published one back
        float step_scale;      // learning rate x local steps of this round
        float *model;          // [d] in: the trainer's x; out (ROUND_DONE): x with all corrections
        float *second_moment;  // [d] the same for Adam's v, or NULL
        float *correction;     // [d] out: sum over edges of c_e, or NULL
        bool correction_stays; // it lies there as it was handed out, and is not freed, until the next ROUND,
                               // which names it again: the exchange then keeps no sum of its own
    } round;
};

enum gossip_exchange_action_kind {
    GOSSIP_EXCHANGE_SEND,       // `message` to `peer`; payloads valid until the next step
    GOSSIP_EXCHANGE_ROUND_DONE, // the trainer may go on; its vectors are its own again
};
struct gossip_exchange_action {
    enum gossip_exchange_action_kind kind;
    struct gossip_id peer;
    struct gossip_message message;
    uint64_t round; // ROUND_DONE: the one that the node goes on from: the event's, or in sync, where every
                    // LIVE neighbour heard of is past that, the one before the boundary reached by the last
                    // of them; never more than gossip_exchange_reach further
};
#define GOSSIP_EXCHANGE_ACTIONS 16
struct gossip_exchange_actions {
    size_t count;
    struct gossip_exchange_action list[GOSSIP_EXCHANGE_ACTIONS];
};

enum base_error gossip_exchange_create(const struct gossip_exchange_options *options,
                                       struct gossip_exchange **exchange, struct base_reason *why) BASE_CHECK;
void gossip_exchange_destroy(struct gossip_exchange *exchange);

// Takes one event; *actions is overwritten, and must be carried out whatever is returned: a round may end in
// any step. BASE_EFORMAT: the peer's payload broke the codec or the protocol (close its link; no model,
// reference or correction has changed). BASE_ENOMEM: likewise; a round that it hits ends without its
// exchange.
enum base_error gossip_exchange_step(struct gossip_exchange *exchange,
                                     const struct gossip_exchange_event *event,
                                     struct gossip_exchange_actions *actions) BASE_CHECK;

// The scaling of the data with which the published model has learned, as a hash; 0 (at first): it needs none,
// or it is not known yet. Ends that name two of them are not averaged: a step returns BASE_EMISMATCH for the
// peer's HELLO. Between two steps; links that are there are told in the next one.
void gossip_exchange_scaling(struct gossip_exchange *exchange, uint64_t scaling);

// From now on events change nothing and no action follows; what the export gives stays. For the last
// checkpoint of a node that stops: nothing is answered that it does not contain.
void gossip_exchange_freeze(struct gossip_exchange *exchange);

// How many rounds a node may have been away and still go on with its own model and edges: what an edge's
// reference bridges by exchanges at the cost of a RESYNC, 2 d/k.
uint64_t gossip_exchange_reach(const struct gossip_exchange *exchange);

// Outside of rounds: how this node stands. AWAY ends by itself once the node has caught up: when each of its
// live edges has met as often as its absence asks for, or behind a RESYNC in which it adopted.
void gossip_exchange_standing(struct gossip_exchange *exchange, enum gossip_standing standing);

// When to send TIMER next (monotonic ns), UINT64_MAX for never.
uint64_t gossip_exchange_deadline(const struct gossip_exchange *exchange);

enum gossip_edge_state {
    GOSSIP_EDGE_DOWN,     // no link
    GOSSIP_EDGE_HELLO,    // linked, state not yet compared
    GOSSIP_EDGE_LIVE,     // exchanges
    GOSSIP_EDGE_RESYNC,   // dense averaging in blocks
    GOSSIP_EDGE_IN_DOUBT, // an answer is missing; asked the peer
};
const char *gossip_edge_state_name(enum gossip_edge_state state);
const char *gossip_standing_name(enum gossip_standing standing);

struct gossip_edge_info {
    struct gossip_id peer;
    enum gossip_edge_state state;
    uint64_t epoch, sequence, clock; // clock: the latest round that met over this edge
    uint64_t resync_offset;          // elements that RESYNC has covered; all of them when LIVE
    uint64_t exchanges, resyncs, replays, discards, busy, timeouts, mismatches, implausible; // since start
    uint64_t answer_median_ns, deadline_ns;
    uint64_t pace_ns;                    // of one local step there, as last reported; 0: not known
    uint64_t scaling, other_scaling;     // ours and the peer's where they are two, else 0 and 0
    bool barred;                         // it sent something that was refused: not met for a while
    enum gossip_standing standing;       // of the other end, as last reported
    const float *reference, *correction; // [d], borrowed until the next step; correction may be NULL
    const uint16_t *reference_bf16, *correction_bf16; // in place of them (options.reference_bf16)
};
size_t gossip_exchange_edges(const struct gossip_exchange *exchange);
void gossip_exchange_edge_info(const struct gossip_exchange *exchange, size_t edge,
                               struct gossip_edge_info *info);

struct gossip_exchange_totals {
    uint64_t exchanges;            // committed, sparse
    uint64_t delta_bytes_out;      // packets sent, payload only
    uint64_t dense_bytes_out;      // what the same exchanges would have sent as dense fp32
    uint64_t clipped;              // received updates that were cut
    uint64_t waits;                // bounded: rounds that ended by their deadline, a neighbour still behind
    uint64_t not_finite;           // exchanges refused because this node's own model holds NaN or Inf
    uint64_t orphans_dropped;      // orphaned corrections over GOSSIP_ORPHANS_MAX
    uint64_t implausible;          // messages refused because no honest member would send them
    double consensus;              // |x - r| / |x| after the latest exchange, NAN before the first
    enum gossip_standing standing; // of this node, now
    uint64_t memory;               // bytes of vectors and packets, now
};
void gossip_exchange_totals(const struct gossip_exchange *exchange, struct gossip_exchange_totals *totals);
size_t gossip_exchange_parameters(const struct gossip_exchange *exchange);  // d
const float *gossip_exchange_model(const struct gossip_exchange *exchange); // [d] the published model
// [d] the published second moments, or NULL where there are none.
const float *gossip_exchange_second_moment(const struct gossip_exchange *exchange);
// [d] sum of c_e over edges and of what is kept, or NULL without drift correction: for the first steps after
// a restart. Where the trainer's vector stays, it is the sum at the latest boundary.
const float *gossip_exchange_correction(const struct gossip_exchange *exchange);

// Between two rounds: this node goes on from a snapshot taken after `round` instead of what it had. Forgets
// every edge, so that all of them begin anew; with FADE the pulls that it had go on fading, as at the other
// ends. second_moment: [d] or NULL.
void gossip_exchange_adopt(struct gossip_exchange *exchange, const float *model, const float *second_moment,
                           uint64_t round);

// This node's time per step over the median of its live neighbours' and its own: the geometric mean over the
// latest rounds in which one of these was known, a recent one counting more (64 of them: 63%). 1 before that.
double gossip_exchange_pace(const struct gossip_exchange *exchange);

// State of one edge for a checkpoint. Taken between ROUND_DONE and the next step; pointers are borrowed until
// then. An exchange of which this node does not know the end travels along and is settled after the restart.
// If a node was frozen in an open round, or had to leave it open, the published model (and moments) belong to
// these states: resumed, it sends ROUND for the same round again, with that model.
struct gossip_edge_record {
    struct gossip_id peer;
    uint64_t epoch, sequence, resync_offset, clock;
    const float *reference;                           // [d]
    const float *correction;                          // [d] or NULL
    const uint16_t *reference_bf16, *correction_bf16; // in place of them (options.reference_bf16)
    const uint8_t *transactions;                      // open request and last answer, opaque
    size_t transactions_bytes;
};
enum base_error gossip_exchange_export(struct gossip_exchange *exchange, size_t edge,
                                       struct gossip_edge_record *record) BASE_CHECK;
// Before the first event. Copies. The published model must be the one of the same checkpoint (options.model).
// BASE_EFORMAT when the record is damaged: the edge is then left out (it will RESYNC).
enum base_error gossip_exchange_import(struct gossip_exchange *exchange,
                                       const struct gossip_edge_record *record) BASE_CHECK;
// Sync: whether the exchange of `round` with this partner (NULL: none was due) was made. Async, or without a
// partner: true.
bool gossip_exchange_met(const struct gossip_exchange *exchange, const struct gossip_id *partner,
                         uint64_t round);
// For checkpoints: the corrections that ended edges have left (on_death), at most GOSSIP_ORPHANS_MAX. How
// many there are, and each of them, borrowed until the next step. gossip_exchange_keep takes one back:
// before the first event, after the edges; it copies. BASE_EFORMAT: not finite, or for a peer that was given
// before.
struct gossip_orphan_record {
    struct gossip_id peer;
    const float *correction; // c_e [d]
    uint64_t left;           // FADE: rounds until nothing of it is left; 0: not known, as at a death
};
size_t gossip_exchange_orphans(const struct gossip_exchange *exchange);
struct gossip_orphan_record gossip_exchange_orphan_at(const struct gossip_exchange *exchange, size_t at);
enum base_error gossip_exchange_keep(struct gossip_exchange *exchange,
                                     const struct gossip_orphan_record *record) BASE_CHECK;

#endif
