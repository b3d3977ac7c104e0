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
// The object's vectors are in the memory of the table of kernels that its options name, and only functions of
// that table touch their elements. Packets are in ordinary memory; nothing else is copied between the two.
// Ordinary code reads a vector in "kernels' memory" by the table's `download`; on the CPU the two memories
// are one. Vectors from files and from the wire are in ordinary memory (start, model, import, keep, adopt,
// replace).
//
// One owner (the worker thread). Memory, in vectors of d floats:
//   1            the published model
//   1            with drift correction: the sum of c. With correction_stays it exists only before the first
//                round, while a correction fades, and while more updates are pending than are kept as packets
//   1, then 2    with shared second moments; the second vector is allocated when the first update arrives
//                while the trainer computes
//   1            temporarily, for pending updates, when a RESYNC or many exchanges happen in one round
//   1 or 2       for each edge that has made an exchange: r, and c with drift correction; half as large with
//                reference_bf16
//   1            while edges that have made none are about to: the seed model, of the same size as r
//   1            for each dead neighbour whose correction is kept
// In addition: one list of about k entries, 64 KiB of windows, the latest packets of every edge, and the
// packets of exchanges that the trainer has not received yet (at most 4% of the model). If the kernels have
// memory of their own, it holds the vectors, the list and 1.5 MiB of windows. The host then holds packets, 1
// MiB of windows and, while an edge begins, the seed model if `make_start` writes it.
#ifndef GOSSIP_EXCHANGE_EXCHANGE_H
#define GOSSIP_EXCHANGE_EXCHANGE_H

#include "base/error.h"
#include "compress/filter.h"
#include "compress/select.h"
#include "gossip/exchange/trust.h"
#include "gossip/id.h"
#include "gossip/pace/pace.h"
#include "gossip/wire/message.h"
#include "kernels/kernels.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gossip_exchange;

// Maximum number of corrections that are kept after their edges ended (on_death). At the limit the most faded
// correction is dropped; among equally faded ones, the oldest.
#define GOSSIP_ORPHANS_MAX 32u

// Maximum number of edges without a link whose vectors are kept, so that they go on when it is back: twice
// the neighbours of a node among 256 on a butterfly.
#define GOSSIP_EDGES_DOWN 16u

enum gossip_robust {
    GOSSIP_ROBUST_OFF,
    GOSSIP_ROBUST_CLIP,  // limits how far an update of a neighbour moves the model (clip.h)
    GOSSIP_ROBUST_PROBE, // also, the learner compares models (trust.h), and gossip_exchange_look is called
};

enum gossip_on_death { // what happens to the last correction c_e of a neighbour that died
    GOSSIP_ON_DEATH_DROP,
    GOSSIP_ON_DEATH_KEEP,
    GOSSIP_ON_DEATH_FADE, // full strength at first, then less in each round, so that the other nodes can
                          // learn to do without it. FADE also applies to a living neighbour that is no
                          // longer met and, at an end that was not away, to an edge whose RESYNC begins
};

