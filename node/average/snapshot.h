// Snapshots at one node: the worker's donor for members that join late, and its joiner while this node itself
// joins late. Never both: a node that fetches has no model to give. Worker's thread.
#ifndef NODE_AVERAGE_SNAPSHOT_H
#define NODE_AVERAGE_SNAPSHOT_H

#include "gossip/exchange/exchange.h"
#include "gossip/snapshot/snapshot.h"
#include "node/queue/message.h"

struct node_snapshot;

struct node_snapshot_options {
    struct gossip_id self;
    const struct gossip_exchange *exchange; // borrowed
    void (*send)(void *owner, const struct gossip_id *peer, const struct gossip_message *message);
    void (*close)(void *owner, const struct gossip_id *peer, const char *why);
    void (*starved)(void *owner, uint64_t silent_ns); // donors exist but send nothing; repeated
    void *owner;
};

enum base_error node_snapshot_create(const struct node_snapshot_options *options,
                                     struct node_snapshot **snapshot) BASE_CHECK;
void node_snapshot_destroy(struct node_snapshot *snapshot); // NULL is fine

// Donor. At the end of a rendezvous, while its vectors do not change, nodes that wait for a copy get one.
// After a rendezvous without an exchange, the vectors that a snapshot needs are kept until the next
// rendezvous.
void node_snapshot_round(struct node_snapshot *snapshot, const struct node_round *round, uint64_t now_ns);
void node_snapshot_asked(struct node_snapshot *snapshot, const struct gossip_id *peer,
                         const struct gossip_snapshot_ask *ask, uint64_t now_ns);

// Joiner: fetches into the vectors of `round`, which stays borrowed until done or ended. Then its round and
// step are those of the snapshot, and `fetched` is set.
enum base_error node_snapshot_fetch(struct node_snapshot *snapshot, struct node_round *round) BASE_CHECK;
bool node_snapshot_fetching(const struct node_snapshot *snapshot);
void node_snapshot_told(struct node_snapshot *snapshot, const struct gossip_id *peer,
                        const struct gossip_snapshot_tell *tell, uint64_t now_ns);
// Sets the members that can donate a snapshot now; a member that is not listed no longer does. The link to a
// donor that reports a round or step beyond the limits (0: none) is closed, and the donor is not asked again.
void node_snapshot_donors(struct node_snapshot *snapshot, const struct gossip_id *donors, size_t n,
                          uint64_t round_limit, uint64_t step_limit, uint64_t now_ns);
void node_snapshot_gone(struct node_snapshot *snapshot, const struct gossip_id *peer, uint64_t now_ns);
bool node_snapshot_complete(struct node_snapshot *snapshot); // true once, when it is complete: the fetch ends
void node_snapshot_end(struct node_snapshot *snapshot);      // ends the fetch without a snapshot

void node_snapshot_tick(struct node_snapshot *snapshot, uint64_t now_ns); // after every event and deadline
uint64_t node_snapshot_deadline(const struct node_snapshot *snapshot);

#endif
