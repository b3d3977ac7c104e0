// Which member is probed: one per period in turn, others at once to confirm a suspicion (SWIM, sections 3.1
// and 4.2; Lifeguard, section IV). A probe: three pings, then helpers and the stream, then the end of the
// period.
#include "gossip/member/state.h"

#include <string.h>

#define CUT_OFF_PERIODS 3u // without an answer from any member
#define TALKERS_MIN     2u
#define FAR_TURNS       8u               // a member out of reach is probed in one of this many turns
#define FAR_PERIODS     10u              // and not sooner, even if a stream to it is in use
#define RELAY_PERIODS   2u               // between two pings to the relays of this node, in turn
#define SILENT_PERIODS  3u               // nothing from a member for which this node relays, at least
#define MAPPING_NS      (20 * SECOND_NS) // most routers keep the way of datagrams open for 30 s

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

enum stage { STAGE_PING_2 = 1, STAGE_PING_3 = 2, STAGE_HELP = 3, STAGE_END = 4, STAGE_RELAY = 5 };

static struct member_probe *find_probe(struct gossip_membership *m, const struct gossip_id *target)
{
    for (size_t i = 0; i < PROBES_MAX + LOOKS_MAX; i++)
        if (m->probes[i].active && gossip_id_compare(&m->probes[i].target, target) == 0)
            return &m->probes[i];
    return NULL;
}

// The first is reserved for the member in turn; looks have their own, so that they delay no probe.
static struct member_probe *free_probe(struct gossip_membership *m, bool in_turn, bool looks)
{
    const size_t first = looks ? PROBES_MAX : in_turn ? 0 : 1;
    for (size_t i = first; i < (looks ? PROBES_MAX + LOOKS_MAX : PROBES_MAX); i++)
        if (!m->probes[i].active)
            return &m->probes[i];
    return NULL;
}

static void asked(struct gossip_membership *m, struct member *x)
{
    BASE_ASSERT(x != m->self);
    if (!member_in_reach(x))
        return; // no answer shows nothing
    if (m->unanswered_ns == 0)
        m->unanswered_ns = m->now_ns;
    x->asked_ns = m->now_ns;
}

static void ping(struct gossip_membership *m, struct member *x, uint32_t number, enum gossip_member_way way)
{
    BASE_ASSERT(x != m->self && number <= m->number);
    asked(m, x);
    if (way == GOSSIP_BY_DATAGRAM) {
        x->ping_number = number;
        x->ping_ns = m->now_ns;
    }
    // To an address that only others have told, no more than must be.
    member_send_packet(m, x, way, PACKET_PING, number, NULL, member_is_unproven(x) ? 0 : PACKET_PLAIN_MAX);
}

// Over its stream, too, if datagrams have found no path. One may have opened meanwhile. A member that names
// relays is not called for it.
static void ask(struct gossip_membership *m, struct member *x, uint32_t number)
{
    if (!x->direct && (x->linked || (x->by_stream && x->record.n_relays == 0)))
        ping(m, x, number, GOSSIP_BY_STREAM); // first: it has the word about a suspicion
    ping(m, x, number, GOSSIP_BY_DATAGRAM);
}

void member_probe_start(struct gossip_membership *m, struct member *x, bool in_turn)
{
    const bool looks = member_is_unproven(x);
    struct member_probe *probe = find_probe(m, &x->record.id) ? NULL : free_probe(m, in_turn, looks);
    if (!probe || x == m->self || !(looks || member_is_here(x)))
        return;
    BASE_ASSERT(m->health <= HEALTH_MAX);
    uint64_t slow = 1 + m->health; // Lifeguard: a node that may be at fault itself is patient
    uint64_t patience_ns = member_patience_ns(m, x), gap_ns = slow * m->profile.ping_gap_ns;
    gap_ns = larger(gap_ns, patience_ns / 3);
    *probe = (struct member_probe){.active = true,
                                   .looks = looks,
                                   .far = x->record.n_relays > 0 && !x->direct,
                                   .target = x->record.id,
                                   .number = ++m->number,
                                   .stage = STAGE_PING_2,
                                   .gap_ns = gap_ns,
                                   .end_ns = m->now_ns +
                                             larger(slow * m->profile.period_ns, 3 * gap_ns + patience_ns)};
    probe->next_ns = m->now_ns + probe->gap_ns;
    m->totals.probes++;
    ask(m, x, probe->number);
}