struct gossip_exchange_options {
    struct gossip_id self;
    const struct kernels *kernels; // in whose memory the vectors are
    size_t parameters;             // d
    const float *start; // [d] the seed model, borrowed until destroy: the first r of an edge that both ends
                        // begin from it
    void (*make_start)(void *owner, float *start); // if start is NULL: writes the seed model, the same at
                                                   // every call; called in the owner's thread for the first
                                                   // exchange of each edge
    void *start_owner;
    const float *model; // [d] the model published before the first round; copied; NULL: start
    uint64_t round;     // rounds that `model` has completed, not counting one that a checkpoint left open.
                        // Requests of later rounds wait until the trainer reaches them. Not 0: the node is
                        // resumed, and until its first ROUND event it is AWAY in RESYNC blocks
    float ratio;        // kept entries / d, in (0, 1]; 0: auto (compress_select_count)
    enum kernels_format values;
    struct compress_selection selection; // method, block and seed; k follows from the ratio, at least 1 per
                                         // block
    struct compress_filters filters;
    bool sync; // a round ends after its own exchange or its deadline; without sync, once the exchange of the
               // previous round is made
    bool drift_correction;
    float drift_gain, drift_limit; // usually 2 and 0.25. A gain of 4 is stable in sync mode only
    float hold; // h in [0, 1]: the part of what an exchange has not sent that the learner holds back
                // (round.held). Each node may have another one
    unsigned share_second_moment; // rounds until every second moment has been sent once; 0: never
    enum gossip_robust robust;
    enum gossip_on_death on_death; // applies to a neighbour that died. LINK_UP, and a FORGET that says that
                                   // it is alive, drop a kept correction, but not one that fades
    unsigned fade_rounds; // FADE: rounds over which a correction fades linearly to zero; at least 1. Twice
                          // as many between two living nodes
    bool bounded;         // a round ends once no neighbour is more than max_delay rounds behind
    uint64_t max_delay;   // also, without sync: the most consecutive rounds that a node makes without an
                          // exchange
    uint64_t overlap;     // without sync: struct gossip_pace_options
    uint64_t deadline_floor_ns, deadline_ceiling_ns;
    bool reference_bf16; // r and c of every edge take 2 bytes per element. Both ends of an edge must have
                         // the same setting. Refused if the kernels do not share the host's memory
};

enum gossip_exchange_event_kind {
    GOSSIP_EXCHANGE_LINK_UP,   // an authenticated stream to `peer` exists, and `peer` trains the same model
    GOSSIP_EXCHANGE_LINK_DOWN, // that stream ended; with `unmet`, no round meets `peer` any longer
    GOSSIP_EXCHANGE_FORGET,    // `peer` is no longer a neighbour: free r; on_death decides what happens to c
    GOSSIP_EXCHANGE_TRUST,     // what the learner says of the reference of `peer` (gossip_exchange_look)
    GOSSIP_EXCHANGE_MESSAGE,   // HELLO, XCHG, XACK, BUSY or PARKED of `peer`
    GOSSIP_EXCHANGE_NEWS,      // the rounds that members have reported
    GOSSIP_EXCHANGE_ROUND,     // the trainer stands at a round boundary
    GOSSIP_EXCHANGE_GIVE_UP,   // the trainer stops waiting: an open round ends now, without its exchange
    GOSSIP_EXCHANGE_TIMER,     // the deadline from gossip_exchange_deadline has passed
};
struct gossip_exchange_event {
    enum gossip_exchange_event_kind kind;
    uint64_t now_ns;                      // monotonic
    struct gossip_id peer;                // all but ROUND, GIVE_UP and TIMER
    const struct gossip_message *message; // MESSAGE
    bool dead;                            // FORGET: `peer` died (on_death applies). If false, it is alive
                                          // but no longer met
    bool unmet;                           // LINK_DOWN: nothing is expected from `peer`
    struct gossip_losses losses;          // TRUST
    struct {                              // ROUND; vectors are in the kernels' memory, and are borrowed
                                          // until ROUND_DONE
        uint64_t round;                   // >= 1, growing
        bool meets;                       // the schedule names a partner for this round: `partner`
        struct gossip_id partner;
        float weight;     // w of this meeting: x_i += w (q_j - q_i); 0 means 1/2
        uint64_t pace_ns; // time of one local step of this node; 0: not known
        bool idle;        // no local step is due before the next round: the node has finished or is paused.
                          // It answers at once, and waits for none
        uint64_t turn;    // rounds within which this node meets each of its neighbours
        bool others; // other nodes in the view train, so this node should not train alone. Sync: while no
                     // edge can exchange, the round waits, up to the deadline's ceiling. Async: max_delay
                     // limits the rounds without an exchange
        uint8_t standing;      // enum gossip_standing: the standing of this node from now on. AWAY takes
                               // effect when it is first passed, and ends by itself. PRESENT ends FINISHED
                               // but not AWAY
        bool unusable;         // the trainer's x is not finite: it is not published, and ROUND_DONE returns
                               // the published one
        float step_scale;      // learning rate x local steps of this round
        float *model;          // [d] in: the trainer's x; out (ROUND_DONE): x after all exchanges
        float *second_moment;  // [d] the same for Adam's v, or NULL
        float *correction;     // [d] out: sum over edges of c_e, or NULL
        float *held;           // [d] out: e, or NULL: the learner subtracts it from x before its steps, and
                               // adds it after them. At first zero; nobody else changes it, and every ROUND
                               // passes the same pointer
        bool correction_stays; // the trainer leaves `correction` unchanged and allocated until the next
                               // ROUND, which passes the same pointer. The exchange then keeps no sum of its
                               // own
    } round;
    struct {                                 // NEWS, of other members that train
        const struct gossip_report *reports; // [count], those with the smallest gossip_news_rank
        size_t count, members;               // count <= GOSSIP_NEWS_MEMBERS, of `members`
        bool alone;                          // none does any more: the open round waits for nobody
    } news;
};

