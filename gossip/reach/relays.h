// Which members relay for a node that others cannot call, or between two without a family of addresses in
// common: the two that rendezvous hashing gives (Thaler and Ravishankar 1998): each node has its own order of
// all members, so relays share the load, and one that dies changes nothing for those that did not use it.
// Pure.
#ifndef GOSSIP_REACH_RELAYS_H
#define GOSSIP_REACH_RELAYS_H

#include "gossip/member/member.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gossip_relays {
    struct gossip_id self;                      // or of a pair: the same at both ends
    uint8_t families;                           // that a relay must have
    struct gossip_id ids[GOSSIP_RECORD_RELAYS]; // chosen, the best first
    uint64_t scores[GOSSIP_RECORD_RELAYS];
    size_t count;
};

void gossip_relays_begin(struct gossip_relays *relays, const struct gossip_id *self);
// A member that is alive. `missing`: this node has wanted a link to it for long without one; it is chosen
// only if there is no other.
void gossip_relays_offer(struct gossip_relays *relays, const struct gossip_record *member, bool missing);

// This node and a member of which one tells IPv4 addresses only, the other IPv6 addresses only, meet over
// members that tell both. Both ends choose the same. Of others: none, and no families.
void gossip_relays_between(struct gossip_relays *relays, const struct gossip_membership *membership,
                           const struct gossip_record *other);
bool gossip_relays_have(const struct gossip_relays *relays, const struct gossip_id *id);

bool gossip_record_relays(const struct gossip_record *record);     // it can be asked to relay
bool gossip_record_is_private(const struct gossip_record *record); // it is called through its relays
bool gossip_record_names(const struct gossip_record *record, const struct gossip_id *relay); // as its relay

#endif
