// What one exchange object holds. Private to gossip/exchange: averaging.c changes vectors, settle.c compares
// the ends of an edge, exchange.c decides who talks when, record.c stores and restores.
#ifndef GOSSIP_EXCHANGE_STATE_H
#define GOSSIP_EXCHANGE_STATE_H

#include "gossip/exchange/deadline.h"
#include "gossip/exchange/exchange.h"
#include "gossip/exchange/packet.h"

struct gossip_edge {
    struct gossip_id peer;
    enum gossip_edge_state state;
    bool silent;              // did not come to a round in time; skipped until it says something
    uint64_t epoch, sequence; // of the next exchange
    uint64_t booted;          // elements covered by BOOT; = parameters when live
    uint64_t clock;           // latest round that met here
    double progress;          // the exchange's, when our side of this edge's latest exchange was taken
    double prepared;          // the same of the request or answer under way
    uint64_t met;             // the exchange's rounds at the latest exchange
    float since;              // step scale since the latest exchange, of the same
    float absence;            // step scale of long absences whose drift is still under way
    float *reference;         // [d] r, bit-identical on both ends
    float *correction;        // [d] c, opposite on both ends; NULL without drift correction
    uint64_t reference_hash;
    struct gossip_packet request; // ours, not yet answered
    struct gossip_packet answer;  // ours to the latest request of the peer
    struct gossip_packet parked;  // the peer's: ahead of our round (sync), or while we were busy
    uint64_t sent_ns;             // when the request went out
    uint64_t alarm_ns;            // active: give up; hello, in doubt: ask again; boot: next block after BUSY
    uint8_t question;             // number of our latest HELLO question, 1..127
    uint8_t repeats;              // of it
    double residual_energy, model_energy; // |x - r - q|^2 and |x|^2 of the request
    struct gossip_deadline answers;
    uint64_t exchanges, boots, replays, discards, busy, timeouts, mismatches;
    uint8_t *stored; // memory of the latest export
};

struct gossip_exchange {
    struct gossip_exchange_options options;
    size_t entries; // k
    uint64_t start_hash;
    float *model;   // [d] published x
    float *pending; // [d] corrections since the trainer last took them
    bool pending_any;
    float *second, *pending_second; // [d] published v and its corrections; NULL unless shared
    bool second_known;              // the trainer has published v
    float *correction_sum;          // [d] sum over edges of c; NULL without drift correction
    float *difference;              // [d] scratch: x - r
    struct compress_sparse mine, theirs;
    float *run_mine, *run_theirs; // scratch: one BOOT block or moment slice
    size_t run_capacity;

    struct gossip_edge **edges;
    size_t n_edges;
    struct gossip_edge *active; // has our one uncommitted exchange that is not in doubt

    uint64_t now_ns;
    uint64_t clock;   // round of the latest ROUND event
    uint64_t age;     // most rounds that the published model had behind it
    uint64_t rounds;  // ROUND events so far
    float step_scale; // of that round
    double progress;  // sum of the step scales of all rounds
    struct {
        bool open;   // the trainer waits
        bool wanted; // our exchange of this round is still to be made
        struct gossip_id partner;
        uint64_t started_ns, deadline_ns, retry_ns;
        unsigned retries;
        float *model, *second_moment, *correction; // the trainer's, borrowed while open
    } round;
    struct gossip_exchange_totals totals;
};

struct gossip_edge *gossip_edge_find(const struct gossip_exchange *exchange, const struct gossip_id *peer);
enum base_error gossip_edge_add(struct gossip_exchange *exchange, const struct gossip_id *peer,
                                struct gossip_edge **edge) BASE_CHECK;
void gossip_edge_free(struct gossip_edge *edge); // NULL is fine
void gossip_edge_remove(struct gossip_exchange *exchange, struct gossip_edge *edge);
// r = 0, seq = 0, c = 0, nothing open: both ends then average their models block by block.
void gossip_edge_boot(struct gossip_exchange *exchange, struct gossip_edge *edge, uint64_t epoch);
void gossip_edge_drop_correction(struct gossip_exchange *exchange, struct gossip_edge *edge);
void gossip_edge_drop_request(struct gossip_exchange *exchange, struct gossip_edge *edge);
// Does this end ask, where only one may (sync rounds, BOOT, ties)? The lower id does.
bool gossip_edge_leads(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
// LIVE or BOOT, as far as BOOT has come.
void gossip_edge_settle(const struct gossip_exchange *exchange, struct gossip_edge *edge);
// HELLO or IN_DOUBT: a question is out, and is repeated until something answers it.
bool gossip_edge_asks(const struct gossip_edge *edge);
uint64_t gossip_edge_patience(const struct gossip_exchange *exchange, const struct gossip_edge *edge);

void gossip_edge_send(struct gossip_exchange_actions *actions, const struct gossip_edge *edge,
                      const struct gossip_message *message);

// averaging.c. Fills `packet` with our side of an exchange (q, and the moment slice of round `slice_clock`).
// BASE_ESTATE: our own model is not finite.
enum base_error gossip_averaging_prepare(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                         enum gossip_delta_form form, uint64_t slice_clock,
                                         struct gossip_packet *packet) BASE_CHECK;
// Applies one exchange from both sides' bytes: x, r, c, hash, seq. `slice_clock`: the initiator's round. All
// is decoded and checked first: BASE_EFORMAT (theirs) or BASE_ENOMEM change nothing.
enum base_error gossip_averaging_commit(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                        const struct gossip_packet *mine,
                                        const struct gossip_exchange_message *theirs,
                                        uint64_t slice_clock) BASE_CHECK;

// round.c. Is `edge` the one whom the open or latest round still has to meet?
bool gossip_round_meets(const struct gossip_exchange *exchange, const struct gossip_edge *edge);
// The edge has met for `clock`; with that our own exchange of this round may be done. Where the trainer waits
// for this very neighbour, any meeting will do: a neighbour that restarted counts its rounds anew.
void gossip_round_note(struct gossip_exchange *exchange, struct gossip_edge *edge, uint64_t clock);
void gossip_round_begin(struct gossip_exchange *exchange, const struct gossip_exchange_event *event);
// Hands the vectors back: at once (async), or (sync) with the exchange, when its partner can't be met any
// more, or at the deadline.
void gossip_round_end(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions);

// settle.c. HELLO: where the two ends stand, and what follows.
void gossip_settle_greet(struct gossip_exchange *exchange, struct gossip_edge *edge,
                         struct gossip_exchange_actions *actions);
void gossip_settle_ask(struct gossip_exchange *exchange, struct gossip_edge *edge,
                       struct gossip_exchange_actions *actions);
void gossip_settle_repeat(struct gossip_exchange *exchange, struct gossip_edge *edge,
                          struct gossip_exchange_actions *actions);
// Where we stand, unasked.
void gossip_settle_tell(struct gossip_exchange *exchange, struct gossip_edge *edge,
                        struct gossip_exchange_actions *actions);
void gossip_settle_hello(struct gossip_exchange *exchange, struct gossip_edge *edge,
                         const struct gossip_hello *theirs, struct gossip_exchange_actions *actions);

#endif
