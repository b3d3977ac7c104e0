// Membership: which nodes are in the cluster, which are alive, and which count in the graph. SWIM (Das,
// Gupta, Motivala 2002) with suspicion and Lifeguard's local health (Dadgar, Phillips, Currey 2018), positive
// evidence, confirmation by ring successors, signed records and retry of the dead (DESIGN: membership;
// layouts: README.md; rules: RULES.md).
//
// A state machine: time comes in with the event, actions go out through gossip_membership_next. Random
// choices come from a generator seeded by the options. It does not know sockets or addresses in use: it says
// "this packet to that member, by datagram or by stream", and the owner chooses the address.
//
// One owner (the loop). Memory: at most LIMIT_MEMBERS members, with a bounded number of suspicions each.
#ifndef GOSSIP_MEMBER_MEMBER_H
#define GOSSIP_MEMBER_MEMBER_H

#include "gossip/member/record.h"

struct gossip_membership;

enum gossip_member_profile { GOSSIP_PROFILE_LAN, GOSSIP_PROFILE_WAN, GOSSIP_PROFILE_LOCAL, GOSSIP_PROFILES };
const char *gossip_member_profile_name(enum gossip_member_profile profile); // "lan"

#define GOSSIP_RECENT_START_NS 600000000000ull

struct gossip_membership_options {
    const struct gossip_identity *identity; // borrowed until destroy
    struct gossip_version version; // generation and instance_id of this process; incarnation is ignored
    const char *name;
    struct gossip_address
        addresses[LIMIT_ADDRESSES]; // there may be none yet: nothing is sent before there is one
    uint8_t n_addresses;
    struct gossip_address pages;     // of its HTTP port, as in the record
    uint32_t shard, group, examples; // as in the record, as the next one
    uint64_t first_model;
    enum gossip_member_profile profile;
    uint64_t seed; // of random choices: fresh entropy in a daemon
    uint64_t now_ns;
    unsigned recent_starts; // flap damping: earlier starts within GOSSIP_RECENT_START_NS whose
                            // process did not end on purpose
    const struct gossip_verifier *verifier; // borrowed until destroy; NULL: every signature is verified
    const struct gossip_allow_list *allow;  // borrowed, may change between steps; NULL: every node
};

enum gossip_member_state {
    GOSSIP_MEMBER_ALIVE,
    GOSSIP_MEMBER_SUSPECT,
    GOSSIP_MEMBER_DEAD,
    GOSSIP_MEMBER_LEFT,
    GOSSIP_MEMBER_UNPROVEN, // only others speak of it: no member yet, and never the state of a CHANGED
    GOSSIP_MEMBER_STATES
};
const char *gossip_member_state_name(enum gossip_member_state state);

enum gossip_member_way { GOSSIP_BY_DATAGRAM, GOSSIP_BY_STREAM };

enum gossip_membership_event_kind {
    GOSSIP_MEMBERSHIP_TIMER,       // the deadline from gossip_membership_deadline has passed
    GOSSIP_MEMBERSHIP_PACKET,      // bytes from `peer`, authentic, by `way`
    GOSSIP_MEMBERSHIP_LINKED,      // a stream to `peer` is in use: both train the same model
    GOSSIP_MEMBERSHIP_UNREACHABLE, // positive evidence: the stream ended without BYE, or the port is closed
    GOSSIP_MEMBERSHIP_LEAVE,       // this node leaves and announces it; keep stepping for a moment
};
struct gossip_membership_event {
    enum gossip_membership_event_kind kind;
    uint64_t now_ns; // monotonic
    struct gossip_id peer;
    enum gossip_member_way way;
    const uint8_t *bytes;
    size_t n_bytes;
};

enum gossip_membership_action_kind {
    GOSSIP_MEMBERSHIP_SEND,       // bytes to `peer` by `way`; by stream: call it first if there is no link
    GOSSIP_MEMBERSHIP_CHANGED,    // `peer` is `state` now; `known` is false for a member that is new
    GOSSIP_MEMBERSHIP_RECORD,     // the record of `peer` is new or newer: keys, addresses, generation
    GOSSIP_MEMBERSHIP_VIEW,       // the view in use has changed
    GOSSIP_MEMBERSHIP_SUSPECTED,  // this node was suspected by `peer`, or thought dead, and has refuted it
    GOSSIP_MEMBERSHIP_GENERATION, // persist this generation, then continue: another process has used ours
    GOSSIP_MEMBERSHIP_CONFLICT,   // another process runs with this identity and was here first: stop
    GOSSIP_MEMBERSHIP_REMOVED,    // `peer` was forgotten
    GOSSIP_MEMBERSHIP_CUT_OFF,    // this node is cut off, or no longer is: totals.cut_off
};
struct gossip_membership_action {
    enum gossip_membership_action_kind kind;
    struct gossip_id peer;
    enum gossip_member_way way;
    const uint8_t *bytes; // valid until the next step
    size_t n_bytes;
    enum gossip_member_state state, before;
    bool known;          // CHANGED: `before` is valid
    bool evidence;       // CHANGED to SUSPECT or DEAD: by positive evidence
    bool was_dead;       // SUSPECTED: `peer` had already declared this node dead
    uint64_t generation; // GENERATION. SEND by datagram: the receiver's, for which it is sealed; 0: that of
                         // its record
};

