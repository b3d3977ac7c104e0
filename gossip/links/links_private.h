// Shared by the files of gossip/links, and private to them.
//   links.c   the object, its events in, its actions out
//   table.c   links by handle, peers by id, the queue of actions
//   call.c    which peers to call and when: entries and members alike, and looks at members that have a link
//   ban.c     evidence against others, and for how long it counts
//   pair.c    one link per pair: proof, greetings, BYE, the end of a link
//   packets.c packets that wait for a link
#ifndef GOSSIP_LINKS_LINKS_PRIVATE_H
#define GOSSIP_LINKS_LINKS_PRIVATE_H

#include "gossip/links/links.h"
#include <sys/queue.h>

#define LINKS_ACTIONS (2u * GOSSIP_LINKS_UNDECIDED + 8u) // the most that one link can cause
#define LINKS_REACHED 256u // fingerprints of members that calls of this node have reached

//    IDLE -> PAUSED -> RESOLVING -> UNDER_WAY -> HELD
//              ^----------+------------'----------'
// Every state may go to HELD, IDLE and PAUSED; an entry goes from HELD to RESOLVING, too.
enum call_state {
    CALL_IDLE,
    CALL_PAUSED,    // until due_ns
    CALL_RESOLVING, // waits for addresses; asks again at due_ns
    CALL_UNDER_WAY, // as one link or several
    CALL_HELD,      // there is a link, or the entry stands for a living member until due_ns
};
struct call {
    enum call_state state;
    bool closed;   // nothing has listened at any address of this turn
    bool flapping; // the latest link ended soon after it began
    bool looks;    // an entry that stands for a living member: this turn looks for other nodes
    size_t addresses, tried, first;
    uint32_t relayed; // which of the addresses are relays
    size_t links;     // of this turn, that have not ended
    uint64_t oldest;  // handle of the first of them
    uint64_t pause_ns, due_ns;
};

struct entry {
    struct gossip_entry shown;
    bool self_seen; // one of the addresses of this turn is this node's
    struct call call;
};

struct peer { // a member that is called, wanted or linked
    TAILQ_ENTRY(peer) all;
    struct peer *next; // of one bucket
    struct gossip_id id;
    TAILQ_HEAD(, link) links; // AUTHENTICATED to ACTIVE
    struct link *active;
    struct call call;
    struct call look; // IDLE unless a link is active
    size_t undecided, packets;
    bool alive, wanted, told; // told: the missing link has been reported
    uint64_t want_turn, missing_ns;
    uint64_t direct_ns;  // the first pause before a look for a direct path; 0: the shortest
    uint64_t relayed_ns; // so long a relayed link stays before another relay is tried
};

struct link {
    TAILQ_ENTRY(link) all, pair;
    uint64_t handle;
    void *owner;
    enum gossip_link_state state;
    bool caller, relayed, half_open, answered, self, stalled;
    bool spared; // CANDIDATE: it has waited once more, because this process was suspended
    bool stuck;  // ACTIVE: what this node sends does not arrive
    struct gossip_links_target target; // of a call of this node
    uint64_t host;                     // of a direct link, once it is known; 0: none
    struct peer *peer;                 // from AUTHENTICATED to ACTIVE, unless `self`
    uint64_t instance_id;              // of the process at the other end, once it has greeted
    uint64_t state_ns, used_ns;
    unsigned told_before; // gossip_links.told_duplicate when this link came into use
};

struct packet {
    STAILQ_ENTRY(packet) next;
    struct peer *peer;
    uint64_t since_ns;
    size_t count;
    uint8_t bytes[];
};

struct queued {
    struct gossip_links_action action;
    struct packet *packet; // holds the action's bytes; freed after it
};

struct gossip_links {
    struct gossip_links_options options;
    uint64_t now_ns, entropy, due_ns;
    bool started, leaving;
    uint64_t leave_ns; // when it began to leave
    TAILQ_HEAD(, link) links;
    struct link **slot; // by the low bits of a handle
    size_t slots;
    uint64_t handles; // given out so far
    uint64_t half_open[LIMIT_HALF_OPEN];
    size_t n_half_open, n_relayed; // accepted, not active: direct, relayed
    TAILQ_HEAD(, peer) peers;
    struct peer **bucket;
    size_t buckets, n_peers, n_calls, n_looks; // looks: under way
    uint64_t want_turn;
    STAILQ_HEAD(packets, packet) packets;
    struct packet *handed; // holds the latest action's bytes
    struct entry *entry;
    uint64_t *reached; // [LINKS_REACHED] as a ring; NULL: none yet
    size_t n_reached;
    struct ban *bans; // [GOSSIP_LINKS_BANS]; NULL: none yet
    uint64_t *proven; // [GOSSIP_LINKS_PROVEN] fingerprints as a ring; NULL: none yet
    size_t n_proven;
    uint64_t *came; // [GOSSIP_LINKS_CAME] in the same way: they were let in
    size_t n_came;
    uint64_t spent_ns, spent_at_ns; // of GOSSIP_LINKS_JOIN_NS, by new identities; as of then
    bool late;                      // the TIMER of this step came late
    unsigned told_duplicate; // answers in a row that a peer has a link to another process with this identity
    uint64_t duplicate_ns;   // when the first of them came
    struct queued *action;   // a ring
    size_t first_action, n_actions, actions_capacity;
    struct gossip_links_totals totals;
};

