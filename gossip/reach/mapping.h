// Which port this node asks its router to forward, and when (UPnP IGD, NAT-PMP: the shell speaks them).
//
// It is asked for when members are known not to reach the node, or when it has had no link for a while: a
// node that members call needs nothing of its router. A mapping is renewed when half of its lease is over,
// and asked for again when the addresses of this host change. If another host has the port, another port is
// asked for; which one depends on the node, so that after a restart it is the same again.
//
// Pure: time comes with the call. One owner (the loop).
#ifndef GOSSIP_REACH_MAPPING_H
#define GOSSIP_REACH_MAPPING_H

#include "gossip/reach/reach.h"

#define GOSSIP_MAPPING_LEASE_S  1200u
#define GOSSIP_MAPPING_WAIT_NS  10000000000ull  // from the start, without a link
#define GOSSIP_MAPPING_AGAIN_NS 600000000000ull // after an answer, at most
#define GOSSIP_MAPPING_PAUSE_NS 10000000000ull  // between two questions, at least
#define GOSSIP_MAPPING_PORTS    8u              // that are tried if others have them

enum gossip_mapping_state {
    GOSSIP_MAPPING_OFF,  // nothing is ever asked
    GOSSIP_MAPPING_IDLE, // nothing has been asked since the latest change, or nothing is answered yet
    GOSSIP_MAPPING_NO_ROUTER,
    GOSSIP_MAPPING_REFUSED,
    GOSSIP_MAPPING_HELD,
};

struct gossip_mapping_request {
    uint8_t host[4]; // IPv4 address of the listener; zeros: any
    uint16_t inside, outside;
    uint32_t lease_s;
};
enum gossip_mapping_end {
    GOSSIP_MAPPING_NOBODY, // no router answers
    GOSSIP_MAPPING_DENIED, // it says no
    GOSSIP_MAPPING_TAKEN,  // the port belongs to another host
    GOSSIP_MAPPING_MAPPED,
};
struct gossip_mapping_answer {
    enum gossip_mapping_end end;
    const char *by;                // "UPnP", "NAT-PMP"; static; NULL: nobody
    struct gossip_address address; // MAPPED
    uint32_t lease_s;              // MAPPED; 0: without end
};

struct gossip_mapping {
    enum gossip_mapping_state state;
    struct gossip_address address; // HELD
    const char *by;                // of the latest answer
    uint8_t host[4];
    uint16_t inside, outside; // outside: to be asked for next
    unsigned tries;           // of other ports, in a row
    bool asked, moved;        // waits for an answer; and something has changed since
    uint64_t seed, begun_ns, asked_ns, due_ns, ends_ns;
};

// `seed`: of this node, for other ports.
void gossip_mapping_begin(struct gossip_mapping *mapping, uint64_t now_ns, const uint8_t host[4],
                          uint16_t port, uint64_t seed);
// Whether a router can be between others and a host with these interfaces: it has a private IPv4 address, and
// no public one.
bool gossip_mapping_fits(const struct gossip_address *interfaces, size_t count);
// True: ask now, and pass the answer on.
bool gossip_mapping_asks(struct gossip_mapping *mapping, uint64_t now_ns, enum gossip_reach_state state,
                         bool fits, struct gossip_mapping_request *request);
void gossip_mapping_answered(struct gossip_mapping *mapping, uint64_t now_ns,
                             const struct gossip_mapping_answer *answer);
void gossip_mapping_moved(
    struct gossip_mapping *mapping); // an address of this host or its router has changed

#endif
