// The state of one exchange object. Private to gossip/exchange: sparse.c and dense.c change vectors,
// averaging.c is one transaction of them, pending.c and pending_list.c keep the updates due to the trainer,
// hello.c compares the ends of an edge, request.c decides which end asks and which answers, record.c stores
// and restores.
#ifndef GOSSIP_EXCHANGE_STATE_H
#define GOSSIP_EXCHANGE_STATE_H

#include "gossip/exchange/clip.h"
#include "gossip/exchange/edge.h"
#include "gossip/exchange/journal.h"
#include "gossip/exchange/merge.h"
#include "gossip/exchange/pending.h"

// The sum of c over all edges and of the kept corrections. With correction_stays the trainer's copy is the
// only one: between two rounds the changes of the sum are then deferred, as the updates of x are.
struct gossip_sum {
    float *now;  // [d] the sum: `own`, or the trainer's vector while its round is open; NULL: deferred
    float *own;  // [d] or NULL
    float *lent; // [d] deferred: the trainer's vector, which holds the sum of its latest boundary
    bool stale;  // deferred: `lent` and the pending updates are not sufficient; the sum is recomputed
    bool kept;   // `own` was used since the latest boundary
};

struct gossip_orphan { // the correction of an edge that ended because its peer died or (FADE) is no longer
                       // met
    struct gossip_id peer;
    float *correction; // [d]
    unsigned left;     // FADE: rounds until it has faded to zero
    uint64_t order;    // the order in which the orphans were added
};

// What the learner holds back, e (hold.c).
enum gossip_hold_state {
    GOSSIP_HOLD_NOTHING, // e is zero
    GOSSIP_HOLD_DUE,     // an exchange was made since the learner got e: the next e is measured on its edge
    GOSSIP_HOLD_KEPT,    // e is of the latest exchange, over `edge`
    GOSSIP_HOLD_LOST,    // e is of an edge that has ended
};
struct gossip_hold {
    enum gossip_hold_state state;
    const struct gossip_edge *edge; // DUE, KEPT
    float *lent; // [d] the learner's vector, as of the latest boundary; NULL: it holds nothing back
};

struct gossip_accounted { // as of the latest gossip_exchange_account
    struct gossip_pace_done done;
    uint64_t wait_ns[GOSSIP_PACE_REASONS];
};

struct gossip_exchange {
    struct gossip_exchange_options options;
    size_t entries;                 // k
    uint64_t start_hash, zero_hash; // of the seed model as r, of a vector of zeros
    struct gossip_vector seed;      // [d] r of the edges without an exchange; made when it is read
    float *model;                   // [d] published x: `own`, or the trainer's vector while its round is open
    float *own;                     // [d]
    struct gossip_pending pending;
    float *second;         // [d] published v, likewise; NULL unless shared
    float *own_second;     // [d]
    float *pending_second; // [d] updates of v since the trainer continued; NULL before the first one
    bool second_moved;     // pending_second is not zero
    bool second_known;     // the trainer has published v
    float second_largest;  // largest value of v
    double norm;           // |x|, as last measured
    bool summed;           // the sum was restored from a checkpoint, including its rounding errors
    struct gossip_sum sum;
    struct compress_sparse chosen;         // scratch: the entries from which a packet is made, then the
                                           // values as the packet encodes them
    const struct gossip_packet *chosen_of; // the packet that `chosen` still describes, or NULL
    struct gossip_window *window;          // [2] scratch: windows of our packet and of theirs

    struct gossip_edge **edges;
    size_t n_edges;
    struct gossip_orphan *orphans;
    size_t n_orphans;
    uint64_t orphans_made;
    struct gossip_pace pace;
    uint8_t news_bytes[GOSSIP_NEWS_BYTES]; // of the packets of this step
    uint64_t wait_ns;                      // until when the open boundary waits; UINT64_MAX: it does not

