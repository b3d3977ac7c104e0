// This node's own record: its content, how it refutes, and the case of another process with its identity.
#include "gossip/member/state.h"

#include <string.h>

#define FLAPS_FREE      3u              // deaths and restarts within FLAP_FORGET_NS without consequences
#define FLAP_HOLD_NS    (2 * SECOND_NS) // doubling with each further one
#define FLAP_HOLD_MAX   3u              // doublings
#define BELIEVERS_NS    (30 * SECOND_NS)
#define OUTAGE_QUIET_NS (5 * SECOND_NS) // without a report that we are dead
#define FLAP_FORGET_NS  (600 * SECOND_NS)
#define OUTBIDS_MAX     5u

static uint64_t age_ms(const struct gossip_membership *m, uint64_t at_ns)
{
    return (at_ns - m->created_ns) / MILLISECOND_NS;
}

static uint8_t flags_now(const struct gossip_membership *m)
{
    if (!(m->wanted.flags & GOSSIP_RECORD_ELIGIBLE) || m->now_ns >= m->held_ns)
        return m->wanted.flags;
    return (uint8_t)((m->wanted.flags & ~GOSSIP_RECORD_ELIGIBLE) | GOSSIP_RECORD_HELD);
}

// Changes wait for the next signature: a record is sent as it was signed.
static void take_wanted(struct gossip_membership *m)
{
    BASE_ASSERT(m->wanted.n_addresses <= LIMIT_ADDRESSES);
    struct gossip_record *record = &m->self->record;
    record->flags = flags_now(m);
    record->slot = m->wanted.slot;
    record->stop_round = m->wanted.stop_round;
    record->n_addresses = m->wanted.n_addresses;
    memcpy(record->addresses, m->wanted.addresses, sizeof record->addresses);
    record->ways = m->wanted.ways;
    record->access = m->wanted.access;
    record->n_relays = m->wanted.n_relays;
    memcpy(record->relays, m->wanted.relays, sizeof record->relays);
    memcpy(record->settings, m->wanted.settings, sizeof record->settings);
}

static void raise_generation(struct gossip_membership *m, uint64_t generation)
{
    struct gossip_version *ours = &m->self->record.version;
    struct gossip_membership_action raised = {.kind = GOSSIP_MEMBERSHIP_GENERATION, .generation = generation};
    BASE_ASSERT(generation > ours->generation);
    ours->generation = generation;
    ours->incarnation = 0; // it restarts with a higher generation
    member_act(m, &raised);
}

void member_self_sign(struct gossip_membership *m)
{
    BASE_ASSERT(m->self->state == GOSSIP_MEMBER_ALIVE);
    struct member *self = m->self;
    if (m->stopped)
        return;
    if (self->record.version.incarnation == UINT32_MAX)
        raise_generation(m, self->record.version.generation + 1);
    self->record.version.incarnation++;
    self->record.age_ms = age_ms(m, m->now_ns);
    take_wanted(m);
    m->dirty = false;
    if (self->record.n_addresses == 0)
        return; // nothing is sent before this node has an address
    gossip_record_sign(&self->record, m->options.identity);
    self->record_sends = member_sends(m);
    member_recount(m, self);
    member_spread_soon(m);
}

void member_self_refute(struct gossip_membership *m)
{
    BASE_ASSERT(m->health <= HEALTH_MAX);
    m->totals.refutations++;
    m->refuted_ns = m->now_ns;
    if (m->health < HEALTH_MAX)
        m->health++; // Lifeguard: others suspect us
    member_self_sign(m);
}

void member_self_hold(struct gossip_membership *m)
{
    BASE_ASSERT(m->flap_ns <= m->now_ns);
    if (m->flaps <= FLAPS_FREE)
        return;
    unsigned doublings = m->flaps - FLAPS_FREE - 1;
    uint64_t hold_ns = FLAP_HOLD_NS << (doublings < FLAP_HOLD_MAX ? doublings : FLAP_HOLD_MAX);
    m->held_ns = m->now_ns + hold_ns;
    m->dirty = true;
}