void member_look(struct gossip_membership *m)
{
    for (size_t i = 0; i < m->n_order && m->states[GOSSIP_MEMBER_UNPROVEN] > 0; i++) {
        struct member *x = m->order[i];
        if (!member_is_unproven(x) || x->looked_ns > 0 || m->self->record.n_addresses == 0)
            continue;
        member_probe_start(m, x, false);
        if (find_probe(m, &x->record.id))
            x->looked_ns = m->now_ns;
    }
}

// It asks, so it knows this node by now, and can open what it is sent.
void member_look_back(struct gossip_membership *m, struct member *x)
{
    const struct member_probe *probe = find_probe(m, &x->record.id);
    BASE_ASSERT(member_is_unproven(x));
    if (probe)
        ping(m, x, probe->number, GOSSIP_BY_DATAGRAM);
    else
        member_look_again(m, x);
}

void member_probe_anew(struct gossip_membership *m, struct member *x)
{
    BASE_ASSERT(x != m->self);
    struct member_probe *probe = find_probe(m, &x->record.id);
    bool in_turn = probe == &m->probes[0];
    if (probe)
        probe->active = false;
    member_probe_start(m, x, in_turn);
}

static bool anybody_here(const struct gossip_membership *m)
{
    return m->states[GOSSIP_MEMBER_ALIVE] + m->states[GOSSIP_MEMBER_SUSPECT] > 1; // more than this node
}

void member_probe_all(struct gossip_membership *m)
{
    BASE_ASSERT(m->n_order + 1 == m->count);
    for (size_t i = 0; i < m->n_order && m->self->record.n_addresses > 0; i++)
        if (member_is_here(m->order[i]))
            ping(m, m->order[i], ++m->number, member_way_to(m->order[i]));
}

static void set_cut_off(struct gossip_membership *m, bool cut_off)
{
    struct gossip_membership_action action = {.kind = GOSSIP_MEMBERSHIP_CUT_OFF};
    if (m->cut_off == cut_off)
        return;
    BASE_ASSERT(!cut_off || m->unanswered_ns > 0);
    m->cut_off = cut_off;
    member_act(m, &action);
}

// A member that sends could have answered if it had heard us. One may be deaf; two are not.
void member_probe_talks(struct gossip_membership *m, struct member *x)
{
    BASE_ASSERT(x != m->self);
    m->heard_ns = m->now_ns;
    if (m->unanswered_ns == 0 || x->asked_ns < m->unanswered_ns ||
        m->now_ns - x->asked_ns < larger(m->profile.period_ns, member_patience_ns(m, x)))
        return;
    x->asked_ns = 0;
    m->talkers++;
}

// Only a member that hears us can send this, so both directions work.
void member_probe_heeded(struct gossip_membership *m)
{
    BASE_ASSERT(m->health <= HEALTH_MAX);
    const uint64_t since_ns = m->unanswered_ns;
    m->unanswered_ns = 0;
    m->talkers = 0;
    if (!m->cut_off)
        return;
    set_cut_off(m, false);
    member_clear_since(m, since_ns); // this node was the one that was silent
    m->health = 0;                   // and its local health suffered from that
    m->probe_ns = m->now_ns;
}

static bool hears_nobody(const struct gossip_membership *m)
{
    return m->heard_ns < m->unanswered_ns || m->talkers >= TALKERS_MIN;
}

static uint64_t cut_off_ns(const struct gossip_membership *m)
{
    uint64_t periods_ns = CUT_OFF_PERIODS * m->profile.period_ns,
             silence_ns = larger(periods_ns, m->profile.period_ns + member_patience_ns(m, NULL));
    return m->unanswered_ns == 0 || m->cut_off || !hears_nobody(m) ? UINT64_MAX
                                                                   : m->unanswered_ns + silence_ns;
}

