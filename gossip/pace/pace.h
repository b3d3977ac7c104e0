// Who waits for whom: at which moment a node asks which neighbour for an exchange, when it answers one, and
// how long its trainer waits at a boundary. Decides from rounds, states of edges and times only: no vector,
// no message, no clock of its own. gossip/exchange owns one object, reports what happens, and does what
// `next` says. README.md has the rules and what each is worth.
//
// Bounds: one entry for each edge, GOSSIP_NEWS_MEMBERS reports. Pure; the owner's thread.
#ifndef GOSSIP_PACE_PACE_H
#define GOSSIP_PACE_PACE_H

#include "gossip/id.h"
#include "gossip/pace/answers.h"
#include "gossip/pace/news.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gossip_pace_mode {
    GOSSIP_PACE_SYNC,  // a round ends after its own exchange
    GOSSIP_PACE_ASYNC, // a round ends when the exchange of the previous one is made
};

enum gossip_pace_tie {   // what an edge allows
    GOSSIP_PACE_APART,   // nothing: there is no link, or the neighbour is refused for a while
    GOSSIP_PACE_LOST,    // the link has just broken: it comes back, or the view drops the neighbour
    GOSSIP_PACE_BEGINS,  // the two ends compare their states, which takes one answer
    GOSSIP_PACE_RESYNCS, // the models are averaged block by block, which takes long
    GOSSIP_PACE_LIVE,    // exchanges
    GOSSIP_PACE_TIES,
};

enum gossip_pace_flight { // our request over an edge
    GOSSIP_PACE_NO_FLIGHT,
    GOSSIP_PACE_OPEN,   // nothing has been heard of it
    GOSSIP_PACE_PARKED, // the neighbour has it, and answers when it reaches our round
    GOSSIP_PACE_FLIGHTS,
};

enum gossip_pace_reason { // why a boundary waits, and what ends the wait
    GOSSIP_PACE_NO_REASON,
    GOSSIP_PACE_FOR_ANSWER,  // of the partner: its packet
    GOSSIP_PACE_FOR_PARTNER, // the partner is behind: its packet, when it gets there
    GOSSIP_PACE_FOR_LINK,    // to the partner: LINK_UP and HELLO, or a new view
    GOSSIP_PACE_FOR_EDGE,    // no edge is live though others train: HELLO or the last block
    GOSSIP_PACE_FOR_CLUSTER, // this node is too far ahead: reports of members
    GOSSIP_PACE_REASONS,
};
const char *gossip_pace_reason_name(enum gossip_pace_reason reason);

struct gossip_pace_peer { // one for each edge; the owner's memory, from add to remove
    struct gossip_id peer;
    enum gossip_pace_tie tie;
    enum gossip_pace_flight flight;
    uint64_t round;     // highest round that it has named since the link is up; 0: none
    uint64_t clock;     // highest round with an exchange over this edge
    uint64_t met;       // gossip_pace.rounds at the latest exchange
    uint64_t met_ns;    // when, or when the edge was added
    uint64_t tie_ns;    // since when the tie is what it is
    uint64_t sent_ns;   // when the request went out, or the neighbour last said that it is parked
    uint64_t retry_ns;  // after a refusal: not before
    unsigned refusals;  // in a row
    uint64_t waited_ns; // for this neighbour, since the latest exchange with it
    float weight;       // of our request
    bool loose;         // our request goes on without the boundary
    bool ended;         // it has done its last step
    struct gossip_answers answers;
};

struct gossip_pace_options {
    struct gossip_id self;
    enum gossip_pace_mode mode;
    uint64_t lead;       // most rounds above the cluster's (L), beyond what the news can be late
    uint64_t reach;      // sync: most rounds that a node skips at once
    uint64_t local;      // async: most rounds that a node behind the cluster makes for one exchange (d/k)
    uint64_t overlap;    // async: most rounds without an exchange while one that takes longer than the steps
                         // of a round is under way; 0: the next round waits for it
    uint64_t max_delay;  // async: rounds without an exchange before a node without a live edge waits
    uint64_t ceiling_ns; // of every wait
};

struct gossip_pace_round { // a boundary
    uint64_t round;
    bool meets;    // the plan names a partner
    bool others;   // other nodes train
    bool idle;     // no local step follows or preceded: nothing is met, nothing waits
    bool counts;   // it ends local steps that were not counted yet
    uint64_t turn; // rounds within which the plan meets each neighbour
    struct gossip_id partner;
    float weight;
};

enum gossip_pace_turn { // of the exchange of the round
    GOSSIP_PACE_NO_TURN,
    GOSSIP_PACE_DUE,   // still to be made, or (async) to be begun
    GOSSIP_PACE_ASKED, // async: begun; the round may end
    GOSSIP_PACE_TURNS,
};

struct gossip_pace_waits { // by reason, in ns, since the start
    uint64_t ns[GOSSIP_PACE_REASONS];
    uint64_t overdue; // waits that passed their deadline though the neighbour was linked and alive
};

