// The links of one node: which peers it calls and when, which of two links of a pair is used, what a
// greeting, a BYE and the end of a link mean, and which packets wait for a link. The same object serves the
// daemon, the simulator and the fuzzer. Rules and tables of times: README.md.
//
// A state machine: time and entropy come in with the event, actions go out through gossip_links_next. It
// knows no sockets, sessions, names or message formats: "call address 2 of entry 5 as link 77", "the end of
// link 77 was a reset". Membership decides which nodes are members; the graph decides which are wanted.
//
//     CALL (own)            gossip_links_accept
//       |                        |
//    CALLING                  ACCEPTED           no peer is known yet: GOSSIP_LINKS_CALL_NS of a call,
//       |                        |               LIMIT_HANDSHAKE_NS of a caller
//       |     AUTHENTICATED      |
//       +----> AUTHENTICATED <---+               the higher id greets at once; GOSSIP_LINKS_GREETING_NS
//                |       |
//       GREETING |       | GREETING at the lower id, which has an older active link
//                |       v
//                |   CANDIDATE ---- the active link ended, or was silent for GOSSIP_LINKS_CANDIDATE_NS
//                v                            |
//              ACTIVE <-----------------------+  at most one per pair
//
//    any of them ---- CLOSE said, or BYE heard ----> CLOSING ---- ENDED ----> (the handle is free)
//
// Of two links between one pair the node with the LOWER id decides by answering the other's greeting: the
// higher id greets at once, the lower id greets only on the link that it takes. Only greetings are sent until
// both ends have greeted, so nothing is lost when the other link ends.
//
// A link is direct, or relayed: its stream goes over another member. The end of a relayed link says nothing
// about the process at the other end, and a direct link takes its place as soon as there is one.
//
// One owner (the loop). Memory: 2 * LIMIT_PEERS links, LIMIT_HALF_OPEN + GOSSIP_LINKS_RELAYED of them
// accepted and not active, GOSSIP_LINKS_CALLS members that are called, GOSSIP_LINKS_PACKETS waiting packets,
// and the entries.
#ifndef GOSSIP_LINKS_LINKS_H
#define GOSSIP_LINKS_LINKS_H

#include "base/error.h"
#include "base/limits.h"
#include "gossip/id.h"
#include "gossip/session/identity.h"
#include "gossip/wire/message.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GOSSIP_LINKS_MAX       (2u * LIMIT_PEERS)
#define GOSSIP_LINKS_CALLS     256u  // members called at a time, besides those that are wanted
#define GOSSIP_LINKS_PACKETS   64u   // waiting for a link; at the limit the oldest is dropped
#define GOSSIP_LINKS_UNDECIDED 4u    // links of one id that wait to be taken
#define GOSSIP_LINKS_LOOKS     8u    // looks at members under way
#define GOSSIP_LINKS_RELAYED   64u   // relayed connections that are accepted and not active
#define GOSSIP_LINKS_BANS      1024u // identities and hosts against which there is evidence
#define GOSSIP_LINKS_PROVEN    1024u // identities whose link has lasted
#define GOSSIP_LINKS_CAME      2048u // identities that were let in; the oldest is new again
#define GOSSIP_NO_ENTRY        SIZE_MAX

#define GOSSIP_LINKS_CALL_NS       5000000000ull  // connection and handshake of a call by this node
#define GOSSIP_LINKS_CALL_NEXT_NS  1000000000ull  // a call this old delays none to the next address
#define GOSSIP_LINKS_CALL_STUCK_NS 250000000ull   // the same for a member whose link is stuck, as in RFC 8305
#define GOSSIP_LINKS_ANSWERED_NS   1000000000ull  // an ANSWERED link is spared this long at one host's limit
#define GOSSIP_LINKS_GREETING_NS   10000000000ull // from the proof of identity to the greeting
#define GOSSIP_LINKS_CANDIDATE_NS  3000000000ull  // how long a silent older link delays a new one
#define GOSSIP_LINKS_AGAIN_NS      500000000ull // the same, if both are of one process: it has given up the older
#define GOSSIP_LINKS_INSTEAD_NS                                                                              \
    2000000000ull // a relayed link this old gives way to one that the other end calls
