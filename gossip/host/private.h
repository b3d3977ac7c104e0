// The state of one control object. Private to control.c (events and actions), world.c (what the life reads)
// and relays.c (links to members that relay).
#ifndef GOSSIP_HOST_PRIVATE_H
#define GOSSIP_HOST_PRIVATE_H

#include "gossip/host/control.h"

#define CONTROL_EVENTS 16u // of the life, reported while it acts
#define CONTROL_RELAYS 32u // links to members that relay

struct gossip_control {
    struct gossip_control_options options;
    struct gossip_life *life;
    struct gossip_graph *graph; // in use
    uint64_t now_ns;
    struct gossip_life_event event[CONTROL_EVENTS]; // not handled yet
    size_t n_events;
    bool acts;                              // the life has actions of its latest step
    struct gossip_membership_action change; // the owner has taken it; the links must hear of it
    bool changes;
    struct gossip_id linked; // by a link that the owner has taken into use
    enum { CONTROL_UP_TOLD, CONTROL_UP_MEMBERS, CONTROL_UP_LIFE } up; // who must still hear of it first
    uint64_t look_ns;                                                 // the next look
    bool departs;
    bool view_changed, edges_changed, changed, wants_changed;
    bool trains;                   // as this node's record says, or will with the next signature
    enum gossip_reach_state reach; // how others reach this node
    bool relays;                   // it relays for them if they do
    struct gossip_id kept[GOSSIP_LIFE_LINKS_MOST]; // links that the life wants besides those to neighbours
    size_t n_kept;
    struct gossip_id *wanted; // [n_wanted] as the links know
    size_t n_wanted;
};

// What a step of the life reads. `edges` is a part of the world and must live as long.
struct gossip_life_world control_world(const struct gossip_control *control);
// This node has no link to the neighbour, and calls it over this relay.
bool control_calls_over(const struct gossip_control *control, const struct gossip_id *relay,
                        const struct gossip_id *neighbour);
// Says in this node's record how it is reached; returns the members to which links are wanted for that.
size_t control_relays(struct gossip_control *control, struct gossip_id ids[CONTROL_RELAYS]);

#endif
