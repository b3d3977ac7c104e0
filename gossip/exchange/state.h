// What one exchange object holds. Private to gossip/exchange: sparse.c and dense.c change vectors,
// averaging.c is one transaction of them, pending.c and pending_list.c keep the updates due to the trainer,
// hello.c compares the ends of an edge, request.c decides which end asks and which answers, record.c stores
// and restores.
#ifndef GOSSIP_EXCHANGE_STATE_H
#define GOSSIP_EXCHANGE_STATE_H

#include "gossip/exchange/clip.h"
#include "gossip/exchange/deadline.h"
#include "gossip/exchange/exchange.h"
#include "gossip/exchange/merge.h"
#include "gossip/exchange/packet.h"
#include "gossip/exchange/vector.h"
#include "gossip/plausible.h"

enum gossip_inquiry {    // where is the peer?
    GOSSIP_INQUIRY_NONE, // never asked in this round, or answered
    GOSSIP_INQUIRY_DUE,
    GOSSIP_INQUIRY_OUT,
};

struct gossip_edge {
    struct gossip_id peer;
    enum gossip_edge_state state;
    bool linked;                    // also while it is barred
    uint64_t lost_ns;               // when its link broke while it was live; 0: never, or it is no longer met
    bool silent;                    // missed a round; skipped until it sends something
    unsigned unanswered;            // async: requests and waits in vain since the latest exchange
    uint64_t ask_ns;                // mute: not asked before
    bool told;                      // has been told our clock of this round
    bool owed;                      // sync: what it was told holds it, or lets it pass, until it is told more
    enum gossip_inquiry inquiry;    // sync, of a round that follows
    bool follows;                   // the peer asked for our round, and has told none of its own since
    bool waited_for;                // a round waited in vain for it to become live; none does until it has
    bool heard, late;               // `round` is known; we waited for it in vain, and it has not moved since
    bool trails;                    // sync: it was too far behind us when it was last heard
    uint64_t round;                 // the boundary that the peer has reached
    uint64_t pace_ns;               // time of a local step of the peer; 0: not known
    uint64_t epoch, sequence;       // of the next exchange
    uint64_t resync_offset;         // elements covered by RESYNC; = parameters when live
    uint64_t clock;                 // latest round that met here
    double progress;                // the exchange's, when our side of this edge's latest exchange was taken
    double prepared;                // the same of the request or answer under way
    uint64_t met;                   // the exchange's rounds at the latest exchange
    float since;                    // step scale since the latest exchange, of the same
    float absence;                  // step scale of long absences whose drift is still under way
    uint64_t missed;                // AWAY: rounds between the latest meeting and the first one since
    uint64_t caught_up;             // AWAY: meetings since
    bool peer_away;                 // at the latest meeting
    enum gossip_standing standing;  // of the other end, as last reported
    struct gossip_vector reference; // [d] r, bit-identical on both ends
    struct gossip_vector correction; // [d] c, opposite on both ends; none without drift correction
    uint64_t reference_hash;
    struct gossip_packet request;     // ours, not yet answered
    struct gossip_packet answer;      // ours to the latest request of the peer
    struct gossip_packet deferred;    // the peer's: ahead of our round (sync), or while we were busy
    struct compress_history sent;     // indices of our latest committed packet that the peer remembers
    struct compress_history received; // of the peer's, where it wants them remembered
    bool taken_back;                  // a request of ours that the other end may still refuse
    uint64_t sent_ns;                 // when the request went out
    uint64_t alarm_ns;  // active: give up; hello, in doubt: ask again; resync: give up the block, or the next
    uint64_t barred_ns; // implausible data, or another scaling: down until then, whatever its link is
    uint64_t scaling_told;                // by our latest HELLO
    uint64_t peer_scaling;                // of the data at its other end, as last told; 0: not known
    uint8_t question;                     // number of our latest HELLO question, 1..127
    uint8_t repeats;                      // of it
    double residual_energy, model_energy; // |x - r - q|^2 and |x|^2 of the request
    struct gossip_deadline answers;
    struct gossip_blocks blocks;
    uint64_t exchanges, resyncs, replays, discards, busy, timeouts, mismatches, implausible;
    uint8_t *stored; // memory of the latest export
};

