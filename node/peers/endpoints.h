// Where a member is called: at the addresses of its record. One of them that means something on its own host
// only (loopback: its name is 127.0.1.1 in its /etc/hosts) is replaced by the address that it was linked
// from, with the told port. And where its datagrams go: to the source of its latest authentic one while that
// is fresh, else to these addresses in turn. And which member was heard at an address, for a port that turns
// out to be closed. A table; no sockets. Loop's thread.
#ifndef NODE_PEERS_ENDPOINTS_H
#define NODE_PEERS_ENDPOINTS_H

#include "gossip/member/record.h"
#include "node/net/resolve.h"
#include <stdbool.h>

#define NODE_ENDPOINT_FRESH_NS (10ull * 1000000000ull)

struct node_endpoints;

enum base_error node_endpoints_create(struct node_endpoints **endpoints) BASE_CHECK;
void node_endpoints_destroy(struct node_endpoints *endpoints); // NULL is fine
// An authentic datagram of this member came from `from`. Not recorded if out of memory.
void node_endpoints_heard(struct node_endpoints *endpoints, const struct gossip_id *id,
                          const struct node_address *from, uint64_t now_ns);
// A link with this member has this address at its end (the port is that of the stream).
void node_endpoints_linked(struct node_endpoints *endpoints, const struct gossip_id *id,
                           const struct node_address *from);
// The addresses at which the member of this record is called, in its order; returns their number, which does
// not change between two calls unless the record or a link does.
size_t node_endpoints_of(const struct node_endpoints *endpoints, const struct gossip_record *record,
                         struct node_address out[LIMIT_ADDRESSES]);
// The address for the next datagram to the member of this record; false: `reaches` is false for all.
bool node_endpoints_pick(struct node_endpoints *endpoints, const struct gossip_record *record,
                         uint64_t now_ns, bool (*reaches)(const void *context, const struct node_address *to),
                         const void *context, struct node_address *to);
// The member that was last heard from exactly there; false: none.
bool node_endpoints_at(const struct node_endpoints *endpoints, const struct node_address *address,
                       struct gossip_id *id);
void node_endpoints_forget(struct node_endpoints *endpoints, const struct gossip_id *id);

void node_address_of(const struct gossip_address *from, struct node_address *to);
// False: of no known family, or of one link only (fe80::).
bool node_address_tell(const struct node_address *from, struct gossip_address *to);
bool node_address_equal(const struct node_address *a, const struct node_address *b); // address and port

#endif
