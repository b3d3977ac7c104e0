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

struct gossip_meeting { // as the plan has it
    bool meets;
    struct gossip_id peer;
    float weight;
};

struct gossip_exchange {
    struct gossip_exchange_options options;
    size_t entries; // k
    uint64_t start_hash;
    float *model; // [d] published x: `own`, or the trainer's vector while its round is open
    float *own;   // [d]
    struct gossip_pending pending;
    float *second;         // [d] published v, likewise; NULL unless shared
    float *own_second;     // [d]
    float *pending_second; // [d] updates of v since the trainer continued; NULL before the first one
    bool second_moved;     // pending_second is not zero
    bool second_known;     // the trainer has published v
    float second_largest;  // largest value of v
    double norm;           // the larger of |x| and |x - r|, as last measured
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
    struct gossip_edge *active; // the edge of our one uncommitted exchange of a round, if that is not in
                                // doubt

    uint64_t now_ns;
    uint64_t clock;                      // round of the latest ROUND event
    uint64_t age;                        // the highest number of rounds that the published model has
                                         // completed
    uint64_t counted;                    // latest round whose local steps are in `rounds` and `progress`
    uint64_t rounds;                     // rounds in which this process has trained
    struct gossip_deadline answers;      // over all edges
    uint64_t met;                        // `rounds` at the latest exchange over any edge
    float step_scale;                    // of the latest of these rounds
    float lately;                        // step scale of the larger steps whose drift may not have been
                                         // exchanged completely; at least step_scale
    double progress;                     // sum of the step scales of all rounds
    uint64_t pace_ns;                    // as last reported by the trainer
    double log_pace;                     // logarithm of gossip_exchange_pace
    uint64_t scaling;                    // gossip_exchange_scaling
    bool begun;                          // resumed: a ROUND event has come
    bool idle;                           // no other node needs to wait for us
    bool frozen;                         // gossip_exchange_freeze
    bool regroups;                       // the latest event ended an edge of an earlier view
    enum gossip_standing standing, told; // standing: ours now. told: the one that the latest ROUND event
                                         // named
    struct {
        bool open;                  // the trainer waits
        bool wanted;                // our exchange of round `due` is still to be made
        bool owes;                  // async: so `next` waits for it
        uint64_t due;               // this round, or (async) an earlier one
        struct gossip_meeting next; // of this round
        bool others;                // other nodes train: no local step alone in sync, only few in async
        uint64_t in_step;           // follows: how many rounds a neighbour that waits for us may be ahead
        bool follows;               // it ends once all neighbours have reported their rounds
        bool leaves;                // such a round has ended; the next ROUND is about to come
        struct gossip_id partner;   // of round `due`
        float weight;               // of the exchange with that partner
        bool live; // the partner's edge has been LIVE; deadline_ns has been running since then
        uint64_t started_ns, deadline_ns, retry_ns;
        uint64_t alone_ns; // others: when a node that can exchange with no other continues anyway
        uint64_t tell_ns;  // sync: when to tell the partner again that we wait
        uint64_t gate_ns;  // bounded: when to stop waiting for neighbours that are behind
        unsigned retries;
        float *model, *second_moment, *correction; // the trainer's, borrowed while open
        bool correction_stays;
    } round;
    struct gossip_clip clip;
    struct gossip_journal journal;
    struct gossip_exchange_totals totals;
};

// averaging.c. Counts a round of local steps: the drift correction needs to know how far this node has
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

// sparse.c. What is selected from: x - r.
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
    struct gossip_pending_update *update; // the update for the trainer, or NULL: `sum` is used
    float *sum;                           // both NULL: the trainer waits for the whole model
};
// Opens and checks both packets. After BASE_OK apply `pair`.
enum base_error gossip_sparse_open(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                   const struct gossip_packet *mine,
                                   const struct gossip_exchange_message *theirs,
                                   struct gossip_pair *pair) BASE_CHECK;
void gossip_sparse_apply(struct gossip_exchange *exchange, struct gossip_edge *edge,
                         const struct gossip_packet *mine, struct gossip_pair *pair, float weight,
                         float gain);
// |(q_j - q_i)/2| of a pair that has not been applied yet.
double gossip_sparse_norm(const struct gossip_exchange *exchange, const struct gossip_pair *pair);
// `message` carries `packet`, which was just made. If the peer remembers its indices, the message leaves them
// out.
void gossip_sparse_shorten(const struct gossip_edge *edge, struct gossip_packet *packet,
                           struct gossip_message *message);

// dense.c. Runs of consecutive elements: a RESYNC block in fp32, or a slice of second moments in log8.
struct gossip_run {
    size_t first, count;
};
// The next block of a RESYNC: `count` elements, or all that are left.
struct gossip_run gossip_dense_block(const struct gossip_exchange *exchange, const struct gossip_edge *edge,
                                     size_t count);
enum base_error gossip_dense_prepare(const struct gossip_exchange *exchange, struct gossip_run block,
                                     struct gossip_packet *packet) BASE_CHECK;
