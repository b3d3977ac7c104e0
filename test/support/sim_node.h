// One process of the simulated cluster: what node/ does in the daemon, as thin as possible. Membership's
// actions become datagrams, messages on streams and calls; the view becomes a plan, the plan edges; a trainer
// learns between exchanges. sim_node.c: life and time; sim_member.c: membership and datagrams; sim_link.c:
// streams; sim_train.c: edges, rounds and checkpoints; sim_disk.c: what survives the process.
#ifndef TEST_SUPPORT_SIM_NODE_H
#define TEST_SUPPORT_SIM_NODE_H

#include "gossip/exchange/exchange.h"
#include "gossip/session/datagram.h"
#include "gossip/session/session.h"
#include "gossip/snapshot/snapshot.h"
#include "test/support/sim_world.h"

enum { SIM_WAITING_MOST = 8, SIM_RECORDS = 64, SIM_STARTS = 16, SIM_INPUTS_MOST = 512 };

struct sim_checkpoint {
    bool there, torn;
    uint64_t round;
    float *model;
    size_t count;
    struct gossip_edge_record record[SIM_RECORDS];
};

struct sim_disk {
    uint64_t boot;
    uint64_t started_ns[SIM_STARTS]; // virtual time of the latest starts
    size_t starts;
    struct sim_checkpoint latest, older;
};

struct sim_link {
    struct sim_link *next;
    uint64_t stream;
    size_t host;   // of the other end
    size_t peer;   // identity; SIZE_MAX until proven
    size_t entry;  // of the peer list that was called; SIZE_MAX
    size_t member; // that was called; SIZE_MAX
    bool initiator, connected, proven, greeted, heard, in_use, bye, closed;
    uint64_t opened_ns, heard_ns, used_ns; // local
    struct gossip_session *session;        // NULL: plain
    struct gossip_sealer *sealer;          // once proven
    struct gossip_opener *opener;          //
    struct base_buffer in;                 // the beginning of a record
};

struct sim_peer { // one identity, as this process knows it
    struct sim_link *link;
    struct sim_waiting {
        uint8_t *bytes;
        size_t count;
    } * waiting;                                 // packets for a stream that is being called
    uint64_t host_ns, call_ns, dead_ns, twin_ns; // local: datagram heard, next call, death, a twin
    uint32_t host, sent_host, backoff_ms;        // heard from, sent to
    uint8_t n_waiting, turn, twins;              // twins: how often it had a link to this id already
    bool neighbour, edge_up, wanted, calling;
};

struct sim_entry { // of the peer list
    size_t host, stands_for;
    uint64_t call_ns;
    uint32_t backoff_ms;
    bool calling, self;
};

struct sim_input { // what came in while the process was paused or slow
    struct sim_input *next;
    enum {
        SIM_IN_DATAGRAM,
        SIM_IN_PORT_CLOSED,
        SIM_IN_ACCEPTED,
        SIM_IN_CONNECTED,
        SIM_IN_REFUSED,
        SIM_IN_RECEIVED,
        SIM_IN_ENDED
    } kind;
    uint64_t stream;
    size_t from;
    enum sim_end end;
    uint8_t *bytes;
    size_t count;
};

enum sim_phase { SIM_JOINING, SIM_FETCHING, SIM_READY, SIM_TRAINING };

struct sim_node {
    struct sim_world *world;
    size_t host, self; // self: identity
    bool running, paused, slow, liar, leaving;
    int64_t clock_ns; // local monotonic = virtual + this
    uint64_t wake_ns, generation, tick_ns, inbox_ns, paused_ns, jumped_ns;
    unsigned stuck; // turns of a timer that did not pass
    struct base_rng rng;
    struct sim_disk disk;
    struct sim_input *input, **input_last;
    size_t inputs;

    struct gossip_membership *membership;
    struct gossip_datagrams *datagrams;
    uint64_t boot, life;
    bool view_changed, graph_changed, links_changed, stop;
    struct sim_peer *peer; // [identities]
    struct sim_link *links;
    struct sim_entry entry[8];
    size_t entries;
    uint64_t sent, sent_bytes; // sealed datagrams