enum gossip_exchange_action_kind {
    GOSSIP_EXCHANGE_SEND,       // `message` to `peer`; payloads valid until the next step
    GOSSIP_EXCHANGE_ROUND_DONE, // the trainer may continue; its vectors are no longer borrowed
    GOSSIP_EXCHANGE_REFUSE, // close the link of `peer`, which has sent what is refused, and say `why`. Its
                            // message has changed no model, reference or correction
    GOSSIP_EXCHANGE_JUDGED, // `verdict` about `peer`: trust has ended, or come back
};
enum gossip_refusal {
    GOSSIP_REFUSAL_IMPLAUSIBLE, // no honest member would send such values; its training may have diverged
    GOSSIP_REFUSAL_BROKEN,      // the message violates the codec or the protocol
    GOSSIP_REFUSAL_SCALING,     // the peer scales its data differently
};
struct gossip_exchange_action {
    enum gossip_exchange_action_kind kind;
    struct gossip_id peer;         // SEND, REFUSE, JUDGED
    enum gossip_verdict verdict;   // JUDGED
    enum gossip_refusal why;       // REFUSE
    struct gossip_message message; // SEND
    uint64_t round; // ROUND_DONE: the round that the node continues from. It is the event's round, except
                    // in sync when every neighbour is further ahead than one in step can be: then the node
                    // skips rounds, to the one before the hindmost of them, but at most
                    // gossip_exchange_reach rounds
};
#define GOSSIP_EXCHANGE_ACTIONS 16
struct gossip_exchange_actions {
    size_t count;
    struct gossip_exchange_action list[GOSSIP_EXCHANGE_ACTIONS];
};

enum base_error gossip_exchange_create(const struct gossip_exchange_options *options,
                                       struct gossip_exchange **exchange, struct base_reason *why) BASE_CHECK;
void gossip_exchange_destroy(struct gossip_exchange *exchange);

// Handles one event. *actions is overwritten, and must be carried out whatever the return value: a round may
// end in any step. What a peer did wrong is an action that names it, because a step may handle an earlier
// message of another peer than the event's. BASE_ENOMEM, the only error: out of memory; the event, or a
// message that this step should have answered, has no effect, as if it were lost, and an open round may end
// without its exchange. No model, reference or correction has changed by it.
enum base_error gossip_exchange_step(struct gossip_exchange *exchange,
                                     const struct gossip_exchange_event *event,
                                     struct gossip_exchange_actions *actions) BASE_CHECK;

// Sets the hash of the data scaling with which the published model was trained. 0, the initial value: the
// data need no scaling, or it is not known yet. Two ends with different scalings, neither of them 0, are not
// averaged: the peer's HELLO is refused. Call this between two steps; the next step tells the linked peers.
void gossip_exchange_scaling(struct gossip_exchange *exchange, uint64_t scaling);

