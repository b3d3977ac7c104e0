// Trust: whether the model of a neighbour serves this node's own examples, by the losses that the learner has
// measured (RULES.md). A neighbour that is not trusted moves nothing here; its reference goes on, so that it
// is judged again.
#ifndef GOSSIP_EXCHANGE_TRUST_H
#define GOSSIP_EXCHANGE_TRUST_H

#include "gossip/id.h"
#include "gossip/losses.h"
#include <stdbool.h>
#include <stdint.h>

#define GOSSIP_TRUST_LEARNED 0.9        // of the loss of nothing: below it there is something to compare with
#define GOSSIP_TRUST_LOST    (1.0 / 6)  // of what this node's model knows, more than over the best other edge
#define GOSSIP_TRUST_AGAIN   (1.0 / 12) // likewise: of who is not trusted a look that finds more is bad
#define GOSSIP_TRUST_LOOKS   5u         // in a row: bad ones end the trust, good ones bring it back
#define GOSSIP_TRUST_DOUBLES 4u         // times that the good ones double, once with each further verdict
#define GOSSIP_TRUST_FIRST   4u  // part of the exchanges that send every element once: before the first look
#define GOSSIP_TRUST_EVERY   8u  // likewise: between two looks
#define GOSSIP_TRUST_MEMBERS 64u // without an edge, of whom this node still knows

struct gossip_trust {
    enum { GOSSIP_TRUSTED, GOSSIP_DISTRUSTED } state;
    bool looked; // `lost` is known
    double lost; // at the latest look: part of what this node's model knows that the reference does not
    uint64_t exchanges; // of the edge, at that look
    unsigned bad, good; // looks in a row
    unsigned verdicts;  // times that trust has ended
};

// A member whose edge has ended. Trust is of the member: its next edge begins with it.
struct gossip_trust_member {
    struct gossip_id peer;
    struct gossip_trust trust;
};

enum gossip_verdict { GOSSIP_VERDICT_NONE, GOSSIP_VERDICT_DISTRUST, GOSSIP_VERDICT_TRUST };

// The part of what this node's model knows that the other one does not; NAN: not known.
double gossip_trust_lost(const struct gossip_losses *losses);
// After one look. `beyond`: how much more is lost than over the best other edge. may: one more neighbour may
// be distrusted. A verdict has changed `state`.
enum gossip_verdict gossip_trust_note(struct gossip_trust *trust, double beyond, bool may);
// The good looks in a row after which a distrusted neighbour is trusted again.
unsigned gossip_trust_good(const struct gossip_trust *trust);

#endif