    enum sim_phase phase;
    uint64_t started_ns, phase_ns, train_ns; // local
    struct gossip_exchange *exchange;
    struct topology_plan *plan;
    size_t plan_self, n_view;
    size_t *view; // [n_view] identities
    float x[SIM_PARAMETERS], correction[SIM_PARAMETERS], before[SIM_PARAMETERS];
    uint64_t round, rounds_done;
    bool in_round, resumed;
    struct gossip_donor *donor;
    struct gossip_joiner *joiner;
    struct gossip_snapshot_vectors into;
    bool *donates; // [identities] told to the joiner
};

// -- life (sim_node.c)
struct sim_node *sim_node_create(struct sim_world *world, size_t host);
void sim_node_destroy(struct sim_node *node);
void sim_node_start(struct sim_node *node);
void sim_node_kill(struct sim_node *node, bool host_too); // kill -9, or the power goes
void sim_node_stop(struct sim_node *node);                // leaves in order
void sim_node_pause(struct sim_node *node);
void sim_node_resume(struct sim_node *node, bool clock_stood);
void sim_node_clock(struct sim_node *node, uint64_t forward_ns);
uint64_t sim_node_now(const struct sim_node *node); // local
void sim_node_settle(struct sim_node *node);        // what follows from what was taken in; the next wake
extern const struct sim_net_handler sim_node_handler;

// -- membership (sim_member.c)
void sim_member_start(struct sim_node *node);
void sim_member_stop(struct sim_node *node);
void sim_member_tell(struct sim_node *node, enum gossip_membership_event_kind kind, size_t peer);
// False: the bytes broke the layout.
bool sim_member_packet(struct sim_node *node, size_t peer, enum gossip_member_way way, const uint8_t *bytes,
                       size_t count);
void sim_member_datagram(struct sim_node *node, size_t from, const uint8_t *bytes, size_t count);
void sim_member_send(struct sim_node *node, size_t peer, const uint8_t *bytes, size_t count);
bool sim_member_info(const struct sim_node *node, size_t peer, struct gossip_member_info *info);
const struct gossip_id *sim_member_id(const struct sim_node *node, size_t peer);

// -- streams (sim_link.c)
void sim_link_tick(struct sim_node *node, uint64_t now_ns);
void sim_link_accepted(struct sim_node *node, uint64_t stream, size_t from);
void sim_link_connected(struct sim_node *node, uint64_t stream);
void sim_link_received(struct sim_node *node, uint64_t stream, const uint8_t *bytes, size_t count);
void sim_link_ended(struct sim_node *node, uint64_t stream, bool refused, enum sim_end how);
void sim_link_packet(struct sim_node *node, size_t peer, const uint8_t *bytes, size_t count);
// False: no link in use.
bool sim_link_send(struct sim_node *node, size_t peer, const struct gossip_message *message);
void sim_link_say(struct sim_node *node, struct sim_link *link, const struct gossip_message *message);
void sim_link_write(struct sim_node *node, struct sim_link *link, struct base_buffer *out); // and frees it
void sim_link_close(struct sim_node *node, size_t peer, const char *why);
void sim_link_free_all(struct sim_node *node);

// -- edges and training (sim_train.c)
void sim_train_start(struct sim_node *node);
void sim_train_stop(struct sim_node *node);
void sim_train_follow(struct sim_node *node); // the view or the links have changed
void sim_train_message(struct sim_node *node, size_t peer, const struct gossip_message *message);
void sim_train_tick(struct sim_node *node, uint64_t now_ns);
uint64_t sim_train_deadline(const struct sim_node *node);

// -- disk (sim_disk.c)
void sim_disk_save(struct sim_node *node); // at a boundary
// The newest checkpoint that is whole, or NULL.
const struct sim_checkpoint *sim_disk_load(const struct sim_disk *disk);
void sim_disk_copy(const struct sim_disk *disk, struct sim_disk *copy);
void sim_disk_free(struct sim_disk *disk);

#endif