// From now on events change nothing and cause no actions, so what is exported stays the same. For the last
// checkpoint of a node that stops: it contains every exchange that this node has answered.
void gossip_exchange_freeze(struct gossip_exchange *exchange);
bool gossip_exchange_frozen(const struct gossip_exchange *exchange);
// Of a frozen one: the published model becomes `model`, and updates that the trainer has not received are
// dropped. Edges stay as they are.
void gossip_exchange_replace(struct gossip_exchange *exchange, const float *model);

// The most rounds that a node may have been away and still continue with its own model and edges: 2 d/k.
// Beyond that, catching up by exchanges costs more than a RESYNC.
uint64_t gossip_exchange_reach(const struct gossip_exchange *exchange);

// Of a resumed node: how many rounds the furthest member in training was ahead of it when its state was
// stored. Async: those rounds were not missed.
uint64_t gossip_exchange_behind(const struct gossip_exchange *exchange);

// When to send TIMER next (monotonic ns), UINT64_MAX for never.
uint64_t gossip_exchange_deadline(const struct gossip_exchange *exchange);

enum gossip_edge_state {
    GOSSIP_EDGE_DOWN,     // no link
    GOSSIP_EDGE_BARRED,   // linked, but the peer sent something that was refused: nothing for a while
    GOSSIP_EDGE_HELLO,    // linked; the states of the two ends are not compared yet
    GOSSIP_EDGE_LIVE,     // exchanges
    GOSSIP_EDGE_RESYNC,   // dense averaging in blocks
    GOSSIP_EDGE_IN_DOUBT, // an answer is missing; this node has asked the peer
};
const char *gossip_edge_state_name(enum gossip_edge_state state);
const char *gossip_standing_name(enum gossip_standing standing);

struct gossip_edge_info {
    struct gossip_id peer;
    enum gossip_edge_state state;
    uint64_t epoch, sequence, clock; // clock: the latest round with an exchange over this edge
    uint64_t resync_offset;          // elements that RESYNC has covered; all of them when LIVE
    uint64_t exchanges, crossings, resyncs, replays, discards, busy, timeouts, mismatches,
        implausible; // since start; crossings: exchanges of two requests
    uint64_t answer_median_ns, deadline_ns;
    uint64_t pace_ns; // time of one local step of the peer, as last reported; 0: not
                      // known
    float rates;      // the learning rate of the peer over ours, if they are far apart (speed.c), else 0
    uint64_t scaling, other_scaling; // ours and the peer's if they differ, else 0 and 0
    bool begins;                     // compared; begins late, with this node's first round
    bool silent;                     // it was waited for in vain, and has made no exchange since
    bool barred;                     // the peer sent something that was refused: no exchange with it for
                                     // a while
    enum gossip_standing standing;   // of the other end, as last reported
    struct gossip_trust trust;
    const float *reference, *correction; // [d], in the kernels' memory, borrowed until the next step; NULL
                                         // before the first exchange (see gossip_edge_record)
    const uint16_t *reference_bf16, *correction_bf16; // used instead (options.reference_bf16)
};
size_t gossip_exchange_edges(const struct gossip_exchange *exchange);
bool gossip_exchange_knows(const struct gossip_exchange *exchange,
                           const struct gossip_id *peer); // an edge, or what is kept of one
// There are more edges with vectors and without a link than GOSSIP_EDGES_DOWN: the owner forgets `peer`,
// whose edge has made the fewest exchanges, and was met least recently among these.
bool gossip_exchange_surplus(const struct gossip_exchange *exchange, struct gossip_id *peer);
void gossip_exchange_edge_info(const struct gossip_exchange *exchange, size_t edge,
                               struct gossip_edge_info *info);

