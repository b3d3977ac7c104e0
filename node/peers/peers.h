// The links to other nodes: sockets and sessions, names and addresses, log lines. gossip/links decides which
// links exist, which node is called when, which of two links between a pair is used and what the end of one
// means; the worker and membership decide what a link carries; membership decides which nodes are members.
//
// What happens is an action of the rules, which the owner takes and passes to node_peers_act. Requests of the
// owner are decided at once and carried out as it takes actions, so nothing calls the owner from inside a
// call of its own. Accepted connections that are not in use yet: at most LIMIT_HALF_OPEN, and
// LIMIT_HALF_OPEN_ADDRESS from one address. A stranger's connection is closed without a byte, and counted.
// Loop's thread.
#ifndef NODE_PEERS_PEERS_H
#define NODE_PEERS_PEERS_H

#include "gossip/links/links.h"
#include "gossip/member/member.h"
#include "node/config/config.h"
#include "node/net/connection.h"
#include "node/net/faults.h"
#include "node/net/resolve.h"
#include "node/queue/counters.h"

struct event_base;
struct node_endpoints;
struct node_peers;
struct node_streams;

enum node_peers_event_kind {
    NODE_PEERS_UP,          // a link to `peer` is in use; `own`, `theirs`: its addresses, if it is direct
    NODE_PEERS_DOWN,        // no link to `peer` is in use any more
    NODE_PEERS_MESSAGE,     // `message` for the worker; its payloads point into bytes[count], malloc'ed and
                            // now the owner's
    NODE_PEERS_STATISTICS,  // `message` for the statistics of this node's examples
    NODE_PEERS_PACKET,      // `message` for membership
    NODE_PEERS_REMOVED,     // `message`: a list of removed members
    NODE_PEERS_UNREACHABLE, // positive evidence about `peer`: its stream ended without a BYE, or nothing
                            // listens at any of its addresses
    NODE_PEERS_MISSING,     // the wanted link to `peer` has been missing for long: neither end can call the
                            // other. Told once
    NODE_PEERS_REACHED,     // `peer` has called this node, from `theirs`
    NODE_PEERS_CONFLICT,    // another process runs with this identity: a peer has a working link to it, at
                            // `address`
    NODE_PEERS_SETTINGS,    // the peer `name` at `address` trains already: this node is to start again with
                            // `settings` (node_greeting_take; malloc'ed, now the owner's)
    NODE_PEERS_CHANGED,     // something that a decision may depend on
};
struct node_peers_event {
    enum node_peers_event_kind kind;
    struct gossip_id peer;
    struct node_address own, theirs;      // of 0 bytes: not known
    const struct gossip_message *message; // these three valid until the next event
    const char *address, *name;
    const char *seen; // UP: IP:PORT of this node as the peer sees it; "": it does not
    uint8_t *bytes;
    size_t count;
    char *settings;
};

struct node_peers_options {
    struct event_base *base;      // borrowed, as all below
    struct node_streams *streams; // of this base
    const struct node_config *config;
    const struct gossip_identity *identity;
    const struct gossip_secrets *secrets;  // may change: new links use the new ones
    const struct gossip_allow_list *allow; // NULL: every node with the secret
    const struct gossip_greeting *greeting;
    size_t message_limit;
    struct node_counters *counters;
    struct gossip_protocols protocols; // spoken by this node; zeros: those of this build
    int listener;                      // bound, non-blocking; becomes this object's after success
    bool joins;                        // this node takes the settings of a cluster that trains already
    // Called from the event loop: the owner is to take all events now. They are valid during this call only.
    void (*ready)(void *owner);
    void *owner;
    const struct gossip_membership *membership; // these three are set by node/cluster
    const struct node_endpoints *endpoints;     // where members are called
    struct node_faults *faults;
};

struct node_peers_counters {
    uint64_t accepted, strangers, turned_away; // strangers: failed or no handshake; turned away: over a limit
    uint64_t refused, links;                   // refused: authenticated, but another model or not allowed
    size_t half_open, missing;                 // missing: wanted links that cannot be established
    size_t forwarded;                          // streams of other members, now
    uint64_t forwarded_bytes;
};