// No member answers. Whatever the cause, no member can confirm our suspicions or hear of them: all others
// count as silent from now on.
static void cut_off_timer(struct gossip_membership *m)
{
    BASE_ASSERT(!m->cut_off || m->unanswered_ns > 0);
    if (!anybody_here(m)) {
        m->unanswered_ns = 0;
        set_cut_off(m, false); // it is alone
    } else if (m->now_ns >= cut_off_ns(m)) {
        set_cut_off(m, true);
        member_suspect_all(m);
    }
}

static void succeeded(struct gossip_membership *m, struct member_probe *probe)
{
    BASE_ASSERT(probe->active && m->health <= HEALTH_MAX);
    probe->active = false;
    if (m->health > 0)
        m->health--;
}

void member_probe_answered(struct gossip_membership *m, struct member *x, uint32_t number,
                           enum gossip_member_way way)
{
    struct member_probe *probe = find_probe(m, &x->record.id);
    if (number == 0 || number > m->number)
        return; // not an answer to a question of ours
    BASE_ASSERT(x != m->self);
    x->answered = true;
    member_prove(m, x);
    x->by_stream = way == GOSSIP_BY_STREAM;
    x->direct |= way == GOSSIP_BY_DATAGRAM;
    if (number == x->ping_number) {
        x->ping_number = 0; // only the first of three answers counts
        member_timing_learn(&x->timing, m->now_ns - x->ping_ns);
        if (way == GOSSIP_BY_DATAGRAM) // a stream is slow if its messages are large
            member_timing_learn(&m->timing, m->now_ns - x->ping_ns);
    }
    member_probe_heeded(m);
    member_answered(m, x, number);
    if (probe && probe->number == number)
        succeeded(m, probe);
    for (size_t i = 0; i < RELAYS_MAX; i++) {
        struct member_relay *relay = &m->relays[i];
        if (!relay->active || relay->number != number ||
            gossip_id_compare(&relay->target, &x->record.id) != 0)
            continue;
        relay->active = false;
        struct member *origin = member_find(m, &relay->origin);
        if (origin)
            member_send_packet(m, origin, member_way_to(origin), PACKET_RELAYED, relay->origin_number,
                               &relay->target, member_packet_header_bytes(PACKET_RELAYED));
    }
}

// Its process has just called or answered a call. That may have been before a suspicion, so it clears none.
void member_probe_linked(struct gossip_membership *m, const struct member *x)
{
    struct member_probe *probe = find_probe(m, &x->record.id);
    member_probe_heeded(m);
    if (probe)
        succeeded(m, probe);
}

void member_probe_relayed(struct gossip_membership *m, const struct gossip_id *target, uint32_t number)
{
    struct member_probe *probe = find_probe(m, target);
    if (!probe || probe->number != number || probe->helpers == 0)
        return;
    member_probe_heeded(m);
    succeeded(m, probe);
}

static bool is_nacked_by(const struct member_probe *probe, const struct gossip_id *helper)
{
    BASE_ASSERT(probe->nacks <= probe->helpers && probe->helpers <= INDIRECT);
    for (size_t i = 0; i < probe->nacks; i++)
        if (gossip_id_compare(&probe->nackers[i], helper) == 0)
            return true;
    return false;
}

void member_probe_nacked(struct gossip_membership *m, const struct gossip_id *helper,
                         const struct gossip_id *target, uint32_t number)
{
    struct member_probe *probe = find_probe(m, target);
    if (!probe || probe->number != number || probe->nacks >= probe->helpers || is_nacked_by(probe, helper))
        return;
    member_probe_heeded(m);
    probe->nackers[probe->nacks++] = *helper;
    if (probe->stage == STAGE_RELAY) // nothing else is waited for
        probe->next_ns = m->now_ns;
}

void member_probe_cancel(struct gossip_membership *m)
{
    BASE_ASSERT(m->totals.pauses > 0);
    memset(m->probes, 0, sizeof m->probes);
    memset(m->relays, 0, sizeof m->relays);
}

// A relay of the target is believed. One that the target has not called yet knows nothing.
static bool may_nack(const struct gossip_membership *m, struct member *target)
{
    return member_in_reach(target) || member_suspected_by_us(m, target) ||
           !member_is_relay_of(&m->self->record.id, target);
}

