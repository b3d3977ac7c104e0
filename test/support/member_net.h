// Membership objects joined in one process under virtual time: a small network for tests of single rules.
// Datagrams take a millisecond and may get lost; streams take two and lose nothing. (Whole nodes under all
// faults: test/sim.)
#ifndef TEST_SUPPORT_MEMBER_NET_H
#define TEST_SUPPORT_MEMBER_NET_H

#include "base/rng.h"
#include "gossip/member/member.h"

#define MEMBER_NET_GROUP 100u // group of node 0; each further node has the next number

#define MEMBER_NET_MAX 64

// What stands before a node. A datagram reaches a private member if it has sent one to this sender itself
// within MEMBER_NET_HOLE_NS; a closed one (a router with another port for each destination) only from and to
// public members; a firewall lets streams pass only. Between two that are not public a stream goes through a
// public one: it needs call_ns to begin, its end is no evidence, and it ends when idle.
enum member_net_nat { MEMBER_NET_PUBLIC, MEMBER_NET_PRIVATE, MEMBER_NET_CLOSED, MEMBER_NET_STREAMS };
#define MEMBER_NET_HOLE_NS 30000000000ull
#define MEMBER_NET_IDLE_NS 10000000000ull

struct member_net_packet;

struct member_net_node {
    struct gossip_identity identity;
    struct gossip_membership *membership;
    struct gossip_membership_options options;
    bool running, silent; // silent: the host is gone, so that no port answers
    uint64_t view_ns;     // of the latest VIEW
    uint64_t changed_ns[MEMBER_NET_MAX];
    enum gossip_member_state state[MEMBER_NET_MAX]; // according to CHANGED
    unsigned deaths, suspected, conflicts, raised_generations;
    enum member_net_nat nat;
    uint64_t datagrams, datagram_bytes, stream_packets, stream_bytes;
    uint64_t calls;                 // streams that began because a packet had to be sent
    uint32_t asked[MEMBER_NET_MAX]; // number of the latest question to each member
};

struct member_net_narrow {
    size_t node;
    uint64_t bytes_per_s;   // each way; 0: as wide as the others
    uint64_t queue_ns;      // a datagram that would wait longer is dropped
    uint64_t free_ns[2];    // out, in: when all that waits has been sent
    uint64_t carried, lost; // bytes of datagrams and streams; datagrams
};

struct member_net {
    struct member_net_node nodes[MEMBER_NET_MAX];
    size_t count;
    uint64_t now_ns;
    struct base_rng rng;
    double loss;                                 // of datagrams
    uint64_t delay_ns;                           // 0: a millisecond; streams take twice as long
    uint64_t call_ns;                            // 0: a millisecond
    bool no_datagrams;                           // a firewall
    bool cut[MEMBER_NET_MAX][MEMBER_NET_MAX];    // from, to: nothing passes
    bool linked[MEMBER_NET_MAX][MEMBER_NET_MAX]; // a stream
    bool wanted[MEMBER_NET_MAX][MEMBER_NET_MAX]; // ... that stays when idle
    uint64_t used_ns[MEMBER_NET_MAX][MEMBER_NET_MAX];
    uint64_t ready_ns[MEMBER_NET_MAX][MEMBER_NET_MAX]; // when the stream has begun
    uint64_t sent_ns[MEMBER_NET_MAX][MEMBER_NET_MAX];  // from, to: the latest datagram; 0: none
    unsigned helps[MEMBER_NET_MAX][MEMBER_NET_MAX];    // from, to: requests to probe another member
    uint64_t idle_ns;                                  // when idle streams were last looked for
    struct member_net_narrow narrow;                   // the link of one node
    struct member_net_packet *queue;                   // by time
};

void member_net_create(struct member_net *net, size_t count, uint64_t seed);
void member_net_destroy(struct member_net *net);
void member_net_start(struct member_net *net, size_t node, uint64_t generation); // eligible at once
void member_net_join(struct member_net *net, size_t node, size_t through);       // over a new stream
// Before the start: all but the first `n_public`, which are their relays (two at most), stand behind routers.
void member_net_routers(struct member_net *net, size_t n_public, enum member_net_nat nat);
void member_net_link_ring(struct member_net *net); // streams to both neighbours, and to the public members
// All streams of a living node are reset: those that have one of their own see the same as after a kill.
void member_net_reset(struct member_net *net, size_t node);
void member_net_kill(struct member_net *net, size_t node, bool silent);
void member_net_partition(struct member_net *net, size_t first_of_second_side, bool cut);
void member_net_cut(struct member_net *net, size_t node, bool deaf, bool mute, bool cut); // from all others
void member_net_run(struct member_net *net, uint64_t for_ns);
void member_net_occupy(struct member_net *net, size_t bytes); // of others, on the narrow link, each way
void member_net_step(struct member_net *net, size_t node, const struct gossip_membership_event *event);
// All running nodes that are connected consider each other alive and have the same view.
bool member_net_agrees(const struct member_net *net);
void member_net_start_first(struct member_net *net, size_t count); // starts these, joins through node 0
void member_net_start_all(
    struct member_net *net); // starts all, joins through node 0, and runs until they agree

#endif