// One exchange that the trainer has not yet got.
struct gossip_pending_update {
    struct gossip_pending_update *next;
    const struct gossip_packet *mine_of; // the packet that still holds our bytes, or NULL: our own
    uint8_t *mine;
    size_t mine_bytes, theirs_bytes;
    uint32_t *keys; // the indices of theirs if it came without, else NULL
    size_t n_keys;
    uint64_t keys_hash;
    float weight;
    float gain; // of the sum of corrections, where that is deferred; else of no meaning
    uint8_t theirs[];
};
// All such exchanges since the trainer last gave us its model, in order: as a list, or as their sum.
struct gossip_pending {
    struct gossip_pending_update *first, *last;
    size_t bytes;   // of the list
    float *sum;     // [d] or NULL
    bool sum_holds; // in place of the list; else sum is zero
};

// The sum over edges of c, and of what is kept. Where the trainer's copy stays as it was handed out, there is
// no other one: the sum is then deferred between two rounds, as the updates of x are.
struct gossip_sum {
    float *now;  // [d] the sum: `own`, or the trainer's vector while its round is open; NULL: deferred
    float *own;  // [d] or NULL
    float *lent; // [d] deferred: the trainer's vector, the sum as it was at its latest boundary
    bool stale;  // deferred: neither `lent` nor the pending updates will do; it is summed anew
    bool kept;   // `own` was of use since the latest boundary
};

struct gossip_orphan { // the correction of an edge that ended: its peer died, or (FADE) is no longer met
    struct gossip_id peer;
    float *correction; // [d]
    unsigned left;     // FADE: rounds until nothing of it is left
    uint64_t order;    // of their coming
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
    float *pending_second; // [d] its corrections since the trainer went on; NULL before the first one
    bool second_moved;     // else they are zero
    bool second_known;     // the trainer has published v
    float second_largest;  // value of v
    double norm;           // |x| or |x - r|, the larger one, when they were last measured
    bool summed;           // restored from a checkpoint as it was, rounding errors and all
    struct gossip_sum sum;
    struct compress_sparse chosen;         // scratch: what a packet is made from, and then says
    const struct gossip_packet *chosen_of; // that packet while the list is its own, else NULL
    struct gossip_window *window;          // [2] scratch: pieces of our packet and of theirs

    struct gossip_edge **edges;
    size_t n_edges;
    struct gossip_orphan *orphans;
    size_t n_orphans;
    uint64_t orphans_made;
    struct gossip_edge *active; // has our one uncommitted exchange of a round that is not in doubt

    uint64_t now_ns;
    uint64_t clock;                      // round of the latest ROUND event
    uint64_t age;                        // most rounds that the published model had behind it
    uint64_t counted;                    // latest round whose local steps are in `rounds` and `progress`
    uint64_t rounds;                     // in which this process has trained
    uint64_t met;                        // `rounds` at the latest exchange over any edge
    float step_scale;                    // of the latest of them
    double progress;                     // sum of the step scales of all rounds
    uint64_t pace_ns;                    // as last reported by the trainer
    double log_pace;                     // logarithm of gossip_exchange_pace
    uint64_t scaling;                    // gossip_exchange_scaling
    bool begun;                          // resumed: a ROUND event has come
    bool idle;                           // no node need wait for us
    bool frozen;                         // gossip_exchange_freeze
    enum gossip_standing standing, told; // ours now; the latest that a ROUND event named
    struct {
        bool open;    // the trainer waits
        bool wanted;  // our exchange of this round is still to be made
        bool others;  // others train: no local step alone (sync), few of them (async)
        bool follows; // sync: it ends once all neighbours have said where they are
        struct gossip_id partner;
        float weight; // of that meeting
        bool live;    // the partner's edge has been LIVE: deadline_ns runs since
        uint64_t started_ns, deadline_ns, retry_ns;
        uint64_t alone_ns; // others: when a node that can meet no other goes on anyway
        uint64_t tell_ns;  // sync: when to tell the partner again that we wait
        uint64_t gate_ns;  // when neighbours that are behind are given up (bounded)
        unsigned retries;
        float *model, *second_moment, *correction; // the trainer's, borrowed while open
        bool correction_stays;
    } round;
    struct gossip_clip clip;
    struct gossip_exchange_totals totals;
};