void member_relay_start(struct gossip_membership *m, struct member *origin, uint32_t number,
                        struct member *target)
{
    BASE_ASSERT(target != m->self && target != origin);
    for (size_t i = 0; i < RELAYS_MAX; i++) {
        struct member_relay *relay = &m->relays[i];
        if (relay->active)
            continue;
        uint64_t wait_ns = m->profile.ping_gap_ns;
        if (member_is_relay_of(&m->self->record.id, target))
            wait_ns = larger(wait_ns, member_patience_ns(m, target));
        *relay = (struct member_relay){.active = true,
                                       .nacked = !may_nack(m, target),
                                       .origin = origin->record.id,
                                       .target = target->record.id,
                                       .origin_number = number,
                                       .number = ++m->number,
                                       .nack_ns = m->now_ns + wait_ns,
                                       .end_ns = m->now_ns + 2 * m->profile.period_ns};
        ask(m, target, relay->number);
        return;
    }
}

static void ask_for_help(struct gossip_membership *m, struct member_probe *probe, struct member *x)
{
    struct member *helpers[INDIRECT];
    size_t count = member_pick(m, x, helpers, INDIRECT);
    BASE_ASSERT(count <= INDIRECT && probe->active);
    for (size_t i = 0; i < count; i++) {
        asked(m, helpers[i]);
        member_ask_for(m, helpers[i], x, probe->number);
    }
    probe->helpers = (uint8_t)count;
    ping(m, x, probe->number, GOSSIP_BY_STREAM);
}

static bool accuses(const struct gossip_id *id, const struct member_probe *probe, const struct member *x)
{
    BASE_ASSERT(x->n_suspicions <= SUSPECTORS_MAX);
    for (size_t i = 0; i < x->n_suspicions; i++) {
        const struct member_suspicion *a = &x->suspicions[i];
        if (a->told.class == GOSSIP_SUSPECTED_EVIDENCE && !a->answered && a->after < probe->number &&
            gossip_id_compare(&a->told.suspector, id) == 0)
            return true;
    }
    return false;
}

// Only the relays of a member without a path to others see its process end. One of them says so, the other
// gets no answer either, and the member has not answered a probe that began later, in which a member that has
// not accused it has answered: a relay may lie, and does not confirm itself. Unless no third member is left.
static bool confirms(const struct gossip_membership *m, const struct member_probe *probe,
                     const struct member *x)
{
    size_t accusers = 0, witnesses = 0, left = 0;
    for (size_t i = 0; i < m->n_order; i++) {
        const struct member *y = m->order[i];
        const struct gossip_id *id = &y->record.id;
        if (y == x || !member_is_here(y))
            continue;
        const bool is_relay = member_is_relay_of(id, x), accuser = is_relay && accuses(id, probe, x),
                   nacks = is_nacked_by(probe, id);
        if (is_relay && !accuser && !nacks)
            return false;
        accusers += accuser;
        left += !accuser;
        witnesses += nacks && !accuser;
    }
    return accusers > 0 && probe->nacks > 0 && (witnesses > 0 || left == 0);
}

// None of those that it names is here and answers.
static bool has_lost_its_relays(const struct gossip_membership *m, const struct member *x)
{
    for (size_t i = 0; i < m->n_order; i++)
        if (m->order[i]->state == GOSSIP_MEMBER_ALIVE && member_is_relay_of(&m->order[i]->record.id, x))
            return false;
    return true;
}

// Of a member that this node cannot reach only its relays know whether it is silent. If none of them is left,
// such as those of one office, nobody knows better than this node.
static bool may_conclude(const struct gossip_membership *m, const struct member_probe *probe,
                         const struct member *x)
{
    if (!probe->far || member_is_relay_of(&m->self->record.id, x) || has_lost_its_relays(m, x))
        return true;
    for (size_t i = 0; i < probe->nacks; i++)
        if (member_is_relay_of(&probe->nackers[i], x))
            return true;
    return false;
}