    uint64_t now_ns;
    uint64_t age;      // the highest number of rounds that the published model has
                       // completed
    uint64_t furthest; // the highest round that a member in training has reported
    uint64_t behind;   // resumed: rounds by which this node was behind that when its state was stored
    uint64_t counted;  // latest round whose local steps are in `rounds` and `progress`
    float step_scale;  // of the latest of these rounds
    float lately;      // step scale of the larger steps whose drift may not have been
                       // exchanged completely; at least step_scale
    double progress;   // sum of the step scales of all rounds
    uint64_t pace_ns;  // as last reported by the trainer
    double log_pace;   // logarithm of gossip_exchange_pace
    uint64_t scaling;  // gossip_exchange_scaling
    bool begun;        // resumed: a ROUND event has come
    bool frozen;       // gossip_exchange_freeze
    enum gossip_standing standing, told; // standing: ours now. told: the one that the latest ROUND event
                                         // named
    struct gossip_hold hold;
    struct {
        float *model, *second_moment, *correction, *held; // the trainer's, borrowed while a boundary is open
        bool correction_stays;
    } round;
    struct gossip_clip clip;
    bool blind;                                               // the learner knew no losses at its latest look
    struct gossip_trust_member members[GOSSIP_TRUST_MEMBERS]; // the earliest first
    size_t n_members;
    struct gossip_journal journal;
    struct gossip_exchange_totals totals;
    struct gossip_accounted accounted;
};

struct gossip_run { // of consecutive elements
    size_t first, count;
};

// edge.c. The number of edges that exchange, at least 1.
size_t gossip_edges_met(const struct gossip_exchange *exchange);
// Counts a round of local steps: the drift correction needs to know how far this node has
// trained.
void gossip_averaging_count(struct gossip_exchange *exchange, float step_scale);
// Fills `packet` with our side of an exchange: q and the moment slice of round `slice_clock`, or
// the next `count` elements of a RESYNC. BASE_ESTATE: our own model is not finite.
enum base_error gossip_averaging_prepare(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                         enum gossip_delta_form form, size_t count, uint64_t slice_clock,
                                         struct gossip_packet *packet) BASE_CHECK;
// Applies one exchange to x, r, c, hash and seq, from the bytes of both sides and with the weight in
// `theirs`. `slice_clock`: the initiator's round. Everything is checked first: BASE_EFORMAT, BASE_ENOTFOUND
// (`theirs` needs indices that this end does not remember) and BASE_ENOMEM change nothing.
enum base_error gossip_averaging_commit(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                        const struct gossip_packet *mine,
                                        const struct gossip_exchange_message *theirs,
                                        uint64_t slice_clock) BASE_CHECK;
// The same after a restart: an exchange of a journal, with the effect that it had. Nothing is refused,
// counted or told.
enum base_error gossip_averaging_repeat(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                        const struct gossip_packet *mine,
                                        const struct gossip_exchange_message *theirs, uint64_t slice_clock,
                                        const struct gossip_effect *effect) BASE_CHECK;

