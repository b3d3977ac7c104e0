// A whole cluster in one process under virtual time, from one seed: processes on hosts, the network between
// them and their disks. Every process runs the object files of the daemon: membership, sealed datagrams,
// sessions, exchange, snapshots, topology. A struct sim_learner trains, a struct sim_watch observes; the
// simulations of tests and of experiments differ only in these two.
//
// Identity i lives on host i; further hosts hold second processes of identity 0, 1, ... (a copied disk; tests
// only). One thread owns it all. Out of memory ends the program.
//
//     sim_world_create(&world, &options);
//     world.net.quality[0] = (struct sim_quality){.delay_ns = 20 * SIM_MS};
//     for (...) sim_node_start(world.node[i]);          lab/sim/sim_node.h: start, kill, pause, leave
//     while (... && sim_world_run(&world, sim_world_now(&world) + SIM_SECOND)) ...
//     sim_world_destroy(&world);
#ifndef LAB_SIM_WORLD_H
#define LAB_SIM_WORLD_H

#include "gossip/exchange/exchange.h"
#include "gossip/life/life.h"
#include "gossip/member/member.h"
#include "lab/sim/sim_known.h"
#include "lab/sim/sim_learner.h"
#include "lab/sim/sim_net.h"
#include "lab/sim/sim_plans.h"
#include "lab/sim/sim_proofs.h"
#include "lab/sim/sim_trace.h"
#include "lab/sim/sim_watch.h"
#include "topology/topology.h"

struct sim_node;

struct sim_options {
    uint64_t seed;
    size_t nodes, twins; // identities; further hosts with a copy of identity 0, 1, ...
    size_t ghosts;       // of the nodes, the last ones: members that an attacker makes up (sim_ghosts.c)
    enum gossip_member_profile profile;
    struct topology_options topology;
    const uint32_t *group; // [nodes] hierarchical: number of the host or rack; NULL: no groups
    size_t peer_entries;   // of each node's peer list
    uint64_t name_ns;      // tests: the peer list is one name for all hosts. Until this time it leads to two
                           // of them (0 and 1, 2 and 3, ...), then to all; 0: each entry is a host
    const uint64_t
        *first_models; // [nodes] digests of the first models; NULL: all learners begin with learner->start
    bool known;        // known membership: all know the members at once, links need no call (sim_known.h)
    bool sealed;       // datagrams sealed and streams under Noise; else plain, and cheaper
    bool local;        // no edges: each trains by itself
    bool probe;        // learners compare the models of neighbours with their own
    bool shred;        // tests: data written to a stream arrives in random pieces
    const struct sim_learner *learner; // borrowed for life; NULL: membership and links only
    const struct sim_watch *watch;     // the same; NULL: no watcher
    const struct sim_wire *wire;       // the same: the times of messages; NULL: by world.net.quality
    // The averaging of every process; self, parameters, start, model and round are filled in.
    struct gossip_exchange_options exchange;
    uint64_t checkpoint_ns;     // between two checkpoints of a process, at a boundary; 0: never by time
    bool diskless;              // no process ever starts again: nothing is saved
    unsigned checkpoint_rounds; // tests: after so many rounds on average, by chance; 0: never by chance
    // The life of every process; trains, sync, local, resumed, round, step, steps, local_steps, reach and
    // now_ns are filled in. start_timeout_ns 0: 10 s; linger_ns 0: for ever.
    struct gossip_life_options life;
    uint64_t local_steps; // of a round; 0: 1
    uint64_t steps;       // over all rounds: train.steps; 0: without end
    uint64_t slow_ns;     // the largest delay of a slow node
};

struct sim_counts {
    uint64_t steps, suspected, raised_generations, conflicts, rejected, links, fetches, refusals, verdicts,
        merges, checkpoints, resumed,
        replayed; // replayed: records of journals
};

struct sim_world {
    struct sim_options options; // the times may be changed between two runs
    struct sim_queue queue;
    struct sim_net net;
    struct sim_trace trace;
    struct base_rng rng; // for fault injection
    size_t hosts;
    struct sim_node **node;           // [hosts]
    struct gossip_identity *identity; // [nodes]
    uint32_t *by_id;                  // open addressing: identity + 1
    size_t by_id_size;
    struct gossip_secrets secrets;
    struct sim_proofs proofs;
    struct sim_plans plans;
    struct sim_known known; // with options.known
    bool resting;           // no rounds begin
    struct sim_counts counts;
    const char *broken; // the first invariant that did not hold
    size_t broken_host;
};

void sim_world_create(struct sim_world *world, const struct sim_options *options);
void sim_world_destroy(struct sim_world *world);
// Runs until then, or until an invariant breaks: then false, see `broken`.
bool sim_world_run(struct sim_world *world, uint64_t until_ns);
uint64_t sim_world_now(const struct sim_world *world); // virtual, from 1 s

// sim_about.c
void sim_world_identify(struct sim_world *world); // creates the identities from the seed
size_t sim_world_identity(const struct sim_world *world, size_t host);
// SIZE_MAX for an unknown id.
size_t sim_world_find(const struct sim_world *world, const struct gossip_id *id);
void sim_world_trace(struct sim_world *world, size_t host, const char *what, const char *text, uint64_t a,
                     uint64_t b);
void sim_world_break(struct sim_world *world, size_t host, const char *what);

#endif