// Neither we nor a helper reached it. If no helper replies, the fault may be ours. (A single reply is enough:
// in a partition half of the helpers are silent, and that must not slow down detection.)
static void failed(struct gossip_membership *m, struct member_probe *probe, struct member *x)
{
    BASE_ASSERT(probe->active && probe->nacks <= probe->helpers);
    probe->active = false;
    m->totals.probes_failed++;
    if (probe->nacks == 0)
        m->health += m->health < HEALTH_MAX;
    (void)member_suspect(m, x, confirms(m, probe, x) ? GOSSIP_SUSPECTED_EVIDENCE : GOSSIP_SUSPECTED_SILENT,
                         probe->number - 1);
}

static void advance(struct gossip_membership *m, struct member_probe *probe)
{
    BASE_ASSERT(probe->active && probe->number <= m->number);
    struct member *x = member_find(m, &probe->target);
    if (!x || !(member_is_here(x) || probe->looks)) {
        probe->active = false;
        return;
    }
    // Counted from now, not from when it was due: a late node must not hurry through the rest.
    uint64_t next_ns = m->now_ns + probe->gap_ns;
    switch (probe->stage++) {
    case STAGE_PING_2:
    case STAGE_PING_3:
        ping(m, x, probe->number, GOSSIP_BY_DATAGRAM);
        probe->next_ns = next_ns;
        break;
    case STAGE_HELP:
        x->direct = false;
        if (probe->looks) // it may not know this node yet, and cannot open a datagram of it then
            ping(m, x, probe->number, GOSSIP_BY_STREAM);
        else
            ask_for_help(m, probe, x);
        probe->next_ns = probe->end_ns > next_ns ? probe->end_ns : next_ns;
        break;
    case STAGE_END:
        if (probe->looks)
            probe->active = false;
        else if (may_conclude(m, probe, x))
            failed(m, probe, x);
        else
            probe->next_ns = m->now_ns + m->profile.period_ns; // a relay may be slow
        break;
    default:
        if (may_conclude(m, probe, x))
            failed(m, probe, x);
        probe->active = false;
    }
}

// Those that reach a member probe it. This node asks it now and then, so that it hears how far that member
// is: over its stream before that ends, else by a call.
static bool is_left_to_others(const struct gossip_membership *m, const struct member *x)
{
    const uint64_t turn_ns = m->n_order * m->profile.period_ns;
    if (x->record.n_relays == 0 || x->direct || !x->answered || member_is_relay_of(&m->self->record.id, x) ||
        has_lost_its_relays(m, x))
        return false;
    return m->now_ns - x->heard_ns <
           larger(FAR_PERIODS * m->profile.period_ns, x->linked ? turn_ns : FAR_TURNS * turn_ns);
}

// SWIM, section 4.3: round robin over a random order, which is reshuffled after each round. NULL: that member
// is left to others.
static struct member *next_in_turn(struct gossip_membership *m)
{
    BASE_ASSERT(m->n_order + 1 == m->count);
    for (size_t tried = 0; tried < m->n_order; tried++) {
        if (m->order_at >= m->n_order) {
            m->order_at = 0;
            for (size_t i = m->n_order; i > 1; i--) {
                size_t j = (size_t)base_rng_below(&m->rng, i);
                struct member *other = m->order[i - 1];
                m->order[i - 1] = m->order[j];
                m->order[j] = other;
            }
        }
        struct member *x = m->order[m->order_at++];
        if (member_is_here(x))
            return is_left_to_others(m, x) ? NULL : x;
    }
    return NULL;
}

// A relay of this node that was not asked for so long.
static struct member *relay_due(const struct gossip_membership *m, uint64_t silent_ns)
{
    const struct gossip_record *self = &m->self->record;
    BASE_ASSERT(self->n_relays <= GOSSIP_RECORD_RELAYS);
    for (size_t i = 0; i < m->n_order && self->n_relays > 0; i++) {
        struct member *x = m->order[i];
        const uint64_t beginning = gossip_id_beginning(&x->record.id);
        const bool named =
            beginning == self->relays[0] || (self->n_relays > 1 && beginning == self->relays[1]);
        if (named && member_is_here(x) && m->now_ns - x->ping_ns >= silent_ns)
            return x;
    }
    return NULL;
}

