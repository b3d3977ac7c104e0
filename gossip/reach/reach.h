// At which addresses others reach this node, and whether they do.
//
// Behind a router, a node's own addresses mean nothing outside. Each member says in its greeting at which
// address it sees the node (`seen`); a call that leaves from the listen port is seen at the address that the
// router has given to that port. What the members agree on is told like an address of the node's own.
//
// REACHABLE: a member has called this node. If some are linked from beyond this host's networks, only their
// calls count, and only from a port of their own: one from inside proves nothing about those outside, and one
// from the address that a member tells may have passed a router or firewall as the answer to a call of this
// node. PRIVATE: it has links and no such call; members call each other for that purpose (LOOK in
// gossip/links). A node that others see behind a router is private at once. What the members of links in use
// have said and done counts; after the end of a link for GOSSIP_REACH_FRESH_NS more.
//
// Pure: time comes with the call. One owner (the loop). Memory: GOSSIP_REACH_VOTERS members.
#ifndef GOSSIP_REACH_REACH_H
#define GOSSIP_REACH_REACH_H

#include "base/error.h"
#include "gossip/member/record.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GOSSIP_REACH_VOTERS     64u // the one whose link ended longest ago makes room
#define GOSSIP_REACH_INTERFACES 32u
#define GOSSIP_REACH_FRESH_NS   600000000000ull // several looks of gossip/links
#define GOSSIP_REACH_WAIT_NS    6000000000ull   // from the first link: a look and its call are over by then

#define GOSSIP_REACH_EARLY_NS 60000000000ull
#define GOSSIP_REACH_LASTS_NS 300000000000ull

enum gossip_reach_state { GOSSIP_REACH_UNKNOWN, GOSSIP_REACH_REACHABLE, GOSSIP_REACH_PRIVATE };
const char *gossip_reach_state_name(enum gossip_reach_state state);

struct gossip_reach;

enum base_error gossip_reach_create(struct gossip_reach **reach) BASE_CHECK;
void gossip_reach_destroy(struct gossip_reach *reach); // NULL is fine

// The configuration names the addresses: these are told, and no others. count <= LIMIT_ADDRESSES.
void gossip_reach_give(struct gossip_reach *reach, const struct gossip_address *addresses, size_t count);
// The addresses of this host's interfaces, ports ignored: own ones that are not among them are told no more,
// and after such a change only what the members of links in use have said counts. Beyond
// GOSSIP_REACH_INTERFACES ignored. True: they have changed.
bool gossip_reach_interfaces(struct gossip_reach *reach, const struct gossip_address *addresses,
                             size_t count);
// A router forwards this address to the node; NULL: none does (any more).
void gossip_reach_map(struct gossip_reach *reach, const struct gossip_address *address);
// A link to another member uses this local address, with the port that is told.
void gossip_reach_own(struct gossip_reach *reach, const struct gossip_address *address);
// A direct link to this member is in use; it sees the node at `seen` (family 0: it does not say;
// port 0: at that host, but of a link that does not use the listen port). `near`: its
// address is in a network of this host's interfaces.
void gossip_reach_linked(struct gossip_reach *reach, uint64_t now_ns, const struct gossip_id *member,
                         const struct gossip_address *seen, bool near);
void gossip_reach_unlinked(struct gossip_reach *reach, uint64_t now_ns, const struct gossip_id *member);
// A call of this member has reached this node, from a port of its own or (`told`) from an address that it
// tells.
void gossip_reach_called(struct gossip_reach *reach, uint64_t now_ns, const struct gossip_id *member,
                         bool told, bool near);

enum gossip_reach_state gossip_reach_state(const struct gossip_reach *reach, uint64_t now_ns);
// For the graph: as it is in the first GOSSIP_REACH_EARLY_NS after the first link, later what has lasted for
// GOSSIP_REACH_LASTS_NS, because edges that move begin anew.
enum gossip_access gossip_reach_access(struct gossip_reach *reach, uint64_t now_ns);
// The addresses to tell, the most useful first; returns their number.
size_t gossip_reach_addresses(const struct gossip_reach *reach, uint64_t now_ns,
                              struct gossip_address out[LIMIT_ADDRESSES]);
// At which address those outside see this node; false: nobody does, or they do not agree.
bool gossip_reach_outside(const struct gossip_reach *reach, uint64_t now_ns, struct gossip_address *outside);
// The address that a router forwards is told: members see the node at that host. As long as nobody outside
// says anything, a public one is believed. Otherwise the router stands behind another one.
bool gossip_reach_mapped(const struct gossip_reach *reach, uint64_t now_ns);

bool gossip_address_same_host(const struct gossip_address *a, const struct gossip_address *b);
bool gossip_address_same(const struct gossip_address *a, const struct gossip_address *b); // and port
// Loopback, no address at all, or of one link only (169.254.0.0/16): others cannot use it, or reach
// themselves there.
bool gossip_address_is_near(const struct gossip_address *address);
// IPv4 that means one host everywhere: not of a home, a carrier (100.64.0.0/10), a test or a group.
bool gossip_address_is_public(const struct gossip_address *address);

#endif
