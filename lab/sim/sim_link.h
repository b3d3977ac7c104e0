// Links of one process, for the files that implement them: gossip/links decides which exist; sim_link.c
// carries that out, sim_call.c calls, sim_receive.c and sim_send.c are the streams' two directions.
#ifndef LAB_SIM_LINK_H
#define LAB_SIM_LINK_H

#include "gossip/wire/message.h"
#include "lab/sim/sim_process.h"

#define SIM_NO_STREAM UINT64_MAX

// Hands an event to the rules and carries out their actions, at once, or (_later) with those of later events.
void sim_link_tell(struct sim_node *node, struct gossip_links_event event);
void sim_link_tell_later(struct sim_node *node, struct gossip_links_event event);
struct sim_link *sim_link_find(const struct sim_node *node, uint64_t stream); // NULL: none that is open
struct sim_link *sim_link_add(struct sim_node *node, uint64_t stream, size_t host, bool initiator);
void sim_link_authenticated(struct sim_node *node, struct sim_link *link, size_t peer); // SIZE_MAX: unknown
// Closes a stream that is gone or no longer used, and informs the rules.
void sim_link_end(struct sim_node *node, struct sim_link *link, enum gossip_link_end end);
void sim_link_deliver(struct sim_node *node, struct sim_link *link); // the received message
void sim_call_resolve(struct sim_node *node, const struct gossip_links_target *target);
void sim_call_open(struct sim_node *node, const struct gossip_links_action *call);

#endif
