// The state of one membership object. Private to gossip/member: member.c handles events and timers, take.c
// received packets, learn.c their items; proof.c decides who is believed to be a member, death.c when a
// suspicion becomes a death, probe.c which member is probed, suspicion.c which suspicions are kept, self.c
// this node's own record, spread.c and sync.c what is sent to which member, packet.c the byte layout, pace.c
// how long answers take and how much may be sent, table.c keeps the members, view.c decides which members
// count in the graph, outbox.c keeps the actions. No file calls one that calls it (lint.circles):
//
//     member -> take -> learn -> probe -> suspicion, proof -> spread -> packet, pace -> table -> outbox
//               death, self -> spread       learn, take -> self, sync -> packet
#ifndef GOSSIP_MEMBER_STATE_H
#define GOSSIP_MEMBER_STATE_H

#include "base/rng.h"
#include "gossip/member/member.h"

#define MILLISECOND_NS 1000000ull
#define SECOND_NS      1000000000ull

#define SUSPECTORS_MAX  4u  // kept of one member: the first, and K = 3 that shorten the time
#define PROBES_MAX      16u // at a time: one in turn, the others to confirm suspicions
#define LOOKS_MAX       16u // beside these, at those that are not proven to be members
#define RELAYS_MAX      64u
#define INDIRECT        3u // helpers asked to probe for us
#define FANOUT          3u
#define RING_SUCCESSORS 4u
#define HEALTH_MAX      8u
#define WRONG_MAX       16u // refuted suspicions after which a suspector is not believed for a while

struct member_profile {
    uint64_t period_ns;        // of probing
    uint64_t ping_gap_ns;      // between the three pings of a probe
    uint64_t gossip_ns;        // between two rounds of gossip
    uint64_t suspicion_min_ns; // the minimum suspicion time
    uint64_t suspicion_log_ns; // suspicion time: this x log10(members)
    uint64_t view_still_ns, view_most_ns;
    uint64_t retry_ns; // of the dead
};

struct member_suspicion {
    struct gossip_suspicion told;
    uint64_t at_ns;
    uint32_t after; // the last question asked when it was made: only an answer to a later one clears it
    bool answered;  // there was such an answer
    uint8_t sends;
};

struct member_timing { // of answers
    uint64_t mean_ns, spread_ns;
};

struct member {
    struct gossip_record record;
    enum gossip_member_state state;
    struct gossip_id introducer; // UNPROVEN: who has told of it
    uint64_t looked_ns;          // UNPROVEN: when it was asked; 0: not yet
    bool by_stream;              // its datagrams do not arrive
    bool direct;                 // it has answered a datagram, and not missed all pings of a probe since
    bool linked;                 // a stream to it is in use: it has sent something over it
    uint8_t record_sends;
    uint8_t n_suspicions;
    uint64_t since_ns, heard_ns, record_ns;
    uint64_t asked_ns;    // when it was last asked something that is still unanswered
    uint64_t answered_ns; // when it last answered a question that was asked after a suspicion
    struct member_suspicion suspicions[SUSPECTORS_MAX];
    uint64_t counted;        // its term in the view hash
    uint64_t eligible, held; // its terms in the hashes of the candidates for the view
    uint64_t told_ns;        // when it was last sent a suspicion of itself
    uint64_t refuted_ns;     // when it was last sent our record because it had missed it
    uint64_t synced_ns, corrected_ns;
    uint64_t round, step, progress_ns; // as it last reported
    bool answered;                     // by its present process
    bool stale; // what it reports may have waited since before this process was suspended
    // as a suspector
    uint64_t credit_ns; // its budget of suspicions, as saved time
    uint64_t wrong_ns;
    uint8_t wrong;
    struct member_timing timing; // of its answers
    struct member_timing pauses; // between its packets
    uint32_t ping_number;        // of the latest ping to it by datagram
    uint64_t ping_ns;            // when that ping was sent
    uint64_t gossiped_ns;        // when it was last sent updates
};

struct member_probe {
    bool active;
    bool looks; // at one that is not proven to be a member: its silence is no suspicion
    bool far;   // no path of datagrams to it is known: that it is silent here shows nothing
    struct gossip_id target;
    uint32_t number;
    uint8_t stage, helpers, nacks;
    struct gossip_id nackers[INDIRECT]; // helpers that got no answer either
    uint64_t gap_ns, next_ns, end_ns;
};

struct member_relay { // a probe that this node makes for another
    bool active, nacked;
    struct gossip_id origin, target;
    uint32_t origin_number, number;
    uint64_t nack_ns, end_ns;
};

struct member_action {
    struct gossip_membership_action action;
    size_t offset; // of its bytes in the arena
};