#define GOSSIP_LINKS_LATE_NS    500000000ull   // a TIMER this late: the process was suspended
#define GOSSIP_LINKS_IDLE_NS    10000000000ull // an unwanted link without traffic ends after this time
#define GOSSIP_LINKS_GONE_NS    3000000000ull // the same for a link to a member that has left: it has flushed
#define GOSSIP_LINKS_LEAVE_NS   1500000000ull // direct links wait for the last words of relayed ones
#define GOSSIP_LINKS_PACKET_NS  10000000000ull // how long a packet waits for a link
#define GOSSIP_LINKS_RESOLVE_NS 30000000000ull // how long to wait for addresses
// Between two turns of calls: doubling, each with a jitter of 0.5 to 1.5. A link that ends sooner than the
// longest pause does not reset the pauses.
#define GOSSIP_LINKS_PAUSE_MIN_NS     200000000ull
#define GOSSIP_LINKS_PAUSE_MAX_NS     10000000000ull // of an entry, which may never lead to a node
#define GOSSIP_LINKS_PAUSE_LONELY_NS  1000000000ull  // of an entry, while this node has no link at all
#define GOSSIP_LINKS_CALL_LONELY_NS   2000000000ull  // without links, a call this old delays no next turn
#define GOSSIP_LINKS_PAUSE_MEMBER_NS  2000000000ull  // of a member, which is known to exist
#define GOSSIP_LINKS_PAUSE_REFUSED_NS 30000000000ull // after an answer that will not change soon
#define GOSSIP_LINKS_LOOK_NS          10000000000ull // of an entry that stands for a living member: look for others
#define GOSSIP_LINKS_MISSING_NS       30000000000ull // a wanted link missing for this long is reported
// A look at a member calls its direct addresses although there is a link: for a direct one while the link is
// relayed (doubling), or, if the other end has called, to find out whether it can be called. The first pause
// doubles with each direct link that died before it was settled, and so does the time for which a relayed
// link stays before it gives way to another relay, up to PATH_LATE.
#define GOSSIP_LINKS_DIRECT_MIN_NS 1000000000ull
#define GOSSIP_LINKS_DIRECT_MAX_NS 60000000000ull
#define GOSSIP_LINKS_SETTLED_NS    300000000000ull
#define GOSSIP_LINKS_PATH_LATE_NS  120000000000ull
#define GOSSIP_LINKS_RELAY_MIN_NS  5000000000ull
#define GOSSIP_LINKS_BACK_FIRST_NS 500000000ull // after the link began
#define GOSSIP_LINKS_BACK_NS       240000000000ull
#define GOSSIP_LINKS_HURRY_NS      200000000ull // the longest wait after HURRY
// DUPLICATE follows this many answers in a row, over this time, in which a peer says that it has a working
// link to another process with this id.
#define GOSSIP_LINKS_DUPLICATES   3u
#define GOSSIP_LINKS_DUPLICATE_NS 5000000000ull

// After evidence against an identity it is refused, and not called: for 2 s, doubling to 5 min with each
// further evidence, and forgotten 10 min after the latest refusal has ended. After evidence against more new
// identities of one host than are spared, other new ones from there are refused, for times that grow in the
// same way. New is who has had no link for a minute.
#define GOSSIP_LINKS_BAN_MIN_NS    2000000000ull
#define GOSSIP_LINKS_BAN_MAX_NS    300000000000ull
#define GOSSIP_LINKS_BAN_FORGET_NS 600000000000ull
#define GOSSIP_LINKS_BAN_SPARED    2u
#define GOSSIP_LINKS_PROVEN_NS     60000000000ull
#define GOSSIP_LINKS_JOIN_NS       60000000000ull // the time of join_rate

struct gossip_links;

struct gossip_links_options {
    struct gossip_id self;
    const struct gossip_greeting
        *greeting;                         // of this node, borrowed until destroy: others must train the same
    const struct gossip_allow_list *allow; // borrowed, may change between steps (then ALLOW); NULL: all
    size_t entries;                        // of the peer list
    bool callers_look; // a node looks at a member that it has called itself, too: then each of the two learns
                       // whether it can be called. Without routers between them one look is enough
    uint64_t join_rate; // new identities that are let in a minute; 0: any number
    uint64_t call_ns;   // replaces GOSSIP_LINKS_CALL_NS; 0: the default
    uint64_t salt;      // of the table of ids, which strangers choose
    uint64_t now_ns;
};