// table.c
bool links_reserve(struct gossip_links *links, size_t actions);
struct gossip_links_action *links_act(struct gossip_links *links, enum gossip_links_action_kind kind);
void links_act_packet(struct gossip_links *links, struct packet *packet);   // of the latest action
struct link *links_find(const struct gossip_links *links, uint64_t handle); // NULL
struct link *links_add(struct gossip_links *links);                         // NULL: a limit, or no memory
void links_free(struct gossip_links *links, struct link *link);
struct peer *links_peer(const struct gossip_links *links, const struct gossip_id *id); // NULL
struct peer *links_peer_made(struct gossip_links *links, const struct gossip_id *id);  // NULL: no memory
void links_peer_release(struct gossip_links *links, struct peer *peer); // frees it unless it is still needed
uint64_t links_hash(const struct gossip_links *links, const struct gossip_id *id);
void links_due(struct gossip_links *links, uint64_t due_ns);
size_t links_half_open(const struct gossip_links *links, uint64_t host); // of this host
void links_release_half_open(struct gossip_links *links, struct link *link);
uint64_t links_after(uint64_t later_ns, uint64_t earlier_ns); // 0 if time went backwards

// call.c
struct call *call_of(struct gossip_links *links, const struct gossip_links_target *target); // NULL
void call_start(struct gossip_links *links, const struct gossip_links_target *target, struct call *call);
void call_hurry(struct gossip_links *links,
                struct call *call); // a pause continues for at most the shortest time
void call_hold(struct gossip_links *links, const struct gossip_links_target *target, struct call *call);
void call_again(struct gossip_links *links, const struct gossip_links_target *target, struct call *call,
                uint64_t pause_ns);
// The link to the target has ended after this lifetime.
void call_after_link(struct gossip_links *links, const struct gossip_links_target *target, struct call *call,
                     uint64_t lasted_ns, bool hopeless);
void call_idle(struct gossip_links *links, const struct gossip_links_target *target, struct call *call);
void call_resolved(struct gossip_links *links, const struct gossip_links_event *event);
bool call_is_of(const struct call *call, const struct link *link); // the link is of the turn under way
// This link of the turn under way has ended.
void call_failed(struct gossip_links *links, const struct link *link, struct call *call, bool closed,
                 bool refused);
void call_timer(struct gossip_links *links, const struct gossip_links_target *target, struct call *call);
void call_look(struct gossip_links *links, struct peer *peer); // whose link is now active
void call_look_hurry(struct gossip_links *links, struct peer *peer, uint64_t within_ns);
void call_stuck(struct gossip_links *links, struct peer *peer);            // whose link is stuck
void call_path_died(struct peer *peer, bool relayed, uint64_t lasted_ns);  // a link to it
void call_reached(struct gossip_links *links, const struct gossip_id *id); // remembers the member
void call_entries_hurry(struct gossip_links *links);
void call_entries_hold(struct gossip_links *links, const struct gossip_id *id);
void call_entries_release(struct gossip_links *links, const struct gossip_id *id, uint64_t lasted_ns,
                          bool hopeless);
void call_entry_state(struct gossip_links *links, size_t entry, enum gossip_entry_state state);
bool call_wanted(const struct peer *peer); // wanted, or packets wait for it
struct gossip_links_target call_member(const struct peer *peer);
struct gossip_links_target call_look_target(const struct peer *peer);

// ban.c
void ban_note(struct gossip_links *links, const struct link *link);        // its peer has brought evidence
void ban_link_ends(struct gossip_links *links, const struct link *link);   // an identity may be proven now
bool ban_lets_in(struct gossip_links *links, const struct link *link);     // join_rate allows it; counts it
bool ban_holds(const struct gossip_links *links, const struct link *link); // its peer has to wait
uint64_t ban_ends(const struct gossip_links *links, const struct gossip_id *id); // 0: it is not banned

// packets.c
void packets_take(struct gossip_links *links, const struct gossip_links_event *event);
void packets_send(struct gossip_links *links, const struct link *link); // that waited for it
void packets_expire(struct gossip_links *links);
void packets_drop(struct gossip_links *links, const struct peer *peer); // NULL: all

// pair.c
void pair_authenticated(struct gossip_links *links, struct link *link,
                        const struct gossip_links_event *event);
void pair_greeting(struct gossip_links *links, struct link *link, const struct gossip_greeting *theirs);
void pair_bye(struct gossip_links *links, struct link *link, const char *reason);
void pair_message(struct gossip_links *links, struct link *link);
void pair_broken(struct gossip_links *links, struct link *link);
void pair_ended(struct gossip_links *links, struct link *link, enum gossip_link_end end);
void pair_close(struct gossip_links *links, struct link *link, enum gossip_close why);
void pair_timer(struct gossip_links *links, struct link *link);
uint64_t pair_due(const struct gossip_links *links, const struct link *link); // when it has something to do
bool pair_give_way(struct gossip_links *links,
                   uint64_t host); // closes one half-open link for a new one of `host`
bool pair_allows(const struct gossip_links *links, const struct gossip_id *id);

#endif