struct member_wanted { // values for this node's record from its next signature on
    uint8_t flags;     // ELIGIBLE waits for held_ns
    uint8_t n_addresses;
    uint8_t ways, access, n_relays;
    uint64_t relays[GOSSIP_RECORD_RELAYS];
    uint32_t slot;
    uint64_t stop_round;
    struct gossip_address addresses[LIMIT_ADDRESSES];
    struct gossip_setting settings[GOSSIP_SETTINGS];
};

struct gossip_membership {
    struct gossip_membership_options options;
    struct member_profile profile;
    struct base_rng rng;
    uint64_t now_ns, promised_ns; // promised: the deadline that was last returned
    uint64_t due_ns;              // the deadline after the latest step
    uint64_t created_ns;

    struct member *self;
    struct gossip_id teller; // the sender of the packet that is being handled
    bool told_all;           // the packet is a full sync, not updates
    bool told_by_stream;
    struct member **sorted; // by id, self included
    struct member **order;  // of probing, without self
    size_t count, capacity, n_order, order_at;
    size_t states[GOSSIP_MEMBER_STATES]; // members in each state
    size_t n_suspected;                  // members with suspicions that are not dead

    struct member_probe probes[PROBES_MAX + LOOKS_MAX];
    struct member_relay relays[RELAYS_MAX];
    uint32_t number; // of the latest packet that wants an answer
    uint64_t probe_ns, spread_ns, retry_ns, house_ns;
    unsigned health, retries;
    struct member_timing timing;   // of all answers
    int64_t savings, savings_most; // bytes that may be sent
    uint64_t saved_ns, told_ns;    // told_ns: the latest round of gossip
    uint64_t woke_ns;              // when the latest suspension of this process ended
    uint32_t woke_number;          // the last question asked before that
    uint64_t unanswered_ns;        // since when no question has been answered; 0: none is open
    uint64_t heard_ns;             // latest packet from any member
    unsigned talkers;              // members that have sent something since, but no answer
    bool cut_off;

    // this node's record
    struct member_wanted wanted;
    uint64_t held_ns, flap_ns, outbid_ns, refuted_ns;
    unsigned flaps, outbids;
    bool outage; // an outage of this node, counted as a flap, lasts until others answer and consider it alive
    uint64_t outage_told_ns;      // when a member last said that it considers this node dead
    uint32_t outage_number;       // the last question asked before that
    uint64_t foreign_instance_id; // of the latest process whose generation was exceeded
    struct gossip_id believer;    // the latest member that said it considers us dead, and when
    uint64_t believer_ns;
    struct gossip_id stranger; // linked and asked for a sync, but not known yet
    unsigned stranger_asks;    // remaining
    bool dirty, stopped, leaving;

    uint64_t view_hash, view_hash_ns; // view_hash_ns: when it last changed
    uint64_t candidate_hash, used_hash, candidate_ns, differs_ns;
    uint64_t eligible_hash, held_hash; // sums of terms
    size_t n_eligible, n_held;         // members here
    struct gossip_record *view;
    size_t n_view;
    uint64_t sync_ns, sync_window_ns;
    unsigned sync_answers;

    struct member_action *actions;
    size_t n_actions, actions_capacity, actions_taken;
    uint8_t *arena;
    size_t arena_used, arena_capacity;
    struct gossip_membership_totals totals;
};

// outbox.c. Without memory a packet is dropped, as if the network had lost it.
void member_act(struct gossip_membership *m, const struct gossip_membership_action *action);
void member_act_send(struct gossip_membership *m, const struct gossip_id *peer, enum gossip_member_way way,
                     const uint8_t *bytes, size_t count);
void member_act_send_for(struct gossip_membership *m, const struct gossip_id *peer, uint64_t generation,
                         const uint8_t *bytes, size_t count); // by datagram, to a process of this generation

// table.c
struct member *member_find(const struct gossip_membership *m, const struct gossip_id *id);
struct member *member_add(struct gossip_membership *m, const struct gossip_record *record); // NULL: full
void member_remove(struct gossip_membership *m, struct member *x);
void member_set_state(struct gossip_membership *m, struct member *x, enum gossip_member_state state,
                      bool evidence, bool known);
void member_recount(struct gossip_membership *m, struct member *x); // after its record or state changed
bool member_is_here(const struct member *x);                        // alive or suspected
bool member_is_unproven(const struct member *x);
bool member_counts(const struct gossip_membership *m, const struct member *x);   // in the graph
size_t member_others(const struct gossip_membership *m, const struct member *x); // that are here, without x
// What is sent to it arrives, as far as this node knows: it can be called, or has a path to this node.
bool member_in_reach(const struct member *x);
bool member_is_relay_of(const struct gossip_id *id, const struct member *x); // x names it
// Up to `most` random members that are here and in reach, without self and `target`; returns their number. If
// there is a target, those that reach it come first: its relays, then those that can be called.
size_t member_pick(struct gossip_membership *m, const struct member *target, struct member **picked,
                   size_t most);