enum base_error node_peers_create(const struct node_peers_options *options,
                                  struct node_peers **peers) BASE_CHECK;
void node_peers_destroy(struct node_peers *peers);
void node_peers_start(struct node_peers *peers); // begins to accept and to call
// Decides which links there are; its actions are for node_peers_act. Borrowed.
struct gossip_links *node_peers_rules(struct node_peers *peers);
struct base_rng *node_peers_rng(struct node_peers *peers); // of the jitter of their events
// Carries out an action of the rules. True: it is an event of the owner.
bool node_peers_act(struct node_peers *peers, const struct gossip_links_action *action,
                    struct node_peers_event *event);
// Once all actions are taken: SETTINGS or CHANGED, if there is such an event; and the timer.
bool node_peers_rest(struct node_peers *peers, struct node_peers_event *event);

// Sends one plaintext message, which is malloc'ed and owned by this object from now on. Messages to one peer
// keep their order. False when there is no link to this peer (any more).
bool node_peers_send(struct node_peers *peers, const struct gossip_id *peer, uint8_t *bytes, size_t count);
// A copy to every node that has a link in use.
void node_peers_send_all(struct node_peers *peers, const uint8_t *bytes, size_t count);
// A membership packet. Without a link the member is called, and the packet waits for some seconds.
void node_peers_packet(struct node_peers *peers, const struct gossip_id *peer, const uint8_t *packet,
                       size_t count);
void node_peers_close(struct node_peers *peers, const struct gossip_id *peer,
                      const char *why); // it broke the protocol
void node_peers_part(struct node_peers *peers, const struct gossip_id *peer, enum gossip_close why); // BYE
void node_peers_pause(struct node_peers *peers, bool paused); // the worker is behind
void node_peers_allow_changed(struct node_peers *peers);      // ends the links of nodes no longer allowed
void node_peers_secrets_changed(struct node_peers *peers);    // ends the links that began with a removed one
void node_peers_reachable(struct node_peers *peers, bool reachable); // members can call this node
void node_peers_moved(
    struct node_peers *peers); // an address of this node has changed: looks for direct links
void node_peers_faults_changed(struct node_peers *peers);        // links stall, or continue
void node_peers_tick(struct node_peers *peers, uint64_t now_ns); // several times a second

// Stops accepting; the rules end the links (LEAVE). node_peers_leave: both.
void node_peers_stop_accepting(struct node_peers *peers);
void node_peers_leave(struct node_peers *peers);

bool node_peers_has(const struct node_peers *peers, const struct gossip_id *peer); // a link in use
// The member over which the link in use to this peer goes; NULL: it is direct, or there is none.
const struct gossip_id *node_peers_via(const struct node_peers *peers, const struct gossip_id *peer);
// The link in use to this peer is direct, and the peer has called it, from `theirs`.
bool node_peers_called(const struct node_peers *peers, const struct gossip_id *peer,
                       struct node_address *theirs);
// Measured on the direct link in use to this peer; false: there is none.
bool node_peers_path(const struct node_peers *peers, const struct gossip_id *peer, struct node_path *path);
const char *node_peers_refusal(const struct node_peers *peers); // the latest refusal; "": none
size_t node_peers_entries(const struct node_peers *peers);      // of the peer list
const struct gossip_entry *node_peers_entry(const struct node_peers *peers, size_t entry);
// The latest resolution of this entry's name has one of these addresses.
bool node_peers_entry_is_at(const struct node_peers *peers, size_t entry,
                            const struct gossip_address *addresses, size_t count);
const char *node_peers_entry_text(const struct node_peers *peers, size_t entry); // as configured
// Wanted links that have been missing for long; returns how many, and writes the first `capacity`.
size_t node_peers_missing(const struct node_peers *peers, struct gossip_missing *missing, size_t capacity);
uint64_t node_peers_banned_ns(const struct node_peers *peers, const struct gossip_id *peer); // 0: it is not
struct node_peers_counters node_peers_counters(const struct node_peers *peers);
// On all links to this peer so far.
struct node_link_traffic node_peers_traffic(const struct node_peers *peers, const struct gossip_id *peer);

#endif