enum gossip_link_state {
    GOSSIP_LINK_CALLING,
    GOSSIP_LINK_ACCEPTED,
    GOSSIP_LINK_AUTHENTICATED,
    GOSSIP_LINK_CANDIDATE,
    GOSSIP_LINK_ACTIVE,
    GOSSIP_LINK_CLOSING,
};

// Why a link is closed, and what a BYE says.
enum gossip_close {
    GOSSIP_CLOSE_IDLE,
    GOSSIP_CLOSE_LEAVING,     // this node ends
    GOSSIP_CLOSE_SILENT,      // its other end is considered dead
    GOSSIP_CLOSE_REPLACED,    // by a newer link
    GOSSIP_CLOSE_NO_GREETING, // none in time
    GOSSIP_CLOSE_OLD_SECRET,  // it began with a secret that has been removed; the next one shows another
    GOSSIP_CLOSE_IMPLAUSIBLE, // the numbers of the two models are too far apart; found by the exchange
    GOSSIP_CLOSE_BANNED,      // there is fresh evidence against its other end, or against its host
    GOSSIP_CLOSE_CROWD,       // more new identities have come than join_rate allows
    GOSSIP_CLOSE_DUPLICATE_IDENTITY, // another process with the id of the other end has a link that works
    GOSSIP_CLOSE_NOT_ALLOWED,        // not, or no longer, on the allow-list
    GOSSIP_CLOSE_OTHER_PROTOCOL,     // the two cannot train together
    GOSSIP_CLOSE_OTHER_MODEL,        //
    GOSSIP_CLOSE_OTHER_RULES,        //
    GOSSIP_CLOSE_OTHER_SCALING,      // they cannot train together; found later, by the owner of the exchange
    GOSSIP_CLOSE_BROKEN,             // the other end broke the protocol
    GOSSIP_CLOSE_TIMEOUT,            // no handshake in time
    GOSSIP_CLOSE_CROWDED,            // it has not authenticated, and gives way to a newer connection
    GOSSIP_CLOSE_NOT_NEEDED,         // another link to the same node is active, or it is another node
    GOSSIP_CLOSE_SELF,               // its other end is this process
    GOSSIP_CLOSE_HEARD,              // the other end has said BYE
    GOSSIP_CLOSE_REFUSED_THERE,      // heard: a refusal, for people to read
};
const char *gossip_close_text(enum gossip_close why); // for people
const char *
gossip_close_bye(enum gossip_close why); // reason of the BYE that is sent first; NULL: no BYE is sent
// The meaning of a received BYE: IDLE .. DUPLICATE_IDENTITY or REFUSED_THERE; and its text for people.
enum gossip_close gossip_close_of(const char *reason);
const char *gossip_close_heard(enum gossip_close why);
// Whether the BYE of such a close is sent after all waiting messages, because BYE ends the link there, and
// these have the answers of the last round, or the reason.
bool gossip_close_in_order(enum gossip_close why);
bool gossip_close_is_refusal(enum gossip_close why); // by this end: NOT_ALLOWED, OTHER_*
// GOSSIP_CLOSE_NOT_NEEDED: they can train together; else GOSSIP_CLOSE_OTHER_*.
enum gossip_close gossip_links_compare(const struct gossip_greeting *ours,
                                       const struct gossip_greeting *theirs);

struct gossip_links_target { // the callee: an entry of the peer list, or a member
    size_t entry;            // GOSSIP_NO_ENTRY: the member `peer`
    struct gossip_id peer;
    bool direct; // of a member: only its addresses that are no relays, for a look
    bool small;  // of a member whose link is stuck: the new one sends and receives small packets only, and
                 // does not go over the same relay
};

enum gossip_link_end {  // what the other host has shown about its process
    GOSSIP_END_OTHER,   // nothing: a timeout, a decision of this end, an unreachable network
    GOSSIP_END_GONE,    // the stream ended or was reset
    GOSSIP_END_REFUSED, // nothing listens at its address
    GOSSIP_END_BROKEN,  // it broke the framing
};

