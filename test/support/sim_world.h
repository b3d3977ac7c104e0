// A whole cluster in one process under virtual time, from one seed: processes on hosts, the network between
// them, their disks, what they learn, and what may never happen (sim_check.h). Every process runs the object
// files of the daemon: membership, sealed datagrams, sessions, exchange, topology.
//
// Identity i lives on host i; hosts behind those hold further processes of identity 0, 1, ... (a copied
// disk).
#ifndef TEST_SUPPORT_SIM_WORLD_H
#define TEST_SUPPORT_SIM_WORLD_H

#include "compress/compress.h"
#include "gossip/member/member.h"
#include "test/support/sim_model.h"
#include "test/support/sim_net.h"
#include "test/support/sim_trace.h"
#include "topology/topology.h"

struct sim_node;
struct sim_harm;
struct sim_seen;

struct sim_options {
    uint64_t seed;
    size_t nodes, twins; // identities; further hosts with a copy of identity 0, 1, ...
    enum gossip_member_profile profile;
    struct topology_options topology;
    size_t peer_entries;  // of each node's peer list
    size_t start_members; // in the view before training begins; 0: the peer list's
    bool sealed;          // datagrams sealed and streams under Noise; else plain, and cheaper
    bool learns;          // exchange and trainer; else membership and links only
    bool sync;
    float ratio;
    enum kernels_format values;
    unsigned local_steps;
    float rate;
    uint64_t round_ns;  // of local steps
    uint64_t forget_ns; // an edge to the dead is forgotten after
    uint64_t slow_ns;   // how late a slow node may be with everything
};

struct sim_counts {
    uint64_t steps, deaths, deaths_evidence, false_deaths, suspects, accused, boots, conflicts;
    uint64_t rejected, links, fetches, checkpoints, resumed, syncs, exchanges, edge_boots;
};

struct sim_world {
    struct sim_options options;
    struct sim_queue queue;
    struct sim_net net;
    struct sim_trace trace;
    struct base_rng rng; // of faults
    size_t hosts;
    struct sim_node **node; // [hosts]
    struct gossip_identity *identity;
    uint32_t *by_id; // open addressing: identity + 1
    size_t by_id_size;
    uint8_t psk[32];
    struct sim_model model;
    float start[SIM_PARAMETERS];
    double given[SIM_PARAMETERS]; // sum of what trainers and joiners put into models
    bool gentle;                  // nobody is to lose anything: the ends of edges fit
    bool may_lose;                // a process lost its memory, or an edge was forgotten: sums may change
    bool training;                // else rounds only average
    bool resting;                 // no rounds begin
    float rate;
    struct sim_harm *harm; // [hosts] what explains a death (sim_check.h)
    struct sim_seen *seen; // [hosts * nodes]
    struct sim_counts counts;
    // Told of every change of a member at an observer; may be NULL.
    void (*changed)(struct sim_world *world, size_t host, const struct gossip_membership_action *action);
    void *watcher;
    const char *broken; // the first invariant that did not hold
    size_t broken_host;
    bool lenient; // false deaths are counted only
};

void sim_world_create(struct sim_world *world, const struct sim_options *options);
void sim_world_destroy(struct sim_world *world);
// False: something broke.
bool sim_world_run(struct sim_world *world, uint64_t until_ns);
uint64_t sim_world_now(const struct sim_world *world);

size_t sim_world_identity(const struct sim_world *world, size_t host);
// SIZE_MAX for an id that is nobody's.
size_t sim_world_find(const struct sim_world *world, const struct gossip_id *id);
void sim_world_trace(struct sim_world *world, size_t host, const char *what, const char *text, uint64_t a,
                     uint64_t b);
void sim_world_break(struct sim_world *world, size_t host, const char *what);

#endif