// A peer considers us dead. Two such reports within a while count as one more flap; the report of a single
// member has no effect. An outage counts once, however long it lasts and however often we hear of it.
void member_self_believed_dead(struct gossip_membership *m, const struct gossip_id *by)
{
    BASE_ASSERT(m->believer_ns <= m->now_ns);
    bool second = m->believer_ns != 0 && m->now_ns - m->believer_ns < BELIEVERS_NS &&
                  gossip_id_compare(by, &m->believer) != 0;
    m->outage_told_ns = m->now_ns;
    m->outage_number = m->number;
    if (m->outage)
        return;
    m->believer = *by;
    m->believer_ns = m->now_ns;
    if (!second)
        return;
    m->believer_ns = 0;
    m->outage = true;
    m->flap_ns = m->now_ns;
    m->flaps++;
    member_self_hold(m);
    struct gossip_membership_action suspected = {
        .kind = GOSSIP_MEMBERSHIP_SUSPECTED, .peer = *by, .was_dead = true};
    member_act(m, &suspected);
}

// An answer by a member that considers us alive. The outage is over when no member has reported us dead for a
// while: a member that does not know yet that we are back will say so soon.
void member_self_accepted(struct gossip_membership *m, uint32_t number)
{
    BASE_ASSERT(m->outage_told_ns <= m->now_ns);
    if (number > m->outage_number && m->now_ns - m->outage_told_ns >= OUTAGE_QUIET_NS)
        m->outage = false;
}

static void stop(struct gossip_membership *m, const struct gossip_record *record)
{
    BASE_ASSERT(!m->stopped);
    struct gossip_membership_action conflict = {.kind = GOSSIP_MEMBERSHIP_CONFLICT, .peer = record->id};
    m->stopped = true;
    member_act(m, &conflict);
}

// Whether another process with our identity runs, and which of the two has been running for longer. If that
// process sends a record with our generation or a slightly higher one, it has signed the record since we
// raised ours: it is alive, and the age in the record was true at some moment since then (or shortly before,
// if both raised to the same generation).
enum foreigner { FOREIGNER_UNKNOWN, FOREIGNER_YOUNGER, FOREIGNER_EVEN, FOREIGNER_OLDER };

static enum foreigner compare(const struct gossip_membership *m, const struct gossip_record *record)
{
    bool lives = m->outbids > 0 && m->foreign_instance_id == record->version.instance_id &&
                 record->version.generation - m->self->record.version.generation <= 1;
    if (!lives)
        return FOREIGNER_UNKNOWN;
    if (record->age_ms > age_ms(m, m->now_ns))
        return FOREIGNER_OLDER;
    return record->age_ms < age_ms(m, m->outbid_ns) ? FOREIGNER_YOUNGER : FOREIGNER_EVEN;
}

static bool gives_way(const struct gossip_membership *m, const struct gossip_record *record,
                      enum foreigner foreigner)
{
    bool even = foreigner == FOREIGNER_EVEN && m->outbids > OUTBIDS_MAX; // both began at the same moment
    return foreigner == FOREIGNER_OLDER ||
           (even && m->self->record.version.instance_id < record->version.instance_id) ||
           record->version.generation == UINT64_MAX;
}

// A record of this identity that this process has not signed. One of an earlier process has a lower
// generation and does not matter. One with our generation or a later one is ours from before our generation
// was lost, or of another process with our identity: we raise our generation above it, and if the sender does
// so again, it is a process. (If two processes have one generation, others open only the datagrams of the
// first.) The process that was here first stays, the copy ends.
void member_self_foreign(struct gossip_membership *m, const struct gossip_record *record)
{
    BASE_ASSERT(gossip_id_compare(&record->id, &m->self->record.id) == 0);
    struct gossip_version *ours = &m->self->record.version;
    if (m->stopped || record->version.instance_id == ours->instance_id ||
        record->version.generation < ours->generation)
        return;
    if (!gossip_record_verify(record, m->options.verifier)) {
        m->totals.rejected++;
        return;
    }
    enum foreigner foreigner = compare(m, record);
    if (gives_way(m, record, foreigner)) {
        stop(m, record);
        return;
    }
    m->outbids = foreigner == FOREIGNER_UNKNOWN ? 1 : m->outbids + 1;
    m->foreign_instance_id = record->version.instance_id;
    m->outbid_ns = m->now_ns;
    raise_generation(m, record->version.generation + 1);
    member_self_sign(m);
}

