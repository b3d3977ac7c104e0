// The links to all other nodes: accepts and calls, lets sessions prove who is there, compares greetings, and
// keeps exactly one link a pair in use. What a link carries after that is the worker's; what a node is to the
// cluster is the roster's.
//
// Of two links between one pair the node with the LOWER id decides, by answering the other's greeting: the
// higher one greets at once, the lower one greets only on the link it takes. Nothing but greetings travels on
// a link before both were sent, so the end of the other link loses nothing. If the lower one still holds an
// older link, the new one waits until a message shows that the old one works (then the new one is closed) or
// 3 s have passed (then it takes over).
//
// Before a link is in use: LIMIT_HALF_OPEN accepted ones, LIMIT_HALF_OPEN_ADDRESS from one address; before
// authentication LIMIT_HANDSHAKE_NS each, and a stranger is closed without a byte and counted. To prove an id
// is not enough: ids cost nothing. Loop's thread only.
#ifndef NODE_PEERS_H
#define NODE_PEERS_H

#include "gossip/session/identity.h"
#include "gossip/wire/message.h"
#include "node/config.h"
#include "node/counters.h"
#include "node/link.h"
#include "node/roster.h"

struct event_base;
struct node_peers;

struct node_peers_handler { // to the owner
    void (*up)(void *owner, const struct gossip_id *peer);
    void (*down)(void *owner, const struct gossip_id *peer);
    void (*message)(void *owner, const struct gossip_id *peer, const uint8_t *bytes, size_t count);
    void (*forget)(void *owner, const struct gossip_id *peer); // it lost its name to another
    void (*changed)(void *owner);                              // the roster is not what it was
};

struct node_peers_options {
    struct event_base *base; // borrowed, as all below
    const struct node_config *config;
    const struct gossip_identity *identity;
    uint8_t psk[32];
    const struct gossip_allow_list *allow; // NULL: everybody with the secret
    const struct gossip_greeting *greeting;
    size_t message_limit;
    struct node_counters *counters;
    struct node_roster *roster;
    int listener; // bound, non-blocking; becomes this object's after success
    const struct node_peers_handler *handler;
    void *owner;
};

struct node_peers_counters {
    uint64_t accepted, strangers, turned_away; // strangers: failed or no handshake; turned away: over a limit
    uint64_t refused, links;                   // refused: proven, but another model or not allowed
    size_t half_open;
};

enum base_error node_peers_create(const struct node_peers_options *options,
                                  struct node_peers **peers) BASE_CHECK;
void node_peers_destroy(struct node_peers *peers);
void node_peers_start(struct node_peers *peers); // begins to accept and to call

// One plaintext message; false when there is no link to this peer (any more).
bool node_peers_send(struct node_peers *peers, const struct gossip_id *peer, const uint8_t *bytes,
                     size_t count);
void node_peers_close(struct node_peers *peers, const struct gossip_id *peer,
                      const char *why);                            // it broke the protocol
void node_peers_say(struct node_peers *peers, const char *reason); // BYE with this reason to all
// To whoever is linked later, too, until the node ends. NODE_BYE_DONE.
void node_peers_greet_with(struct node_peers *peers, const char *reason);
void node_peers_pause(struct node_peers *peers, bool paused); // the worker is behind
void node_peers_allow_changed(struct node_peers *peers); // ends the links of whoever is no longer allowed
void node_peers_tick(struct node_peers *peers, uint64_t now_ns); // about once a second

// No more calls and accepts; BYE "leaving", flush, end. True when all links are gone.
void node_peers_leave(struct node_peers *peers);
bool node_peers_gone(const struct node_peers *peers);

size_t node_peers_linked(const struct node_peers *peers);
size_t node_peers_not_done(const struct node_peers *peers); // linked, and not said "done" yet
struct node_peers_counters node_peers_counters(const struct node_peers *peers);
// On all links to this peer so far.
struct node_link_traffic node_peers_traffic(const struct node_peers *peers, const struct gossip_id *peer);

#endif