enum gossip_links_event_kind {
    GOSSIP_LINKS_START,    // calls begin
    GOSSIP_LINKS_WANT,     // links to ids[count] are wanted, and to no others
    GOSSIP_LINKS_RESOLVED, // `target` has `count` addresses, of which those in the mask `relayed` are relays;
                           // 0: none is known, or it must not be called
    GOSSIP_LINKS_ANSWERED, // the caller of `link` has begun a handshake that fits the secret of the cluster
    GOSSIP_LINKS_AUTHENTICATED, // the other end of `link` is `peer`, a member that is `alive` or not; the two
                                // speak `protocol`, 0: none that both speak
    GOSSIP_LINKS_GREETING,      // `greeting` was heard on `link`
    GOSSIP_LINKS_BYE,           // `reason` was heard on `link`
    GOSSIP_LINKS_MESSAGE,       // any other message was heard on `link`: DELIVER follows if it is accepted
    GOSSIP_LINKS_BROKEN,        // an authenticated message on `link` breaks the protocol: evidence
    GOSSIP_LINKS_ENDED,         // `link` is gone, as `end`: once for every link, also after a CLOSE
    GOSSIP_LINKS_STALLED,       // an injected fault stalls `link` (`on`), or no longer does
    GOSSIP_LINKS_STUCK,   // what this node sends on `link` does not arrive, or is relayed and late (`on`), or
                          // not any more
    GOSSIP_LINKS_REVOKED, // the secret with which `link` began is none of this node's any more
    GOSSIP_LINKS_PACKET,  // bytes[count] for `peer`, by any link, present or future
    GOSSIP_LINKS_MEMBER,  // membership: `peer` is `alive` (alive or suspected), or dead, gone, removed
    GOSSIP_LINKS_HURRY,   // addresses of `peer`, or the relays to it, have changed: call, look soon
    GOSSIP_LINKS_LOOK_ALL, // an address of this node has changed: look at all whose links are relayed
    GOSSIP_LINKS_PART,     // close the link to `peer`, because of `why`
    GOSSIP_LINKS_ALLOW,    // the allow-list has changed
    GOSSIP_LINKS_TIMER,    // the gossip_links_deadline has passed
    GOSSIP_LINKS_LEAVE, // no more calls, and none is accepted; all links send BYE and end, relayed ones first
};
struct gossip_links_event {
    enum gossip_links_event_kind kind;
    uint64_t now_ns;  // monotonic
    uint64_t entropy; // any number that others cannot predict: jitter
    uint64_t link;
    struct gossip_id peer;
    struct gossip_links_target target;
    bool alive, on;
    uint64_t host; // AUTHENTICATED: of a direct call of this node, as for gossip_links_accept; 0: none
    uint16_t protocol;
    uint32_t relayed; // bit i: address i is a relay
    enum gossip_link_end end;
    enum gossip_close why;
    const struct gossip_greeting *greeting;
    const char *reason;
    const struct gossip_id *ids;
    const uint8_t *bytes;
    size_t count;
};

enum gossip_links_action_kind {
    GOSSIP_LINKS_RESOLVE, // send RESOLVED for `target`, now or later
    GOSSIP_LINKS_CALL,    // open a stream to `address` (below RESOLVED's count) of `target`: it is `link`
    GOSSIP_LINKS_GREET,   // send this node's greeting on `link`
    GOSSIP_LINKS_CLOSE,   // send gossip_close_bye(why), if any, on `link`, then end it. `other`: owner of the
                          // active link
    GOSSIP_LINKS_UP,      // `link` is now the active one to `peer`
    GOSSIP_LINKS_DOWN,    // no link to `peer` is active any more; the last messages on `link` may be lost
    GOSSIP_LINKS_DELIVER, // accept the message of this event: its peer has an active link
    GOSSIP_LINKS_SEND,    // bytes[count] on `link`, as a packet of membership; valid until the next action
    GOSSIP_LINKS_EXPLAIN, // send on `link` what membership knows of `peer`, which another process has signed
    GOSSIP_LINKS_UNREACHABLE, // positive evidence about `peer`: its stream ended without BYE, or nothing
                              // listens where it was reached before
    GOSSIP_LINKS_DUPLICATE,   // another process has this id: the other end of `link` is it (`at`) or knows it
    GOSSIP_LINKS_MISSING, // for people, once: no link to the wanted `peer` since since_ns: neither end can
                          // call the other
    GOSSIP_LINKS_ENTRY,   // the state of `target.entry` has changed
    GOSSIP_LINKS_REACHED, // `peer`, which is allowed, has called this node directly, by `link`
};
struct gossip_links_action {
    enum gossip_links_action_kind kind;
    enum gossip_close why;
    uint64_t link;
    void *owner, *other; // as bound; NULL: not bound, such as a CLOSE behind a CALL that could not be made
    struct gossip_id peer;
    struct gossip_links_target target;
    size_t address;
    bool relayed; // CALL: RESOLVED said that `address` is a relay
    bool changed; // CLOSE by a refusal: this refusal was not reported before
    bool at;      // DUPLICATE
    uint64_t since_ns;
    const uint8_t *bytes;
    size_t count;
};