// clip.c. The largest norm of c that this node keeps; the part of it that both ends keep.
float gossip_clip_bound(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
float gossip_clip_keep(struct gossip_exchange *exchange, const struct gossip_edge *edge, float bound);
// Norm of what this node's learner moves the model by in a round.
float gossip_clip_progress(const struct gossip_exchange *exchange);
void gossip_clip_looked(struct gossip_edge *edge); // the learner has looked at its reference
// A round of local steps has been published.
void gossip_clip_learn(struct gossip_exchange *exchange, float step_scale);
// The largest norm of an update that this end would apply whole now: of a packet, or of this block.
float gossip_clip_limit(const struct gossip_exchange *exchange, struct gossip_edge *edge,
                        enum gossip_standing standing, struct gossip_run block);
// The same limit in an exchange with this end: 0 if that end has not begun, and would only hold this one up.
double gossip_clip_own(const struct gossip_packet *mine, const struct gossip_exchange_message *theirs);
// An update beyond this is not applied whole by both ends.
double gossip_clip_common(const struct gossip_packet *mine, const struct gossip_exchange_message *theirs);
// True: an update whose norm is at most `most` is not clipped, and has been counted.
bool gossip_clip_spares(const struct gossip_exchange *exchange, struct gossip_edge *edge, double limit,
                        double most);
// The part in [0, 1] of an update of this norm that is applied. `first`: this block begins a RESYNC.
float gossip_clip_packet(struct gossip_exchange *exchange, struct gossip_edge *edge, double limit,
                         double norm);
float gossip_clip_block(struct gossip_exchange *exchange, struct gossip_edge *edge, double limit, double norm,
                        bool first);

// trust.c. Neighbours that are not trusted now.
size_t gossip_trust_distrusted(const struct gossip_exchange *exchange);
// The learner's answer to a look at this edge.
void gossip_trust_take(struct gossip_exchange *exchange, struct gossip_edge *edge,
                       const struct gossip_losses *losses, struct gossip_exchange_actions *actions);

// trust_memory.c. An edge ends, or another one of the same member begins.
void gossip_trust_remember(struct gossip_exchange *exchange, const struct gossip_edge *edge);
void gossip_trust_recall(struct gossip_exchange *exchange, struct gossip_edge *edge);
void gossip_trust_store(const struct gossip_trust *trust, struct base_writer *writer);
void gossip_trust_restore(struct gossip_trust *trust, struct base_reader *reader); // or fails the reader

// sparse.c. What is selected from: x - r, after gossip_edge_reads.
struct kernels_difference gossip_sparse_difference(const struct gossip_exchange *exchange,
                                                   const struct gossip_edge *edge);
// Writes q as a packet, without moments, and reserves `behind` more bytes after it.
enum base_error gossip_sparse_prepare(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                      size_t behind, struct gossip_packet *packet) BASE_CHECK;
// The two packets of an exchange, checked but not applied yet.
struct gossip_pair {
    struct compress_reader mine, theirs;  // if `list`, of mine only the number of entries is used
    bool list;                            // exchange.chosen still holds our entries
    uint32_t *mine_index, *theirs_index;  // filled while the pair is applied, if the indices are to be
                                          // remembered; else NULL
    double limit, common;                 // of the norm of the update: gossip_clip_own, _common
    struct gossip_pending_update *update; // the update for the trainer, or NULL: `sum` is used
    float *sum;                           // both NULL: the trainer waits for the whole model
};
// Opens and checks both packets. After BASE_OK apply `pair`.
enum base_error gossip_sparse_open(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                   const struct gossip_packet *mine,
                                   const struct gossip_exchange_message *theirs,
                                   struct gossip_pair *pair) BASE_CHECK;
void gossip_sparse_apply(struct gossip_exchange *exchange, struct gossip_edge *edge,
                         const struct gossip_packet *mine, struct gossip_pair *pair,
                         const struct gossip_effect *effect);
// |q_j - q_i| of a pair that has not been applied yet.
double gossip_sparse_norm(const struct gossip_exchange *exchange, const struct gossip_pair *pair);
// An upper bound of it, |q_j| + |q_i|: without a pass over the indices, at a tenth of the time.
double gossip_sparse_norm_most(struct gossip_exchange *exchange, const struct gossip_pair *pair);
// `message` carries `packet`, which was just made. If the peer remembers its indices, the message leaves them
// out.
void gossip_sparse_shorten(const struct gossip_edge *edge, struct gossip_packet *packet,
                           struct gossip_message *message);

// dense.c. Runs of consecutive elements: a RESYNC block in fp32, or a slice of second moments in log8.
// The next block of a RESYNC: `count` elements, or all that are left.
struct gossip_run gossip_dense_block(const struct gossip_exchange *exchange, const struct gossip_edge *edge,
                                     size_t count);
enum base_error gossip_dense_prepare(const struct gossip_exchange *exchange, struct gossip_run block,
                                     struct gossip_packet *packet) BASE_CHECK;
enum base_error gossip_dense_commit(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                    struct gossip_run block, const struct gossip_packet *mine,
                                    const struct gossip_exchange_message *theirs,
                                    const struct gossip_effect *known) BASE_CHECK;
// The part of the second moments that travels in round `clock`.
struct gossip_run gossip_moment_slice(const struct gossip_exchange *exchange, uint64_t clock);
size_t gossip_moment_bytes(size_t count);
// Writes the slice after the delta of `packet`, which has room for it.
enum base_error gossip_moment_prepare(struct gossip_exchange *exchange, struct gossip_run slice,
                                      struct gossip_packet *packet) BASE_CHECK;
enum base_error gossip_moment_check(struct gossip_exchange *exchange, size_t count, const uint8_t *bytes,
                                    size_t n_bytes) BASE_CHECK;
float gossip_moment_largest(size_t count, const uint8_t *bytes); // the slice must have been checked
// Allocates memory for the updates of v that the trainer has not received yet. BASE_ENOMEM changes nothing.
enum base_error gossip_moment_room(struct gossip_exchange *exchange) BASE_CHECK;
// Both slices must have been checked, and gossip_moment_room called.
void gossip_moment_apply(struct gossip_exchange *exchange, struct gossip_run slice, const uint8_t *mine,
                         const uint8_t *theirs);

// sum.c. The current sum of the corrections, for reading; NULL if there is none, or no memory for a copy.
const float *gossip_sum_read(struct gossip_exchange *exchange);
// Ends the deferral of the sum; out of memory, it marks the sum as stale.
void gossip_sum_keep(struct gossip_exchange *exchange);
// A round begins, with x or NULL: pending updates are applied to x and to the sum, which is then no longer
// deferred.
void gossip_sum_publish(struct gossip_exchange *exchange, float *x);
// A round ends: the trainer gets the sum, without the parts that have faded.
void gossip_sum_hand_out(struct gossip_exchange *exchange);
// Multiplies the correction of an edge by `part`.
void gossip_sum_shrink(struct gossip_exchange *exchange, struct gossip_edge *edge, float part);
// Recomputes the sum. Subtracting a correction that has ended would leave its rounding errors behind.
void gossip_sum_again(struct gossip_exchange *exchange);

// sum_at.c. With reference_bf16: recomputes the sum at the entries of a packet. The increment of an edge's
// correction is known only after rounding, and the sum must be the sum of the stored values.
void gossip_sum_at(const struct gossip_exchange *exchange, struct gossip_side *entries, float *sum);

// round.c. A boundary takes the trainer's vectors, and returns them when pace says that it is over.
void gossip_round_begin(struct gossip_exchange *exchange, const struct gossip_exchange_event *event);
// Asks whom pace names, and ends the round if it is over.
enum base_error gossip_round_pump(struct gossip_exchange *exchange,
                                  struct gossip_exchange_actions *actions) BASE_CHECK;
void gossip_round_give_up(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions);

// boundary.c. Takes the trainer's vectors of a ROUND event, and publishes them.
void gossip_boundary_take(struct gossip_exchange *exchange, const struct gossip_exchange_event *event);
// The trainer's vectors may change from now on, though the round is open.
void gossip_boundary_let_go(struct gossip_exchange *exchange);
void gossip_boundary_return(struct gossip_exchange *exchange); // with every update that has arrived

// hold.c. A packet exchange was committed; r of an edge is no longer that of its latest exchange, or the edge
// is about to be freed.
void gossip_hold_exchanged(struct gossip_exchange *exchange, const struct gossip_edge *edge,
                           const struct gossip_packet *mine, const struct gossip_exchange_message *theirs);
void gossip_hold_lose(struct gossip_exchange *exchange, const struct gossip_edge *edge);
void gossip_hold_publish(
    struct gossip_exchange *exchange); // a round begins: e of an exchange since the latest
// A round ends: writes e of the learner's next steps. If e is a new one, x is copied in the same pass.
void gossip_hold_hand_out(struct gossip_exchange *exchange);
void gossip_hold_drop(struct gossip_exchange *exchange); // between two rounds: e is zero at once

// request.c. Asks for an exchange. Our model is not finite: nothing is sent, and the round has no exchange.
enum base_error gossip_request_ask(struct gossip_exchange *exchange, struct gossip_edge *edge, float weight,
                                   struct gossip_exchange_actions *actions) BASE_CHECK;
// The next block of every RESYNC.
enum base_error gossip_request_blocks(struct gossip_exchange *exchange,
                                      struct gossip_exchange_actions *actions) BASE_CHECK;
// BUSY: the peer waits for no answer to this request.
void gossip_request_decline(const struct gossip_id *peer, uint64_t epoch, uint64_t sequence,
                            struct gossip_exchange_actions *actions);
// XCHG, XACK, BUSY.
enum base_error gossip_request_take(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                    const struct gossip_exchange_message *theirs,
                                    struct gossip_exchange_actions *actions) BASE_CHECK;
enum base_error gossip_request_answered(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                        const struct gossip_exchange_message *theirs,
                                        struct gossip_exchange_actions *actions) BASE_CHECK;
void gossip_request_refused(struct gossip_exchange *exchange, struct gossip_edge *edge,
                            const struct gossip_busy *theirs);
// Deferred requests: they waited for our round.
bool gossip_request_answerable(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
enum base_error gossip_request_deferred(struct gossip_exchange *exchange,
                                        struct gossip_exchange_actions *actions) BASE_CHECK;
// The peers whose requests wait are told so, now and then: they wait for as long as they hear of it.
void gossip_request_tell(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions);
// PARKED.
void gossip_request_parked(struct gossip_exchange *exchange, struct gossip_edge *edge,
                           const struct gossip_parked *theirs);

// record.c. The published second moments, in the kernels' memory, [d]; NULL where there are none.
const float *gossip_exchange_second_moment(const struct gossip_exchange *exchange);

// speed.c. A round begins: reports the time of a local step, 0 if not known.
void gossip_speed_learn(struct gossip_exchange *exchange, uint64_t pace_ns);

// An exchange was made: what the two packets say of the learning rates.
void gossip_speed_compare(const struct gossip_exchange *exchange, struct gossip_edge *edge,
                          const struct gossip_packet *mine, const struct gossip_exchange_message *theirs);

// plausible.c. Measures the norm of the published model if it is not known. Messages that are implausible
// relative to it are counted and refused.
void gossip_plausible_learn(struct gossip_exchange *exchange);
void gossip_plausible_bar(struct gossip_exchange *exchange, struct gossip_edge *edge, unsigned doublings);
void gossip_plausible_bar_until(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                uint64_t until_ns);
enum base_error gossip_plausible_refuse(struct gossip_exchange *exchange,
                                        struct gossip_edge *edge) BASE_CHECK;
// Is `value` beyond what this node's own number `of` makes plausible?
bool gossip_plausible_exceeds(const struct gossip_edge *edge, double value, double of);
bool gossip_plausible_message(const struct gossip_message *message);

// standing.c. The standing that a packet reports of this end; the standing that a ROUND event names; the part
// of the common update that an end applies to its own model; whether c learns from it.
// gossip_exchange_standing sets the standing of this node. AWAY ends by itself once the node has caught up:
// when each of its live edges to peers that are not AWAY (to all, if all are) has made as many exchanges as
// the absence requires, or has adopted the peer's model in a RESYNC. gossip_standing_adopts, in a RESYNC: 1:
// we adopt the peer's block, -1: the peer adopts ours, 0: both take the mean.
enum gossip_standing gossip_standing_of(const struct gossip_exchange *exchange, enum gossip_delta_form form);
void gossip_standing_told(struct gossip_exchange *exchange, enum gossip_standing standing);
void gossip_exchange_standing(struct gossip_exchange *exchange, enum gossip_standing standing);
float gossip_standing_weight(enum gossip_standing ours, enum gossip_standing theirs, float weight);
bool gossip_standing_drifts(enum gossip_standing ours, enum gossip_standing theirs);
int gossip_standing_adopts(enum gossip_standing ours, enum gossip_standing theirs);
// An exchange over `edge` has been committed; a RESYNC in which this end adopted the peer's model has ended.
void gossip_standing_met(struct gossip_exchange *exchange, struct gossip_edge *edge,
                         const struct gossip_exchange_message *theirs);
void gossip_standing_adopted(struct gossip_exchange *exchange, struct gossip_edge *edge);

// orphans.c. The edge ends or restarts: takes over its correction, which is then NULL in the edge. If its
// peer is alive, the correction fades more slowly. The caller recomputes the sum if a part had already
// faded. BASE_ENOMEM changes nothing.
enum base_error gossip_orphan_take(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                   bool dead) BASE_CHECK;
void gossip_orphan_died(const struct gossip_exchange *exchange, const struct gossip_id *peer);
// This node was away for `missed` rounds and ends every edge. With FADE it keeps as much of their
// corrections, and of its orphans, as the other ends do, so that all corrections still sum to zero; otherwise
// it keeps nothing.
void gossip_orphans_begin_anew(struct gossip_exchange *exchange, uint64_t missed);
void gossip_orphan_fade(struct gossip_exchange *exchange); // a round has begun
void gossip_orphan_drop(struct gossip_exchange *exchange, const struct gossip_id *peer);

// hello.c. HELLO: compares the states of the two ends and decides what follows.
void gossip_hello_greet(struct gossip_exchange *exchange, struct gossip_edge *edge,
                        struct gossip_exchange_actions *actions);
void gossip_hello_ask(struct gossip_exchange *exchange, struct gossip_edge *edge,
                      struct gossip_exchange_actions *actions);
void gossip_hello_repeat(struct gossip_exchange *exchange, struct gossip_edge *edge,
                         struct gossip_exchange_actions *actions);
// This node begins its first round, and with it the edges that waited for that.
void gossip_hello_begin(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions);
// Sends our state without being asked.
void gossip_hello_tell(struct gossip_exchange *exchange, struct gossip_edge *edge,
                       struct gossip_exchange_actions *actions);
// Tells the current scaling to the peers that have not been told.
void gossip_hello_update(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions);
bool gossip_hello_untold(const struct gossip_exchange *exchange); // there are such peers
// BASE_EMISMATCH: the other end scales its data differently; the edge is barred.
enum base_error gossip_hello_take(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                  const struct gossip_hello *theirs,
                                  struct gossip_exchange_actions *actions) BASE_CHECK;

#endif
