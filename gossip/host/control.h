// One node without its sockets, threads, files and words: membership, links, graph and life, and what each of
// them means for the others. The daemon and the simulator drive this object; what follows from an event is
// nowhere else (README.md).
//
//              events                                                  actions, for the owner
//   datagrams, ports --> members --+                        +--> packets, keys, generations
//   streams, calls ----> links ----+--> gossip_control_next +--> streams to open, to greet, to close
//   learner, exchange -> life -----+                        +--> orders, donors, words
//                                                           +--> VIEW, EDGES
//
// Inside, without the owner: a link in use is told to membership and to the life; a changed or removed member
// to the life and to the links; a new view becomes the graph, the claimed slot and the wanted links; the life
// sets flags, announces its stop, wants links and departs.
//
// Order: everything that an event leads to in the life comes before the next action of membership, all of
// those before the next action of the links, and all of those before the view is followed. So membership is
// never called while its actions wait.
//
// One owner (the loop's thread; the process of a simulation). Membership and links are the owner's, and
// borrowed until destroy; only this object takes their actions.
#ifndef GOSSIP_HOST_CONTROL_H
#define GOSSIP_HOST_CONTROL_H

#include "base/error.h"
#include "base/rng.h"
#include "gossip/graph/graph.h"
#include "gossip/life/life.h"
#include "gossip/links/links.h"
#include "gossip/member/member.h"
#include "gossip/reach/reach.h"
#include "gossip/reach/relays.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gossip_control;

// Who is there, if it is not membership that finds it out (the simulator's known membership).
struct gossip_control_members {
    size_t (*count)(const void *owner); // this node first, then the others
    void (*at)(const void *owner, size_t index, struct gossip_member_info *info);
    const struct gossip_record *(*view)(const void *owner, size_t *count); // by id
    void (*census)(const void *owner, struct gossip_life_census *census);
    void (*flags)(void *owner, uint8_t set, uint8_t clear); // these five: of this node's record
    void (*stop_at)(void *owner, uint64_t round);
    void (*slot)(void *owner, uint32_t slot);
    void (*setting)(void *owner, enum gossip_setting_kind kind, const struct gossip_setting *setting);
    void (*leave)(void *owner);
};

struct gossip_control_options {
    struct gossip_id self;
    struct gossip_links *links;
    struct gossip_membership *membership;         // NULL: `members`
    const struct gossip_control_members *members; // called with `owner`
    void *owner;
    struct gossip_life_edges edges; // of this node's exchange
    bool (*gathered)(const void *owner,
                     const struct gossip_id *peer); // struct gossip_life_world; may be NULL
    struct base_rng *rng;   // borrowed: jitter of the events that this object tells the links
    size_t neighbours_most; // gossip_graph_create
    uint64_t own_entries;   // bits: entries of the peer list that are known to lead to this process
    uint64_t look_every_ns; // the life also looks this often: what it reads may change without an event
    bool never_trains;      // then it needs no such looks while it waits
    bool links_end_with_it; // links end with the process: it does not wait for them when it leaves
};

enum base_error gossip_control_create(const struct gossip_control_options *options,
                                      struct gossip_control **control) BASE_CHECK;
void gossip_control_destroy(struct gossip_control *control); // NULL is fine
// The life begins, at options->now_ns; this object owns it. Before, events of the life are ignored.
// BASE_ENOMEM.
enum base_error gossip_control_begin(struct gossip_control *control,
                                     const struct gossip_life_options *options) BASE_CHECK;

// -- events. Those of membership and of the links are stepped by the owner, whose objects they are; the
// actions that follow are taken here. Each of these may be called while an action is carried out

void gossip_control_live(struct gossip_control *control, const struct gossip_life_event *event);
void gossip_control_depart(
    struct gossip_control *control); // the answer to DEPART: membership and links leave
// Lets the life look if that is due.
void gossip_control_look(struct gossip_control *control, uint64_t now_ns);
// When the next of these is due: a TIMER of membership, a TIMER of the links, a look. UINT64_MAX: never.
uint64_t gossip_control_deadline(const struct gossip_control *control);
// How others reach this node, and whether it relays for them if they do. A private node wants links to the
// members that relay for it and for its neighbours, and says so in its record.
void gossip_control_reach(struct gossip_control *control, enum gossip_reach_state state, bool relays);
// A decision of the life may depend on something that has changed: it is asked again if it waits.
void gossip_control_changed(struct gossip_control *control);
void gossip_control_viewed(struct gossip_control *control);  // the view of `members` has changed
void gossip_control_unedged(struct gossip_control *control); // the edges must be followed again: EDGES

// -- actions

enum gossip_control_action_kind {
    GOSSIP_CONTROL_LIFE,   // `life`: all but FLAGS, ANNOUNCE and LINKS. GATHER: a link to the
                           // peer is wanted from now on. DEPART: call gossip_control_depart
    GOSSIP_CONTROL_MEMBER, // `member`: all but VIEW and CUT_OFF
    GOSSIP_CONTROL_LINK,   // `link`: all kinds. UNREACHABLE and MEMBERS packets of DELIVER are the owner's to
                           // tell membership: it may know that a fault was injected
    GOSSIP_CONTROL_VIEW,   // a new view: call gossip_control_plan
    GOSSIP_CONTROL_EDGES,  // links or view have changed, and all of that was told: edges may follow now
};
struct gossip_control_action {
    enum gossip_control_action_kind kind;
    struct gossip_life_action life;
    struct gossip_membership_action member;
    struct gossip_links_action link;
};

// How far an owner takes actions. One that reports an event while it carries out an action, and needs what
// follows from it, takes no more than that: the life's actions, or those of membership, too.
enum gossip_control_depth {
    GOSSIP_CONTROL_LIFE_ONLY,
    GOSSIP_CONTROL_MEMBERS_TOO,
    GOSSIP_CONTROL_LINKS_TOO,
    GOSSIP_CONTROL_WHOLE, // the view, the edges and the life's look as well
};
// The next action; pointers in it are valid until the next call. False: there is none. now_ns: of what the
// parts tell each other (monotonic).
bool gossip_control_next(struct gossip_control *control, enum gossip_control_depth depth, uint64_t now_ns,
                         struct gossip_control_action *action);

// The answer to VIEW: the plan of gossip_control_view. Makes the graph in use; the owner gets a
// reference. On error the graph stays as it was until the next view.
enum base_error gossip_control_plan(struct gossip_control *control, struct gossip_plan *plan,
                                    struct gossip_graph **graph) BASE_CHECK;

// -- questions

const struct gossip_record *gossip_control_view(const struct gossip_control *control, size_t *count);
const struct gossip_graph *gossip_control_graph(const struct gossip_control *control); // NULL: no view yet
struct gossip_life *gossip_control_life(const struct gossip_control *control);         // NULL: not begun
bool gossip_control_linked(const struct gossip_control *control, const struct gossip_id *peer);
uint32_t gossip_control_free_shard(const struct gossip_control *control, uint32_t shards);

#endif
