// What the files of node/peers share, lowest first: tell.c (the log), rules.c (an event for gossip/links),
// link.c (one socket and its session), call.c (addresses, and sockets to them), relayed.c
// (links over a member), act.c (what gossip/links
// decided, carried out or handed to the owner), heard.c (what a session reports) and peers.c (the owner's
// requests). Included nowhere else.
#ifndef NODE_PEERS_PRIVATE_H
#define NODE_PEERS_PRIVATE_H

#include "base/log.h"
#include "base/rng.h"
#include "gossip/relay/relay.h"
#include "node/net/listener.h"
#include "node/peers/peers.h"
#include "node/queue/rate_limit.h"
#include <sys/queue.h>

struct peer_link {
    LIST_ENTRY(peer_link) others;
    struct node_peers *peers;
    struct node_link *link;
    uint64_t handle;      // in gossip/links
    bool relayed;         // over `via`, as `stream` of gossip/relay
    uint64_t stream;      // 0: none
    struct gossip_id via; //
    bool caller, authenticated, active, was_active;
    bool stuck;                        // what this node sends does not arrive
    struct gossip_links_target target; // of a caller
    struct gossip_id id;               // authenticated
    struct gossip_protocols protocols; // spoken by the other end; authenticated
    uint16_t protocol;                 // the highest one that both speak
    uint64_t secret;                   // the mark of the one that both ends have shown
    const char *closing;               // why, for people; NULL: it ended by itself
    char name[LIMIT_NODE_NAME_BYTES];  // greeted
    char address[NODE_ADDRESS_TEXT];
    char seen[GOSSIP_SEEN_TEXT]; // where the other end sees this one; greeted
};

struct peer_account { // the traffic of links that have ended
    struct gossip_id id;
    struct node_link_traffic traffic;
};

struct peer_entry { // of the peer list
    char host[LIMIT_HOST_BYTES];
    uint16_t port;
    struct node_resolution *resolution; // the latest; NULL: none
    uint64_t unresolved_ns, told_ns;    // when an unresolved name was logged; when `told` was
    char told[200];                     // the latest other problem that was logged
};

struct peer_refusal { // as logged
    struct gossip_id id;
    uint64_t told_ns; // 0: none
    char why[256];
};

#define PEER_REFUSALS 16u // remembered; the oldest goes

#define PEER_WAYS (LIMIT_ADDRESSES + GOSSIP_RECORD_RELAYS)
struct peer_way { // how a member can be called
    bool relayed;
    struct gossip_id via;        // relayed
    struct node_address address; // direct
};

struct relayed_end;

struct node_peers {
    struct node_peers_options options;
    const struct node_link_handler *sessions; // the handler of their reports
    struct gossip_links *rules;
    LIST_HEAD(, peer_link) links;
    struct node_listener *listener;
    struct gossip_relay *relay;
    LIST_HEAD(, relayed_end) relayed; // the streams of relay that end here
    struct event *relaying;           // its timer
    bool reachable;                   // members can call this node
    struct node_resolver *resolver;
    struct event *answered, *timer, *waiting;
    uint64_t armed_ns;
    struct base_rng rng;
    uint64_t salt;
    struct peer_entry *entry;
    size_t n_entries;
    struct peer_account *accounts;
    size_t n_accounts;
    char refusal[1280]; // the latest, of a peer or by one; ""
    struct peer_refusal refusals[PEER_REFUSALS];
    uint64_t stranger_told_ns, turned_away_told_ns, strangers;
    struct node_allowance lines; // of the log, about what peers do
    bool paused;
    bool changed; // something that a decision may depend on
    bool taken;   // the settings of a cluster: this node ends, and no greeting counts any more
    // The subject of the event that is being handled; NULL outside of it.
    const struct gossip_message *heard;
    uint8_t *heard_bytes; // its bytes; NULL once they are taken
    size_t heard_count;
    struct peer_link *settles; // the link over which `settings` came; NULL: none did
    char *settings;
    char broken[96]; // how the peer of the latest PART broke the protocol
};

// tell.c
void peer_tell_unresolved(struct node_peers *peers, size_t entry, const char *problem);
void peer_tell_up(struct peer_link *link);
void peer_tell_stuck(struct peer_link *link);
void peer_tell_close(struct peer_link *link, const struct gossip_links_action *action); // sets link->closing
void peer_tell_end(struct peer_link *link, enum base_error error, const char *why);
void peer_tell_turned_away(struct node_peers *peers, const char *from); // closed over a limit
void peer_tell_shards(const struct peer_link *link, const struct gossip_greeting *theirs);

// rules.c
void node_peers_arm(struct node_peers *peers); // the timer, for the deadline of the rules
// From the event loop: the owner takes what follows at once.
void node_peers_say_now(struct node_peers *peers, struct gossip_links_event event);
// For calls from inside the owner or an action: what follows is taken later, from the event loop.
void node_peers_say_later(struct node_peers *peers, struct gossip_links_event event);

// link.c. False: the socket is closed, and the rules are told.
bool peer_link_open(struct node_peers *peers, struct peer_link *link, int socket);
struct peer_link *peer_link_make(struct node_peers *peers, const char *address); // NULL: no memory
void peer_link_free(struct peer_link *link);
void peer_link_greet(struct peer_link *link);
void peer_link_close(struct peer_link *link, const struct gossip_links_action *action);
void peer_link_up(struct peer_link *link, struct node_peers_event *event);
void peer_link_send_members(struct peer_link *link, const uint8_t *packet, size_t count);

// call.c
enum base_error peer_call_create(struct node_peers *peers) BASE_CHECK;
void peer_call_destroy(struct node_peers *peers);
void peer_call_resolve(struct node_peers *peers, const struct gossip_links_target *target);
void peer_call_open(struct node_peers *peers, const struct gossip_links_action *action);

// relayed.c
enum base_error peer_relayed_create(struct node_peers *peers) BASE_CHECK;
void peer_relayed_destroy(struct node_peers *peers);
// The socket for `link`, which becomes relayed; -1: it cannot be made.
int peer_relayed_call(struct node_peers *peers, struct peer_link *link, const struct gossip_id *via,
                      const struct gossip_id *peer);
void peer_relayed_left(struct peer_link *link);                                                // it has ended
void peer_relayed_linked(struct node_peers *peers, const struct gossip_id *peer, bool linked); // directly
void peer_relayed_heard(struct node_peers *peers, const struct gossip_id *peer,
                        const struct gossip_relay_message *message);

// heard.c
extern const struct node_link_handler peer_link_handler;

#endif
