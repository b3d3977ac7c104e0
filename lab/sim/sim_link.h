// Links of one process, for the files that make them up: sim_link.c, sim_receive.c, sim_call.c and
// sim_send.c.
#ifndef LAB_SIM_LINK_H
#define LAB_SIM_LINK_H

#include "gossip/wire/message.h"
#include "lab/sim/sim_process.h"

#define SIM_TWIN "twin" // reason of a BYE: there is a working link already

struct sim_link *sim_link_find(const struct sim_node *node, uint64_t stream); // NULL: none that is open
struct sim_link *sim_link_add(struct sim_node *node, uint64_t stream, size_t host, bool initiator);
void sim_link_proven(struct sim_node *node, struct sim_link *link, size_t peer); // SIZE_MAX: nobody known
void sim_link_greeted(struct sim_node *node, struct sim_link *link, const struct gossip_greeting *theirs);
void sim_link_suspect_twin(struct sim_node *node, size_t peer);      // it said SIM_TWIN
void sim_link_adopt(struct sim_node *node, struct sim_link *link);   // takes it into use
void sim_link_replace(struct sim_node *node, struct sim_link *link); // likewise, instead of another
void sim_link_finish(struct sim_node *node, struct sim_link *link, const char *why);
void sim_link_drop(struct sim_node *node,
                   struct sim_link *link); // freed at the next tick: somebody may hold it
void sim_link_free(struct sim_link *link);

#endif