// If others are left out, the relays of this node, which look after it, hear from it regularly.
static void look_in_turn(struct gossip_membership *m)
{
    const uint64_t often_ns = RELAY_PERIODS * m->self->record.n_relays * m->profile.period_ns;
    struct member *x = relay_due(m, MAPPING_NS); // with many members a turn takes too long
    BASE_ASSERT(m->probe_ns > m->now_ns);
    if (!x && m->self->record.n_addresses > 0)
        x = next_in_turn(m);
    struct member *relay = x && x->direct ? NULL : relay_due(m, often_ns);
    if (x)
        member_probe_start(m, x, true);
    if (relay)
        member_probe_start(m, relay, false);
}

// A suspector probes the suspect again in each period, because an answer withdraws the suspicion. So does a
// node that has not suspected it but has become a successor, because those before it are suspected
// themselves: in a partition most of the first four are on the other side.
static void look_again(struct gossip_membership *m)
{
    struct member *suspected = NULL;
    size_t seen = 0;
    BASE_ASSERT(m->n_suspected <= m->n_order);
    for (size_t i = 0; i < m->n_order && m->n_suspected > 0; i++) {
        struct member *x = m->order[i];
        if (x->n_suspicions == 0 || !member_is_here(x))
            continue;
        if (!member_suspected_by_us(m, x) && member_is_successor(m, x) && !member_is_poor(m))
            member_probe_start(m, x, false);
        else if (member_suspected_by_us(m, x) && base_rng_below(&m->rng, ++seen) == 0)
            suspected = x;
    }
    if (suspected)
        member_probe_start(m, suspected, false);
}

// Others leave a member to its relays. If one of those is silent for unusually long, it is asked at once.
static void look_after(struct gossip_membership *m)
{
    struct member *silent = NULL;
    BASE_ASSERT(m->n_order + 1 == m->count);
    for (size_t i = 0; i < m->n_order; i++) {
        struct member *x = m->order[i];
        const uint64_t least_ns = SILENT_PERIODS * m->profile.period_ns;
        if (member_is_relay_of(&m->self->record.id, x) && x->state == GOSSIP_MEMBER_ALIVE &&
            m->now_ns - x->heard_ns >= larger(least_ns, member_pause_ns(x)) &&
            (!silent || x->heard_ns < silent->heard_ns))
            silent = x;
    }
    if (silent)
        member_probe_start(m, silent, false);
}

static void relay_timer(struct gossip_membership *m, struct member_relay *relay)
{
    BASE_ASSERT(relay->active && relay->number <= m->number);
    struct member *origin = member_find(m, &relay->origin);
    if (!relay->nacked && m->now_ns >= relay->nack_ns && origin) {
        relay->nacked = true;
        member_send_packet(m, origin, member_way_to(origin), PACKET_NACK, relay->origin_number,
                           &relay->target, member_packet_header_bytes(PACKET_NACK));
    }
    if (m->now_ns >= relay->end_ns || !origin)
        relay->active = false;
}

void member_probe_timer(struct gossip_membership *m)
{
    BASE_ASSERT(m->health <= HEALTH_MAX);
    for (size_t i = 0; i < PROBES_MAX + LOOKS_MAX; i++)
        if (m->probes[i].active && m->now_ns >= m->probes[i].next_ns)
            advance(m, &m->probes[i]);
    member_look(m);
    for (size_t i = 0; i < RELAYS_MAX; i++)
        if (m->relays[i].active)
            relay_timer(m, &m->relays[i]);
    cut_off_timer(m);
    if (m->now_ns < m->probe_ns)
        return;
    m->probe_ns = m->now_ns + (1 + m->health) * larger(m->profile.period_ns, m->timing.mean_ns);
    look_in_turn(m);
    look_again(m);
    look_after(m);
}

uint64_t member_probe_deadline(const struct gossip_membership *m)
{
    uint64_t deadline_ns = earlier(m->probe_ns, cut_off_ns(m));
    for (size_t i = 0; i < PROBES_MAX + LOOKS_MAX; i++)
        if (m->probes[i].active)
            deadline_ns = earlier(deadline_ns, m->probes[i].next_ns);
    for (size_t i = 0; i < RELAYS_MAX; i++)
        if (m->relays[i].active)
            deadline_ns =
                earlier(deadline_ns, m->relays[i].nacked ? m->relays[i].end_ns : m->relays[i].nack_ns);
    return deadline_ns;
}
