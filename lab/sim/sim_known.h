// Membership that every process knows at once: no detector, no gossip, no packets. All processes learn of a
// start, end or leave at the same moment of virtual time, so that a graph can be studied by itself and
// thousands of nodes start at once. A cut network is not a death here.
#ifndef LAB_SIM_KNOWN_H
#define LAB_SIM_KNOWN_H

#include "gossip/host/control.h"
#include "gossip/member/member.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_node;
struct sim_world;

struct sim_known {
    struct gossip_record *record;    // [nodes]
    enum gossip_member_state *state; // [nodes]
    uint64_t *since_ns;              // [nodes] virtual
    bool *there;                     // [nodes] has ever started
    uint32_t *order;                 // [nodes] identities by id
    struct gossip_record *view;      // [n_view] members that count, by id
    size_t n_view;
    struct gossip_life_census census; // over all members
    struct sim_change {               // not delivered yet
        uint32_t identity;
        bool known;
        enum gossip_member_state before, state;
    } * change;
    size_t n_changes;
    bool told; // the event that delivers it is in the queue
};

extern const struct gossip_control_members sim_known_members; // owner: the process

void sim_known_create(struct sim_world *world);
void sim_known_destroy(struct sim_world *world);
void sim_known_start(struct sim_node *node);
void sim_known_end(struct sim_node *node, bool in_order);
void sim_known_take(struct sim_node *node, const struct sim_change *change); // `node` receives it now
// The state of an identity; LEFT with an empty record if it has never started.
void sim_known_at(const struct sim_node *node, size_t identity, struct gossip_member_info *info);

#endif