// edge.c. The seed model into start[d]: where both ends of a new edge begin.
void gossip_edge_start(const struct gossip_exchange *exchange, float *start);
struct gossip_edge *gossip_edge_find(const struct gossip_exchange *exchange, const struct gossip_id *peer);
enum base_error gossip_edge_add(struct gossip_exchange *exchange, const struct gossip_id *peer,
                                struct gossip_edge **edge) BASE_CHECK;
void gossip_edge_free(const struct gossip_exchange *exchange, struct gossip_edge *edge); // NULL is fine
void gossip_edge_remove(struct gossip_exchange *exchange, struct gossip_edge *edge);
// resync.c. r = 0, seq = 0, c = 0, nothing open: both ends then average their models block by block.
void gossip_edge_resync(struct gossip_exchange *exchange, struct gossip_edge *edge, uint64_t epoch);
void gossip_edge_drop_correction(struct gossip_exchange *exchange, struct gossip_edge *edge);
void gossip_edge_drop_request(struct gossip_exchange *exchange, struct gossip_edge *edge);
// Does this end ask, where only one may (sync rounds, BOOT, ties)? The lower id does.
bool gossip_edge_leads(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
// Async: one more request, or wait, of ours has come to nothing.
void gossip_edge_unanswered(const struct gossip_exchange *exchange, struct gossip_edge *edge);
// So often that its peer is nobody to exchange with, until it does.
bool gossip_edge_mute(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
// ... and it is not yet asked again.
bool gossip_edge_shunned(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
// LIVE, or RESYNC at its current offset.
void gossip_edge_resume(const struct gossip_exchange *exchange, struct gossip_edge *edge);
// HELLO or IN_DOUBT: a question is out, and is repeated until something answers it.
bool gossip_edge_asks(const struct gossip_edge *edge);
uint64_t gossip_edge_patience(const struct gossip_exchange *exchange, const struct gossip_edge *edge);

void gossip_edge_send(struct gossip_exchange_actions *actions, const struct gossip_edge *edge,
                      const struct gossip_message *message);

// averaging.c. Fills `packet` with our side of an exchange (q, and the moment slice of round `slice_clock`;
// or the next `count` elements of a RESYNC). BASE_ESTATE: our own model is not finite.
enum base_error gossip_averaging_prepare(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                         enum gossip_delta_form form, size_t count, uint64_t slice_clock,
                                         struct gossip_packet *packet) BASE_CHECK;
// Applies one exchange from both sides' bytes, with the weight that `theirs` names: x, r, c, hash, seq.
// `slice_clock`: the initiator's round. All is checked first: BASE_EFORMAT, BASE_ENOTFOUND (theirs needs
// indices that this end does not remember) or BASE_ENOMEM change nothing.
enum base_error gossip_averaging_commit(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                        const struct gossip_packet *mine,
                                        const struct gossip_exchange_message *theirs,
                                        uint64_t slice_clock) BASE_CHECK;

// sparse.c. q as a packet, without moments; room for `behind` more bytes is kept.
enum base_error gossip_sparse_prepare(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                      size_t behind, struct gossip_packet *packet) BASE_CHECK;
// The two packets of an exchange, checked and not yet applied.
struct gossip_pair {
    struct compress_reader mine, theirs; // of mine only the number of entries where the list is still there
    bool list;
    uint32_t *mine_index, *theirs_index;  // filled while applied, if they are to be remembered
    struct gossip_pending_update *update; // for the trainer, or NULL: `sum`
    float *sum;                           // or NULL, too: the trainer waits for the whole model
};
// BASE_OK: `pair` is to be applied.
enum base_error gossip_sparse_open(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                   const struct gossip_packet *mine,
                                   const struct gossip_exchange_message *theirs,
                                   struct gossip_pair *pair) BASE_CHECK;
void gossip_sparse_apply(struct gossip_exchange *exchange, struct gossip_edge *edge,
                         const struct gossip_packet *mine, struct gossip_pair *pair, float weight,
                         float gain);
// |(q_j - q_i)/2| of an exchange that is to be applied.
double gossip_sparse_norm(const struct gossip_exchange *exchange, const struct gossip_pair *pair);
// `message` carries `packet`, which was just made: without its indices, where the peer has them.
void gossip_sparse_shorten(const struct gossip_edge *edge, struct gossip_packet *packet,
                           struct gossip_message *message);

// dense.c. Runs of elements: a RESYNC block as it is, a slice of second moments in log8.
struct gossip_run {
    size_t first, count;
};
// The next block of a RESYNC, of `count` elements or all that are left.
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
// Writes behind the delta of `packet`, which has the room.
enum base_error gossip_moment_prepare(struct gossip_exchange *exchange, struct gossip_run slice,
                                      struct gossip_packet *packet) BASE_CHECK;
enum base_error gossip_moment_check(struct gossip_exchange *exchange, size_t count, const uint8_t *bytes,
                                    size_t n_bytes) BASE_CHECK;
float gossip_moment_largest(size_t count, const uint8_t *bytes); // of a slice that was checked
// Memory for the updates that the trainer has not yet got. BASE_ENOMEM changes nothing.
enum base_error gossip_moment_room(struct gossip_exchange *exchange) BASE_CHECK;
// Both were checked, and there is room.
void gossip_moment_apply(struct gossip_exchange *exchange, struct gossip_run slice, const uint8_t *mine,
                         const uint8_t *theirs);

// pending.c. Where the next exchange's updates go, if the trainer is to get them: its packets (theirs copied,
// over `keys` or NULL; mine borrowed) while all of them are short, else the sum. Neither, while the trainer
// waits. BASE_ENOMEM changes nothing.
enum base_error gossip_pending_room(struct gossip_exchange *exchange, const struct gossip_packet *mine,
                                    const struct gossip_exchange_message *theirs,
                                    const struct compress_keys *keys, struct gossip_pending_update **update,
                                    float **sum) BASE_CHECK;
// The sum, for what has no short form; NULL while the trainer waits.
enum base_error gossip_pending_sum(struct gossip_exchange *exchange, float **sum) BASE_CHECK;

// pending_list.c. The list of these updates.
void gossip_pending_keep(struct gossip_pending *pending, struct gossip_pending_update *update);
void gossip_pending_decline(struct gossip_pending_update *update);  // it changed nothing: freed
bool gossip_pending_corrects(const struct gossip_pending *pending); // a deferred sum is owed something
// `packet` is about to be overwritten or freed: its bytes move to the exchange that still needs them, if any.
void gossip_pending_inherit(struct gossip_pending *pending, struct gossip_packet *packet);
// x += all updates of the list, sum += theirs of the corrections. Either may be NULL.
void gossip_pending_repeat(const struct gossip_exchange *exchange, float *x, float *sum);
// x += all updates, sum += theirs of the corrections; they are then forgotten. Either may be NULL.
void gossip_pending_take(struct gossip_exchange *exchange, float *x, float *sum);
void gossip_pending_clear(struct gossip_pending *pending); // the list alone
void gossip_pending_drop(struct gossip_exchange *exchange);

// sum.c. The sum of the corrections as it is now, for reading; NULL where there is none, or no memory for a
// copy.
const float *gossip_sum_read(struct gossip_exchange *exchange);
// It is no longer deferred; without memory for that it is stale.
void gossip_sum_keep(struct gossip_exchange *exchange);
// A round begins, with x or NULL: what is pending is taken into both, and the sum is no longer deferred.
void gossip_sum_publish(struct gossip_exchange *exchange, float *x);
// It ends: the trainer gets the sum, less what has faded of it.
void gossip_sum_hand_out(struct gossip_exchange *exchange);
// The part of an edge's correction that acts.
float gossip_sum_pull_left(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
// Summed anew instead of subtracted: no rounding error of what is gone stays behind.
void gossip_sum_again(struct gossip_exchange *exchange);

// sum_at.c. With reference_bf16: the sum anew at the entries of a packet. What an edge's correction grows by
// is known once it is rounded, and the sum is to be that of what is stored.
void gossip_sum_at(const struct gossip_exchange *exchange, struct gossip_side *entries, float *sum);

// partner.c. Is `edge` the one that the open or latest round still has to meet?
bool gossip_partner_meets(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
struct gossip_edge *gossip_partner_of(const struct gossip_exchange *exchange); // that edge, or NULL
// The edge over which to ask for our own exchange of this round, or NULL: none is wanted, or not now, or the
// other end asks.
struct gossip_edge *gossip_partner_asked(const struct gossip_exchange *exchange);
// The edge has met for `clock`; with that our own exchange of this round may be done. Where the trainer waits
// for this neighbour, any meeting will do: a neighbour that restarted counts its rounds anew.
void gossip_partner_note(struct gossip_exchange *exchange, struct gossip_edge *edge, uint64_t clock);
// Sync: the partner has no time for us, so it is not behind. A node that is behind does not wait for long.
void gossip_partner_hurry(struct gossip_exchange *exchange, const struct gossip_edge *edge);
// How long a node that may be behind its partner waits before it acts.
uint64_t gossip_partner_soon(const struct gossip_exchange *exchange, const struct gossip_edge *edge);

// round.c.
void gossip_round_begin(struct gossip_exchange *exchange, const struct gossip_exchange_event *event);
// The trainer's vectors may change from now on, though the round is open.
void gossip_round_let_go(struct gossip_exchange *exchange);
// Hands the vectors back: at once (async), or (sync) with the exchange, when its partner can't be met any
// more, or at the deadline.
void gossip_round_follow(struct gossip_exchange *exchange); // the partner's edge may have become live
// Async: who has met nobody for too long asks whom it can.
void gossip_round_seek(struct gossip_exchange *exchange);
uint64_t gossip_round_deadline(const struct gossip_exchange *exchange); // of what an open round waits for
void gossip_round_end(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions);
void gossip_round_give_up(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions);
// Sync: the partner that should ask, if it has not for a while, or NULL. It may have passed this round, so we
// tell it our round; it answers with its own.
struct gossip_edge *gossip_round_awaits(const struct gossip_exchange *exchange);
// Sync: a neighbour has said its round. One that is behind lives, and waits for another itself.
void gossip_round_hear(struct gossip_exchange *exchange, struct gossip_edge *edge);
// Sync: a round that lasts is told to neighbours that are known to be past it. When the next of them is due;
// UINT64_MAX: none.
uint64_t gossip_round_untold(const struct gossip_exchange *exchange);
void gossip_round_tell(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions);

// request.c. Starts what may be started: our exchange of the round, and the next block of every RESYNC.
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
// Requests that waited for our round, or for the end of our own exchange with another peer.
bool gossip_request_answerable(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
enum base_error gossip_request_deferred(struct gossip_exchange *exchange,
                                        struct gossip_exchange_actions *actions) BASE_CHECK;

// clocks.c. A round begins: its pace, 0 if not known.
void gossip_clocks_pace(struct gossip_exchange *exchange, uint64_t pace_ns);
// A round begins, or a link: all neighbours, or one, are to get our round.
void gossip_clocks_begin(struct gossip_exchange *exchange);
void gossip_clocks_link(struct gossip_edge *edge);
void gossip_clocks_hear(const struct gossip_exchange *exchange, struct gossip_edge *edge, uint64_t round);
// CLOCK.
void gossip_clocks_take(const struct gossip_exchange *exchange, struct gossip_edge *edge,
                        const struct gossip_clock *theirs, struct gossip_exchange_actions *actions);
// Sync, a round that follows: until when an answer is awaited, 0: none is.
uint64_t gossip_clocks_inquire_until(const struct gossip_exchange *exchange);
// Is the peer known to be ahead of us?
bool gossip_clocks_passed(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
void gossip_clocks_note(const struct gossip_exchange *exchange, struct gossip_edge *edge,
                        const struct gossip_exchange_message *theirs);
// As many CLOCKs as there is room for; `untold`: others are still to be sent.
void gossip_clocks_tell(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions);
bool gossip_clocks_untold(const struct gossip_exchange *exchange);
// Is a neighbour too far behind for our round to end?
bool gossip_clocks_wait(const struct gossip_exchange *exchange);
// Neighbours that are: not waited for until they have moved.
void gossip_clocks_give_up(struct gossip_exchange *exchange);

// plausible.c. The norm of the published model, if it was not just measured; what is implausible beside it is
// counted and refused.
void gossip_plausible_learn(struct gossip_exchange *exchange);
void gossip_plausible_bar(struct gossip_exchange *exchange, struct gossip_edge *edge, unsigned doublings);
enum base_error gossip_plausible_refuse(struct gossip_exchange *exchange,
                                        struct gossip_edge *edge) BASE_CHECK;
bool gossip_plausible_barred(const struct gossip_edge *edge); // linked, and not met until barred_ns
bool gossip_plausible_message(const struct gossip_message *message);

// standing.c. What a ROUND event names; what of the common update an end applies to its own model, and
// whether c learns from it; in a RESYNC: 1: we adopt the peer's block, -1: the peer ours, 0: both meet in the
// middle. What a packet says of this end.
enum gossip_standing gossip_standing_of(const struct gossip_exchange *exchange, enum gossip_delta_form form);
void gossip_standing_told(struct gossip_exchange *exchange, enum gossip_standing standing);
float gossip_standing_weight(enum gossip_standing ours, enum gossip_standing theirs, float weight);
bool gossip_standing_drifts(enum gossip_standing ours, enum gossip_standing theirs);
int gossip_standing_adopts(enum gossip_standing ours, enum gossip_standing theirs);
// An exchange over `edge` with a peer at `clock` is committed; a RESYNC in which this end adopted is over.
void gossip_standing_met(struct gossip_exchange *exchange, struct gossip_edge *edge,
                         const struct gossip_exchange_message *theirs);
void gossip_standing_adopted(struct gossip_exchange *exchange, struct gossip_edge *edge);

// orphans.c. The edge ends or begins anew: what it had (its correction, then NULL; at its start it has none)
// outlives it; where its peer lives that fades more slowly. The caller sums anew where some of it had faded.
// BASE_ENOMEM changes nothing.
enum base_error gossip_orphan_take(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                   bool dead) BASE_CHECK;
void gossip_orphan_died(const struct gossip_exchange *exchange, const struct gossip_id *peer);
// This node was away for so many rounds, and ends every edge. With FADE it keeps as much of what they had,
// and of what others left, as the other ends do, so that all pulls go on summing to zero; else nothing.
void gossip_orphans_begin_anew(struct gossip_exchange *exchange, uint64_t missed);
void gossip_orphan_fade(struct gossip_exchange *exchange); // a round has begun
void gossip_orphan_drop(struct gossip_exchange *exchange, const struct gossip_id *peer);

// hello.c. HELLO: where the two ends stand, and what follows.
void gossip_hello_greet(struct gossip_exchange *exchange, struct gossip_edge *edge,
                        struct gossip_exchange_actions *actions);
void gossip_hello_ask(struct gossip_exchange *exchange, struct gossip_edge *edge,
                      struct gossip_exchange_actions *actions);
void gossip_hello_repeat(struct gossip_exchange *exchange, struct gossip_edge *edge,
                         struct gossip_exchange_actions *actions);
// Our state, sent unasked.
void gossip_hello_tell(struct gossip_exchange *exchange, struct gossip_edge *edge,
                       struct gossip_exchange_actions *actions);
// Edges that have not heard of the scaling that is in use now.
void gossip_hello_update(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions);
bool gossip_hello_untold(const struct gossip_exchange *exchange); // there are such edges
// The data at its two ends are scaled otherwise: their models are never averaged.
bool gossip_edge_apart(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
// BASE_EMISMATCH: the other end's data are scaled otherwise; the edge is barred.
enum base_error gossip_hello_take(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                  const struct gossip_hello *theirs,
                                  struct gossip_exchange_actions *actions) BASE_CHECK;

#endif