// The reference of the edge whose turn it is to be judged, [d] in ordinary memory: the mean of the two models
// as far as the packets have brought it. The learner compares it with its own model, and TRUST says the
// result. False: none is due.
bool gossip_exchange_look(const struct gossip_exchange *exchange, struct gossip_id *peer, float *reference);

struct gossip_exchange_totals {
    uint64_t exchanges;             // committed, sparse
    uint64_t delta_bytes_out;       // packets sent, payload only
    uint64_t dense_bytes_out;       // what the same exchanges would have sent as dense fp32
    uint64_t clipped;               // received updates that were clipped
    uint64_t distrusted;            // neighbours, now
    struct gossip_pace_waits waits; // of boundaries
    bool apart;                     // gossip_pace_apart
    enum gossip_pace_reason reason; // of the wait in progress
    struct gossip_id waits_for;     // ... and the neighbour; this node's own id: no single one
    uint64_t not_finite;            // exchanges refused because this node's own model holds NaN or Inf
    uint64_t orphans_dropped;       // orphaned corrections over GOSSIP_ORPHANS_MAX
    uint64_t implausible;           // messages refused because no honest member would send them
    double consensus;               // |x - r| / |x| after the latest exchange, NAN before the first
    enum gossip_standing standing;  // of this node, now
    uint64_t memory;                // bytes of vectors and packets, now
    uint64_t entries;               // k: of the d, in one packet
};
void gossip_exchange_totals(const struct gossip_exchange *exchange, struct gossip_exchange_totals *totals);
size_t gossip_exchange_parameters(const struct gossip_exchange *exchange); // d
const struct kernels *gossip_exchange_kernels(const struct gossip_exchange *exchange);
// The published model, [d], in the kernels' memory.
const float *gossip_exchange_model(const struct gossip_exchange *exchange);
// Memory that no checkpoint needs and the next boundary overwrites: the published model. NULL if it is on a
// device.
const void *gossip_exchange_scratch(const struct gossip_exchange *exchange, size_t *bytes);
// The sum of c_e over all edges and of the kept corrections, for the first steps after a restart; NULL
// without drift correction. With correction_stays it is the sum at the latest boundary. [d], in the kernels'
// memory.
const float *gossip_exchange_correction(const struct gossip_exchange *exchange);

// Between two rounds: replaces the model of this node by a snapshot taken after `round`. Forgets every edge,
// so that all of them start again; with FADE their corrections continue to fade, as at the other ends.
// model and second_moment (or NULL): [d] in ordinary memory; copied.
void gossip_exchange_adopt(struct gossip_exchange *exchange, const float *model, const float *second_moment,
                           uint64_t round);

// This node's time per step, divided by the median of its live neighbours' times and its own: a geometric
// mean over past rounds in which a time was known, with exponentially decreasing weights (the latest 64
// rounds have 63% of the weight). 1 before the first such round.
double gossip_exchange_pace(const struct gossip_exchange *exchange);

// State of one edge for a checkpoint. Taken between ROUND_DONE and the next step; pointers are borrowed until
// then. An exchange whose outcome this node does not know is part of the record and is resolved after the
// restart. If the node was frozen in an open round, or had to leave it open, the published model (and
// moments) belong to these records: after the restart the node sends ROUND for the same round again, with
// that model. The vectors that export returns are in the kernels' memory; those that import takes are in
// ordinary memory.
struct gossip_edge_record {
    struct gossip_id peer;
    uint64_t epoch, sequence, resync_offset, clock;
    const float *reference;  // [d]; NULL if there was no exchange yet: the seed model, or zero if
                             // resync_offset is 0
    const float *correction; // [d]; NULL: zero
    const uint16_t *reference_bf16, *correction_bf16; // used instead (options.reference_bf16)
    const uint8_t *transactions;                      // open request and last answer, opaque
    size_t transactions_bytes;
};
enum base_error gossip_exchange_export(struct gossip_exchange *exchange, size_t edge,
                                       struct gossip_edge_record *record) BASE_CHECK;
