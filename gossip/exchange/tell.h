// What an exchange does, for people: each event and action as one line, and the account of a round. The lines
// are for a debug log and the trace of a simulation; nothing is computed unless they are wanted. The account
// is part of a node's record (metrics.jsonl), which `p2pml why` explains. Owner: that of the exchange.
#ifndef GOSSIP_EXCHANGE_TELL_H
#define GOSSIP_EXCHANGE_TELL_H

#include "gossip/exchange/exchange.h"

#define GOSSIP_TELL_NAME 24u // of a node: its name in the owner's words, or the first bytes of its id

struct gossip_teller {
    void *owner;
    void (*name)(void *owner, const struct gossip_id *id, char name[GOSSIP_TELL_NAME]); // NULL: of the id
    void (*line)(void *owner, const char *line);
};
// The first 8 bytes of an id in hex.
void gossip_tell_id(const struct gossip_id *id, char name[GOSSIP_TELL_NAME]);

// gossip_exchange_step, told: the event, every edge that has changed, every action, and a wait that has
// begun.
enum base_error gossip_tell_step(struct gossip_exchange *exchange, const struct gossip_exchange_event *event,
                                 struct gossip_exchange_actions *actions,
                                 const struct gossip_teller *teller) BASE_CHECK;

enum gossip_miss {         // why a round had no exchange with the neighbour that the plan names
    GOSSIP_MISS_NONE,      // it had one, or none was due
    GOSSIP_MISS_STRANGER,  // it is no neighbour yet
    GOSSIP_MISS_LINK,      // there was no link to it
    GOSSIP_MISS_BARRED,    // it had sent what is refused, and is not met for a while
    GOSSIP_MISS_BEGINS,    // the two ends compared their states
    GOSSIP_MISS_RESYNCS,   // the edge was starting over, block by block
    GOSSIP_MISS_SILENT,    // a request had no answer
    GOSSIP_MISS_BEHIND,    // it was behind this round
    GOSSIP_MISS_REFUSED,   // it said that it could not
    GOSSIP_MISS_UNDER_WAY, // the exchange took longer than the round
    GOSSIP_MISS_SPENT,     // it was waited for in vain before
    GOSSIP_MISS_OTHER,     // this node did not wait for it
    GOSSIP_MISSES,
};
const char *gossip_miss_name(enum gossip_miss miss); // a word

#define GOSSIP_ROUND_MET 8u
struct gossip_round_account { // since the account before
    bool planned;             // the plan names `partner` for the round
    struct gossip_id partner;
    enum gossip_miss missed;
    struct gossip_id met[GOSSIP_ROUND_MET]; // neighbours with whom an exchange was made
    size_t n_met;                           // all of them, also beyond the list
    struct gossip_pace_done done;           // requests
    uint64_t wait_ns[GOSSIP_PACE_REASONS];  // of boundaries
    struct gossip_pace_wait longest;        // of the latest boundary
};
// At the end of a boundary, `met`: gossip_exchange_met. `partner` NULL: none was due.
void gossip_exchange_account(struct gossip_exchange *exchange, const struct gossip_id *partner, bool met,
                             struct gossip_round_account *account);

#endif