enum base_error gossip_links_create(const struct gossip_links_options *options,
                                    struct gossip_links **links) BASE_CHECK;
void gossip_links_destroy(struct gossip_links *links); // NULL is fine

// Handles one event; its actions join the end of the queue, so this may be called while an action is carried
// out. An event about a link that no longer exists, or that is impossible in its state, changes nothing.
// BASE_ENOMEM: nothing has changed, and later events are handled as usual.
enum base_error gossip_links_step(struct gossip_links *links,
                                  const struct gossip_links_event *event) BASE_CHECK;
bool gossip_links_next(struct gossip_links *links, struct gossip_links_action *action);
// When to send TIMER (monotonic ns), UINT64_MAX: never. May be too early.
uint64_t gossip_links_deadline(const struct gossip_links *links);

// A peer has called. Connections are counted by `host` (an IPv4 address, or the /64 of an IPv6 address). At a
// limit, the oldest connection that is not authenticated is closed (a CLOSE among the actions); at the limit
// of one host, one that has ANSWERED is spared while it is young. A `relayed` connection has no host, and a
// limit of its own: only members can make one. Returns 0 if none may be closed, or if this node is leaving:
// close the new connection without sending a byte.
uint64_t gossip_links_accept(struct gossip_links *links, uint64_t now_ns, uint64_t host, bool relayed,
                             void *owner);
// Sets the owner's pointer that comes back with every action about this link. After a CALL, bind before
// taking the next action.
void gossip_links_bind(struct gossip_links *links, uint64_t link, void *owner);
// The active link of this peer; 0 and NULL: there is none.
uint64_t gossip_links_active(const struct gossip_links *links, const struct gossip_id *peer, void **owner);
// The active link of this peer goes over another member. False if there is none.
bool gossip_links_is_relayed(const struct gossip_links *links, const struct gossip_id *peer);
void gossip_links_sent(struct gossip_links *links, uint64_t link,
                       uint64_t now_ns); // the owner sent data of its own
bool gossip_links_wants(const struct gossip_links *links, const struct gossip_id *peer);

enum gossip_entry_state {
    GOSSIP_ENTRY_UNKNOWN, // no node has answered
    GOSSIP_ENTRY_MEMBER,  // stands for `id`
    GOSSIP_ENTRY_SELF,    // leads only to this node
    GOSSIP_ENTRY_REFUSED, // the node there trains something else, or is not allowed
};
const char *gossip_entry_state_name(enum gossip_entry_state state);

struct gossip_entry { // a name may have many addresses: it stands for the node that last answered there,
                      // until that node is neither alive nor linked
    enum gossip_entry_state state;
    bool known;          // id is valid
    struct gossip_id id; // the node that answered last
    uint64_t since_ns;   // of the state
};
size_t gossip_links_entries(const struct gossip_links *links); // of the peer list
const struct gossip_entry *gossip_links_entry(const struct gossip_links *links, size_t entry);

// Wanted members that are alive and to which there has been no link for GOSSIP_LINKS_MISSING_NS; returns how
// many, and writes the first `capacity`.
struct gossip_missing {
    struct gossip_id peer;
    uint64_t since_ns;
};
size_t gossip_links_missing(const struct gossip_links *links, uint64_t now_ns, struct gossip_missing *missing,
                            size_t capacity);

// How long messages of this node are still refused, because it broke the protocol or sent absurd numbers.
uint64_t gossip_links_banned_ns(const struct gossip_links *links, uint64_t now_ns,
                                const struct gossip_id *id);

struct gossip_links_totals {
    size_t links, active, half_open, packets, calls; // now; calls: of members
    uint64_t accepted, turned_away, called, activated, refused, evidence, duplicates, bans; // since start
};
void gossip_links_totals(const struct gossip_links *links, struct gossip_links_totals *totals);

// Asserts the invariants that hold between two steps. For tests and fuzzers.
void gossip_links_check(const struct gossip_links *links);

#endif