void gossip_membership_flags(struct gossip_membership *m, uint8_t set, uint8_t clear)
{
    BASE_ASSERT((m->wanted.flags & ~GOSSIP_RECORD_FLAGS) == 0);
    const unsigned own = GOSSIP_RECORD_STOPPING | GOSSIP_RECORD_HELD; // sent by other means
    m->wanted.flags = (uint8_t)((m->wanted.flags | (set & ~own)) & ~(clear & ~own) & GOSSIP_RECORD_FLAGS);
    m->dirty = true;
}

void gossip_membership_slot(struct gossip_membership *m, uint32_t slot)
{
    BASE_ASSERT(m->dirty || m->self->record.slot == m->wanted.slot);
    m->dirty |= m->wanted.slot != slot;
    m->wanted.slot = slot;
}

void gossip_membership_stop_at(struct gossip_membership *m, uint64_t round)
{
    BASE_ASSERT(((m->wanted.flags & GOSSIP_RECORD_STOPPING) != 0) == (m->wanted.stop_round != 0));
    m->dirty |= m->wanted.stop_round != round;
    m->wanted.stop_round = round;
    m->wanted.flags = (uint8_t)(m->wanted.flags & ~GOSSIP_RECORD_STOPPING);
    if (round != 0)
        m->wanted.flags |= GOSSIP_RECORD_STOPPING;
}

void gossip_membership_ways(struct gossip_membership *m, uint8_t ways, const uint64_t *relays, size_t count)
{
    uint64_t all[GOSSIP_RECORD_RELAYS] = {0};
    BASE_ASSERT((ways & ~GOSSIP_WAYS) == 0 && count <= GOSSIP_RECORD_RELAYS);
    for (size_t i = 0; i < count; i++)
        all[i] = relays[i];
    m->dirty |= ways != m->wanted.ways || count != m->wanted.n_relays ||
                memcmp(all, m->wanted.relays, sizeof all) != 0;
    m->wanted.ways = ways;
    m->wanted.n_relays = (uint8_t)count;
    memcpy(m->wanted.relays, all, sizeof all);
}

void gossip_membership_access(struct gossip_membership *m, enum gossip_access access)
{
    BASE_ASSERT(access < GOSSIP_ACCESSES);
    m->dirty |= m->wanted.access != access;
    m->wanted.access = (uint8_t)access;
}

void gossip_membership_setting(struct gossip_membership *m, enum gossip_setting_kind kind,
                               const struct gossip_setting *setting)
{
    BASE_ASSERT(kind < GOSSIP_SETTINGS && setting->round > 0);
    m->wanted.settings[kind] = *setting;
    m->dirty = true;
}

void gossip_membership_progress(struct gossip_membership *m, uint64_t round, uint64_t step)
{
    BASE_ASSERT(m->self->progress_ns <= m->now_ns);
    m->self->round = round;
    m->self->step = step;
    m->self->progress_ns = m->now_ns;
}

void gossip_membership_addresses(struct gossip_membership *m, const struct gossip_address *addresses,
                                 size_t count)
{
    BASE_ASSERT(count == 0 || addresses);
    m->wanted.n_addresses = (uint8_t)(count < LIMIT_ADDRESSES ? count : LIMIT_ADDRESSES);
    memset(m->wanted.addresses, 0, sizeof m->wanted.addresses);
    for (size_t i = 0; i < m->wanted.n_addresses; i++)
        m->wanted.addresses[i] = addresses[i];
    m->dirty = true;
}

void member_self_timer(struct gossip_membership *m)
{
    BASE_ASSERT(m->flap_ns <= m->now_ns);
    if (m->flaps > 0 && m->now_ns - m->flap_ns > FLAP_FORGET_NS)
        m->flaps = 0;
    if (!m->dirty && flags_now(m) == m->self->record.flags)
        return;
    member_self_sign(m);
}

uint64_t member_self_deadline(const struct gossip_membership *m)
{
    if (m->stopped)
        return UINT64_MAX;
    if (m->dirty)
        return m->now_ns;
    return flags_now(m) != m->wanted.flags ? m->held_ns : UINT64_MAX;
}
