// One process of the simulated cluster: what node/ does in the daemon, as thin as possible. Membership's
// actions become datagrams, messages on streams and calls; the view becomes a plan, the plan edges; a learner
// takes steps between exchanges. Members are to be read; only lab/sim writes them.
#ifndef LAB_SIM_NODE_H
#define LAB_SIM_NODE_H

#include "base/buffer.h"
#include "gossip/exchange/exchange.h"
#include "gossip/exchange/tell.h"
#include "gossip/graph/graph.h"
#include "gossip/host/average.h"
#include "gossip/host/control.h"
#include "gossip/life/life.h"
#include "gossip/links/links.h"
#include "gossip/session/datagram.h"
#include "gossip/session/session.h"
#include "lab/sim/sim_world.h"

enum { SIM_STARTS = 16, SIM_INPUTS_MAX = 512 };

struct sim_checkpoint {
    bool there, torn;
    uint64_t round, step;
    size_t parameters;
    bool open;                 // the local steps of round + 1 are done, its exchange is not
    float open_scale;          // their step scale
    float *round_start;        // [parameters] x0 of outer momentum of that round, or NULL
    float *part[GOSSIP_PARTS]; // [parameters] enum gossip_snapshot_part; NULL where there is no such vector
    uint8_t *learner;          // state that the learner saves
    size_t learner_bytes;
    struct gossip_edge_record *record;
    size_t count;
    struct gossip_orphan_record *kept; // state left by dead neighbours
    size_t n_orphans;
    struct base_buffer journal; // of the exchanges since
};

struct sim_disk {
    uint64_t generation;
    uint64_t started_ns[SIM_STARTS]; // virtual time of the latest starts
    size_t starts;
    struct sim_checkpoint latest, older;
};

struct sim_link {
    struct sim_link *next;
    uint64_t stream; // SIM_NO_STREAM: with known membership, waits for the other end
    uint64_t handle; // in gossip/links
    size_t host;     // of the other end
    size_t peer;     // identity; SIZE_MAX until authenticated
    bool initiator, authenticated, closed;
    struct gossip_session *session; // NULL: plain
    struct gossip_sealer *sealer;   // once authenticated
    struct gossip_opener *opener;   //
    struct base_buffer in;          // the beginning of a record
};

struct sim_peer {             // one identity, as this process knows it
    struct sim_link *link;    // in use
    uint64_t host_ns;         // local: datagram heard
    uint32_t host, sent_host; // heard from, sent to
    uint8_t turn;             // of its addresses
};

#define SIM_NAME SIZE_MAX // an entry of the peer list that leads to several hosts (sim_options.name_ns)

// The parts of a process. Each is written by the file of its name only (sim_member.c ...); sim_node.c, which
// starts a process, sets its generation and the instance_id of its greeting.

struct sim_node_member {
    struct gossip_membership *membership;
    struct gossip_datagrams *datagrams;
    uint64_t generation, instance;
    size_t taken; // actions of one event
};

struct sim_node_links {              // and sim_call.c, sim_receive.c
    struct gossip_links *rules;      // decides which links exist
    struct gossip_greeting greeting; // of this process
    struct sim_link *list;
    const struct gossip_message *heard; // received on a link and not yet handled
    bool closed;                        // links must be freed
    uint64_t join_ns;                   // local: with known membership, the next attempt
};

struct sim_node_life {
    struct gossip_life *rules;
    enum gossip_life_state seen; // told to the watcher
    bool acting;                 // an action of its is carried out
};

struct sim_node_graph {
    struct sim_plan *plan; // shared by all processes that have the same view
};