enum base_error gossip_dense_commit(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                    struct gossip_run block, const struct gossip_packet *mine,
                                    const struct gossip_exchange_message *theirs) BASE_CHECK;
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
// The part of an edge's correction that is in effect, in [0, 1].
float gossip_sum_pull_left(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
// Recomputes the sum. Subtracting a correction that has ended would leave its rounding errors behind.
void gossip_sum_again(struct gossip_exchange *exchange);

// sum_at.c. With reference_bf16: recomputes the sum at the entries of a packet. The increment of an edge's
// correction is known only after rounding, and the sum must be the sum of the stored values.
void gossip_sum_at(const struct gossip_exchange *exchange, struct gossip_side *entries, float *sum);

// partner.c. The edge over which the open round still needs its exchange, or NULL.
struct gossip_edge *gossip_partner_of(const struct gossip_exchange *exchange);
// The edge over which to ask for our own exchange of this round. NULL: no exchange is wanted, not at this
// time, or the other end asks.
struct gossip_edge *gossip_partner_asked(const struct gossip_exchange *exchange);
// Sync: the end with the higher id asks a partner that is in step, too, so that both packets are on their way
// at once. Not after a BUSY: then it waits for the partner's request.
bool gossip_partner_volunteers(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
// Notes an exchange of round `clock` over the edge; it may complete our own exchange of this round. If the
// trainer waits for this neighbour, an exchange of any round is sufficient: a neighbour that restarted counts
// its rounds again.
void gossip_partner_note(struct gossip_exchange *exchange, struct gossip_edge *edge, uint64_t clock);
// Sync: the partner has sent BUSY, so it is not behind this node. This node may be the one that is behind,
// and must not wait for long.
void gossip_partner_hurry(struct gossip_exchange *exchange, const struct gossip_edge *edge);
// How long a node that may be behind its partner waits before it acts.
uint64_t gossip_partner_soon(const struct gossip_exchange *exchange, const struct gossip_edge *edge);

// round.c. A round returns the vectors after its exchange (sync) or that of the previous round (async), when
// the partner can no longer be met, or at the deadline.
void gossip_round_begin(struct gossip_exchange *exchange, const struct gossip_exchange_event *event);
void gossip_round_follow(struct gossip_exchange *exchange); // the partner's edge may have become live
// Async: a node that has made no exchange for too long asks any neighbour that it can.
void gossip_round_seek(struct gossip_exchange *exchange);
// Async: the exchange of the previous round is made, or was waited for in vain; the open round begins its
// own.
void gossip_round_turn(struct gossip_exchange *exchange);
void gossip_round_end(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions);
void gossip_round_give_up(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions);

// boundary.c. Takes the trainer's vectors of a ROUND event, and publishes them.
void gossip_boundary_take(struct gossip_exchange *exchange, const struct gossip_exchange_event *event);
// The trainer's vectors may change from now on, though the round is open.
void gossip_boundary_let_go(struct gossip_exchange *exchange);
void gossip_boundary_return(struct gossip_exchange *exchange); // with every update that has arrived

// wait.c. Can the open round still meet the peer of `edge`, or NULL?
bool gossip_wait_can_meet(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
// Sync: no peer answers over any edge, though others train: with a local step now, this node would train
// alone.
bool gossip_wait_alone(const struct gossip_exchange *exchange);
// Async: others train, and this model has had no exchange for more than max_delay rounds.
bool gossip_wait_starved(const struct gossip_exchange *exchange);
uint64_t gossip_wait_deadline(const struct gossip_exchange *exchange); // of the wait of an open round
// Does the open round wait for nobody any more? Where a wait was in vain, that is noted.
bool gossip_wait_over(struct gossip_exchange *exchange);

// progress.c. The round from which the trainer continues: that of the latest ROUND event, or a later one.
uint64_t gossip_progress_from(const struct gossip_exchange *exchange);
// Does this node, which was away, hear only of neighbours that come back, too? Some of them are about to hear
// where the others are.
bool gossip_progress_unclear(const struct gossip_exchange *exchange);

// held_up.c. Sync: the partner that should ask and has not done so for a while, or NULL. It may have passed
// this round, so we tell it our round, and it answers with its own.
struct gossip_edge *gossip_held_up_by(const struct gossip_exchange *exchange);
// How long a node that waits for a request over `edge` stays silent.
uint64_t gossip_held_up_quiet(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
// Sync: a neighbour has reported its round. If it is behind, it is alive and itself waiting for another node.
void gossip_held_up_hear(struct gossip_exchange *exchange, struct gossip_edge *edge);
// Sync: a long round is told to the neighbours that are known to be past it. Returns the time at which the
// next of them is to be told; UINT64_MAX: none.
uint64_t gossip_held_up_tells_at(const struct gossip_exchange *exchange);
void gossip_held_up_tell(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions);

// turn.c. Async: is the exchange of an earlier round still to be made, and possible? While it is, the next
// one waits.
bool gossip_turn_due(const struct gossip_exchange *exchange);
void gossip_turn_give_up(const struct gossip_exchange *exchange); // the wait for it was in vain

// request.c. Starts whatever can start now: our exchange of the round, and the next block of every RESYNC.
enum base_error gossip_request_pump(struct gossip_exchange *exchange,
                                    struct gossip_exchange_actions *actions) BASE_CHECK;
// XCHG, XACK, BUSY.
enum base_error gossip_request_take(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                    const struct gossip_exchange_message *theirs,
                                    struct gossip_exchange_actions *actions) BASE_CHECK;
enum base_error gossip_request_answered(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                        const struct gossip_exchange_message *theirs,
                                        struct gossip_exchange_actions *actions) BASE_CHECK;
void gossip_request_refused(struct gossip_exchange *exchange, struct gossip_edge *edge,
                            const struct gossip_busy *theirs);
// Deferred requests: they waited for our round, or for the end of our own exchange with another peer.
bool gossip_request_answerable(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
enum base_error gossip_request_deferred(struct gossip_exchange *exchange,
                                        struct gossip_exchange_actions *actions) BASE_CHECK;

// record.c. The published second moments, in the kernels' memory, [d]; NULL where there are none.
const float *gossip_exchange_second_moment(const struct gossip_exchange *exchange);

// clocks.c. A round begins: reports its pace, 0 if not known.
void gossip_clocks_pace(struct gossip_exchange *exchange, uint64_t pace_ns);
// A round or a link begins: our round must be told to all neighbours, or to this one.
void gossip_clocks_begin(struct gossip_exchange *exchange);
void gossip_clocks_link(struct gossip_edge *edge);
// The peer may have opened the edge anew, and then our inquiry is lost: it is sent again.
void gossip_clocks_reopened(struct gossip_edge *edge);
// CLOCK.
void gossip_clocks_take(const struct gossip_exchange *exchange, struct gossip_edge *edge,
                        const struct gossip_clock *theirs, struct gossip_exchange_actions *actions);
// A round that follows: until when it waits for an answer; 0: it waits for none.
uint64_t gossip_clocks_inquire_until(const struct gossip_exchange *exchange);
// Is the peer known to be ahead of us?
bool gossip_clocks_passed(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
void gossip_clocks_note(const struct gossip_exchange *exchange, struct gossip_edge *edge,
                        const struct gossip_exchange_message *theirs);
// Sends as many CLOCKs as `actions` has room for; gossip_clocks_untold: more are to be sent.
void gossip_clocks_tell(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions);
bool gossip_clocks_untold(const struct gossip_exchange *exchange);
// Is a neighbour too far behind for our round to end?
bool gossip_clocks_wait(const struct gossip_exchange *exchange);
// When that may change without an event.
uint64_t gossip_clocks_until(const struct gossip_exchange *exchange);
// Stops waiting for such neighbours until their rounds have changed.
void gossip_clocks_give_up(struct gossip_exchange *exchange);

// plausible.c. Measures the norm of the published model if it is not known. Messages that are implausible
// relative to it are counted and refused.
void gossip_plausible_learn(struct gossip_exchange *exchange);
void gossip_plausible_bar(struct gossip_exchange *exchange, struct gossip_edge *edge, unsigned doublings);
enum base_error gossip_plausible_refuse(struct gossip_exchange *exchange,
                                        struct gossip_edge *edge) BASE_CHECK;
bool gossip_plausible_barred(const struct gossip_edge *edge); // linked, but without exchanges until
                                                              // barred_ns
// Is `value` beyond what this node's own number `of` makes plausible?
bool gossip_plausible_exceeds(const struct gossip_edge *edge, double value, double of);
bool gossip_plausible_message(const struct gossip_message *message);

// standing.c. The standing that a packet reports of this end; the standing that a ROUND event names; the part
// of the common update that an end applies to its own model; whether c learns from it.
// gossip_exchange_standing sets the standing of this node. AWAY ends by itself once the node has caught up:
// when each of its live edges has made as many exchanges as the absence requires, or has adopted the peer's
// model in a RESYNC. gossip_standing_adopts, in a RESYNC: 1: we adopt the peer's block, -1: the peer adopts
// ours, 0: both take the mean.
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
// Sends our state without being asked.
void gossip_hello_tell(struct gossip_exchange *exchange, struct gossip_edge *edge,
                       struct gossip_exchange_actions *actions);
// Tells the current scaling to the peers that have not been told.
void gossip_hello_update(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions);
bool gossip_hello_untold(const struct gossip_exchange *exchange); // there are such peers
// The two ends scale their data differently: their models are never averaged.
bool gossip_edge_apart(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
// BASE_EMISMATCH: the other end scales its data differently; the edge is barred.
enum base_error gossip_hello_take(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                  const struct gossip_hello *theirs,
                                  struct gossip_exchange_actions *actions) BASE_CHECK;

#endif