struct gossip_pace_wait { // one uninterrupted wait
    enum gossip_pace_reason reason;
    struct gossip_id whom; // the neighbour; this node's own id: no single one
    uint64_t ns;
};

struct gossip_pace_done {              // requests, since the start
    uint64_t asked, refused, answered; // ours that went out; of these refused (BUSY); of others, answered
};

struct gossip_pace {
    struct gossip_pace_options options;
    struct gossip_pace_peer **peers; // [n_peers], in the order of their ids
    size_t n_peers;
    struct gossip_news news;
    uint64_t now_ns, round, rounds; // rounds: those in which this process has trained
    uint64_t met;                   // `rounds` at the latest exchange over any edge
    uint64_t planned, unmet; // rounds with a partner in the plan; of these: no exchange before the next
    uint64_t latest;         // `rounds` at the latest of them
    bool open, idle, others; // a boundary is open
    enum gossip_pace_turn turn;
    float answered; // sum of the weights of answers since the latest request went out
    struct gossip_pace_round plan;
    uint64_t begun_ns, began_ns;    // of the open boundary; of the steps before it
    uint64_t ended_ns;              // of the latest boundary
    enum gossip_pace_reason reason; // of the wait in progress
    struct gossip_id waits_for;     // the neighbour, if the reason names one
    uint64_t since_ns;              // ... until now accounted for
    struct gossip_pace_waits waits;
    struct gossip_pace_wait wait, longest; // the latest one, and the longest of the latest boundary
    struct gossip_pace_done done;
};

enum gossip_pace_todo {
    GOSSIP_PACE_NOTHING, // no boundary is open
    GOSSIP_PACE_ASK,     // `peer` for an exchange with `weight`; then call next again
    GOSSIP_PACE_WAIT,    // for `reason`, until `until_ns` at most
    GOSSIP_PACE_LEAVE,   // the boundary is over
};
struct gossip_pace_next {
    enum gossip_pace_todo todo;
    enum gossip_pace_reason reason;
    struct gossip_pace_peer *peer; // NULL if the reason names none
    float weight;
    uint64_t until_ns;
};

// False: out of memory. The peer's id must be set; everything else is cleared.
bool gossip_pace_add(struct gossip_pace *pace, struct gossip_pace_peer *peer);
void gossip_pace_remove(struct gossip_pace *pace, const struct gossip_pace_peer *peer);

// Every event has a time.
void gossip_pace_time(struct gossip_pace *pace, uint64_t now_ns);
void gossip_pace_tie(struct gossip_pace *pace, struct gossip_pace_peer *peer, enum gossip_pace_tie tie);
void gossip_pace_hear(struct gossip_pace *pace, struct gossip_pace_peer *peer, uint64_t round);
void gossip_pace_begin(struct gossip_pace *pace, const struct gossip_pace_round *round);
// Our request went out.
void gossip_pace_asked(struct gossip_pace *pace, struct gossip_pace_peer *peer, float weight);
void gossip_pace_parked(struct gossip_pace *pace, struct gossip_pace_peer *peer);  // ... and waits there
void gossip_pace_refused(struct gossip_pace *pace, struct gossip_pace_peer *peer); // ... and was refused
void gossip_pace_dropped(struct gossip_pace_peer *peer);                           // ... and is void
void gossip_pace_met(struct gossip_pace *pace, struct gossip_pace_peer *peer, uint64_t round);
void gossip_pace_answered(struct gossip_pace *pace, float weight); // a request, with that weight
void gossip_pace_left(struct gossip_pace *pace);                   // nobody else trains any more
void gossip_pace_skip(struct gossip_pace *pace);  // the open boundary needs no exchange of its own any more
void gossip_pace_leave(struct gossip_pace *pace); // the boundary has ended

// May a request of round `round` be answered now? If not, it is kept until it may.
bool gossip_pace_answers(const struct gossip_pace *pace, const struct gossip_pace_peer *peer, uint64_t round);
// The weight of an exchange that begins now, of which the plan says `weight`: updates that are under way
// together must not move a model by more than their mean.
float gossip_pace_weight(const struct gossip_pace *pace, const struct gossip_pace_peer *peer, float weight);
// When a request without a sign of life is to be asked about; UINT64_MAX: none is out.
uint64_t gossip_pace_due(const struct gossip_pace *pace, const struct gossip_pace_peer *peer);
// What to do now at the open boundary. Changes only the account of waits.
struct gossip_pace_next gossip_pace_next(struct gossip_pace *pace);
// It was waited for in vain for so long that nobody waits for it before it makes an exchange.
bool gossip_pace_spent(const struct gossip_pace *pace, const struct gossip_pace_peer *peer);
// Most of its rounds had no exchange though others train: its model is its own, not the cluster's.
bool gossip_pace_apart(const struct gossip_pace *pace);
// The round from which the trainer goes on: the boundary's, or in sync a later one.
uint64_t gossip_pace_goes_on(const struct gossip_pace *pace);
// This node is ahead of the cluster by more than L.
bool gossip_pace_ahead(const struct gossip_pace *pace);

#endif