enum base_error gossip_membership_create(const struct gossip_membership_options *options,
                                         struct gossip_membership **membership) BASE_CHECK;
void gossip_membership_destroy(struct gossip_membership *membership);

// Handles one event. The actions of earlier steps must have been taken. BASE_EFORMAT: the peer's bytes
// violate the layout (count it; close its stream); the items before the fault are applied, because items are
// independent.
enum base_error gossip_membership_step(struct gossip_membership *membership,
                                       const struct gossip_membership_event *event) BASE_CHECK;
bool gossip_membership_next(struct gossip_membership *membership, struct gossip_membership_action *action);
uint64_t gossip_membership_deadline(const struct gossip_membership *membership); // monotonic ns

// The stream to this member is in use no longer. Causes no action.
void gossip_membership_unlinked(struct gossip_membership *membership, const struct gossip_id *id);

// Changes to this node's own record, which is sent to all members. The actions come with the next step; the
// deadline is now.
void gossip_membership_flags(struct gossip_membership *membership, uint8_t set, uint8_t clear);
void gossip_membership_slot(struct gossip_membership *membership, uint32_t slot);
void gossip_membership_addresses(struct gossip_membership *membership, const struct gossip_address *addresses,
                                 size_t count);
// The round at which this node stops; 0: it does not, or no longer. Also sets or clears
// GOSSIP_RECORD_STOPPING.
void gossip_membership_stop_at(struct gossip_membership *membership, uint64_t round);
// How others reach this node: GOSSIP_WAY_*, and the relays that it keeps links to.
void gossip_membership_ways(struct gossip_membership *membership, uint8_t ways, const uint64_t *relays,
                            size_t count);
// Where it stands in the graph depends on it: a change makes a new view on all nodes.
void gossip_membership_access(struct gossip_membership *membership, enum gossip_access access);
// The latest change of a setting that this node knows of.
void gossip_membership_setting(struct gossip_membership *membership, enum gossip_setting_kind kind,
                               const struct gossip_setting *setting);
// A packet with this node's record and that of `id`, for a second process with the identity `id`; 0: not
// known.
size_t gossip_membership_about(const struct gossip_membership *membership, const struct gossip_id *id,
                               uint8_t *bytes, size_t capacity);
// This node's progress. Sent in the header of every packet from now on; causes no packet and no action.
void gossip_membership_progress(struct gossip_membership *membership, uint64_t round, uint64_t step);

// Members, this node first, then in no particular order; index valid until the next step.
size_t gossip_membership_count(const struct gossip_membership *membership);
struct gossip_member_info {
    const struct gossip_record *record;
    enum gossip_member_state state;
    uint64_t since_ns; // of the state
    uint64_t heard_ns; // when its last authentic packet came; 0: never
    unsigned suspectors;
    // Its progress as last reported by the member itself, unchecked; 0: its present process has reported
    // none. For this node: the value last passed to gossip_membership_progress.
    uint64_t round, step;
    uint64_t progress_ns; // when it reported that; what may have waited while this process was suspended does
                          // not count
    // Its present process has answered a probe of this process, or a stream to it came into use, or it has
    // sent its record over its stream. False for a member that only sends, or is only mentioned by others.
    bool answered;
};
void gossip_membership_info(const struct gossip_membership *membership, size_t index,
                            struct gossip_member_info *info);
// BASE_ENOTFOUND
enum base_error gossip_membership_find(const struct gossip_membership *membership, const struct gossip_id *id,
                                       struct gossip_member_info *info) BASE_CHECK;
// It is a member, alive or suspected.
bool gossip_membership_is_here(const struct gossip_membership *membership, const struct gossip_id *id);

// The view in use: eligible members, alive or suspected, in the order of their ids; changes only with VIEW.
// HELD members are in it, too, if they are at least half. Borrowed until the next step. This node is in it
// once it is eligible.
const struct gossip_record *gossip_membership_view(const struct gossip_membership *membership, size_t *count);

struct gossip_membership_totals {
    uint64_t view_hash; // over (id, generation, instance_id, flags, slot, shard, group, access, stop_round,
                        // settings) of all members here
    uint64_t view_changes; // VIEW actions so far
    unsigned health;       // Lifeguard's local health multiplier: 0 healthy .. 8
    size_t alive, suspect, dead, left, unproven, eligible;
    uint64_t probes, probes_failed, suspicions, refutations, syncs, rejected, pauses;
    uint64_t answer_ns,
        period_ns;          // the mean time of answers, 0: none yet; of the profile, between two probes
    uint64_t held_until_ns; // flap damping: until then HELD instead of ELIGIBLE
    bool counts;            // this node counts in the graph: ELIGIBLE, or HELD if at least half are
    size_t here, gone; // complete members (ELIGIBLE or HELD) that did not leave: here, this node too; dead
    // More than half of the complete members that were here and did not leave are dead; or exactly half, with
    // the lowest id among them. A node that is cut off counts all others as dead at once.
    bool minority;
    // No member has answered for three periods, though others should be there: this node hears no other
    // member, or none hears it. Ends with the first answer, and when all others are dead.
    bool cut_off;
};
void gossip_membership_totals(const struct gossip_membership *membership,
                              struct gossip_membership_totals *totals);

#endif
