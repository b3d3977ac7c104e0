// A network in virtual time: hosts with one address each, datagrams that are lost, duplicated, late and out
// of order, and streams that are ordered, stall where the network is cut and give up like TCP. It does not
// interpret contents.
//
// One direction between two hosts has a quality (delay, jitter, loss, ...), may be cut (silently), and may be
// clogged: then everything arrives when the clog ends. The net has its own random generator.
#ifndef LAB_SIM_NET_H
#define LAB_SIM_NET_H

#include "base/rng.h"
#include "gossip/member/record.h"
#include "lab/sim/sim_queue.h"

enum { SIM_QUALITIES = 4 };

struct sim_quality {
    uint64_t delay_ns, jitter_ns;    // jitter: exponential, cut at 8 times its mean
    double loss, duplicate, reorder; // probabilities for a datagram; reorder: late by up to 8 delays
};

struct sim_path {
    uint16_t cuts; // how many faults cut it now
    uint8_t quality;
    bool shut; // to calls: a firewall or a NAT that only allows outgoing streams
    uint64_t clogged_until_ns;
};

// The travel time of a packet, or of a whole write to a stream; replaces the qualities below, for instance by
// a model with bandwidths. Called in the order of virtual time. False: a datagram is lost.
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
    struct sim_path **path;     // [hosts] rows [hosts] by receiver; NULL: the whole row is `alike`
    struct sim_path alike;
    struct sim_quality quality[SIM_QUALITIES];
    const struct sim_wire *wire; // NULL: by quality
    double port_closed_chance;   // probability that the host answers a datagram to a closed port
    struct sim_stream **stream;
    size_t n_streams;
    uint64_t datagrams, datagram_bytes, datagrams_lost;
};

void sim_net_create(struct sim_net *net, struct sim_queue *queue, size_t hosts, uint64_t seed,
                    sim_net_tell *tell, void *owner);
void sim_net_destroy(struct sim_net *net);

struct gossip_address sim_net_address(size_t host);
bool sim_net_host_of(const struct sim_net *net, const struct gossip_address *address, size_t *host);
// For changes of a path. Unchanged rows take no memory.
struct sim_path *sim_net_path(struct sim_net *net, size_t from, size_t to);

// `wire_bytes`: its size on the wire if it were sealed; the same below.
void sim_net_datagram(struct sim_net *net, size_t from, size_t to, const uint8_t *bytes, size_t count,
                      size_t wire_bytes);

// Opens a stream from `from`. SIM_IN_CONNECTED, SIM_IN_REFUSED or nothing follows: close it after a timeout.
uint64_t sim_net_call(struct sim_net *net, size_t from, size_t to);
// All of it arrives together with its last byte.
void sim_net_write(struct sim_net *net, size_t host, uint64_t stream, const uint8_t *bytes, size_t count,
                   size_t wire_bytes);
// Opens a stream between two hosts at once; neither end is informed.
uint64_t sim_net_join(struct sim_net *net, size_t from, size_t to);
bool sim_net_open(struct sim_net *net, size_t from, size_t to);        // neither cut nor gone
bool sim_net_callable(struct sim_net *net, size_t from, size_t to);    // open, and not shut to calls
void sim_net_close(struct sim_net *net, size_t host, uint64_t stream); // after the data written so far

// After the end of a host's process: its kernel informs the other ends, unless the host itself is GONE.
void sim_net_host(struct sim_net *net, size_t host, enum sim_host_state state);

#endif
