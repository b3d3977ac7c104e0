// Rooms of links (gossip/links), joined in one process under virtual time: streams with a handshake, paths
// that can be called in one direction only, wrong addresses, relays, kills with and without a reset. For
// tests of the rooms alone; lab/sim has the whole node.
#ifndef TEST_SUPPORT_LINKS_NET_H
#define TEST_SUPPORT_LINKS_NET_H

#include "base/rng.h"
#include "gossip/links/links.h"

#define LINKS_NET_ROOMS 6u
#define LINKS_NET_MS    1000000ull
#define LINKS_NET_S     1000000000ull

enum links_net_path { LINKS_NET_OPEN, LINKS_NET_REFUSED, LINKS_NET_SILENT }; // what a call meets

struct links_net_stream {
    bool relayed;
    size_t room[2]; // caller, called
    uint64_t link[2];
    bool open[2], authenticated[2], greeted[2]; // greeted: has sent its greeting
    bool lost[2];       // a cut has swallowed something on its way to that end: nothing more arrives
    uint64_t due_ns[2]; // of the latest towards that end; they keep their order
    uint64_t life[2];
};

struct links_net_room {
    struct gossip_links *links; // NULL: not running
    struct gossip_greeting greeting;
    struct gossip_id id;
    uint64_t lives;
    struct links_net_stream *active[LINKS_NET_ROOMS];
    struct gossip_id wanted[LINKS_NET_ROOMS];
    size_t n_wanted;
    uint64_t calls, ups, downs, delivered, packets, unreachables, duplicates, missing, broken;
    uint64_t reached[LINKS_NET_ROOMS]; // by whom, how often
    bool wrong;                        // the first of its addresses is another host's, which does not answer
    bool alive[LINKS_NET_ROOMS];       // according to its membership
};

struct links_net_event;
struct links_net {
    size_t rooms;
    uint64_t now_ns, delay_ns;
    struct base_rng rng;
    struct links_net_room room[LINKS_NET_ROOMS];
    enum links_net_path path[LINKS_NET_ROOMS][LINKS_NET_ROOMS]; // of calls [from][to]
    bool cut[LINKS_NET_ROOMS][LINKS_NET_ROOMS];                 // nothing passes directly in either direction
    bool relayed[LINKS_NET_ROOMS][LINKS_NET_ROOMS];             // another host relays between these two
    struct links_net_stream **stream;
    size_t streams;
    struct links_net_event *event;
    size_t events, capacity;
};

void links_net_create(struct links_net *net, size_t rooms, size_t entries, uint64_t seed);
void links_net_destroy(struct links_net *net);
void links_net_start(struct links_net *net, size_t room);
// Ends the process: its host resets the streams, or is silent.
void links_net_kill(struct links_net *net, size_t room, bool silent);
// A direct stream of the two breaks without a word.
void links_net_path_dies(struct links_net *net, size_t a, size_t b);
// The relay between the two ends all their streams.
void links_net_relay_dies(struct links_net *net, size_t a, size_t b);
void links_net_want(struct links_net *net, size_t room, size_t other); // one more
void links_net_want_none(struct links_net *net, size_t room);
void links_net_say(struct links_net *net, size_t room, struct gossip_links_event *event);
void links_net_send(struct links_net *net, size_t room, size_t other); // sends a message if there is a link
void links_net_run(struct links_net *net, uint64_t for_ns);
// Both ends hold the same active link, and agree on whether it is relayed.
bool links_net_linked(const struct links_net *net, size_t a, size_t b);

#endif
