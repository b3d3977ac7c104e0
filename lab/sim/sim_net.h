// A network in virtual time: hosts with one address each, datagrams that are lost, doubled, late and out of
// order, streams that are ordered, stall where the network is cut and give up like TCP. It knows no contents.
//
// One direction between two hosts has a quality (delay, jitter, loss, ...), may be cut (silently), and may be
// clogged: what was sent meanwhile comes when the clog ends. Random choices from the net's own generator.
#ifndef LAB_SIM_NET_H
#define LAB_SIM_NET_H

#include "base/rng.h"
#include "gossip/member/record.h"
#include "lab/sim/sim_queue.h"

enum { SIM_QUALITIES = 4 };

struct sim_quality {
    uint64_t delay_ns, jitter_ns;    // jitter: exponential, cut at 8 times its mean
    double loss, duplicate, reorder; // chances of a datagram; reorder: late by up to 8 delays
};

struct sim_path {
    uint16_t cuts; // how many faults cut it now
    uint8_t quality;
    bool shut; // to calls: a firewall or a NAT that lets streams out only
    uint64_t clogged_until_ns;
};

// How long a packet, or a write to a stream as a whole, is under way; replaces the qualities below, for
// instance by a model with bandwidths. Called in the order of virtual time. False: a datagram is lost.
struct sim_wire {
    void *owner;
    bool (*send)(void *owner, bool stream, size_t from, size_t to, size_t bytes, uint64_t now_ns,
                 uint64_t *arrival_ns);
};

enum sim_host_state {
    SIM_HOST_GONE,   // silent: no power, no cable
    SIM_HOST_CLOSED, // the host answers, no process holds the port
    SIM_HOST_OPEN,
};

enum sim_end { SIM_END_CLOSED, SIM_END_RESET, SIM_END_TIMEOUT };

struct sim_input { // what a host receives
    struct sim_input *next;
    enum {
        SIM_IN_DATAGRAM,
        SIM_IN_PORT_CLOSED, // an earlier datagram to `from` met no process
        SIM_IN_ACCEPTED,
        SIM_IN_CONNECTED,
        SIM_IN_REFUSED, // no process there; the stream is gone
        SIM_IN_RECEIVED,
        SIM_IN_ENDED,
        SIM_IN_CHANGE, // the last two are from the simulated process itself: lab/sim/sim_node.c
        SIM_IN_VIEW
    } kind;
    uint64_t stream;
    size_t from;
    enum sim_end end;
    uint8_t *bytes;
    size_t count;
};

typedef void sim_net_tell(void *owner, size_t host, const struct sim_input *input);

struct sim_stream;
struct sim_net {
    struct sim_queue *queue;
    sim_net_tell *tell;
    void *owner;
    struct base_rng rng;
    size_t hosts;
    enum sim_host_state *state; // [hosts]
    bool *shut;                 // [hosts] a firewall refuses calls to it; it can call
    struct sim_path **path;     // [hosts] rows [hosts] by receiver; NULL: that row is `alike` all along
    struct sim_path alike;
    struct sim_quality quality[SIM_QUALITIES];
    const struct sim_wire *wire; // NULL: by quality
    double port_closed_chance;   // that a datagram to a closed port is answered by the host
    struct sim_stream **stream;
    size_t n_streams;
    uint64_t datagrams, datagram_bytes, datagrams_lost;
};

void sim_net_create(struct sim_net *net, struct sim_queue *queue, size_t hosts, uint64_t seed,
                    sim_net_tell *tell, void *owner);
void sim_net_destroy(struct sim_net *net);

struct gossip_address sim_net_address(size_t host);
bool sim_net_host_of(const struct sim_net *net, const struct gossip_address *address, size_t *host);
// To be changed. What is like all others need not be asked for: it takes no memory.
struct sim_path *sim_net_path(struct sim_net *net, size_t from, size_t to);

// `wire_bytes`: what it would take on the wire, were it sealed; the same below.
void sim_net_datagram(struct sim_net *net, size_t from, size_t to, const uint8_t *bytes, size_t count,
                      size_t wire_bytes);

// A stream of `from`; connected, refused, or nothing at all follows: close it when patience ends.
uint64_t sim_net_call(struct sim_net *net, size_t from, size_t to);
// All of it arrives at once, when its last byte does.
void sim_net_write(struct sim_net *net, size_t host, uint64_t stream, const uint8_t *bytes, size_t count,
                   size_t wire_bytes);
// A stream between two hosts that is open at once; neither end is told.
uint64_t sim_net_join(struct sim_net *net, size_t from, size_t to);
bool sim_net_open(struct sim_net *net, size_t from, size_t to);        // neither cut nor gone
bool sim_net_callable(struct sim_net *net, size_t from, size_t to);    // open, and not shut to calls
void sim_net_close(struct sim_net *net, size_t host, uint64_t stream); // after what was written

// The process of a host ended: its kernel tells the other ends, unless the host itself is GONE.
void sim_net_host(struct sim_net *net, size_t host, enum sim_host_state state);

#endif
