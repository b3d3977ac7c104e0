// Events inside the processes of a simulated cluster, for a watcher: tests check invariants, an experiment
// records them. All callbacks may be NULL. Watchers only read: nothing in the simulation may depend on them.
#ifndef LAB_SIM_WATCH_H
#define LAB_SIM_WATCH_H

#include "gossip/member/member.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_node;

struct sim_watch {
    void *owner;
    // -- reports of a process about others, as in events.jsonl of a daemon
    void (*changed)(void *owner, struct sim_node *node, size_t peer,
                    const struct gossip_membership_action *action);
    void (*plan)(void *owner, struct sim_node *node);  // a new view: sim_graph
    void (*phase)(void *owner, struct sim_node *node); // its life has changed its state
    // -- life of processes
    void (*started)(void *owner, struct sim_node *node);
    void (*ended)(void *owner, struct sim_node *node); // killed, left or finished: its memory is freed
    void (*round_done)(void *owner, struct sim_node *node,
                       uint64_t open_ns); // open_ns: duration of its exchange
    void (*lost)(void *owner,
                 struct sim_node *node); // the state of an edge was dropped: sums over nodes change
    // -- steps of the state machines, for invariants
    void (*step)(void *owner, struct sim_node *node);
    void (*actions)(void *owner, struct sim_node *node, size_t taken); // of one event of membership
    void (*record)(void *owner, struct sim_node *node, size_t peer);
    void (*view)(void *owner, struct sim_node *node);
    void (*datagram)(void *owner, struct sim_node *node, size_t bytes);
    void (*packet)(void *owner, struct sim_node *node, size_t bytes); // of membership, by stream
    void (*refused)(void *owner, struct sim_node *node, size_t peer); // a message of a peer was refused
    void (*generation)(void *owner, struct sim_node *node, uint64_t generation);
    void (*conflict)(void *owner, struct sim_node *node);
    void (*deadline)(void *owner, struct sim_node *node, uint64_t deadline_ns, const char *what);
    void (*exchanged)(void *owner, struct sim_node *node); // after one event of the exchange
};

// Calls one of them, if it is set.
#define SIM_TELL(node, what, ...)                                                                            \
    do {                                                                                                     \
        const struct sim_watch *sim_watch_ = (node)->world->options.watch;                                   \
        if (sim_watch_ && sim_watch_->what)                                                                  \
            sim_watch_->what(sim_watch_->owner, __VA_ARGS__);                                                \
    } while (0)

#endif