// Call this before the first event. The record is copied. The published model must be from the same
// checkpoint (options.model). BASE_EFORMAT: the record is damaged; the edge is left out, and will RESYNC.
enum base_error gossip_exchange_import(struct gossip_exchange *exchange,
                                       const struct gossip_edge_record *record) BASE_CHECK;
// The journal: what changes edges after a checkpoint, as records in the order in which it happens. With it a
// process that was killed comes back to where its neighbours are, and no edge begins again. The owner calls
// journal_begin when a checkpoint of this state begins, or when the process has been restored; after every
// step it appends what gossip_exchange_journal returns to a file, before it carries out the actions of the
// step. Bytes of a record: those of the packets, and about 150. With gossip_exchange_adopt, and out of
// memory, the journal ends; the next journal_begin begins another one.
void gossip_exchange_journal_begin(struct gossip_exchange *exchange);
bool gossip_exchange_journal_kept(const struct gossip_exchange *exchange);
// The records of the latest step, valid until the next one; *bytes is 0 if there are none.
const uint8_t *gossip_exchange_journal(const struct gossip_exchange *exchange, size_t *bytes);

// A record, for people.
struct gossip_journal_entry {
    const char *kind; // a constant word
    struct gossip_id peer;
    uint64_t round, epoch, sequence; // this node's round; the place of the edge before the change
    size_t bytes;
};
// The record at *at, which then is the place of the next one. False: there is none, or it is damaged.
bool gossip_exchange_journal_next(const uint8_t *records, size_t bytes, size_t *at,
                                  struct gossip_journal_entry *entry);

struct gossip_exchange_replayed {
    size_t bytes;               // of whole records, from the first one on
    uint64_t records, left_out; // left_out: they do not fit their edge, which will RESYNC
    uint64_t round;             // the latest round that the node has reached
};
// After import and keep, before the first event: applies the records that were made since the checkpoint. x,
// r, c, epoch, sequence, hash, the stored answer and the open request of every edge are then what they were
// after the latest record; x lacks what local steps did to it since then, except at the entries that were
// sent. The trainer gets these updates with its first round. A damaged or incomplete record ends the journal:
// replayed->bytes says where. May be called again for records that follow. BASE_ENOMEM: the object is not
// usable. recovers: false if the trainer still has to change this model itself (outer momentum): what was
// sent holds that change, and it would count twice. Lost steps are then lost at all entries.
enum base_error gossip_exchange_replay(struct gossip_exchange *exchange, const uint8_t *records, size_t bytes,
                                       bool recovers, struct gossip_exchange_replayed *replayed) BASE_CHECK;

// Sync: whether the exchange of `round` with this partner (NULL: none was due) was made. Async, or without a
// partner: true.
bool gossip_exchange_met(const struct gossip_exchange *exchange, const struct gossip_id *partner,
                         uint64_t round);
// For checkpoints: the corrections of ended edges that are kept (on_death), at most GOSSIP_ORPHANS_MAX.
// gossip_exchange_orphans returns their number, gossip_exchange_orphan_at one of them, in the kernels'
// memory, borrowed until the next step. gossip_exchange_keep restores one from ordinary memory: call it
// before the first event and after the edges are imported. It copies. BASE_EFORMAT: the correction is not
// finite, or this peer already has one.
struct gossip_orphan_record {
    struct gossip_id peer;
    const float *correction; // c_e [d]
    uint64_t left;           // FADE: rounds until it has faded to zero; 0: not known, as for a peer that
                             // died
};
size_t gossip_exchange_orphans(const struct gossip_exchange *exchange);
struct gossip_orphan_record gossip_exchange_orphan_at(const struct gossip_exchange *exchange, size_t at);
enum base_error gossip_exchange_keep(struct gossip_exchange *exchange,
                                     const struct gossip_orphan_record *record) BASE_CHECK;

#endif
