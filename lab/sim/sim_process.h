// The interfaces between the parts of a simulated process. sim_node.c: life and time; sim_member.c:
// membership and datagrams; sim_link.h: streams; sim_graph.c: view and plan; sim_life.c: from joining to
// leaving; sim_average.c: exchange, edges, snapshots, merge; sim_train.c: rounds; sim_disk.c: the state that
// survives the process.
#ifndef LAB_SIM_PROCESS_H
#define LAB_SIM_PROCESS_H

#include "lab/sim/sim_node.h"

#define SIM_LOOK_NS (100 * SIM_MS) // between two looks of the life; while rounds rest

// -- life (sim_node.c)
struct sim_node *sim_node_create(struct sim_world *world, size_t host);
void sim_node_destroy(struct sim_node *node);
void sim_node_reconcile(
    struct sim_node *node); // carries out the consequences of new inputs; sets the next wake
// Carries out what gossip/host has decided, as deep as the caller needs it at once.
void sim_node_act(struct sim_node *node, enum gossip_control_depth depth);
void sim_node_inform(struct sim_node *node, const struct sim_change *change); // NULL: the view
void sim_node_wake(struct sim_node *node);                                    // soon
sim_net_tell sim_node_tell;                                                   // owner: the world

// -- membership (sim_member.c)
void sim_member_start(struct sim_node *node);
void sim_member_stop(struct sim_node *node);
void sim_member_tick(struct sim_node *node, uint64_t now_ns);
// It says that it is at this step, and sets these flags of its record.
void sim_member_claims(struct sim_node *node, uint8_t flags, uint64_t round, uint64_t step);
void sim_member_unreachable(struct sim_node *node, size_t peer); // positive evidence
void sim_member_changed(struct sim_node *node, size_t peer, const struct gossip_membership_action *action);

void sim_member_act(struct sim_node *node, const struct gossip_membership_action *action);

// False: the bytes are malformed.
bool sim_member_packet(struct sim_node *node, size_t peer, enum gossip_member_way way, const uint8_t *bytes,
                       size_t count);
void sim_member_datagram(struct sim_node *node, size_t from, const uint8_t *bytes, size_t count);
// generation: of the receiver, for which the datagram is sealed; 0: the highest known one.
void sim_member_send(struct sim_node *node, size_t peer, uint64_t generation, const uint8_t *bytes,
                     size_t count);

// -- streams (sim_link.c)
void sim_link_start(struct sim_node *node);
void sim_link_stop(struct sim_node *node);
void sim_link_tick(struct sim_node *node, uint64_t now_ns);
void sim_link_act(struct sim_node *node, const struct gossip_links_action *action);
void sim_link_accepted(struct sim_node *node, uint64_t stream, size_t from);
void sim_link_connected(struct sim_node *node, uint64_t stream);
void sim_link_received(struct sim_node *node, uint64_t stream, const uint8_t *bytes, size_t count);
void sim_link_ended(struct sim_node *node, uint64_t stream, bool refused, enum sim_end how);
void sim_link_packet(struct sim_node *node, size_t peer, const uint8_t *bytes, size_t count);
// False: no link in use.
bool sim_link_send(struct sim_node *node, size_t peer, const struct gossip_message *message);
void sim_link_say(struct sim_node *node, struct sim_link *link, const struct gossip_message *message);
void sim_link_write(struct sim_node *node, struct sim_link *link, struct base_buffer *out); // and frees it
void sim_link_introduce(struct sim_node *node, const struct sim_link *link); // on a plain stream
void sim_link_count_received(struct sim_node *node, const struct sim_link *link, size_t count);
void sim_link_close(struct sim_node *node, size_t peer, enum gossip_close why);
void sim_link_leave(struct sim_node *node);
void sim_link_free_closed(struct sim_node *node);

// -- view and plan (sim_graph.c)
void sim_graph_take_view(struct sim_node *node);
void sim_graph_stop(struct sim_node *node);

// -- from joining to leaving (sim_life.c)
void sim_life_start(struct sim_node *node);
void sim_life_tell(struct sim_node *node, struct gossip_life_event event); // now_ns is filled in
struct gossip_life_edges sim_life_edges(const struct sim_node *node); // what the life reads of its exchange
void sim_life_act(struct sim_node *node, const struct gossip_life_action *action);
void sim_life_notice(struct sim_node *node); // tells the watcher of a new state
enum gossip_life_state sim_life_state(const struct sim_node *node);
bool sim_life_others(const struct sim_node *node); // others train

// -- exchange, edges, snapshots, merge (sim_average.c)
void sim_average_start(struct sim_node *node);
void sim_average_stop(struct sim_node *node);
void sim_average_link(struct sim_node *node, size_t peer, bool up);
void sim_average_follow(struct sim_node *node); // the edges, after the view or the links have changed
void sim_average_message(struct sim_node *node, size_t peer, const struct gossip_message *message);
void sim_average_order(struct sim_node *node, const struct gossip_life_action *order); // of its life
void sim_average_give(struct sim_node *node); // at a boundary: copies for nodes that wait for one
void sim_average_act(struct sim_node *node);  // carries out what has been decided
void sim_average_tick(struct sim_node *node);
uint64_t sim_average_deadline(const struct sim_node *node);

// -- rounds (sim_train.c)
void sim_train_start(struct sim_node *node);
void sim_train_stop(struct sim_node *node);
void sim_train_order(struct sim_node *node, const struct gossip_order *order); // of its life
// A round, a fetch or a merge has ended.
void sim_train_done(struct sim_node *node, const struct gossip_average_action *action);
void sim_train_fetched(struct sim_node *node, const struct gossip_average_action *action);
bool sim_train_judges(const struct sim_node *node);
bool sim_train_accepts(struct sim_node *node, const float *model); // of a donor, or merged
void sim_train_merged(struct sim_node *node, const struct gossip_average_action *action);
void sim_train_tick(struct sim_node *node, uint64_t now_ns);
// The round and step that others are told.
void sim_train_claim(const struct sim_node *node, uint64_t *round, uint64_t *step);
uint64_t sim_train_deadline(const struct sim_node *node);

// -- disk (sim_disk.c)
void sim_disk_save(struct sim_node *node); // at a boundary
// The newest complete checkpoint, or NULL.
const struct sim_checkpoint *sim_disk_load(const struct sim_disk *disk);
// The records of a step, before its messages are sent.
void sim_disk_log(struct sim_node *node, const uint8_t *records, size_t bytes);
// Brings the exchange from the loaded checkpoint to where the process before was; returns its round, at least
// the checkpoint's.
uint64_t sim_disk_replay(struct sim_node *node, const struct sim_checkpoint *checkpoint);
void sim_disk_power_fails(struct sim_disk *disk); // a part of the journal was not synced

#endif