// The first RING_SUCCESSORS living members after x, in the order of ids.
size_t member_successors(const struct gossip_membership *m, const struct member *x,
                         struct member *successors[RING_SUCCESSORS]);
bool member_is_successor(const struct gossip_membership *m,
                         const struct member *x);                           // is this node a successor of x?
void member_void_suspicions(struct gossip_membership *m, struct member *x); // discards all suspicions of x

// self.c
void member_self_sign(struct gossip_membership *m); // raises the incarnation and sends the record to all
void member_self_hold(struct gossip_membership *m); // leaves the graph for a while, if it flaps
void member_self_refute(struct gossip_membership *m);
void member_self_believed_dead(struct gossip_membership *m, const struct gossip_id *by);
void member_self_accepted(struct gossip_membership *m,
                          uint32_t number); // an answer: its sender considers this node alive
void member_self_foreign(struct gossip_membership *m, const struct gossip_record *record);
void member_self_timer(struct gossip_membership *m);
uint64_t member_self_deadline(const struct gossip_membership *m);

// suspicion.c
struct member_suspicion *member_suspicion_by(struct member *x, const struct gossip_id *suspector); // or NULL
bool member_suspected_by_us(const struct gossip_membership *m, struct member *x);
bool member_may_be_suspected(const struct gossip_membership *m, const struct member *x);
bool member_may_suspect(struct gossip_membership *m, struct member *suspector); // uses up its credit
void member_was_wrong(struct gossip_membership *m, const struct gossip_id *suspector);
// A stronger suspicion replaces a weaker one by the same suspector, never the reverse. False: it is known, or
// there are enough.
bool member_suspicion_put(struct gossip_membership *m, struct member *x,
                          const struct gossip_suspicion *suspicion);
bool member_suspicion_repeated(struct member *x,
                               const struct gossip_suspicion *suspicion); // known already
void member_answered(struct gossip_membership *m, struct member *x, uint32_t number);
// `after`: the last question asked before the observation. False: this suspicion is already known.
bool member_suspect(struct gossip_membership *m, struct member *x, enum gossip_suspicion_class class,
                    uint32_t after);
void member_suspect_all(struct gossip_membership *m); // by silence; not sent to others
// Withdraws what this node has suspected by silence since then.
void member_clear_since(struct gossip_membership *m, uint64_t since_ns);
void member_clear(struct gossip_membership *m, struct member *x, bool refuted); // all suspicions are void

// proof.c
bool member_may_introduce(const struct gossip_membership *m); // may the teller of this packet tell of others?
void member_prove(struct gossip_membership *m, struct member *x);   // it counts, and is told to others
void member_vouched(struct gossip_membership *m, struct member *x); // the teller of this packet knows it, too
void member_weigh_deaths(struct gossip_membership *m); // of the unproven that others have told as dead
void member_look_again(struct gossip_membership *m, struct member *x); // it may be here now
bool member_is_forgotten(const struct gossip_membership *m, const struct member *x);

// death.c
void member_confirm_death(struct gossip_membership *m, struct member *x); // that only others have reported
void member_suspect_timer(struct gossip_membership *m);
uint64_t member_suspect_deadline(const struct gossip_membership *m);

// learn.c
void member_take_record(struct gossip_membership *m, const struct gossip_record *record);
void member_take_dead(struct gossip_membership *m, const struct gossip_record *record,
                      const struct gossip_suspicion *suspicions, size_t count);
void member_take_suspicion(struct gossip_membership *m, const struct gossip_suspicion *suspicion);

// pace.c
void member_timing_learn(struct member_timing *timing, uint64_t took_ns);
// How long an answer of x may take before it is late; NULL: any member.
uint64_t member_patience_ns(const struct gossip_membership *m, const struct member *x);
uint64_t member_pause_ns(const struct member *x); // no packet of it for longer than this is unusual
void member_was_impatient(const struct gossip_membership *m, struct member *x); // a suspicion was wrong
uint64_t member_gossip_ns(const struct gossip_membership *m); // between two rounds of gossip
void member_spend(struct gossip_membership *m, size_t bytes); // pays for a packet
bool member_is_poor(struct gossip_membership *m);             // packets that can wait are not sent now
// Between two packets to one member about a suspicion.
uint64_t member_word_ns(struct gossip_membership *m, const struct member *to);
bool member_has_room(const struct gossip_membership *m, const struct member *x); // for a packet of updates
size_t member_update_bytes(struct gossip_membership *m); // of updates that may be sent now

// probe.c
void member_probe_start(struct gossip_membership *m, struct member *x, bool in_turn);
void member_look(struct gossip_membership *m); // asks the unproven that were not asked yet
void member_look_back(struct gossip_membership *m, struct member *x); // it has asked this node
void member_probe_anew(struct gossip_membership *m,
                       struct member *x);                               // asks x again, with a new question
