// What node/peers.c (the table of links and its interface) and node/channel.c (what happens on one link)
// share. Nobody else includes this.
#ifndef NODE_PEERS_PRIVATE_H
#define NODE_PEERS_PRIVATE_H

#include "node/allowance.h"
#include "node/dial.h"
#include "node/gate.h"
#include "node/peers.h"
#include <sys/queue.h>

#define NODE_CHANNELS_MOST (2u * LIMIT_PEERS)
#define NO_ENTRY           SIZE_MAX

struct channel { // one link and what is known of its other end
    LIST_ENTRY(channel) others;
    struct node_peers *peers;
    struct node_link *link;
    size_t entry;   // of the peer list, when we called
    bool half_open; // accepted and not in use: counted by the gate
    bool initiator, proven, heard, adopted, refused, leaving;
    struct gossip_id id; // proven
    uint64_t proven_ns, heard_ns;
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

struct node_peers {
    struct node_peers_options options;
    LIST_HEAD(, channel) channels;
    size_t n_channels;
    struct node_gate *gate;
    struct node_dial *dial;
    struct account *accounts;
    size_t n_accounts;
    struct told *told;
    struct node_peers_counters counters;
    uint64_t stranger_told_ns;
    struct node_allowance lines; // of the log, about what peers do
    const char *greet_with;
    bool paused;
};

// A new link on this socket, called (entry) or accepted (NO_ENTRY). False: the socket is closed.
bool node_channel_add(struct node_peers *peers, int socket, size_t entry, const char *address,
                      const char *host);
// The one in use with this peer; NULL: there is none.
struct channel *node_channel_adopted(const struct node_peers *peers, const struct gossip_id *id);
void node_channel_bye(struct channel *channel, const char *reason);
// Ends `old` and takes `fresh` into use instead.
void node_channel_replace(struct channel *old, struct channel *fresh);

#endif
