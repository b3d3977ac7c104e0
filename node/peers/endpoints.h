// Where a member's datagrams go: to the source of its latest authentic one while that is fresh, else to the
// addresses of its record in turn. And which member was heard at an address, for a port that turns out to be
// closed. A table; no sockets. Loop's thread.
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