void member_probe_talks(struct gossip_membership *m, struct member *x); // a packet from x has come
void member_probe_heeded(struct gossip_membership *m);                  // a member has heard us
void member_probe_answered(struct gossip_membership *m, struct member *x, uint32_t number,
                           enum gossip_member_way way);
void member_probe_linked(struct gossip_membership *m, const struct member *x); // a stream came into use
void member_probe_relayed(struct gossip_membership *m, const struct gossip_id *target, uint32_t number);
void member_probe_nacked(struct gossip_membership *m, const struct gossip_id *helper,
                         const struct gossip_id *target, uint32_t number);
void member_probe_cancel(struct gossip_membership *m); // all of them
void member_probe_all(struct gossip_membership *m);    // one ping each
void member_relay_start(struct gossip_membership *m, struct member *origin, uint32_t number,
                        struct member *target);
void member_probe_timer(struct gossip_membership *m);
uint64_t member_probe_deadline(const struct gossip_membership *m);

// packet.c
enum member_packet_kind {
    PACKET_PING = 1,
    PACKET_ACK = 2,
    PACKET_PING_REQUEST = 3, // target: the member to probe for the sender
    PACKET_RELAYED = 4,      // target has answered
    PACKET_NACK = 5,         // target has not answered yet, but the helper is here
    PACKET_GOSSIP = 6,
    PACKET_SYNC_ASK = 7, // send me all records; mine have been sent
    PACKET_SYNC_TELL = 8,
};
enum member_packet_item { PACKET_ITEM_RECORD = 1, PACKET_ITEM_SUSPICION = 2, PACKET_ITEM_DEAD = 3 };
#define PACKET_BIT_DEAD 1u // of a header: the sender considers the receiver dead
struct member_packet {
    struct base_writer writer;
    uint8_t bytes[LIMIT_GOSSIP_BYTES];
};
#define PACKET_PLAIN_MAX   (LIMIT_DATAGRAM_BYTES - LIMIT_DATAGRAM_OVERHEAD)
#define PACKET_AGE_UNIT_NS (100 * MILLISECOND_NS) // of the view's age in a header
bool member_packet_names_target(enum member_packet_kind kind);
size_t member_packet_header_bytes(enum member_packet_kind kind);
void member_packet_begin(const struct gossip_membership *m, struct member_packet *packet,
                         const struct member *to, enum member_packet_kind kind, uint32_t number,
                         const struct gossip_id *target, size_t limit);
bool member_packet_record(struct member_packet *packet, const struct member *x); // false: no room
bool member_packet_suspicion(struct member_packet *packet, const struct gossip_suspicion *suspicion);
bool member_packet_dead(struct member_packet *packet, const struct member *x);

// take.c
enum base_error member_packet_take(struct gossip_membership *m, const struct gossip_membership_event *event);

// spread.c
uint8_t member_sends(const struct gossip_membership *m); // how often each update is sent
enum gossip_member_way member_way_to(const struct member *x);
// A packet of this kind, filled with updates; `limit` in bytes.
void member_send_packet(struct gossip_membership *m, struct member *to, enum gossip_member_way way,
                        enum member_packet_kind kind, uint32_t number, const struct gossip_id *target,
                        size_t limit);
void member_heard_again(uint8_t *sends); // an update that is still being sent was received again
void member_spread_soon(struct gossip_membership *m);
void member_warn_suspect(struct gossip_membership *m, struct member *x); // sends x a suspicion of itself
// Asks `to` to probe x, and sends the suspicion of x: a member that knows a newer record of x answers with
// it.
void member_ask_for(struct gossip_membership *m, struct member *to, const struct member *x, uint32_t number);
void member_send_suspicion(struct gossip_membership *m, struct member *to,
                           const struct gossip_suspicion *suspicion);
void member_send_record(struct gossip_membership *m, struct member *to, enum gossip_member_way way,
                        const struct member *about);
void member_spread_timer(struct gossip_membership *m);
uint64_t member_spread_deadline(const struct gossip_membership *m);

// sync.c
void member_sync_ask(struct gossip_membership *m, struct member *peer);
void member_sync_ask_stranger(struct gossip_membership *m, const struct gossip_id *id);
void member_sync_timer(struct gossip_membership *m); // asks an unknown member again
void member_sync_answer(struct gossip_membership *m, struct member *peer);
void member_sync_missed(struct gossip_membership *m);
void member_sync_compare(struct gossip_membership *m, struct member *peer, uint64_t hash, uint64_t still_ns);

// view.c
void member_view_timer(struct gossip_membership *m);
uint64_t member_view_deadline(const struct gossip_membership *m);

static inline uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

#endif
