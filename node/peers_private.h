// What node/peers.c (the table of links and its interface), node/channel.c (what happens on one link),
// node/parting.c (what the end of one means) and node/packets.c share. Nobody else includes this.
#ifndef NODE_PEERS_PRIVATE_H
#define NODE_PEERS_PRIVATE_H

#include "base/log.h"
#include "node/allowance.h"
#include "node/calls.h"
#include "node/dial.h"
#include "node/gate.h"
#include "node/peers.h"
#include <sys/queue.h>

#define NODE_CHANNELS_MOST (2u * LIMIT_PEERS)
#define NODE_PACKETS_MOST  64u // of membership, waiting for links
#define NO_ENTRY           SIZE_MAX

struct channel { // one link and what is known of its other end
    LIST_ENTRY(channel) others;
    struct node_peers *peers;
    struct node_link *link;
    size_t entry;            // of the peer list, when we called
    bool by_id;              // we called the member `called`
    struct gossip_id called; //
    bool half_open;          // accepted and not in use: counted by the gate
    bool initiator, proven, heard, adopted, was_adopted, refused;
    bool self;           // its other end is this node
    bool cut;            // ended by a fault
    bool parted;         // one of the two ends said BYE: its end is no evidence
    const char *parting; // what the BYE of the other end means, for people; NULL: none was heard
    bool idle;           // ended for lack of use
    struct gossip_id id; // proven
    uint64_t proven_ns, heard_ns, used_ns;
    uint64_t life;                    // heard: of the process there
    char name[LIMIT_NODE_NAME_BYTES]; // heard
    char address[NODE_ADDRESS_TEXT], host[NODE_ADDRESS_TEXT];
};

struct account { // what went over links that are gone
    struct gossip_id id;
    struct node_link_traffic traffic;
};

struct told { // the latest trouble of an entry that a person was told about
    uint64_t at_ns;
    char text[200];
};

struct packet { // of membership, waiting for a link
    STAILQ_ENTRY(packet) next;
    struct gossip_id id;
    uint64_t since_ns;
    size_t bytes;
    uint8_t message[]; // header and payload
};

struct node_peers {
    struct node_peers_options options;
    LIST_HEAD(, channel) channels;
    size_t n_channels;
    struct node_gate *gate;
    struct node_dial *dial;
    struct node_calls *calls;
    struct node_entries *entries;
    STAILQ_HEAD(, packet) packets;
    size_t n_packets;
    struct account *accounts;
    size_t n_accounts;
    struct told *told;
    struct node_peers_counters counters;
    uint64_t stranger_told_ns;
    struct node_allowance lines; // of the log, about what peers do
    bool paused, leaving;
    unsigned twins; // times in a row that a peer said it has a link to this node, which has none
    uint64_t twin_ns;
};

struct node_origin {                // why a link is there
    size_t entry;                   // NO_ENTRY, or
    const struct gossip_id *called; // NULL, or; else it was accepted
};
// A new link on this socket. False: the socket is closed.
bool node_channel_add(struct node_peers *peers, int socket, struct node_origin origin, const char *address,
                      const char *host);
// The one in use with this peer; NULL: there is none.
struct channel *node_channel_adopted(const struct node_peers *peers, const struct gossip_id *id);
void node_channel_bye(struct channel *channel, const char *reason);
// Takes the place of `old` (NULL: there is none).
void node_channel_adopt(struct channel *fresh, struct channel *old);
void node_channel_settle(struct channel *channel); // no longer half-open
void node_channel_ended(struct channel *channel, enum base_error code, const char *why); // frees it

// What peers do goes to the log through here: none of them can fill it.
void node_peers_say(struct node_peers *peers, enum base_log_level level, const char *event,
                    const char *format, ...) BASE_PRINTF(4, 5);
// Every entry that stands for this id.
void node_peers_entries_of(struct node_peers *peers, const struct gossip_id *id,
                           void (*act)(struct node_dial *, size_t));

void node_packets_flush(struct node_peers *peers, struct channel *channel);     // those for its other end
void node_packets_drop(struct node_peers *peers, const struct gossip_id *peer); // NULL: all
void node_packets_expire(struct node_peers *peers, uint64_t now_ns);

#endif