struct sim_node_train {
    struct gossip_rounds rounds; // the next action, and the rounds and steps done
    bool going, ordered, told_done, over;
    bool round_is_over;               // the learner must still be informed
    uint64_t begun_ns, checkpoint_ns; // local
    struct gossip_exchange *exchange;
    struct gossip_learner_vectors vectors;
    struct gossip_snapshot_vectors into; // a partial snapshot is of no use: it is fetched beside the vectors
    uint64_t step_ns;                    // virtual time of one step
    uint64_t rounds_done;                // since the process started
    bool stepping, resumed;              // stepping: the learner has the vectors
    enum sim_origin origin;              // of the vectors
    struct gossip_look look;             // its model is NULL without options.probe
    struct gossip_round_account account; // of the latest round
    bool merged;                         // its model is that of all nodes
};

// Since the simulation began, across restarts. On peer streams all framing and handshakes included, as a
// daemon's bytes_sent; datagrams sealed, without UDP and IP. Plain ones count as sealed.
struct sim_traffic {
    uint64_t bytes_sent, bytes_received;
    uint64_t datagrams_sent, datagram_bytes_sent, datagram_bytes_received;
};

enum sim_claim {
    SIM_CLAIM_TRUTH,
    SIM_CLAIM_FINISHED, // that it has done its last step, once it trains
    SIM_CLAIM_LAST,     // that it trains, and its model is that of the last step
};

struct sim_node_faults { // of tests and attackers
    bool liar;
    bool miser;     // gives no node its model
    bool stalls;    // speaks of exchanges, and neither begins nor answers one
    bool boundless; // clips nothing, and says so
    enum sim_claim claim;
    float noise;     // deviation of what it gives to who asks for its model; 0: its model
    uint64_t boasts; // claims that its model is so many rounds and steps further
};

struct sim_node {
    struct sim_world *world;
    size_t host, self; // self: identity
    bool running, paused, slow, stop;
    int status;          // with which the latest process has ended in order
    int64_t clock_ns;    // local monotonic = virtual + this
    uint64_t started_ns; // local
    uint64_t wake_ns, wake_number, inbox_ns, paused_ns, jumped_ns;
    struct base_rng rng;
    struct sim_disk disk;
    struct sim_input *input, **input_last; // received while the process was paused or slow
    size_t inputs;
    struct sim_peer *peer;    // [identities]
    size_t entry[8], entries; // hosts of the peer list, or SIM_NAME

    struct gossip_control *control; // drives membership, links, graph and life
    struct sim_node_member member;
    struct sim_node_links links;
    struct sim_node_graph graph;
    struct sim_node_life life;
    struct sim_node_train train;
    struct gossip_teller teller;    // of the exchange, into the trace
    struct gossip_average *average; // drives exchange, edges, snapshots and merge; NULL without a learner
    struct sim_traffic traffic;
    struct sim_node_faults faults;
};

// -- for the user of the world
void sim_node_start(struct sim_node *node);               // continues from its disk
void sim_node_kill(struct sim_node *node, bool host_too); // kill -9, or a power failure
void sim_node_leave(struct sim_node *node);               // in order: informs all; runs a moment longer
void sim_node_pause(struct sim_node *node);
void sim_node_resume(struct sim_node *node, bool clock_stood);

uint64_t sim_node_now(const struct sim_node *node); // local
// An attacker: tells all that it is linked to of the identities from `first` on, which have no process, each
// time with a new generation that refutes what the members think of them. It knows that nobody is there.
void sim_ghosts_announce(struct sim_node *node, size_t first, size_t count, uint64_t generation);
// The state that survives a process; tests exchange disks.
void sim_disk_copy(const struct sim_disk *disk, struct sim_disk *copy);
void sim_disk_free(struct sim_disk *disk);
bool sim_member_info(const struct sim_node *node, size_t peer, struct gossip_member_info *info);
const struct gossip_id *sim_member_id(const struct sim_node *node, size_t peer);
// The graph as this process sees it; NULL: no view yet. And the identities of its neighbours.
const struct gossip_graph *sim_graph(const struct sim_node *node);
size_t sim_graph_neighbour(const struct sim_node *node, size_t index);

#endif
